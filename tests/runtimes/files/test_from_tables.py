"""The example of messy tables, docs/from-tables.md, and Twitch's countries by the same commands."""

import csv
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.preloaded import Preloaded

ROOT = Path(__file__).parents[3]
SCRIPT = ROOT / "examples" / "from_tables.sh"
PAGE = ROOT / "docs" / "from-tables.md"
SITES = ("nord", "süd", "west")


@pytest.fixture(scope="module")
def done(pace: Preloaded, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    return pace.run_example(SCRIPT, tmp_path_factory.mktemp("tables"))


def rows(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as opened:
        return list(csv.DictReader(opened))


def test_nothing_but_descriptions_and_messages_is_carried(
    done: tuple[Path, str],
) -> None:
    root, printed = done
    carried = re.findall(r"^carried: (.*)$", printed, re.MULTILINE)
    assert sorted({"".join(Path(name).suffixes[-1:]) for name in carried}) == [
        ".down", ".pace", ".roll", ".toml", ".up",
    ]  # fmt: skip
    for path in (root / "server").rglob("*.toml"):
        assert not re.search(r"[NSW]-0\d\d\d", path.read_text())  # no case
    assert max(map(len, printed.splitlines())) <= 120


def test_every_trap_is_right_or_said(
    done: tuple[Path, str],
) -> None:
    said = " ".join(done[1].split())
    for words in (
        "the id is 'case'",
        "not UTF-8, so it was read as Windows-1252",
        "decimal commas: ",
        "points between thousands, as the file has decimal commas elsewhere: thrombocytes",
        "No row, no id, no edge.",
        "Who gets the job reads names of columns, classes and categories",
        "missing, filled with",
        "'Tagesklinik' is `other`",
        "new 60",
    ):
        assert words in said, words
    assert "Warning" not in said  # nothing is left unscaled


def test_all_graphs_have_the_same_columns(done: tuple[Path, str], pace: Preloaded) -> None:
    root, _ = done
    named = []
    for site in SITES:
        found = pace("inspect", "mine.graph", "--json", cwd=root / site)
        named.append(json.loads(found.out)["feature_names"])
    assert named[0] == named[1] == named[2]
    assert len(named[0]) == 14


def test_new_patients_are_predicted(
    done: tuple[Path, str],
) -> None:
    root, _ = done
    hits = total = 0
    for site in SITES:
        found = {row["node"]: row for row in rows(root / site / "predictions.csv")}
        assert len(found) == 460
        with (root / site / "truth.csv").open(encoding=ENCODINGS[site]) as opened:
            truth = [
                re.split("[,;\t]", line.strip()) for line in opened if re.match("[NSW]-", line)
            ]
        assert len(truth) == 60
        for case, outcome in truth:
            assert (found[case]["split"], found[case]["label"]) == ("new", "")
            hits += found[case]["class"] == outcome
            total += 1
    assert hits / total > 0.8


def test_a_site_has_a_page_and_a_model_for_other_programs(
    done: tuple[Path, str],
) -> None:
    root, printed = done
    for site in SITES:
        page = (root / site / "mine.model" / "index.html").read_text()
        assert f"PACE: the model of {site}" in page
        assert not re.search(r"[NSW]-0\d\d\d", page)  # no case
    about = json.loads((root / "nord" / "mine_torch" / "model.json").read_text())
    assert about["parts"][0]["name"] == "Local"
    assert len(about["features"]) == 14
    assert "graph.npz, model.json, model.pt2" in printed


ENCODINGS = {"nord": "utf-8", "süd": "cp1252", "west": "utf-8-sig"}


def test_the_order_of_a_table_does_not_change_who_was_trained_on(
    done: tuple[Path, str], pace: Preloaded
) -> None:
    root, _ = done
    for site in SITES:
        asked = ("client", "predict", "mine.model", "mine.graph", "--out", "same.csv")
        assert pace(*asked, cwd=root / site).code == 0
        first = {row["node"]: row["split"] for row in rows(root / site / "same.csv")}
        later = {row["node"]: row["split"] for row in rows(root / site / "predictions.csv")}
        assert {name: later[name] for name in first} == first


def test_without_a_codebook_unscaled_columns_are_warned_of_and_missing_ones_counted(
    done: tuple[Path, str], pace: Preloaded
) -> None:
    root, _ = done
    tables = ("--nodes", "patients.csv", "--edges", "links.csv", "--out", "raw.graph")
    plain = pace("graph", "import", *tables, "--label", "outcome", cwd=root / "nord")
    assert plain.code == 2
    assert "give --id case" in plain.err
    asked = (*tables, "--label", "outcome", "--id", "case")
    missing = pace("graph", "import", *asked, cwd=root / "nord")
    assert "a codebook can fill it" in missing.err
    assert len(missing.err.splitlines()) < 8
    warned = pace("graph", "import", *asked, "--features", "thrombocytes,smoker", cwd=root / "nord")
    assert "1 feature far larger than 1, not scaled: thrombocytes" in warned.out


def test_the_page_shows_the_commands_of_the_example() -> None:
    def commands(text: str) -> set[str]:
        joined = re.sub(r"\\\n\s*", "", text).replace("$site", "nord")
        return {" ".join(line.split()) for line in re.findall(r"^\s*(pace .*)$", joined, re.M)}

    blocks = re.findall(
        r"run by [^\n]*from_tables[^\n]*\n```sh\n(.*?)```", PAGE.read_text(), re.DOTALL
    )
    shown = commands("\n".join(blocks))
    assert len(shown) >= 9
    assert shown <= commands(SCRIPT.read_text())


COUNTRIES = ("de", "engb", "es", "fr", "ptbr", "ru", "tw")


@pytest.mark.skipif("PACE_DATA" not in os.environ, reason="needs Twitch's raw files in PACE_DATA")
def test_twitchs_seven_countries_by_the_same_commands(pace: Preloaded, tmp_path: Path) -> None:
    raw = Path(os.environ["PACE_DATA"]) / "Twitch"
    if not raw.is_dir():
        pytest.skip("PACE_DATA has no Twitch")
    script = ROOT / "examples" / "twitch_tables.py"
    subprocess.run([sys.executable, str(script), str(raw), str(tmp_path)], check=True)

    def call(*words: str, cwd: Path = tmp_path) -> dict[str, Any]:
        ended = pace(*words, "--json", cwd=cwd)
        assert ended.code == 0, ended.err
        return ended.json

    files = [f"{country}.columns.toml" for country in COUNTRIES]
    for country, columns in zip(COUNTRIES, files, strict=True):
        call("codebook", "propose", f"{country}/streamers.csv", "--label", "mature", "--id",
             "streamer", "--out", columns)  # fmt: skip
    merged = call("codebook", "merge", *files, "--out", "codebook.toml")
    assert merged["classes"] == ["False", "True"]
    call("new", "study.pace", "--codebook", "codebook.toml", "--method", "pace",
         "--participant", ",".join(COUNTRIES),
         "--epochs", "30")  # fmt: skip
    for country in COUNTRIES:
        here = tmp_path / country
        made = call("graph", "import", "--job", "../study.pace", "--nodes", "streamers.csv",
                    "--edges", "friends.csv", "--out", "mine.graph", cwd=here)  # fmt: skip
        assert made["feature_names"] == merged["features"]
        call("client", "fit", "../study.pace", "mine.graph", "--keep", "mine.local", "--upload",
             f"{country}.up", "--yes", cwd=here)  # fmt: skip
    uploads = [f"{country}/{country}.up" for country in COUNTRIES]
    call("server", "merge", "study.pace", *uploads, "--out", "out")
    for country in COUNTRIES:
        here = tmp_path / country
        about = call("client", "adopt", "../study.pace", "mine.graph", "--kept", "mine.local",
                     "--return", f"../out/{country}.down", "--out", "mine.model",
                     cwd=here)  # fmt: skip
        local, adopted = (about["validation"][name]["nll"] for name in ("local", "adopted"))
        assert adopted <= local
        told = call("client", "predict", "mine.model", "--nodes", "streamers.csv", "--edges",
                    "friends.csv", "--out", "p.csv", cwd=here)  # fmt: skip
        assert told["split"].keys() == {"train", "val", "test"}
