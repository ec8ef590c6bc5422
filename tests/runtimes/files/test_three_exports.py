"""Three exports that agree on nothing, by commands and one edited file a site, open and sealed."""

import csv
import json
import math
import re
from pathlib import Path

import pytest

from pace.datasets.file import read_graph
from pace.runtimes.files.model import read_model
from pace.tables.importing import Columns, import_graph
from tests.preloaded import Preloaded

ROOT = Path(__file__).parents[3]
SCRIPT = ROOT / "examples" / "three_exports.sh"
PAGE = ROOT / "docs" / "from-tables.md"
SITES = ("north", "süd", "west")
COIN = math.log(2)


@pytest.fixture(scope="module")
def opened(pace: Preloaded, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    root, printed = pace.run_example(SCRIPT, tmp_path_factory.mktemp("open"))
    return root, " ".join(printed.split())


def rows(path: Path) -> list[dict[str, str]]:
    with path.open(newline="", encoding="utf-8") as opened:
        return list(csv.DictReader(opened))


def hidden(root: Path) -> list[tuple[str, dict[str, str]]]:
    """The true outcome of each new patient, and what was predicted."""
    pairs = []
    for site in SITES:
        found = {row["node"]: row for row in rows(root / site / "mine.predictions.csv")}
        truth = rows(root / "hidden" / f"{site}.csv")
        assert len(found) == len(truth) == 80  # the new ones, and nobody else
        pairs += [(row["outcome"], found[row["node"]]) for row in truth]
    return pairs


def nll(pairs: list[tuple[str, dict[str, str]]]) -> float:
    return -sum(math.log(float(row[f"p_{true}"])) for true, row in pairs) / len(pairs)


def test_new_patients_are_predicted_beside_a_baseline(opened: tuple[Path, str]) -> None:
    linear_model = pytest.importorskip("sklearn.linear_model")
    root, _ = opened
    pairs = hidden(root)
    accuracy = sum(row["class"] == true for true, row in pairs) / len(pairs)
    right, plain_nll = 0, 0.0
    for site in SITES:
        model = read_model(root / site / "mine.model")
        tables = (root / site / "new.csv", root / site / "new_links.csv")
        asked = Columns(mapping=model.mapping, strangers="drop")
        new = import_graph(*tables, asked, codebook=model.job.codebook).dataset.graph
        old = read_graph(root / site / "mine.graph").graph
        plain = linear_model.LogisticRegression(max_iter=5000).fit(old.x.numpy(), old.y.numpy())
        truth = [
            model.job.classes.index(row["outcome"]) for row in rows(root / "hidden" / f"{site}.csv")
        ]
        right += int((plain.predict(new.x.numpy()) == truth).sum())
        chances = plain.predict_proba(new.x.numpy())
        plain_nll -= sum(math.log(chances[node, label]) for node, label in enumerate(truth))
    assert accuracy > right / len(pairs)  # links say more than columns
    assert nll(pairs) < plain_nll / len(pairs) < COIN
    sure = sum(float(row["probability"]) for _, row in pairs) / len(pairs)
    assert abs(sure - accuracy) < 0.08


def test_every_site_is_mapped_to_the_same_columns(opened: tuple[Path, str]) -> None:
    root, said = opened
    features = [read_graph(root / site / "mine.graph").names.features for site in SITES]
    assert features[0] == features[1] == features[2]
    assert {"age", "creatinine", "crp", "diabetes", "hypertension", "sex=female"} < set(features[0])
    book = read_model(root / "süd" / "mine.model").job.codebook
    assert book is not None
    assert not book.warnings  # all are in one unit
    for words in (
        "creatinine, µmol/l to mg/dl?",
        "lb to kg?",
        "Replace each ? in mapping.toml",
        "What to do next:",
    ):
        assert words in said, words
    assert not list((root / "server").rglob("mapping.toml"))  # it stays at the site
    assert (root / "süd" / "mine.model" / "mapping.toml").exists()


def typed(root: Path) -> list[str]:
    """The commands that all parties typed."""
    return (root.parent / "bin" / "pace.log").read_text().splitlines()


def test_commands_are_counted(opened: tuple[Path, str]) -> None:
    assert len(typed(opened[0])) <= 14


def test_sealed_gives_the_same_answers(
    opened: tuple[Path, str], pace: Preloaded, tmp_path: Path
) -> None:
    pytest.importorskip("cryptography")
    root, said = pace.run_example(SCRIPT, tmp_path, "sealed")
    assert "keep it here, it is your signature" in " ".join(said.split())
    assert len(typed(root)) <= 16
    job = read_model(root / "west" / "mine.model").job
    assert job.sealed
    assert sorted(job.keys) == ["north", "server", "süd", "west"]  # the server's was made
    pairs = hidden(root)
    assert nll(pairs) < COIN
    assert json.loads((root / "north" / "mine.model" / "model.json").read_text())["roll"]


def test_the_page_shows_the_commands_of_the_example() -> None:
    blocks = re.findall(
        r"run by [^\n]*three_exports[^\n]*\n```sh\n(.*?)```", PAGE.read_text(), re.S
    )
    script = SCRIPT.read_text().replace("$site", "süd").replace("$label", "Wiederaufnahme")
    commands = [line for block in blocks for line in block.splitlines()]
    assert len(commands) >= 4
    for line in commands:
        assert line in script, line


def test_what_is_lacking_is_said_before_anything_is_made(
    opened: tuple[Path, str], pace: Preloaded, tmp_path: Path
) -> None:
    north, made = opened[0] / "north", pace("new", "x.pace", "--codebook", ".", cwd=tmp_path)
    assert (made.code, "holds no file such as north.columns.toml" in made.err) == (2, True)
    files = ("--keep", tmp_path / "a.local", "--upload", tmp_path / "north.up", "--yes")
    asked = ("client", "fit", "study.pace", tmp_path / "a.graph", "--nodes", "patients.csv")
    fitted = pace(*asked, *files, cwd=north)
    assert (fitted.code, "give both --nodes and --edges" in fitted.err) == (2, True)
    assert not (tmp_path / "a.graph").exists()
    tables = ("--out", "mine.model", "--nodes", "new.csv", "--edges", "new_links.csv")
    kept = ("--kept", "mine.local", "--return", "north.down")
    adopted = pace("client", "adopt", "study.pace", "mine.graph", *kept, *tables, cwd=north)
    assert (adopted.code, "mine.predictions.csv already exists" in adopted.err) == (2, True)
