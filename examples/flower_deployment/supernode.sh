#!/usr/bin/env bash
# A site: Flower's SuperNode. What it may do is said here, by the site: its name, its copy of the job,
# its graph, the folder for its files, and how long a step may take.
#   supernode.sh NAME
set -euo pipefail
source "$(dirname "$0")/settings.sh"
SITE=$WORK/$1
mkdir -p "$SITE/state"
exec "$BIN/flower-supernode" --superlink "$HOST:$PORT" --root-certificates "${CA:-$WORK/certs/ca.crt}" \
  --auth-supernode-private-key "$SITE/node" --port "$NODE_PORT" --max-retries "${RETRIES:-20}" \
  --node-config "name=\"$1\" job=\"$SITE/job.pace\" graph=\"$SITE/mine.graph\" \
folder=\"$SITE/state\" limit=${LIMIT:-600.0} ${NODE_CONFIG:-}"
