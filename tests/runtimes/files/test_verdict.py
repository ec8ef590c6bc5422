"""The verdict on a site's page: intervals by enumeration, words by cases, probabilities by draws."""

import itertools
import math
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from pace import task
from pace.runtimes.files import merge
from pace.runtimes.files.model import prediction_table, read_model
from pace.runtimes.files.outcome import (
    MaskScores,
    Outcome,
    ReadingScores,
    compare,
    findings,
    next_step,
    paired_interval,
    probabilities,
)
from pace.runtimes.files.site import load_site
from pace.task import Bin
from tests.sites import adopt_at, fit_at, job, write_sites


@pytest.mark.parametrize(
    ("first", "second"), [(0.10, 0.10), (0.20, 0.05), (0.02, 0.02), (0.3, 0.1)]
)
def test_the_interval_holds_the_difference_in_about_95_percent_of_draws(
    first: float, second: float
) -> None:
    """Exactly, over all outcomes of 60 nodes: each is gained, lost or neither."""
    nodes, held = 60, 0.0
    for gained, lost in itertools.product(range(nodes + 1), repeat=2):
        rest = nodes - gained - lost
        if rest < 0:
            continue
        low, high = paired_interval(gained, lost, nodes)
        if low <= first - second <= high:
            ways = math.comb(nodes, gained) * math.comb(nodes - gained, lost)
            held += ways * first**gained * second**lost * (1 - first - second) ** rest
    assert held > 0.93


def test_the_interval_is_the_published_formula() -> None:
    """Bonett and Price (2012): p̃ = (count + 1) / (n + 2), ± 1.96 √((p̃₁ + p̃₂ − (p̃₁ − p̃₂)²) / (n + 2))."""
    first, second = 41 / 102, 2 / 102
    half = 1.959964 * math.sqrt((first + second - (first - second) ** 2) / 102)
    expected = (first - second - half, first - second + half)
    assert paired_interval(40, 1, 100) == pytest.approx(expected)


def scores(gained: int, lost: int, nodes: int = 80) -> MaskScores:
    bins = (Bin(nodes, 60, 0.75),)
    reading = ReadingScores(0.75, 0.7, 0.7, nll=0.5, confusion=((60, 10), (10, 0)), bins=bins)
    pairs = {"local": (gained, lost), "baseline": (gained, lost)}
    return MaskScores(
        mask="test",
        nodes=nodes,
        classes=2,
        local=reading,
        external=reading,
        adopted=reading,
        baseline=reading,
        pairs=pairs,
    )


@pytest.mark.parametrize(
    ("gained", "lost", "kind", "words"),
    [
        (14, 2, "better", "12 of 80 test nodes more are right; more than chance would do"),
        (2, 14, "worse", "12 of 80 test nodes fewer are right; more than chance would do"),
        (2, 5, "open", "3 of 80 test nodes fewer are right; that is within chance"),
        (0, 0, "open", "0 of 80 test nodes more are right; that is within chance"),
    ],
)
def test_a_difference_is_told_in_nodes(gained: int, lost: int, kind: str, words: str) -> None:
    found = compare(scores(gained, lost), "local", "this site alone")
    assert found.verdict == kind
    assert words in found.evidence


def test_probabilities_are_held_against_what_is_right() -> None:
    def reading(hits: int, sure: float) -> ReadingScores:
        return ReadingScores(bins=(Bin(100, hits, sure),))

    assert probabilities(reading(78, 0.80)).verdict == "holds"
    assert "too high" in probabilities(reading(60, 0.92)).statement
    assert "too low" in probabilities(reading(90, 0.60)).statement
    assert probabilities(reading(70, 0.80)).verdict == "fails"  # chance: 1.96 · 4 nodes and a half
    told = probabilities(ReadingScores(bins=(Bin(100, 50, 0.4), Bin(300, 270, 0.9)))).evidence
    chance = 1.959964 * math.sqrt(100 * 0.24 + 300 * 0.09 + 0.25) / 400
    assert "78 % sure of the class it names, and right in 80 % of the test nodes" in told
    assert f"(chance: ± {100 * chance:.0f} points)" in told


def test_what_to_do_next_follows_the_worst_verdict() -> None:
    worse = next_step({"baseline": "worse", "local": "better"})
    assert worse.startswith("A plain logistic regression is better here")
    assert next_step({"local": "worse", "baseline": "better"}).startswith("Use Local")
    assert next_step({"local": "better", "baseline": "open"}).startswith("Use it: `pace client")
    assert "more labelled test nodes would tell more" in next_step({"local": "open"})


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Outcome]:
    folder, agreed = tmp_path_factory.mktemp("sites"), job()
    sites = write_sites(folder, agreed)
    for site in sites:
        fit_at(agreed, site, folder / f"{site.name}.up")
    merge.merge_files(agreed, [folder], journal=folder / "journal", out=folder / "out")
    return sites[0], adopt_at(agreed, sites[0], folder / "out")


def test_a_site_gets_a_verdict_beside_its_baseline(made: tuple[Path, Outcome]) -> None:
    folder, outcome = made
    statements = [item.statement for item in findings(outcome)]
    assert statements[-1] == "What to do next:"
    assert any("logistic regression on the columns" in text for text in statements)
    page = (folder / "mine.model" / "index.html").read_text()
    assert page.index("The verdict") < page.index("What was adopted, and why")
    assert "Logistic regression" in page
    for item in findings(outcome):
        assert f'class="verdict {item.verdict}"' in page


def test_probabilities_are_calibrated_and_classes_are_what_they_were(
    made: tuple[Path, Outcome],
) -> None:
    folder, outcome = made
    model = read_model(folder / "mine.model")
    site = load_site(folder / "mine.graph", model.job)
    adoption, graph = model(site.graph), site.graph
    labels = graph.y[graph.val]
    for name, logits in (("temperature", adoption.logits), ("local_temperature", adoption.local)):
        assert getattr(outcome, name) == task.temperature(logits[graph.val], labels)
        fitted = task.nll(logits[graph.val] / getattr(outcome, name), labels)
        assert fitted <= task.nll(logits[graph.val], labels) + 0.02  # labels are a little softened
    table = prediction_table(model, site)
    expected = (adoption.logits.double() / outcome.temperature).softmax(1).max(1).values
    assert table["probability"] == pytest.approx(expected.tolist(), abs=1e-6)
    assert table["class"] == [model.job.classes[label] for label in adoption.logits.argmax(1)]


def test_where_local_is_kept_predictions_are_locals(made: tuple[Path, Outcome]) -> None:
    folder, outcome = made
    model = read_model(folder / "mine.model")
    site = load_site(folder / "mine.graph", model.job)
    weights = (1.0, *(0.0 for _ in outcome.weights[1:]))
    alone = replace(outcome, alpha=0.0, weights=weights, temperature=outcome.local_temperature)
    kept = replace(model, outcome=alone)
    adoption = kept(site.graph)
    assert torch.equal(adoption.logits, adoption.local)
    table = prediction_table(kept, site)
    assert table["class"] == table["local_class"]
    assert table["probability"] == table["local_probability"]
    assert "The same as this site alone" in next(findings(alone)).statement
