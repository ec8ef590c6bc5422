"""What sites agree on about their tables: proposals without a row, one codebook, the same columns."""

import csv
import json
import random
import statistics
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from pace.errors import GraphError, SettingError
from pace.io import records, untrusted
from pace.io.records import plain_record, read_record
from pace.jobs.job import Job, read_job, write_job
from pace.models.networks import GCN
from pace.runtimes.files.inspect import inspect
from pace.tables.codebook import Codebook, Column, read_columns, write_columns
from pace.tables.importing import Columns, Imported, import_graph
from pace.tables.matching import propose_mapping
from pace.tables.proposal import (
    Proposal,
    Summary,
    merge_proposals,
    propose_columns,
)
from pace.tables.table import open_table
from tests.preloaded import Preloaded

EDGES = "source,target\nn0,n1\nn1,n2\n"


def table(path: Path, columns: dict[str, list[str]]) -> Path:
    with path.open("w", newline="") as opened:
        csv.writer(opened).writerows([tuple(columns), *zip(*columns.values(), strict=True)])
    return path


def patients(count: int = 40, *, wards: str = "ab", seed: int = 0) -> dict[str, list[str]]:
    draw = random.Random(seed)
    ages = [f"{draw.gauss(60, 15):.1f}" for _ in range(count)]
    ages[3] = ""
    return {
        "case": [f"n{node}" for node in range(count)],
        "age": ages,
        "ward": [wards[node % len(wards)] for node in range(count)],
        "born": [f"19{50 + node % 40}-0{1 + node % 9}-11" for node in range(count)],
        "smoker": [str(node % 2) for node in range(count)],
        "kind": [("x", "y")[node % 2] for node in range(count)],
    }


def proposed(folder: Path, columns: dict[str, list[str]], **asked: object) -> Proposal:
    path = table(folder / "nodes.csv", columns)
    found, _ = propose_columns(path, label="kind", **asked)  # type: ignore[arg-type]
    write_columns(folder / "columns.toml", found)
    assert read_columns(folder / "columns.toml", Proposal) == found
    return found


def imported(folder: Path, columns: dict[str, list[str]], book: Codebook, **asked: Any) -> Imported:
    nodes = table(folder / "nodes.csv", columns)
    (folder / "edges.csv").write_text(EDGES)
    return import_graph(nodes, folder / "edges.csv", replace(Columns(), **asked), codebook=book)


def test_scaling_is_that_of_all_rows_together(tmp_path: Path) -> None:
    sites = {name: patients(40 + 20 * seed, seed=seed) for seed, name in enumerate("ns")}
    book, _ = merge_proposals({name: proposed(tmp_path, each) for name, each in sites.items()})
    ages = [float(cell) for each in sites.values() for cell in each["age"] if cell]
    (age,) = (column for column in book.columns if column.name == "age")
    assert age.centre == pytest.approx(statistics.mean(ages), rel=1e-5)
    assert age.scale == pytest.approx(statistics.pstdev(ages), rel=1e-5)
    assert (age.fill, age.indicator) == (age.centre, True)


def test_every_site_gets_the_same_columns_in_the_same_order(tmp_path: Path) -> None:
    north, south = patients(wards="ab"), patients(wards="bc", seed=1)
    south = dict(reversed(south.items())) | {"notes": ["free text"] * 40}
    sites = {"north": proposed(tmp_path, north), "south": proposed(tmp_path, south)}
    book, noted = merge_proposals(sites)
    assert book.features == (
        "age", "age=missing", "ward=a", "ward=b", "ward=c", "ward=other", "born", "smoker",
    )  # fmt: skip
    assert "'notes' is left out: not at north" in noted
    for columns in (north, south):
        made = imported(tmp_path, columns, book)
        assert made.dataset.names.features == book.features
        assert made.dataset.names.classes == ("x", "y")
        x = made.dataset.graph.x
        assert x[3, :2].tolist() == [0, 1]  # filled with the mean, and marked
        assert float(x.abs().max()) < 5
        (told,) = made.warnings
        assert told.startswith("ward=")  # which go with the classes here
        changes = {change.column: change.rows for change in made.changes}
        assert changes == {"age": [5]}  # the row as an editor counts it
    assert any("not used: notes" in note for note in made.notes)


def test_a_proposal_holds_no_row(tmp_path: Path) -> None:
    columns = patients()
    columns["ward"][7] = "a rare disease"
    found = proposed(tmp_path, columns)
    text = (tmp_path / "columns.toml").read_text()
    assert "n7" not in text
    assert "rare disease" not in text
    assert not any(f" {cell}," in text for cell in columns["age"] if cell)
    (ward,) = (column for column in found.columns if column.name == "ward")
    assert (ward.words, ward.rows) == (("a", "b"), 40)
    (age,) = (column for column in found.columns if column.name == "age")
    assert age.spread is not None
    assert age.missing == 1


def test_numbers_of_very_few_rows_are_not_told(tmp_path: Path) -> None:
    columns = patients()
    columns["age"] = ["77.25", *[""] * 39]
    found = proposed(tmp_path, columns)
    assert "77.25" not in (tmp_path / "columns.toml").read_text()
    assert found.columns[0].spread is None


def test_what_does_not_fit_is_said(tmp_path: Path) -> None:
    book = merge_proposals({"north": proposed(tmp_path, patients())})[0]
    new = patients()
    new["ward"][4] = "z"
    new["age"][5] = "8000"
    made = imported(tmp_path, new, book)
    said = [str(change) for change in made.changes]
    assert "'ward' in 1 row (6): 'z' is `other`" in said
    assert any("another unit?" in change and "(7)" in change for change in said)
    assert made.dataset.graph.x[4, book.features.index("ward=other")] == 1
    new["smoker"][2] = "7"
    new["born"][2] = "yesterday"
    with pytest.raises(GraphError) as caught:
        imported(tmp_path, new, book)
    assert "nodes.csv row 4: 'smoker' is '7', expected 0 or 1" in str(caught.value)
    assert "nodes.csv row 4: 'born' is 'yesterday', expected a date" in str(caught.value)
    del new["born"]
    with pytest.raises(GraphError, match="lacks 'born', which the codebook asks for"):
        imported(tmp_path, new, book)


def test_without_a_place_a_missing_value_and_another_word_are_refused(tmp_path: Path) -> None:
    parts = (Column("age", "number"), Column("ward", "category", ("a", "b")))
    book = Codebook("kind", ("x", "y"), "case", columns=parts)
    columns = patients(wards="abc")
    with pytest.raises(GraphError) as caught:
        imported(tmp_path, columns, book)
    assert "row 5: 'age' is empty" in str(caught.value)
    assert "'ward' is not one of the codebook's values, in 13 rows" in str(caught.value)


def test_a_table_without_the_label_is_for_prediction(tmp_path: Path) -> None:
    book = merge_proposals({"north": proposed(tmp_path, patients())})[0]
    columns = patients()
    del columns["kind"]
    made = imported(tmp_path, columns, book)
    assert int(made.dataset.graph.y.max()) == -1
    assert made.dataset.names.classes == ("x", "y")
    assert any("no column 'kind', so no node has a label" in note for note in made.notes)
    columns["nummer"] = columns.pop("case")
    with pytest.raises(SettingError, match="no column 'case', the codebook's id"):
        imported(tmp_path, columns, book)
    assert imported(tmp_path, columns, book, id="nummer").dataset.names.nodes[0] == "n0"
    with pytest.raises(SettingError, match="do not go with a codebook"):
        imported(tmp_path, patients(), book, features="age")


def test_a_missing_word_is_marked_and_no_other_word(tmp_path: Path) -> None:
    columns = patients()
    columns["ward"][:3] = ["", "z", "NA"]

    def encoded(**settings: bool) -> list[list[float]]:
        ward = Column("ward", "category", ("a", "b"), **settings)
        made = imported(tmp_path, columns, Codebook("kind", ("x", "y"), "case", columns=(ward,)))
        return made.dataset.graph.x[:4].tolist()

    b = [0, 1, 0, 0]
    assert encoded(other=True, indicator=True) == [[0, 0, 0, 1], [0, 0, 1, 0], [0, 0, 0, 1], b]
    assert encoded(other=True) == [[0, 0, 1], [0, 0, 1], [0, 0, 1], b[:3]]
    with pytest.raises(GraphError, match="row 3: 'ward' is 'z', expected one of the codebook's"):
        encoded(indicator=True)


@pytest.mark.parametrize(("known", "warned"), [(("a", "b"), True), (("a", "c"), False)])
def test_a_table_with_mostly_other_words_is_warned_of(
    tmp_path: Path, known: tuple[str, ...], warned: bool
) -> None:
    ward = Column("ward", "category", known, other=True)
    book = Codebook("kind", ("x", "y"), "case", columns=(ward,))
    made = imported(tmp_path, patients(wards="cd" if warned else "cda"), book)
    said = "hold words that are not in the codebook (a, b): written otherwise here?"
    assert any(said in warning for warning in made.warnings) == warned


def test_a_number_that_means_missing_is_filled_however_it_is_written(tmp_path: Path) -> None:
    columns = patients()
    columns["age"][:4] = ["-999", "-999.0", "60", ""]
    age = Column("age", "number", fill=50, indicator=True)
    book = Codebook("kind", ("x", "y"), "case", ("", "-999"), columns=(age,))
    made = imported(tmp_path, columns, book)
    assert made.dataset.graph.x[:4].tolist() == [[50, 1], [50, 1], [60, 0], [50, 1]]


def test_words_for_missing_values_are_so_in_any_case(tmp_path: Path) -> None:
    columns = patients()
    columns["ward"][0], columns["age"][0], columns["kind"][0] = "K. a.", "K. A.", "k. a."
    parts = (Column("age", "number", fill=50), Column("ward", "category", ("a", "b"), other=True))
    book = Codebook("kind", ("x", "y"), "case", ("", "k. A."), columns=parts)
    made = imported(tmp_path, columns, book)
    assert made.dataset.graph.x[0].tolist() == [50, 0, 0, 1]
    assert int(made.dataset.graph.y[0]) == -1
    assert "'ward' in 1 row (2): missing, taken as `other`" in map(str, made.changes)


def test_many_columns_are_merged_in_time_in_proportion() -> None:
    def site(letter: str, count: int) -> Proposal:
        columns = [Summary(f"c{place}", "flag", 9) for place in range(count)]
        columns += [Summary(f"{letter}{place}", "category", 9, 0, ("u",)) for place in range(count)]
        return Proposal(9, "id", "kind", ("x", "y"), (), columns=tuple(columns))

    sites = {"north": site("n", 5_000), "south": site("N", 5_000)}
    began = time.process_time()
    book, noted = merge_proposals(sites)
    assert len(book.columns) == 5_000
    assert "'n7' is left out: not at south" in noted
    assert time.process_time() - began < 5
    with pytest.raises(SettingError, match="100002 columns, expected at most"):
        site("n", 100_001 // 2 + 1)


def test_kinds_that_contradict_each_other_are_refused_together(tmp_path: Path) -> None:
    north, south = patients(), patients()
    south["age"] = ["old", "young"] * 20
    south["smoker"] = ["yes", "no"] * 20
    sites = {"north": proposed(tmp_path, north), "south": proposed(tmp_path, south)}
    with pytest.raises(GraphError) as caught:
        merge_proposals(sites)
    assert "2 columns cannot be put together" in str(caught.value)
    assert "'age' is number at north, category at south" in str(caught.value)
    fixed = {
        "north": proposed(tmp_path, north, category=["age"], without=["smoker"]),
        "south": proposed(tmp_path, south, without=["smoker"]),
    }
    assert merge_proposals(fixed)[0].columns[0].words == ("old", "young", "other", "missing")


def test_other_units_spellings_classes_and_names_are_told_of(tmp_path: Path) -> None:
    north, south = patients(), patients(wards="Ab", seed=1)
    south["age"] = [f"{float(cell) * 365:.0f}" if cell else "" for cell in south["age"]]
    south["kind"] = ["x"] * 40
    south["nr"] = south.pop("case")
    sites = {"north": proposed(tmp_path, north), "south": proposed(tmp_path, south)}
    book, noted = merge_proposals(sites)
    notes = "\n".join(noted)
    assert "another unit?" in "\n".join(book.warnings)
    assert "'A' and 'a' are 2 categories: if they are one, write them alike" in notes
    assert "class 'y' occurs at north only" in notes
    assert "the id is 'case'; south: import with --id" in notes
    with pytest.raises(SettingError, match="--classes lacks y"):
        merge_proposals(sites, classes=["x"])
    assert merge_proposals(sites, classes=["y", "x", "z"])[0].classes == ("y", "x", "z")


def test_words_among_numbers_are_asked_about_once(tmp_path: Path) -> None:
    columns = patients()
    columns["age"][6:16] = ["k. A."] * 10
    with pytest.raises(GraphError, match=r"--missing 'k\. A\.'.* in 10 rows"):
        proposed(tmp_path, columns)
    assert proposed(tmp_path, columns, missing=["k. A."]).columns[0].missing == 11


def test_the_id_is_found_or_asked_for(tmp_path: Path) -> None:
    columns = patients()
    assert proposed(tmp_path, columns).id == "case"
    columns["bed"] = [f"b{node}" for node in range(40)]
    with pytest.raises(SettingError, match="case, bed could be it: say so with --id"):
        proposed(tmp_path, columns)
    assert proposed(tmp_path, columns, id_column="bed").id == "bed"
    left = proposed(tmp_path, columns, id_column="bed", without=["bed", "case"])
    assert [column.name for column in left.columns] == ["age", "ward", "born", "smoker"]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"columns": []}, "0 columns"),
        ({"colums": []}, "unknown key 'colums': did you mean 'columns'"),
        ({"columns": [{"name": "a", "kind": "word"}]}, "kind is 'word', expected one of"),
        (
            {"columns": [{"name": "a", "kind": "number", "scale": 0}]},
            "column 'a' has the scale 0, expected more than 0",
        ),
        ({"columns": [{"name": "a", "kind": "number", "fil": 0}]}, "did you mean 'fill'"),
        ({"columns": [{"name": "a", "kind": "number", "indicator": True}]}, "no fill"),
        (
            {"columns": [{"name": "a", "kind": "number", "centre": "1"}]},
            "centre is '1', expected a number",
        ),
        ({"columns": [{"name": "a", "kind": "number", "centre": float("nan")}]}, "a finite number"),
        ({"columns": [{"name": "a", "kind": "category"}]}, "has 0 values"),
        ({"columns": [{"name": "a", "kind": "category", "values": ["b", "b"]}]}, "a value twice"),
        ({"columns": [{"name": "kind", "kind": "number"}]}, "is the label"),
        ({"columns": [{"name": "a", "kind": "flag"}] * 2}, "the column 'a' twice"),
        ({"classes": []}, "names no classes"),
        ({"classes": "x"}, "classes is 'x', expected a list"),
    ],
)
def test_what_is_wrong_with_a_codebook_by_hand_is_said(
    change: dict[str, object], said: str
) -> None:
    good = {"label": "kind", "classes": ["x"], "columns": [{"name": "a", "kind": "flag"}]}
    read_record(Codebook, good, "the codebook", strict=True)
    with pytest.raises(SettingError, match=said):
        read_record(Codebook, good | change, "the codebook", strict=True)


def test_a_codebook_survives_its_file_and_the_job(tmp_path: Path) -> None:
    book = merge_proposals({"north": proposed(tmp_path, patients(wards='ä"'))})[0]
    write_columns(tmp_path / "codebook.toml", book)
    assert read_columns(tmp_path / "codebook.toml", Codebook) == book
    made = Job(
        "study",
        GCN((len(book.features), 8, 2)),
        classes=book.classes,
        features=book.features,
        codebook=book,
    )
    write_job(tmp_path / "study.pace", made)
    found = read_job(tmp_path / "study.pace")
    assert found.codebook == book
    assert found.digest == made.digest
    text = (tmp_path / "study.pace").read_text()
    (tmp_path / "other.pace").write_text(text.replace("indicator = true", "indicator = false"))
    with pytest.raises((SettingError, GraphError, ValueError), match="changed after it was made"):
        read_job(tmp_path / "other.pace")
    with pytest.raises(SettingError, match="not those of its codebook"):
        Job("study", GCN((9, 8, 2)), codebook=book)
    for names in ("classes", "features"):  # the same ones, numbered otherwise
        with pytest.raises(SettingError, match="not those of its codebook"):
            replace(made, **{names: getattr(book, names)[::-1]})


SPREAD = "{mean = 1, sd = %s}"
COLUMN = '{name = "a", kind = "number", rows = %s, spread = %s}'


@pytest.mark.parametrize(
    "damage",
    [
        "rows = -1",
        'rows = "many"',
        "columns = 3",
        'format = "x"',
        "weight = 7",
        "surprise = 1",
        f"columns = [{COLUMN % (9, SPREAD % '-1')}]",
        f"columns = [{COLUMN % (9, SPREAD % '1e200')}]",
        f"columns = [{COLUMN % (9, SPREAD % 'nan')}]",
        f"columns = [{COLUMN % (-9, SPREAD % '1')}]",
        f"columns = [{', '.join([COLUMN % (9, SPREAD % '1')] * 2)}]",
    ],
)
def test_a_damaged_proposal_is_answered_in_a_sentence(tmp_path: Path, damage: str) -> None:
    found = {"format": Proposal.FORMAT, **plain_record(proposed(tmp_path, patients()))}
    key = damage.split(" ")[0]
    text = damage + "\n" + records.dump_toml({name: found[name] for name in found if name != key})
    untrusted.toml(text.encode())
    (tmp_path / "bad.toml").write_text(text)
    with pytest.raises(GraphError, match=r"bad\.toml"):
        read_columns(tmp_path / "bad.toml", Proposal)


def test_the_commands(tmp_path: Path, pace: Preloaded) -> None:
    (tmp_path / "edges.csv").write_text(EDGES)
    for name, wards in (("nord", "ab"), ("süd", "bc")):
        table(tmp_path / f"{name}.csv", patients(wards=wards))
        done = pace("codebook", "propose", f"{name}.csv", "--label", "kind", "--out",
                    f"{name}.columns.toml", cwd=tmp_path)  # fmt: skip
        assert done.code == 0, done.err
        assert "No row, no id, no edge." in done.out
        assert max(map(len, done.out.splitlines())) <= 100
    files = ("nord.columns.toml", "süd.columns.toml")
    done = pace("codebook", "merge", *files, "--out", "book.toml", "--json", cwd=tmp_path)
    assert done.json["features"][2:6] == ["ward=a", "ward=b", "ward=c", "ward=other"]
    assert pace("codebook", "merge", *files, "--out", "book.toml", cwd=tmp_path).code == 2
    done = pace("new", "study.pace", "--codebook", "book.toml", "--participant", "nord,süd",
                cwd=tmp_path)  # fmt: skip
    assert "6 columns" not in done.out
    assert "5 columns become 8 features" not in done.err
    assert done.code == 0, done.err
    for command in (
        ["show", "study.pace"],
        ["codebook", "show", "study.pace"],
        ["codebook", "show", "book.toml"],
    ):
        assert "8 from 4 columns" in pace(*command, cwd=tmp_path).out
    graphs = []
    for name in ("nord", "süd"):
        asked = ("graph", "import", "--job", "study.pace", "--nodes", f"{name}.csv", "--edges",
                 "edges.csv", "--out", f"{name}.graph", "--json")  # fmt: skip
        done = pace(*asked, cwd=tmp_path)
        assert done.code == 0, done.err
        graphs.append(json.loads(done.out))
    assert graphs[0]["feature_names"] == graphs[1]["feature_names"]
    assert graphs[0]["changes"][0]["rows"] == [5]
    tables = ("--nodes", "nord.csv", "--edges", "edges.csv", "--out", "x.graph", "--json")
    done = pace("graph", "import", "--job", "book.toml", *tables, cwd=tmp_path)
    assert done.json["feature_names"] == graphs[0]["feature_names"]  # a codebook's own file


def test_scaled_features_are_what_the_codebook_says(tmp_path: Path) -> None:
    book = merge_proposals({"north": proposed(tmp_path, patients())})[0]
    x = imported(tmp_path, patients(), book).dataset.graph.x
    age, born = (x[:, book.features.index(name)] for name in ("age", "born"))
    assert torch.allclose(age.mean(), torch.tensor(0.0), atol=1e-4)
    assert torch.allclose(born.std(correction=0), torch.tensor(1.0), atol=1e-4)


WEIGHTED = "from,to,strength\nn0,n1,2\nn1,n2,0.5\n"


def test_weights_and_directions_of_edges_are_agreed_on(tmp_path: Path) -> None:
    edges = {"weight": "strength", "directions": "keep"}
    one = proposed(tmp_path, patients(), **edges)
    book = merge_proposals({"nord": one, "süd": one})[0]
    write_columns(tmp_path / "book.toml", book)
    assert read_columns(tmp_path / "book.toml", Codebook) == book
    nodes = table(tmp_path / "nodes.csv", patients())
    (tmp_path / "edges.csv").write_text(WEIGHTED)

    def made(**asked: Any) -> Imported:
        return import_graph(
            nodes, tmp_path / "edges.csv", replace(Columns(), **asked), codebook=book
        )

    graph = made().dataset.graph
    assert graph.directed
    assert graph.weights is not None
    assert graph.weights.tolist() == [2.0, 0.5]
    with pytest.raises(SettingError, match="but the codebook says 'keep': leave it out"):
        made(directions="both")
    with pytest.raises(SettingError, match=r"--weight names 'wt': edges.csv has no such column"):
        made(weight="wt")
    plain = proposed(tmp_path, patients())
    assert not {"weight", "directions"} & set(plain_record(plain))  # as before there were any
    with pytest.raises(GraphError, match="strength at nord, none at süd"):
        merge_proposals({"nord": one, "süd": plain})
    with pytest.raises(SettingError, match="--directions is 'one', expected both or keep"):
        proposed(tmp_path, patients(), directions="one")


def test_classes_in_another_case_are_told_of(tmp_path: Path) -> None:
    here = proposed(tmp_path, patients())
    there = proposed(tmp_path, patients() | {"kind": ["X", "y"] * 20})
    notes = merge_proposals({"nord": here, "süd": there})[1]
    assert "the label: 'X' and 'x' are 2 classes: if they are one, write them alike" in notes


def test_codebooks_and_proposals_can_be_inspected(tmp_path: Path) -> None:
    found = proposed(tmp_path, patients())
    book = merge_proposals({"nord": found})[0]
    write_columns(tmp_path / "book.toml", book)
    said = plain_record(inspect(tmp_path / "columns.toml"))
    assert said["kind"] == "a site's proposal of columns"
    assert said["details"]["columns"] == {column.name: column.kind for column in found.columns}
    made = Job("a", GCN((len(book.features), 4, 2)), classes=book.classes, features=book.features,
               codebook=book)  # fmt: skip
    said = plain_record(inspect(tmp_path / "book.toml", made))
    assert said["kind"] == "codebook"
    assert "it is the job's" in said["sanity"]
    other = plain_record(inspect(tmp_path / "book.toml", Job("b", GCN((3, 4, 2)))))
    assert "NOT the job's codebook" in other["sanity"]
    (tmp_path / "book.toml").write_text('format = "pace-codebook-1"\nlabel = 3\n')
    with pytest.raises(SettingError, match=r"book\.toml"):
        inspect(tmp_path / "book.toml")


def test_tables_of_many_columns_take_time_in_proportion(tmp_path: Path) -> None:
    """Proposed, written, read and merged: four times the columns, at most six times the steps."""

    def steps(count: int) -> int:
        nodes = tmp_path / f"{count}.csv"
        header = ",".join(("id", "kind", *(f"c{column}" for column in range(count))))
        rows = [f"n{row},{'xy'[row % 2]}" + f",{row % 2},red" * (count // 2) for row in range(6)]
        nodes.write_text("\n".join((header, *rows)))
        calls = 0

        def count_call(*_: object) -> None:
            nonlocal calls
            calls += 1

        sys.setprofile(count_call)
        try:
            told = propose_columns(nodes, label="kind")[0]
            write_columns(tmp_path / "one.toml", told)
            sites = {
                site: read_columns(tmp_path / "one.toml", Proposal) for site in ("north", "south")
            }
            book, _ = merge_proposals(sites)
            write_columns(tmp_path / f"{count}.toml", book)
            propose_mapping(open_table(nodes), "kind", None, [book])
        finally:
            sys.setprofile(None)
        assert len(book.columns) == count
        return calls

    assert steps(400) < 6 * steps(100)


def test_limits_of_columns_are_told(tmp_path: Path) -> None:
    nodes = tmp_path / "nodes.csv"
    nodes.write_text("id,kind" + ",c" * 100_000)
    with pytest.raises(GraphError, match="has 100,002 columns, expected at most 100,000"):
        propose_columns(nodes, label="kind")
    names = [f"{chr(97 + column % 26)}{column}" for column in range(600)]
    nodes.write_text(f"id,kind,{','.join(names)}\n" + f"1,x{',7' * 600}\n2,y{',8' * 600}\n")
    theirs = tuple(Summary(f"other{column}", "number", 9) for column in range(600))
    other = Proposal(9, "id", "kind", ("x", "y"), (), columns=theirs)
    with pytest.raises(
        GraphError, match="600 columns here and 600 of others have no name in common"
    ):
        propose_mapping(open_table(nodes), "kind", None, [other])
