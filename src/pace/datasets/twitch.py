"""Twitch gamers by language (MUSAE, Rozemberczki et al., 2021): seven graphs that share features.

Each country is a site: a federation that nature made, with no partition to draw.
"""

from __future__ import annotations

import csv
import json
from pathlib import Path

import torch
from torch import Tensor

COUNTRIES = ("DE", "ENGB", "ES", "FR", "PTBR", "RU", "TW")
FEATURES = 3170  # binary, what a streamer plays, likes and lives in; the same for every country
TABLES = ("edges.csv", "features.json", "target.csv")
FILES = tuple(f"{country}/raw/musae_{country}_{table}" for country in COUNTRIES for table in TABLES)


def read_twitch(folder: Path) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Features, edges, labels (whether a streamer uses mature language) and the country of each node."""
    first, parts = 0, []
    for number, country in enumerate(COUNTRIES):
        x, edges, y = read_country(folder / country / "raw", country)
        parts.append((x, edges + first, y, torch.full_like(y, number)))
        first += len(y)
    features, ends, labels, owners = zip(*parts, strict=True)
    return torch.cat(features), torch.cat(ends, dim=1), torch.cat(labels), torch.cat(owners)


def read_country(raw: Path, country: str) -> tuple[Tensor, Tensor, Tensor]:
    """One country; nodes are numbered by `new_id`. France's table lists two streamers twice."""
    edges_path, features_path, target_path = (raw / f"musae_{country}_{name}" for name in TABLES)
    with target_path.open(newline="", encoding="utf-8") as opened:
        mature = {int(row["new_id"]): row["mature"] == "True" for row in csv.DictReader(opened)}
    if sorted(mature) != list(range(len(mature))):
        raise ValueError(f"{target_path.name} does not number nodes from 0 by new_id")
    y = torch.tensor([mature[node] for node in range(len(mature))]).long()
    x = torch.zeros(len(y), FEATURES)
    for node, listed in json.loads(features_path.read_text(encoding="utf-8")).items():
        x[int(node), torch.tensor(listed, dtype=torch.int64)] = 1.0
    with edges_path.open(newline="", encoding="utf-8") as opened:
        pairs = [(int(row["from"]), int(row["to"])) for row in csv.DictReader(opened)]
    return x, torch.tensor(pairs, dtype=torch.int64).reshape(-1, 2).t(), y
