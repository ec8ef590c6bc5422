# Sourced by every script here. On several machines, HOST is the server's name; nothing else changes.
HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
HOST=${HOST:-127.0.0.1}
PORT=${PORT:-18080}
NODE_PORT=${NODE_PORT:-9094} # of a node's own local API; on one machine each node needs another
export WORK=${WORK:-$PWD/flower-demo} # the scripts that start.sh calls begin in another folder
NAMES=${NAMES:-north south west}
PYTHON=${PYTHON:-python3}
BIN=${BIN:-$(dirname "$(command -v "$PYTHON")")} # where `pace` and `flwr` are
export PATH=$BIN:$PATH # Flower starts its own helpers by their bare names
export FLWR_HOME=$WORK/flwr-home # never the user's own
export FLWR_TELEMETRY_ENABLED=0
export FLWR_DISABLE_UPDATE_CHECK=1
export FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION=1
