#!/usr/bin/env bash
# The server: Flower's SuperLink with TLS, for registered nodes only.
set -euo pipefail
source "$(dirname "$0")/settings.sh"
exec "$BIN/flower-superlink" --host "$HOST" --port "$PORT" --database "$WORK/superlink.db" \
  --ssl-certfile "$WORK/certs/server.pem" --ssl-keyfile "$WORK/certs/server.key" \
  --ssl-ca-certfile "$WORK/certs/ca.crt" \
  --enable-supernode-auth --disable-runtime-dependency-installation
