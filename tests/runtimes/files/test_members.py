"""Splits belong to ids: a table in another order has the same test nodes, and new ones are new."""

import csv
from dataclasses import replace
from itertools import combinations
from pathlib import Path

import pytest
import torch

from pace.datasets import Dataset, Names, file
from pace.errors import FileError
from pace.graph import Graph
from pace.jobs.job import write_job
from pace.runtimes.files import merge, model, outcome
from pace.runtimes.files.site import Members, load_site
from pace.task import macro_f1, macro_f1_present
from tests.graphs import CLASSES, clients
from tests.preloaded import Preloaded
from tests.sites import NAMES, WORDS, adopt_at, fit_at, job


def ids(count: int) -> tuple[str, ...]:
    return tuple(f"p{node}" for node in range(count))


def unsplit(graph: Graph) -> Graph:
    none = torch.zeros(graph.nodes, dtype=torch.bool)
    return replace(graph, train=none, val=none, test=none)


def write(path: Path, graph: Graph, nodes: tuple[str, ...]) -> None:
    file.write_graph(path, Dataset("mine", graph, CLASSES, names=replace(WORDS, nodes=nodes)))


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three sites without a split of their own, and north's model."""
    folder, agreed = tmp_path_factory.mktemp("sites"), job()
    for name, graph in zip(NAMES, map(unsplit, clients(len(NAMES))), strict=True):
        (folder / name).mkdir()
        write(folder / name / "mine.graph", graph, ids(graph.nodes))
        fit_at(agreed, folder / name, folder / f"{name}.up")
    merge.merge_files(agreed, [folder], journal=folder / "journal", out=folder / "out")
    adopt_at(agreed, folder / "north", folder / "out")
    return folder / "north"


def shuffled(folder: Path) -> tuple[Graph, tuple[str, ...]]:
    """The graph of the site in another order."""
    dataset = file.read_graph(folder / "mine.graph")
    order = torch.randperm(dataset.graph.nodes, generator=torch.Generator().manual_seed(3))
    names = tuple(dataset.names.nodes[place] for place in order.tolist())
    return dataset.graph.induced(order), names


def test_the_same_nodes_are_test_nodes_in_another_order(made: Path, pace: Preloaded) -> None:
    before = pace("client", "evaluate", "mine.model", "mine.graph", "--json", cwd=made).json
    write(made / "shuffled.graph", *shuffled(made))
    after = pace("client", "evaluate", "mine.model", "shuffled.graph", "--json", cwd=made).json
    for reading in outcome.READINGS:
        for score, value in before[reading].items():
            if isinstance(value, float):
                assert after[reading][score] == pytest.approx(value, rel=1e-5)
    assert (after["nodes"], after["new"]) == (before["nodes"], 0)


def test_predictions_say_what_each_node_was_used_for(made: Path, pace: Preloaded) -> None:
    graph, names = shuffled(made)
    names = ("stranger", *names[1:])
    write(made / "later.graph", graph, names)
    done = pace("client", "predict", "mine.model", "later.graph", "--out", "p.csv", cwd=made)
    assert "new 1" in done.out
    first = load_site(made / "mine.graph", model.read_model(made / "mine.model").job)
    masks = {mask: getattr(first.graph, mask) for mask in ("train", "val", "test")}
    used = {
        name: next((mask for mask in masks if masks[mask][place]), "unlabelled")
        for place, name in enumerate(first.nodes)
    }
    with (made / "p.csv").open() as opened:
        rows = {row["node"]: row for row in csv.DictReader(opened)}
    assert {name: row["split"] for name, row in rows.items()} == {
        name: used.get(name, "new") for name in names
    }
    assert [rows[name]["label"] for name in names] == [
        WORDS.classes[label] for label in graph.y.tolist()
    ]
    assert list(next(iter(rows.values())))[:7] == [
        "node", "class", "probability", "local_class", "local_probability", "label", "split",
    ]  # fmt: skip


def test_new_nodes_with_labels_can_be_scored_apart(made: Path, pace: Preloaded) -> None:
    graph, names = shuffled(made)
    fresh = tuple(f"n{place}" if place < 7 else name for place, name in enumerate(names))
    write(made / "fresh.graph", graph, fresh)
    found = pace(
        "client", "evaluate", "mine.model", "fresh.graph", "--on", "new", "--json", cwd=made
    )
    assert (found.json["nodes"], found.json["new"]) == (7, 7)
    test = pace("client", "evaluate", "mine.model", "fresh.graph", "--json", cwd=made).json
    assert test["new"] == 7  # nobody learnt from them: they are a fair test
    all_new = tuple(f"z{place}" for place in range(graph.nodes))
    write(made / "other.graph", graph, all_new)
    other = pace("client", "evaluate", "mine.model", "other.graph", "--json", cwd=made).json
    assert other["nodes"] == other["new"] == graph.nodes


def test_ids_are_neither_in_the_kept_file_nor_in_the_folder(made: Path) -> None:
    for path in (made / "mine.local", *(made / "mine.model").iterdir()):
        assert b"p17" not in path.read_bytes(), path


def test_damaged_members_are_refused(tmp_path: Path) -> None:
    good = Members.of(clients(1)[0], ids(clients(1)[0].nodes))
    Members.checked(good.table, tmp_path)
    wrong = good.table.clone()
    wrong[1, -1] = 9
    for table in (None, good.table[:0], good.table[:, :4], good.table.int(), wrong):
        with pytest.raises(FileError, match="does not say whom"):
            Members.checked(table, tmp_path)


def test_two_folders_of_one_site_cannot_be_matched_by_hash() -> None:
    graph = clients(1)[0]
    one, other = (Members.of(graph, ids(graph.nodes)) for _ in range(2))
    assert not torch.equal(one.table, other.table)
    assert one.roles(ids(3)) == other.roles(ids(3))


def test_macro_f1_of_the_classes_that_occur() -> None:
    counts = torch.tensor([[5, 0, 0], [0, 3, 0], [0, 0, 0]])
    assert macro_f1_present(counts) == 1
    assert macro_f1(counts) == pytest.approx(2 / 3)
    assert macro_f1_present(torch.tensor([[4, 1, 1], [0, 4, 0], [0, 0, 0]])) == pytest.approx(
        (2 * 4 / (4 + 6) + 2 * 4 / (5 + 4)) / 2
    )
    assert macro_f1_present(torch.zeros(2, 2)) == 0


def test_the_score_over_all_classes_is_named_as_such(made: Path, pace: Preloaded) -> None:
    graph, names = shuffled(made)
    two = replace(graph, y=torch.where(graph.y > 1, -1, graph.y))
    write(made / "two.graph", two, names)
    shown = " ".join(pace("client", "evaluate", "mine.model", "two.graph", cwd=made).out.split())
    assert "Macro F1 is over the 2 classes that occur here." in shown


def test_a_mask_that_nobody_knows_is_refused(made: Path, pace: Preloaded) -> None:
    done = pace("client", "evaluate", "mine.model", "mine.graph", "--on", "dev", cwd=made)
    assert (done.code, "expected one of train, val, test, new, all" in done.err) == (2, True)
    done = pace("client", "predict", "mine.model", "--out", "x.csv", cwd=made)
    assert (done.code, "give a .graph file, or both" in done.err) == (2, True)
    tables = ("--nodes", "n.csv", "--edges", "e.csv")
    done = pace("client", "predict", "mine.model", *tables, "--out", "x.csv", cwd=made)
    assert (done.code, "has no codebook" in done.err) == (2, True)


def test_names_are_used_as_they_are(tmp_path: Path) -> None:
    graph = clients(1)[0]
    names = Names(nodes=tuple(f"süd {place}" for place in range(graph.nodes)))
    assert set(Members.of(graph, names.nodes).roles(names.nodes)) <= {"train", "val", "test"}


def test_unscaled_features_are_warned_of_at_fit(tmp_path: Path, pace: Preloaded) -> None:
    graph = clients(1)[0]
    write_job(tmp_path / "job.pace", job(participants=(), minimum=2))
    for factor, warned in ((1.0, False), (300.0, True)):
        write(tmp_path / "mine.graph", replace(graph, x=graph.x * factor), ids(graph.nodes))
        asked = ("client", "fit", "job.pace", "mine.graph", "--keep", f"{factor}.local", "--upload",
                 f"a{factor:.0f}.up", "--yes")  # fmt: skip
        done = pace(*asked, cwd=tmp_path)
        assert done.code == 0, done.err
        assert ("far larger than 1, not scaled" in done.out) == warned


def test_a_sites_secret_draws_masks_that_nobody_else_can(tmp_path: Path) -> None:
    """With the fixed seed, who knows the graph knows which nodes weigh."""
    made, path = job(), tmp_path / "mine.graph"
    file.write_graph(path, Dataset("mine", unsplit(clients(1)[0]), CLASSES))
    public = load_site(path, made).graph
    assert torch.equal(public.val, load_site(path, made).graph.val)
    splits = [public.val]
    for secret in (b"one", b"two"):
        (tmp_path / "mine.graph.split").write_bytes(secret)
        drawn = load_site(path, made).graph
        assert torch.equal(drawn.val, load_site(path, made).graph.val)  # the same in every step
        assert int(drawn.val.sum()) == int(public.val.sum())
        splits.append(drawn.val)
    assert not any(torch.equal(a, b) for a, b in combinations(splits, 2))
