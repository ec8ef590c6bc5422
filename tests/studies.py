"""A study's folder in no time: cells with made-up confusion matrices, laid out as the command does."""

import json
import struct
import zlib
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pandas as pd
import torch

from pace.reports.trial import READINGS, Trial
from pace_study.cell import Cell, Store
from pace_study.scores import score_cells
from pace_study.study import PARTS, Part, narrowed
from pace_study.study import SEEDS as PAPERS_SEEDS
from pace_study.tables import measured

CLASSES, SEEDS = 3, [104729, 130363]
HOSTILE = "</script><script>document.title='taken'</script><img src=x onerror=alert(1)>&\"'"


def write_study(folder: Path, without: Callable[[Cell], bool] = lambda cell: False) -> Store:
    """Two datasets; Local, FedAvg and PACE at C = 10, some of them at C = 20, three redraws."""
    store = Store(folder / "cells")
    parts = narrowed(
        [PARTS[name] for name in ("main", "rank", "masks")],
        ["cora", "citeseer"],
        ["local", "fedavg", "pace"],
    )
    cells = [
        cell for part in parts for cell in part.cells(SEEDS) if cell.data_seed in (2024, 0, 1, 2)
    ]
    for dataset, methods in (("cora", ["local", "pace"]), ("citeseer", ["fedavg"])):
        cells += narrowed([PARTS["c20"]], [dataset], methods)[0].cells(SEEDS)
    for cell in dict.fromkeys(cells):
        if not without(cell):
            store.write(cell, trial(cell), epochs=None, device="cpu")
    store.fold()
    (folder / "figures").mkdir()
    (folder / "figures" / "rank.png").write_bytes(png(60, 20))
    (folder / "absent.json").write_text(json.dumps({"ogbn-arxiv": HOSTILE}))
    (folder / "commands.json").write_text(json.dumps([f"pace reproduce {HOSTILE}"]))
    return store


def trial(cell: Cell) -> Trial:
    """Numbers that depend on the cell and on nothing else."""
    noise = torch.Generator().manual_seed(zlib.crc32(str(cell).encode()))
    skill = 40 if cell.method == "pace" else 20
    confusions = {
        reading: [
            torch.randint(1, 20, (CLASSES, CLASSES), generator=noise)
            + skill * torch.eye(CLASSES, dtype=torch.long)
            for _ in range(cell.clients)
        ]
        for reading in READINGS
    }
    alphas = torch.rand(cell.clients, generator=noise).tolist()
    sizes = [1000 + (cell.rank or 60)] * cell.clients
    seconds = {"fit": 1.0, "merge": 0.1, "adopt": 0.2}
    return Trial(cell.method, cell.seed, alphas, confusions, sizes, sizes, 9000, seconds)


def part(name: str) -> Part:
    return narrowed([PARTS[name]], ["cora", "citeseer"], ["local", "fedavg", "pace"])[0]


def png(width: int, height: int, dpi: int = 0) -> bytes:
    """A grey picture; with `dpi` it says how large it was drawn."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return (
            struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        )

    head = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    rows = (b"\0" + b"\x90" * width) * height
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", head)
        + (chunk(b"pHYs", struct.pack(">IIB", *[round(dpi / 0.0254)] * 2, 1)) if dpi else b"")
        + chunk(b"IDAT", zlib.compress(rows))
        + chunk(b"IEND", b"")
    )


@cache
def committed_scores() -> pd.DataFrame:
    """The scores of the committed study."""
    return score_cells(Store(Path(__file__).parents[1] / "results" / "cells"))


@cache
def committed_numbers(name: str) -> pd.DataFrame:
    """Ours of a part of the committed study: means and deviations in percent, by place."""
    found = measured(PARTS[name], committed_scores(), PAPERS_SEEDS)
    return found.set_index(["dataset", "method", "metric", "clients"]).sort_index()
