#!/bin/sh
# Three hospitals and a server that share nothing but files, all signed. Needs `pace` and python3;
# everything is made in the folder given, which must be empty or new:
#
#     examples/by_hand.sh FOLDER
. "$(dirname "$0")/parties.sh"

python3 "$here/hospitals.py" "$root"
mkdir -p "$root/server/inbox"

say "Everybody makes a pair of keys and sends the public one to the server"
for party in north south west server; do
  at $party
  pace keys new $party
  [ $party = server ] || carry $party/$party.pub server
done

say "Every hospital turns its tables into a graph file, which stays where it is"
for site in north south west; do
  at $site
  pace graph import --nodes patients.csv --edges visits.csv --label department --split use \
    --classes cardiology,neurology,oncology,orthopaedics --out mine.graph
done

say "One of them proposes a job: same features, same classes, who takes part"
at north
for party in south west server; do carry server/$party.pub north; done
pace new study.pace --like mine.graph --participant north=north.pub,south=south.pub,west=west.pub \
  --server-key server.pub --rank 6 --epochs 100
for party in south west server; do carry north/study.pace $party; done

say "Everybody reads what they agree to"
at south
pace show study.pace

say "Every hospital trains, reads what will leave the site, and sends one file"
for site in north south west; do
  at $site
  pace client fit study.pace mine.graph --keep mine.local --upload $site.up --key $site.key --yes
  carry $site/$site.up server/inbox
done

say "The server merges them, once"
at server
pace inspect inbox/north.up --job study.pace
pace server merge study.pace inbox/*.up --out outbox --key server.key

say "Every hospital decides for itself what to do with its return"
for site in north south west; do
  carry server/outbox/$site.down $site # the return
  carry server/outbox/$site.roll $site # who was in
  at $site
  pace client adopt study.pace mine.graph --kept mine.local --return $site.down --out mine.model
done

say "Predictions for every patient, Local's answer beside"
at west
pace client predict mine.model mine.graph --out predictions.csv
head -n 4 predictions.csv
pace client evaluate mine.model mine.graph --on test
