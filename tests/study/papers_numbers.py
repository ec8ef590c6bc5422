"""Scores that are the paper's own numbers: what the paper says of them must hold."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd

from pace_study.cell import Cell
from pace_study.scores import COLUMNS, DENSE
from pace_study.study import ABLATION, AVAILABLE, CITATION, NAMES, SEEDS, chosen
from pace_study.tables import NUMBER, published, title

MAIN = {
    ("louvain", 10): "main",
    ("louvain", 20): "full_c20",
    ("louvain", 30): "full_c30",
    ("metis", 10): "metis",
    ("dirichlet", 10): "dirichlet",
}
MEANS: dict[tuple[object, ...], float] = published().set_index(NUMBER)["mean"].to_dict()
WOBBLE = (-0.5, 0.5, -0.5, 0.5, 0.0)  # over seeds: CS and Computers have intervals across zero
Place = tuple[str, int, str, str]  # dataset, clients, method, reading


def papers_numbers(
    shifts: Mapping[Place, float] | None = None,
    redraws: Mapping[Place, tuple[float, ...]] | None = None,
    noise: Mapping[str, float] | None = None,
    returned: Mapping[str, float] | None = None,
) -> pd.DataFrame:
    """A row for every cell and reading.

    Args:
        shifts: points that are added to a reading.
        redraws: points on every mask but the study's.
        noise: dataset -> factor of WOBBLE.
        returned: dataset -> percent of dense.
    """
    families = ["all", "masks"] if redraws else ["all"]
    cells = dict.fromkeys(cell for part in chosen(families) for cell in part.cells(SEEDS))
    rows = []
    for cell in cells:
        if cell.dataset not in AVAILABLE:
            continue
        scores = {
            reading: _score(cell, reading, shifts or {}, redraws or {}, noise or {})
            for reading in ("local", "external", "adopted")
        }
        name = title(cell.dataset)
        shares = {
            way: MEANS["communication", name, "PACE", f"{way}_percent", 10]
            for way in ("upload", "downlink")
        }
        for reading, score in scores.items():
            rows.append(
                {
                    **vars(cell),
                    "rank": cell.rank or DENSE,
                    "reading": reading,
                    **dict.fromkeys(("accuracy", "weighted_f1", "macro_f1"), score),
                    "mean_alpha": MEANS["communication", name, "PACE", "mean_alpha", 10],
                    "upload_percent": shares["upload"],
                    "downlink_percent": (returned or {}).get(cell.dataset, shares["downlink"]),
                    "gains": np.array([score - scores["local"]]),
                }
            )
    return pd.DataFrame(rows, columns=COLUMNS)


def _score(
    cell: Cell,
    reading: str,
    shifts: Mapping[Place, float],
    redraws: Mapping[Place, tuple[float, ...]],
    noise: Mapping[str, float],
) -> float:
    table = MAIN[cell.partition, cell.clients]
    main, label = (table, title(cell.dataset)), NAMES.get(cell.method)
    if reading == "local" or cell.method == "local":
        mean = MEANS[*main, "Local", "accuracy", cell.clients]
    elif label is not None:
        mean = MEANS.get((*main, label, "accuracy", cell.clients), 0.0)
        with_cnll = ("fairness", title(cell.dataset), f"{label}+CNLL", "accuracy", 10)
        if reading == "adopted" and table == "main":
            mean = MEANS.get(with_cnll, mean)
    elif cell.method == "pace" and reading == "adopted":
        mean = MEANS[*main, "PACE", "accuracy", cell.clients]
    else:
        mean = _ablated(cell, reading)
    if cell.method.startswith("pace") and reading == "adopted":
        default = 0.0 if cell.dataset in CITATION else 1.0
        mean += noise.get(cell.dataset, default) * WOBBLE[SEEDS.index(cell.seed)]
    place = (cell.dataset, cell.clients, cell.method, reading)
    if cell.data_seed != 2024:
        return mean + redraws.get(place, (0.0,) * 10)[cell.data_seed]
    return mean + shifts.get(place, 0.0)


def _ablated(cell: Cell, reading: str) -> float:
    rows = [row for row in ABLATION if (row.method, row.reading) == (cell.method, reading)]
    if not rows or cell.dataset not in CITATION:  # the paper shows none there
        return 50.0
    return MEANS["core_ablation", title(cell.dataset), rows[0].label, "accuracy", 10]
