"""The questions and answers: their numbers are the study's, and the tests they name exist."""

import re
from pathlib import Path

import pandas
import pytest

from pace_study.folder import results

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "faq.md").read_text()


@pytest.fixture(scope="module")
def study() -> pandas.DataFrame:
    """The study's rows of Local and PACE at rank 6 under Louvain, with the paper's masks."""
    rows = results(ROOT / "results")
    ours = rows.method.eq("local") | (rows.method.eq("pace") & rows["rank"].eq(6))
    return rows[ours & rows.partition.eq("louvain") & rows.data_seed.eq(2024)]


def mean(
    study: pandas.DataFrame, dataset: str, method: str, reading: str, clients: int = 10
) -> pandas.Series:
    same = study.dataset.eq(dataset.lower()) & study.clients.eq(clients) & study.method.eq(method)
    rows = study[same & study.reading.eq(reading)]
    assert len(rows) == 5
    return rows[["accuracy", "alpha"]].mean()


@pytest.mark.parametrize("dataset", ["CiteSeer", "Cora", "PubMed", "CS", "Computers"])
def test_the_table_of_gains_is_the_studys(dataset: str, study: pandas.DataFrame) -> None:
    local = mean(study, dataset, "local", "local")
    external = mean(study, dataset, "pace", "external")
    adopted = mean(study, dataset, "pace", "adopted")
    scores = (f"{100 * reading.accuracy:.2f}" for reading in (local, external, adopted))
    assert f"| {dataset} | {' | '.join(scores)} | {adopted.alpha:.2f} |" in PAGE


def test_the_loss_on_cora_is_the_studys(study: pandas.DataFrame) -> None:
    adopted = mean(study, "cora", "pace", "adopted", clients=20)
    lost = mean(study, "cora", "local", "local", clients=20).accuracy - adopted.accuracy
    assert f"twenty clients on Cora it lost {100 * lost:.2f} points" in " ".join(PAGE.split())


def test_helped_and_harmed_are_the_studys() -> None:
    rows = results(ROOT / "results", by="client")
    rows = rows[rows.partition.eq("louvain") & rows.data_seed.eq(2024) & rows.clients.eq(10)]
    pace = rows[rows.method.eq("pace") & rows["rank"].eq(6)]
    pace = pace[pace.dataset.isin(["cora", "citeseer", "pubmed"])]
    keys = ["dataset", "client", "seed"]
    gain = pace.pivot(index=keys, columns="reading", values="accuracy")
    gain = 100 * (gain.adopted - gain.local)
    counts = [int((gain > 1e-9).sum()), int((gain.abs() <= 1e-9).sum()), int((gain < -1e-9).sum())]
    worst = gain.groupby(["dataset", "client"]).mean().min()
    told = "{} gained, {} were unchanged and {} lost; the worst one lost {:.2f} points"
    assert told.format(*counts, -worst) in " ".join(PAGE.split())


def test_every_test_on_the_page_exists() -> None:
    links = re.findall(r"\[`(test_\w+)`\]\(\.\./(tests/[\w/]+\.py)\)", PAGE)
    assert len(links) == PAGE.count("](../tests/")
    for name, path in links:
        assert f"\ndef {name}(" in (ROOT / path).read_text(), name
