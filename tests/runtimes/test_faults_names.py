"""Hostile names through the commands, and two of one kind at once: rows 33 and 34."""

from __future__ import annotations

import csv
import os
import shutil
import stat
import threading
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pytest

from pace.datasets import Dataset, Names
from pace.datasets.partition import Division, write_graphs
from pace.errors import BusyError, FileError
from pace.io import atomic
from pace.jobs.job import read_job
from pace.runtimes.files import client
from pace.runtimes.files.site import Site, load_site
from tests.graphs import clients
from tests.preloaded import Done, Preloaded
from tests.sites import ADOPT, FIT, MERGE, NAMES, WORDS, job, write_graph, write_sites

ODD = "\x1b[2J<b>\u202e\npace: done"
CLASSES = (ODD, "=cmd|' /C calc'!A0", "@SUM(A1)", "<img src=x onerror=alert(1)>")


def clean(*texts: str) -> None:
    """Nothing in it moves a cursor, turns the direction of writing or is half a character."""
    for text in texts:
        assert all(letter.isprintable() or letter == "\n" for letter in text), repr(text)
        assert "\npace: done" not in text


def good(done: Done) -> Done:
    assert done.code == 0, (done.out, done.err)
    clean(done.out, done.err)
    return done


@pytest.mark.fault(41)
def test_hostile_names_of_classes_and_files_do_nothing_on_the_way(
    pace: Preloaded, tmp_path: Path
) -> None:
    """Job, fit, merge, adopt, predict and inspect of sites whose classes have such names."""
    sites = write_sites(tmp_path, job(classes=CLASSES))
    names = Names(
        classes=CLASSES, features=WORDS.features, nodes=tuple(f"={i}\x1b" for i in range(90))
    )
    for folder, graph in zip(sites, clients(3), strict=True):
        write_graph(folder / "mine.graph", graph, names)
        good(pace(*FIT, f"{folder.name}.up", cwd=folder))
        shutil.copy(folder / f"{folder.name}.up", tmp_path / "server" / "inbox")
    inbox = os.fsencode(tmp_path / "server" / "inbox")
    os.mkdir(inbox + b"/folder\xff\x1b[2J.up")
    with open(inbox + b"/file\xff\n|<b>.up", "wb") as opened:
        opened.write(b"x")
    merged = good(pace(*MERGE, cwd=tmp_path / "server"))
    assert r"file\xff\x0a|<b>" in merged.out.replace("\n", "")
    report = (tmp_path / "server" / "outbox" / "report.md").read_text()
    clean(report)
    assert "<b>" not in report
    north = sites[0]
    adopted = good(pace(*ADOPT, "--return", tmp_path / "server/outbox/north.down", cwd=north))
    assert adopted.out
    card = (north / "mine.model" / "README.md").read_text()
    clean(card)
    assert "<img" not in card
    page = (north / "mine.model" / "index.html").read_text()
    clean(page)
    assert "<img" not in page
    good(pace("client", "predict", "mine.model", "mine.graph", "--out", "p.csv", cwd=north))
    rows = (north / "p.csv").read_text().splitlines()
    assert len(rows) == 91
    assert rows[1].startswith(r"'=0\x1b,")
    for words in (("show", "job.pace"), ("inspect", "mine.graph"), ("inspect", "mine.model")):
        good(pace(*words, cwd=north))
    os.mkdir(os.fsencode(north) + b"/\xff\x1b[2J")
    refused = pace("inspect", os.fsdecode(b"\xff\x1b[2J"), cwd=north)
    assert refused.code == 2
    clean(refused.err)


@pytest.mark.fault(40)
def test_two_fits_with_one_keep_at_once_end_in_one_model(tmp_path: Path) -> None:
    """The second is told so while the first trains; afterwards it gives the first one's upload."""
    (north,) = write_sites(tmp_path, job())[:1]
    agreed = read_job(north / "job.pace")
    mine = load_site(north / "mine.graph", agreed)
    files = (north / "mine.local", north / "north.up")
    training, seen = threading.Event(), threading.Event()

    def wait(step: int) -> None:
        training.set()
        seen.wait(60)

    first = threading.Thread(target=lambda: client.fit_files(agreed, mine, *files, progress=wait))
    first.start()
    assert training.wait(60)
    try:
        with pytest.raises(BusyError, match=r"another fit is at work on .*mine\.local"):
            client.fit_files(agreed, mine, *files)
    finally:
        seen.set()
        first.join()
    kept = (north / "mine.local").read_bytes()
    assert client.fit_files(agreed, mine, *files) is not None
    assert (north / "mine.local").read_bytes() == kept  # nothing was trained again
    assert not list(north.glob(".*"))


@pytest.mark.fault(40)
def test_an_upload_is_never_of_a_model_that_was_not_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Even on a disk without locks."""
    (north,) = write_sites(tmp_path, job())[:1]
    agreed = read_job(north / "job.pace")
    one, other = (Site(graph, tuple(map(str, range(graph.nodes))), None) for graph in clients(2))
    files = (north / "mine.local", north / "north.up")
    monkeypatch.setattr(atomic, "held", lambda *_: nullcontext())

    def meanwhile() -> bool:
        away = north / "away" / "north.up"
        assert client.fit_files(agreed, other, files[0], away)
        return True

    with pytest.raises(FileError, match="appeared while this ran"):
        client.fit_files(agreed, one, *files, confirm=meanwhile)
    assert not (north / "north.up").exists()


@pytest.mark.fault(31)
def test_kept_models_are_for_their_owner_only(pace: Preloaded, tmp_path: Path) -> None:
    sites = write_sites(tmp_path, job())
    for folder in sites:
        good(pace(*FIT, f"{folder.name}.up", cwd=folder))
        shutil.copy(folder / f"{folder.name}.up", tmp_path / "server" / "inbox")
    good(pace(*MERGE, cwd=tmp_path / "server"))
    north = sites[NAMES.index("north")]
    good(pace(*ADOPT, "--return", tmp_path / "server/outbox/north.down", cwd=north))
    private = (north / "mine.local", *(north / "mine.model").glob("*.safetensors"))
    assert {stat.S_IMODE(path.stat().st_mode) for path in private} == {0o600}
    assert stat.S_IMODE((north / "mine.model").stat().st_mode) == 0o700


TEX = "$\\frac{$ <b>\x1b[2J"
COLUMNS = ("id", f"weight{ODD}", f"kind{ODD}", f"label{ODD}")


def write_tables(folder: Path, sites: tuple[str, ...]) -> None:
    """A table of nodes and one of edges whose every name and word is hostile, features but for
    formulas, which are refused.
    """
    rows = [
        (f"={i}{ODD}", i / 3, CLASSES[i % 2 * 3], CLASSES[i % 3], sites[i % len(sites)])
        for i in range(60)
    ]
    with open(folder / "nodes.csv", "w", newline="") as opened:
        csv.writer(opened).writerows([(*COLUMNS, "site"), *rows])
    with open(folder / "edges.csv", "w", newline="") as opened:
        ends = [(rows[i][0], rows[(i + len(sites)) % 60][0]) for i in range(60)]
        csv.writer(opened).writerows([("source", "target"), *ends, (rows[0][0], f"gone{ODD}")])


@pytest.mark.fault(41)
def test_hostile_columns_and_ids_do_nothing_from_tables_to_a_page(
    pace: Preloaded, tmp_path: Path
) -> None:
    """Codebook, import, partition, run and report of tables and files with such names."""
    write_tables(tmp_path, (f"a{ODD}", "<img src=x onerror=alert(1)>", TEX))
    label, out = COLUMNS[3], f"x{ODD}.toml"
    good(pace("codebook", "propose", "nodes.csv", "--label", label, "--out", out, cwd=tmp_path))
    good(pace("codebook", "merge", out, "--out", f"book{ODD}.toml", cwd=tmp_path))
    importing = (
        "graph",
        "import",
        "--nodes",
        "nodes.csv",
        "--edges",
        "edges.csv",
        "--label",
        label,
    )
    to_graph = (*importing, "--client", "site", "--out", f"g{ODD}.graph")
    refused = pace(*to_graph, cwd=tmp_path)
    assert refused.code == 2
    clean(refused.out, refused.err)
    good(pace(*to_graph, "--strangers", "drop", cwd=tmp_path))
    divided = ("--dataset", f"g{ODD}.graph", "--partition", "column")
    good(pace("partition", *divided, "--graphs", "sites", "--out", "p.json", cwd=tmp_path))
    few = ("--methods", "pace", "--seeds", "1", "--epochs", "1", "--hidden", "4")
    good(pace("run", *divided, *few, "--out", "made", cwd=tmp_path))
    text = (tmp_path / "made/index.html").read_text()
    assert "<img src=x" not in text
    assert "\x1b" not in text
    assert "\u202e" not in text


@pytest.mark.fault(41)
def test_a_clients_name_cannot_leave_the_folder_of_graphs(tmp_path: Path) -> None:
    """`pace partition --graphs` names files after clients, whose names come with the dataset."""
    names = (
        "../up", "/absolute", "..", "", "a\0b", "CON/x", "x", "X", "x-7", "ﬁ", "fi", "\udcff",
        "é" * 300, "Nord Süd.1",
    )  # fmt: skip
    parts = clients(2)
    nodes = np.arange(parts[0].nodes)
    dataset = Dataset("d", parts[0], 4, names=Names(clients=names))
    graphs, held = parts[:1] * len(names), [nodes] * len(names)
    division = Division(graphs, nodes=held, dataset=dataset, partition="own", data_seed=None)
    paths = write_graphs(tmp_path / "graphs", dataset, division)
    assert {path.parent for path in paths} == {tmp_path / "graphs"}
    assert sorted(tmp_path.rglob("*.graph")) == sorted(paths)
    assert len({path.name.casefold() for path in paths}) == len(names)
    assert paths[-1].name == "Nord Süd.1.graph"
