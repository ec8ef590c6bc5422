"""Mistakes that once went through without a word: each is refused, warned of or done right."""

import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from pace.datasets import Dataset, Names, describe_graph, few_labels, file
from pace.errors import GraphError, ProblemsError, SettingError
from pace.graph import Graph
from pace.tables.codebook import Codebook, Column, read_columns, write_columns
from pace.tables.importing import Columns, Imported, import_graph
from pace.tables.proposal import Proposal, merge_proposals, propose_columns
from tests.preloaded import Preloaded

BOOK = Codebook(
    "kind",
    ("x", "y"),
    columns=(Column("weight", "number", centre=80.0, scale=10.0, fill=80.0),),
)


def site(folder: Path, classes: tuple[str, str], factor: float = 1.0, **columns: str) -> Proposal:
    draw, rows = random.Random(str(classes)), []
    for node in range(40):
        more = [columns[name].split("/")[node % 2] for name in columns]
        cells = [f"n{node}", f"{factor * draw.gauss(80, 10):.1f}", *more, classes[node % 2]]
        rows.append(",".join(cells))
    path = folder / "nodes.csv"
    path.write_text("\n".join([",".join(["id", "weight", *columns, "kind"]), *rows]) + "\n")
    return propose_columns(path, label="kind")[0]


def test_sites_without_a_class_in_common_are_refused(tmp_path: Path) -> None:
    words = {"a": ("ja", "nein"), "b": ("Y", "N"), "c": ("home", "readmitted")}
    sites = {name: site(tmp_path, classes) for name, classes in words.items()}
    with pytest.raises(ProblemsError, match="the label has no class in common: a has 'ja', 'nein'"):
        merge_proposals(sites)
    one_alone = {**sites, "b": site(tmp_path, ("nein", "ja"))}
    with pytest.raises(ProblemsError, match="in common: c has 'home', 'readmitted'"):
        merge_proposals(one_alone)
    every = ("N", "Y", "home", "ja", "nein", "readmitted")
    assert merge_proposals(sites, classes=every)[0].classes == every  # somebody has said so


def test_categories_without_a_word_in_common_are_refused(tmp_path: Path) -> None:
    one = site(tmp_path, ("x", "y"), sex="m/w")
    two = site(tmp_path, ("x", "y"), sex="male/female")
    with pytest.raises(ProblemsError, match="category 'sex' has no word in common"):
        merge_proposals({"a": one, "b": two})
    three = site(tmp_path, ("x", "y"), sex="m/d")
    assert merge_proposals({"a": one, "b": three})[0].columns


@pytest.mark.parametrize("factor", [2.20462, 1000, 1 / 18])
def test_units_are_warned_of_and_again_when_the_job_is_made(
    tmp_path: Path, pace: Preloaded, factor: float
) -> None:
    sites = {"a": site(tmp_path, ("x", "y")), "b": site(tmp_path, ("x", "y"), factor)}
    book = merge_proposals(sites)[0]
    assert "'weight' is about" in book.warnings[0]
    write_columns(tmp_path / "codebook.toml", book)
    assert read_columns(tmp_path / "codebook.toml", Codebook) == book
    made = pace("new", "study.pace", "--codebook", "codebook.toml", cwd=tmp_path)
    assert made.code == 0
    assert "another unit?" in " ".join(made.out.split())
    same = merge_proposals({"a": sites["a"], "b": site(tmp_path, ("y", "x"))})[0]
    assert not same.warnings


def imported(folder: Path, weights: list[float], edges: str = "n0,n1", **asked: object) -> Imported:
    rows = [f"n{node},{weight}" for node, weight in enumerate(weights)]
    (folder / "new.csv").write_text("\n".join(["id,weight", *rows]) + "\n")
    (folder / "edges.csv").write_text(f"source,target\n{edges}\n")
    columns = Columns(**asked)  # type: ignore[arg-type]
    return import_graph(folder / "new.csv", folder / "edges.csv", columns, codebook=BOOK)


def test_a_table_in_another_unit_is_refused_and_a_shifted_one_warned_of(tmp_path: Path) -> None:
    grams = [80_000.0 + node for node in range(38)] + [80.0, 81.0]
    with pytest.raises(ProblemsError) as caught:
        imported(tmp_path, grams)
    assert "'weight': 38 of 40 values are more than 20 scales" in str(caught.value)
    assert "another unit" in str(caught.value)
    assert "codebook propose" not in str(caught.value)  # there is a codebook
    pounds = imported(tmp_path, [80 * 2.2 + node for node in range(40)])
    assert "half of the values are" in pounds.warnings[0]
    assert not imported(tmp_path, [75.0 + node % 10 for node in range(40)]).warnings
    (change,) = imported(tmp_path, [75.0 + node for node in range(20)] + [8e4]).changes
    assert "more than 20 scales" in change.what  # one typing error is one row's


def test_new_nodes_are_joined_to_the_old_ones_they_are_linked_to(tmp_path: Path) -> None:
    old = imported(tmp_path, [70.0, 80.0, 90.0, 60.0], "n0,n1\nn1,n2\nn2,n3").dataset
    known = replace(old, names=replace(old.names, nodes=("p0", "p1", "p2", "n1")))
    with pytest.raises(ProblemsError, match="'p0', not the id of any node"):
        imported(tmp_path, [80.0, 85.0], "n0,p0\nn1,p2")
    joined = imported(tmp_path, [80.0, 85.0], "n0,p0\nn1,p2", known=known)
    graph, names = joined.dataset.graph, joined.dataset.names.nodes
    assert (joined.rows, names) == (2, ("n0", "n1", "p0", "p1", "p2"))
    assert graph.x.flatten().tolist() == [0.0, 0.5, -1.0, 0.0, 1.0]  # n1 is as the new table has it
    pairs = {tuple(sorted((names[a], names[b]))) for a, b in graph.edges.t().tolist()}
    assert pairs == {("n0", "p0"), ("n1", "p2"), ("p0", "p1"), ("p1", "p2")}
    other = replace(known, names=replace(known.names, features=("height",)))
    with pytest.raises(GraphError, match="has other features"):
        imported(tmp_path, [80.0, 85.0], "n0,p0", known=other)
    with pytest.raises(GraphError, match="knows no ids"):
        imported(
            tmp_path, [80.0], "n0,p0", known=replace(known, names=replace(known.names, nodes=()))
        )


def test_dropping_most_edges_is_a_warning(tmp_path: Path) -> None:
    most = imported(tmp_path, [80.0, 85.0], "n0,n1\nn0,p0\nn1,p2", strangers="drop")
    assert "2 of 3: predictions lean on neighbours" in most.warnings[0]
    few = imported(tmp_path, [80.0, 85.0], "n0,n1\nn1,n0\nn1,p2", strangers="drop")
    assert not few.warnings


@pytest.mark.parametrize("separator", [";", "|", ", "])
def test_several_classes_in_a_cell_are_refused(tmp_path: Path, separator: str) -> None:
    cells = ["cardio", "neuro", f"cardio{separator}neuro", "onco", f"onco{separator}cardio"]
    rows = [f'n{node};{node % 7};"{cells[node % 5]}"' for node in range(30)]
    (tmp_path / "n.csv").write_text("id;age;kind\n" + "\n".join(rows) + "\n")
    (tmp_path / "e.csv").write_text("source,target\nn0,n1\n")
    with pytest.raises(ProblemsError, match="holds several classes in a cell, such as"):
        import_graph(tmp_path / "n.csv", tmp_path / "e.csv", Columns(label="kind"))
    single = (tmp_path / "n.csv").read_text().replace(f"onco{separator}cardio", "onco")
    (tmp_path / "n.csv").write_text(single.replace(f"cardio{separator}neuro", f"a{separator}b"))
    made = import_graph(tmp_path / "n.csv", tmp_path / "e.csv", Columns(label="kind"))
    assert f"a{separator}b" in made.dataset.names.classes  # a name with a comma in it is a name


def test_clients_without_names_are_numbered(tmp_path: Path) -> None:
    graph = Graph.build(torch.eye(4), torch.tensor([[0], [1]]), torch.tensor([0, 1, 0, 1]))
    made = Dataset("mine", graph, 2, owner=torch.tensor([0, 2, 2, 0]))
    assert made.names.clients == ("0", "1", "2")
    file.write_graph(tmp_path / "mine.graph", made)
    read = file.read_graph(tmp_path / "mine.graph")
    assert read.owner is not None
    assert read.owner.tolist() == [0, 2, 2, 0]
    assert describe_graph(read)["clients"] == {"0": 2, "1": 0, "2": 2}
    for owner in (torch.tensor([0, 1]), torch.tensor([0, -1, 0, 0])):
        with pytest.raises(GraphError, match="expected the number of a client"):
            Dataset("mine", graph, 2, owner=owner)
    with pytest.raises(GraphError, match="1 names of clients, and owner has 3"):
        Dataset("mine", graph, 2, owner=torch.tensor([0, 2, 2, 0]), names=Names(clients=("a",)))


def test_a_sites_own_split_suits_a_site(tmp_path: Path) -> None:
    (tmp_path / "n.csv").write_text(
        "id,age,kind\n" + "".join(f"n{i},{i % 9},{'xy'[i % 2]}\n" for i in range(40))
    )
    (tmp_path / "e.csv").write_text("source,target\nn0,n1\n")

    def ratios(**asked: Any) -> tuple[float, ...]:
        columns = replace(Columns(label="kind"), **asked)
        return import_graph(tmp_path / "n.csv", tmp_path / "e.csv", columns).dataset.ratios

    assert ratios() == (0.6, 0.2, 0.2)
    assert ratios(split="50/25/25") == (0.5, 0.25, 0.25)
    for wrong in ("60/20/30", "0/50/50"):
        with pytest.raises(SettingError, match="add up to 100"):
            ratios(split=wrong)
    assert "fewer than 10 a class" in str(few_labels(12, 4, 4, 2))
    assert "uncertain by about 20 points" in str(few_labels(60, 25, 80, 2))
    assert few_labels(60, 50, 50, 2) is None
