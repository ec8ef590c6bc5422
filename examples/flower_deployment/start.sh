#!/usr/bin/env bash
# A deployment on this machine: graphs, a job, kits, the server, its sites, one run, results at the
# sites. Everything it starts is stopped at the end. HOST=… PORT=… WORK=… SITES=… choose where and how
# many; options go to `pace flower run`.
set -euo pipefail
HOST=${HOST:-127.0.0.1} PORT=${PORT:-18080} NODE_PORT=${NODE_PORT:-$((PORT + 2))} SITES=${SITES:-3}
WORK=${WORK:-$PWD/flower-demo}
PYTHON=${PYTHON:-python3}
BIN=${BIN:-$(dirname "$(command -v "$PYTHON")")} # where `pace` and `flwr` are
export PATH=$BIN:$PATH
mkdir -p "$WORK" && cd "$WORK"
PIDS=()
stop() { # sites first, the server last; each ends its own helpers
  for ((i = ${#PIDS[@]} - 1; i >= 0; i--)); do
    kill "${PIDS[i]}" 2>/dev/null || continue
    wait "${PIDS[i]}" 2>/dev/null || true
  done
}
trap stop EXIT
NAMES=$(seq -f 'client-%g' 0 $((SITES - 1)))

if [ ! -d kits ]; then # real sites bring their own graphs
  pace partition --dataset "synthetic:nodes=$((200 * SITES)),features=100,communities=$((2 * SITES))" \
    --clients "$SITES" --graphs graphs >partition.txt
  pace new job.pace --like graphs/client-0.graph --participant "$(echo $NAMES | tr ' ' ,)" >job.txt
  pace flower provision job.pace --host "$HOST" --port "$PORT" --node-port "$NODE_PORT" --out kits >kits.txt
  for NAME in $NAMES; do cp "graphs/$NAME.graph" "kits/$NAME/mine.graph"; done
fi
kits/server/start.sh >server.log 2>&1 &
PIDS+=($!)
for NAME in $NAMES; do
  kits/$NAME/start.sh >"$NAME.log" 2>&1 &
  PIDS+=($!)
done
until [ "$(kits/server/check.sh --json 2>/dev/null | grep -o '"status": "online"' | wc -l)" = "$SITES" ]; do
  kill -0 "${PIDS[0]}" || { tail server.log && exit 1; }
  sleep 1
done
kits/server/run.sh "$@"
for NAME in $NAMES; do
  echo "$NAME: $(sed -n 3p "kits/$NAME"/state/*/model/README.md)"
done
