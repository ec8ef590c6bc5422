#!/usr/bin/env bash
# The whole deployment on this machine: certificates, server, three sites, one run, results at the
# sites. Everything it starts is stopped at the end. HOST=… PORT=… WORK=… choose where.
set -euo pipefail
source "$(dirname "$0")/settings.sh"
mkdir -p "$WORK" && cd "$WORK"
PIDS=()
family() { for pid in "$@"; do echo "$pid" && family $(pgrep -P "$pid"); done; }
stop() { # nodes first, the server last; then their helpers, which may outlive them
  local helpers
  helpers=$(for pid in "${PIDS[@]}"; do family "$pid" | tail -n +2; done)
  for ((i = ${#PIDS[@]} - 1; i >= 0; i--)); do
    kill "${PIDS[i]}" 2>/dev/null || continue
    wait "${PIDS[i]}" 2>/dev/null || true
  done
  for pid in $helpers; do
    kill "$pid" 2>/dev/null || true
    # Not for ever: where nobody collects ended processes, they go on answering to `kill -0`.
    for _ in {1..50}; do kill -0 "$pid" 2>/dev/null && sleep 0.2 || break; done
  done
}
trap stop EXIT

[ -d server ] || "$PYTHON" "$HERE/sites.py" "$WORK" $NAMES # real sites have their own folders
[ -f certs/ca.crt ] || "$HERE/certificates.sh"
"$HERE/superlink.sh" >superlink.log 2>&1 &
PIDS+=($!)
until curl --silent --cacert certs/ca.crt --output /dev/null "https://$HOST:$PORT/health"; do
  kill -0 "${PIDS[0]}" || { tail superlink.log && exit 1; }
  sleep 0.5
done

PLACE=$PORT
for NAME in $NAMES; do
  # The site makes its key; the operator registers the public half.
  [ -f "$NAME/node" ] || ssh-keygen -q -t ecdsa -b 384 -N "" -C "" -f "$NAME/node"
  "$BIN/pace" flower register "$NAME/node.pub" --superlink "$HOST:$PORT" --root-certificates certs/ca.crt
  PLACE=$((PLACE + 1))
  NODE_PORT=$PLACE "$HERE/supernode.sh" "$NAME" >"$NAME/node.log" 2>&1 &
  PIDS+=($!)
done

"$BIN/pace" flower run server/job.pace --app "$HERE/app" --superlink "$HOST:$PORT" \
  --root-certificates certs/ca.crt "$@"
for NAME in $NAMES; do
  echo "$NAME: $(sed -n 3p "$NAME"/state/*/model/README.md)"
done
