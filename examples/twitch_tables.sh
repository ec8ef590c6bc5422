#!/bin/sh
# Twitch's seven countries as seven sites with tables of their own, by the commands of from_tables.sh.
# Needs `pace`, python3 and Twitch's raw files in $PACE_DATA/Twitch; everything is made in the folder
# given, which must be empty or new:
#
#     PACE_DATA=… examples/twitch_tables.sh FOLDER
. "$(dirname "$0")/parties.sh"

raw=${PACE_DATA:?Twitch\'s raw files are looked for in \$PACE_DATA/Twitch}/Twitch
countries="de engb es fr ptbr ru tw"

python3 "$here/twitch_tables.py" "$raw" "$root"
cd "$root"
mkdir inbox
for site in $countries; do
  pace codebook propose $site/streamers.csv --label mature --id streamer --out $site.columns.toml
done
pace codebook merge *.columns.toml --out codebook.toml
pace new study.pace --codebook codebook.toml --participant "$(echo $countries | tr ' ' ,)"
for site in $countries; do
  pace graph import --job study.pace --nodes $site/streamers.csv --edges $site/friends.csv \
    --out $site/mine.graph
  pace client fit study.pace $site/mine.graph --keep $site/mine.local --upload inbox/$site.up --yes
done
pace server merge study.pace inbox/*.up --out outbox
for site in $countries; do
  pace client adopt study.pace $site/mine.graph --kept $site/mine.local --return outbox/$site.down \
    --out $site/mine.model
done
for site in $countries; do
  printf '\n%s\n' $site
  pace client evaluate $site/mine.model --nodes $site/streamers.csv --edges $site/friends.csv
done
