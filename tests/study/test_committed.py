"""The committed study: every cell is today's, and all that is made of cells follows from them."""

import json
import re
import statistics
from collections import Counter
from dataclasses import replace
from functools import cache
from pathlib import Path

import pandas as pd
import pytest

from pace_study.cell import Cell, Store, agrees
from pace_study.claims import VERDICTS, claims_tables, judge_claims
from pace_study.outcome import Outcome
from pace_study.scores import score_cells
from pace_study.study import AVAILABLE, PARTS, SEEDS, chosen
from pace_study.tables import NUMBER, markdown, measured, published

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "results"
PAGE = (ROOT / "docs" / "reproduce.md").read_text(encoding="utf-8")
BESIDE = (
    "main", "c20", "c30", "macro-f1", "ablation", "resolver", "fairness", "rank", "communication",
    "metis", "dirichlet",
)  # fmt: skip


@cache
def store() -> Store:
    return Store(RESULTS / "cells")


@cache
def scores() -> pd.DataFrame:
    return score_cells(store())


@pytest.mark.parametrize("folder", [RESULTS / "cells", RESULTS / "models" / "cells"])
def test_every_committed_cell_has_todays_settings(folder: Path) -> None:
    @cache
    def expected(method: str, rank: int | None, model: str) -> str:
        return Cell("cora", "louvain", 10, method, rank, 0, 0, model).settings()

    rows = Store(folder).rows
    stale, older = [], 0
    for cell, row in rows.items():
        wanted = expected(cell.method, cell.rank, cell.model)
        if not agrees(row, wanted) and agrees(row, unversioned(wanted)):
            older += 1
        elif not agrees(row, wanted) or row["epochs"]:
            stale.append(cell)
    assert stale == []
    assert len(rows) > 1500
    page = (ROOT / "docs" / "beyond.md").read_text(encoding="utf-8")
    assert not older or f"{older} stored cells are of an earlier version" in " ".join(page.split())


def unversioned(settings: str) -> str:
    """The settings, whatever version of the method's arithmetic."""
    plain = json.loads(settings)
    plain["method"].pop("version", None)
    return json.dumps(plain)


def test_every_committed_cell_belongs_to_a_part() -> None:
    # `--draws` computes more draws of what takes long than a part asks for.
    parts = [replace(part, thrifty=False) for part in PARTS.values()]
    assert store().rows.keys() <= {cell for part in parts for cell in part.cells(SEEDS)}


def test_no_file_of_results_is_large() -> None:
    """Without what a run leaves here and git ignores: the page, CSV, and pictures for print."""
    ignored = {".html", ".csv", ".pdf"}
    paths = (path for path in RESULTS.rglob("*") if path.is_file() and path.suffix not in ignored)
    sizes = {path: path.stat().st_size for path in paths}
    assert max(sizes.values()) < 1_000_000
    assert sum(sizes.values()) < 9_000_000


def test_no_cell_of_the_paper_or_of_the_redraws_is_missing() -> None:
    needed = [cell for part in chosen(["all", "masks"]) for cell in part.cells(SEEDS)]
    available = [cell for cell in needed if cell.dataset in AVAILABLE]
    assert [cell for cell in available if cell not in store().rows] == []


def test_fedrcls_default_is_the_reading_nearer_to_the_paper() -> None:
    """The rule: mean |difference| over all that the paper prints of FedRCL on five datasets."""
    theirs = published().set_index(NUMBER)["mean"]
    distances: dict[str, list[float]] = {"FedRCL": [], "FedRCL, released solver": []}
    for name in ("main", "c20", "c30", "metis", "dirichlet", "fairness"):
        part = PARTS[name]
        for ours in measured(part, scores(), SEEDS).itertuples():
            reading = ours.method.removesuffix("+CNLL")
            again = name == "fairness" and reading == ours.method  # it is in the main table
            if reading in distances and not again:
                label = ours.method.replace(reading, "FedRCL")
                key = (part.table, ours.dataset, label, ours.metric, ours.clients)
                distances[reading].append(abs(ours.mean - theirs[key]))
    default, other = (statistics.fmean(found) for found in distances.values())
    assert len(distances["FedRCL"]) == len(distances["FedRCL, released solver"]) == 56
    assert (default, other) == pytest.approx((4.32, 5.55), abs=0.01)


def test_the_committed_cells_give_the_committed_claims() -> None:
    made = markdown(claims_tables(judge_claims(scores(), SEEDS)))
    assert made == (RESULTS / "claims.md").read_text()


def test_the_committed_cells_give_the_committed_tables(tmp_path: Path) -> None:
    parts = [PARTS[name] for name in ("main", "communication", "fairness")]
    Outcome(parts, store(), SEEDS).write(tmp_path, ["ogbn-arxiv"])
    for name in (*(f"{part.name}-beside-paper" for part in parts), "fairness-summary"):
        ours = (tmp_path / "tables" / f"{name}.md").read_text()
        assert ours == (RESULTS / "tables" / f"{name}.md").read_text(), name


@pytest.mark.parametrize("name", BESIDE)
def test_the_page_links_to_the_committed_tables(name: str) -> None:
    assert (RESULTS / "tables" / f"{name}-beside-paper.md").is_file()
    assert f"](../results/tables/{name}-beside-paper.md)" in PAGE


def test_the_page_counts_the_verdicts() -> None:
    counts = Counter(claim.verdict for claim in judge_claims(scores(), SEEDS))
    holds, within, fails, unknown = (counts[verdict] for verdict in VERDICTS)
    said = (
        f"Of the {counts.total()} sentences about results, {holds} hold, {within} are not confirmed "
        f"but compatible with one draw, {fails} do not hold, and {unknown} need ogbn-arxiv"
    )
    assert said in " ".join(PAGE.split())


def test_every_score_beside_the_paper_has_its_deviation() -> None:
    """`80.50 ± 0.39`, and the paper's the same, wherever the paper prints one."""
    text = (RESULTS / "tables" / "main-beside-paper.md").read_text()
    shown = [cell for line in text.splitlines()[4:] for cell in line.split("|")[2:-1]]
    run = [cell for cell in shown if "not run" not in cell]
    assert len(run) == 110
    assert all(re.search(r"\d ± \d", cell) for cell in run)
