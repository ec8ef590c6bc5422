"""Twitch's seven countries (Rozemberczki and Sarkar, 2021) as a streaming service's tables.

    python3 examples/twitch_tables.py RAW FOLDER

reads RAW/DE/raw/musae_DE_target.csv and its like, and writes FOLDER/de/streamers.csv and friends.csv.
A streamer has days, views, whether a partner, and how many of its games fall into each of 32 groups;
whether its language is mature is to be learnt.
"""

import csv
import json
import sys
from collections import Counter
from pathlib import Path

COUNTRIES = ("DE", "ENGB", "ES", "FR", "PTBR", "RU", "TW")
GROUPS = 32


def main(raw: Path, folder: Path) -> None:
    for country in COUNTRIES:
        source = raw / country / "raw"
        place = folder / country.lower()
        place.mkdir(parents=True, exist_ok=True)
        games = json.loads((source / f"musae_{country}_features.json").read_text())
        with (
            (source / f"musae_{country}_target.csv").open(newline="") as opened,
            (place / "streamers.csv").open("w", newline="") as written,
        ):
            table = csv.writer(written)
            heads = [f"games_{group:02}" for group in range(GROUPS)]
            table.writerow(["streamer", "days", "views", "partner", *heads, "mature"])
            seen: set[str] = set()
            for row in csv.DictReader(opened):
                if row["new_id"] in seen:  # a few streamers stand there twice
                    continue
                seen.add(row["new_id"])
                counts = Counter(game % GROUPS for game in set(games.get(row["new_id"], ())))
                groups = [counts[group] for group in range(GROUPS)]
                facts = [row["new_id"], row["days"], row["views"], row["partner"]]
                table.writerow([*facts, *groups, row["mature"]])
        edges = (source / f"musae_{country}_edges.csv").read_text()
        (place / "friends.csv").write_text(edges)


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit("usage: twitch_tables.py RAW FOLDER")
    main(Path(sys.argv[1]), Path(sys.argv[2]))
