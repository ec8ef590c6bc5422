#!/bin/sh
# From messy tables to predictions for new patients: three hospitals, whose tables were exported by three
# programs, and a server. Needs `pace` and python3; everything is made in the folder given, which must
# be empty or new:
#
#     examples/from_tables.sh FOLDER
#
# In real life every party works on a machine of its own, and `carry` is an e-mail or a USB stick. With
# keys, as `examples/by_hand.sh` has them, everything travels signed.
. "$(dirname "$0")/parties.sh"

python3 "$here/messy_hospitals.py" "$root"
mkdir -p "$root/server/inbox"

say "Every hospital describes its columns; no row leaves it"
for site in nord west; do
  at $site
  pace codebook propose patients.csv --label outcome --out $site.columns.toml
  carry $site/$site.columns.toml server
done
at süd
pace codebook propose patients.csv --label outcome --missing "k. A." --out süd.columns.toml
carry süd/süd.columns.toml server

say "One codebook is made of them, read by everybody, and put into the job"
at server
pace codebook merge nord.columns.toml süd.columns.toml west.columns.toml --out codebook.toml
pace new study.pace --codebook codebook.toml --participant nord,süd,west --epochs 100
for site in nord süd west; do carry server/study.pace $site; done

say "Every hospital makes a graph by the codebook, trains, and sends one file"
for site in nord süd west; do
  at $site
  pace graph import --job study.pace --nodes patients.csv --edges links.csv --out mine.graph
  pace client fit study.pace mine.graph --keep mine.local --upload $site.up --yes
  carry $site/$site.up server/inbox
done

say "The server merges them, once"
at server
pace server merge study.pace inbox/*.up --out outbox

say "Every hospital decides for itself"
for site in nord süd west; do
  carry server/outbox/$site.down $site # the return
  carry server/outbox/$site.roll $site # who was in
  at $site
  pace client adopt study.pace mine.graph --kept mine.local --return $site.down --out mine.model
  echo "A page for people: $site/mine.model/index.html"
done

say "Later: the table again, in another order and with new patients"
for site in nord süd west; do
  at $site
  pace client predict mine.model --nodes tomorrow.csv --edges tomorrow_links.csv --out predictions.csv
  pace client evaluate mine.model --nodes tomorrow.csv --edges tomorrow_links.csv
done

say "A model for programs that know nothing of PACE"
at nord
pace export mine.model --to torch --out mine_torch --graph mine.graph
echo "Six lines of Python predict with it: docs/export.md"
