#!/bin/sh
# Three hospitals whose exports agree on nothing, from raw tables to predictions for new patients, by
# commands and one edited file a site. Needs `pace` and python3; everything is made in the folder given,
# which must be empty or new. With `sealed`, the server sees sums only:
#
#     examples/three_exports.sh FOLDER [sealed]
. "$(dirname "$0")/parties.sh"

sealed=${2:-}
edit() { sed -i.bak "$@"; } # a person with an editor

python3 "$here/three_exports.py" "$root"
mkdir -p "$root/server/inbox" "$root/server/received"

say "The first hospital describes its columns; the mapping that is proposed says how <3 is read"
at north
pace codebook propose patients.csv --label outcome --mapping mapping.toml --out north.columns.toml
carry north/north.columns.toml server/received

say "The others map theirs to them: proposed by the command, confirmed by a person"
for site in süd west; do
  carry north/north.columns.toml $site
  at $site
  label=$([ $site = süd ] && echo Wiederaufnahme || echo Readmission)
  pace codebook propose patients.csv --label $label --mapping mapping.toml --like north.columns.toml --out $site.columns.toml
  edit -e 's/ja = "?", nein = "?"/ja = "readmitted", nein = "home"/' \
    -e 's/N = "?", Y = "?"/N = "home", Y = "readmitted"/' \
    -e 's/flags = {Diabetes = "diabetes"}/flags = {Diabetes = "diabetes", Hypertonie = "hypertension"}/' mapping.toml
  pace codebook propose patients.csv --label $label --mapping mapping.toml --out $site.columns.toml
  carry $site/$site.columns.toml server/received
done

if [ -n "$sealed" ]; then
  say "Sealed: every hospital makes a pair of keys and sends the public one with its columns"
  for site in north süd west; do
    at $site
    pace keys new $site
    carry $site/$site.pub server/received
  done
fi

say "One codebook is made of them and put into the job, which everybody reads"
at server
pace new study.pace --codebook received ${sealed:+--sealed}
for site in north süd west; do carry server/study.pace $site; done

say "Every hospital makes a graph of its own export, trains, and sends one file"
for site in north süd west; do
  at $site
  pace client fit study.pace mine.graph --nodes patients.csv --edges links.csv --mapping mapping.toml --keep mine.local --upload $site.up --yes ${sealed:+--key $site.key}
  carry $site/$site.up server/inbox
done

say "The server merges them, once"
at server
pace server merge study.pace inbox/*.up --out outbox

say "Every hospital decides for itself, and predicts its new patients beside those they are linked to"
for site in north süd west; do
  carry server/outbox/$site.down $site # the return
  carry server/outbox/$site.roll $site # who was in
  at $site
  pace client adopt study.pace mine.graph --kept mine.local --return $site.down --out mine.model --nodes new.csv --edges new_links.csv
done
