"""The questions and answers: their numbers are the study's, and the tests they name exist."""

import csv
import json
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "faq.md").read_text()


def stored(table: str, dataset: str, method: str, metric: str, clients: int = 10) -> float:
    with (ROOT / "results" / "tables" / f"{table}.csv").open() as opened:
        (found,) = (
            float(row["mean"])
            for row in csv.DictReader(opened)
            if (row["dataset"], row["method"], row["metric"], row["clients"])
            == (dataset, method, metric, str(clients))
        )
    return found


@pytest.mark.parametrize("dataset", ["CiteSeer", "Cora", "PubMed", "CS", "Computers"])
def test_the_table_of_gains_is_the_studys(dataset: str) -> None:
    row = (
        f"| {dataset} | {stored('main', dataset, 'Local', 'accuracy'):.2f} "
        f"| {stored('resolver', dataset, 'Transport', 'accuracy'):.2f} "
        f"| {stored('main', dataset, 'PACE', 'accuracy'):.2f} "
        f"| {stored('communication', dataset, 'PACE', 'mean_alpha'):.2f} |"
    )
    assert row in PAGE


@pytest.mark.parametrize(
    ("table", "dataset", "clients", "shown"),
    [
        ("main", "CiteSeer", 10, "+7.7 points"),
        ("dirichlet", "Cora", 10, "Cora gains 4.4 points"),
        ("dirichlet", "CiteSeer", 10, "CiteSeer 2.9"),
        ("c20", "CiteSeer", 20, "+11.0 with twenty clients"),
        ("c20", "Cora", 20, "lost 0.37 points"),
        ("c20", "Computers", 20, "0.15 with twenty clients"),
        ("c30", "Computers", 30, "0.27 with thirty"),
    ],
)
def test_gains_and_losses_are_the_studys(
    table: str, dataset: str, clients: int, shown: str
) -> None:
    gain = stored(table, dataset, "PACE", "accuracy", clients) - stored(
        table, dataset, "Local", "accuracy", clients
    )
    (number,) = re.findall(r"\d+\.\d+", shown)
    digits = len(number.split(".")[1])
    assert f"{abs(gain):.{digits}f}" == number
    assert (gain < 0) == ("lost" in shown or dataset == "Computers")
    assert shown in " ".join(PAGE.split())


def test_helped_and_harmed_are_the_claims() -> None:
    claims = json.loads((ROOT / "results" / "claims.json").read_text())
    evidence = {claim["id"]: claim["evidence"] for claim in claims}
    counts = re.findall(r"(helped|tied|harmed) (\d+) ", evidence["units"])
    assert counts == [("helped", "123"), ("tied", "10"), ("harmed", "17")]
    assert "worst receiver's mean -0.91 " in evidence["appendix-worst"]
    assert "123 gained, 10 were unchanged and 17 lost; the worst one lost 0.91 points" in PAGE
    assert stored("communication", "Computers", "PACE", "alpha_zero_percent") == pytest.approx(12)


def test_every_test_on_the_page_exists() -> None:
    links = re.findall(r"\[`(test_\w+)`\]\(\.\./(tests/[\w/]+\.py)\)", PAGE)
    assert len(links) == PAGE.count("](../tests/")
    for name, path in links:
        assert f"\ndef {name}(" in (ROOT / path).read_text(), name
