# What the examples of several parties share; sourced by them with the folder that was given.
# In real life every party works on a machine of its own, and `carry` is an e-mail or a USB stick.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
name=$(basename "$0")
root=${1:?usage: $name FOLDER}
mkdir -p "$root"
root=$(cd "$root" && pwd)
[ -z "$(ls -A "$root")" ] || { echo "$name: $root is not empty" >&2; exit 2; }

say() { printf '\n── %s\n\n' "$*"; }
at() { cd "$root/$1"; } # from here on, this party acts
carry() { cp "$root/$1" "$root/$2"; echo "carried: $1"; }
