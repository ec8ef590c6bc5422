"""A user's own tables: what becomes of them, and that every problem is told with its row."""

import json
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pace.cli import main
from pace.datasets import file
from pace.errors import GraphError, SettingError
from pace.graph import UNKNOWN
from pace.tables.importing import Columns, Imported, import_graph

NODES = """id,age,dose,ward,kind,site,fold
p1,30,1,icu,ill,B,train
p2,41.5,0,day,healthy,A,test
p3,7,2,icu,,A,none
p4,65,0,day,ill,B,val
"""
EDGES = """source,target,weight
p1,p2,1
p2,p1,3
p2,p3,1
p4,p4,1
"""

Importer = Callable[..., Imported]


@pytest.fixture
def imported(tmp_path: Path) -> Importer:
    def make(nodes: str = NODES, edges: str = EDGES, **columns: Any) -> Imported:
        (tmp_path / "nodes.csv").write_text(nodes)
        (tmp_path / "edges.csv").write_text(edges)
        chosen = replace(Columns(label="kind"), **columns)  # the rest are features
        return import_graph(tmp_path / "nodes.csv", tmp_path / "edges.csv", chosen)

    return make


def problems(caught: pytest.ExceptionInfo[GraphError]) -> list[str]:
    return [line.strip() for line in str(caught.value).splitlines()[1:]]


def test_numbers_stay_and_words_become_one_hot(imported: Importer) -> None:
    made = imported(client="site", split="fold").dataset
    assert made.names.features == ("age", "dose", "ward=day", "ward=icu")
    assert made.graph.x.tolist() == [
        [30, 1, 0, 1],
        [41.5, 0, 1, 0],
        [7, 2, 0, 1],
        [65, 0, 1, 0],
    ]
    assert made.graph.edges.t().tolist() == [[0, 1], [1, 0], [1, 2], [2, 1]]
    assert made.names.nodes == ("p1", "p2", "p3", "p4")


def test_classes_clients_and_splits_are_named_and_an_empty_label_is_unknown(
    imported: Importer,
) -> None:
    made = imported(client="site", split="fold").dataset
    assert made.names.classes == ("healthy", "ill")
    assert made.graph.y.tolist() == [1, 0, UNKNOWN, 1]
    assert made.names.clients == ("A", "B")
    assert made.owner is not None
    assert made.owner.tolist() == [1, 0, 0, 1]
    assert made.graph.train.tolist() == [True, False, False, False]
    assert made.graph.val.tolist() == [False, False, False, True]
    assert made.graph.test.tolist() == [False, True, False, False]


def test_what_was_dropped_or_merged_is_noted(imported: Importer) -> None:
    notes = " ".join(imported().notes)
    assert "not used are weight" in notes
    assert "in both directions or from a node to itself, 2" in notes


@pytest.mark.parametrize(
    ("features", "expected"),
    [
        ("dose", ["dose"]),
        ("dose,age", ["dose", "age"]),
        ("a", ["age"]),
        ("do,age", ["dose", "age"]),
    ],
)
def test_features_are_names_or_prefixes(
    imported: Importer, features: str, expected: list[str]
) -> None:
    assert list(imported(features=features).dataset.names.features) == expected


def test_whole_number_labels_go_by_value_and_minus_one_is_unknown(imported: Importer) -> None:
    made = imported("id,f,kind\na,1,10\nb,1,2.0\nc,1,-1\nd,1,2\n", "source,target\na,b\n").dataset
    assert made.names.classes == ("2", "10")
    assert made.graph.y.tolist() == [1, 0, UNKNOWN, 0]


def test_sites_can_agree_on_classes_that_some_of_them_lack(imported: Importer) -> None:
    made = imported(classes="dead, healthy,ill").dataset
    assert made.classes == 3
    assert made.graph.y.tolist() == [2, 1, UNKNOWN, 2]
    with pytest.raises(GraphError, match="row 3: label 'healthy' is not among the given classes"):
        imported(classes="dead,ill")


def test_without_ids_rows_are_numbered_from_zero(imported: Importer) -> None:
    made = imported("f,kind\n1,a\n2,b\n3,a\n", "from,to\n0,1\n1,2\n").dataset
    assert made.graph.edges.shape[1] == 4
    assert made.names.nodes == ("0", "1", "2")


@pytest.mark.parametrize("delimiter", [";", "\t"])
def test_other_delimiters_quotes_and_a_byte_order_mark_are_read(
    imported: Importer, delimiter: str
) -> None:
    nodes = "\ufeff" + NODES.replace(",", delimiter).replace("icu", '"icu"') + "\n\n"
    made = imported(nodes, EDGES.replace(",", delimiter))
    assert made.dataset.names == imported().dataset.names


def test_every_problem_is_told_with_its_row(imported: Importer) -> None:
    nodes = """id,age,ward,kind,site,fold
p1,30,icu,ill,B,train
p1,41,day,healthy,A,test
p3,nan,icu,,A,train
p4,old,,ill,,banana

,inf,day,ill,B,
p6,1,icu
"""
    edges = "source,target\np1,p3\np1,p9\n,p4\np7,p8\n"
    with pytest.raises(GraphError) as caught:
        imported(nodes, edges, client="site", split="fold")
    assert problems(caught) == [
        "nodes.csv row 3: id 'p1' is in row 2 too",
        "nodes.csv row 4: 'age' is 'nan', expected a finite number",
        "nodes.csv row 4: the node is in 'train' but has no label: give one, or empty 'fold'",
        "nodes.csv row 5: 'age' is 'old', expected a finite number",
        "nodes.csv row 5: 'ward' is empty, expected a word",
        "nodes.csv row 5: 'fold' is 'banana', expected train, val, test or nothing",
        "nodes.csv row 5: the client ('site') is empty",
        "nodes.csv row 7: the id ('id') is empty",
        "nodes.csv row 7: 'age' is 'inf', expected a finite number",
        "nodes.csv row 8: has 3 cells, the header has 6 columns",
        "edges.csv row 3: 'target' is 'p9', not the id of any node",
        "edges.csv row 4: 'source' is empty",
        "edges.csv row 5: 'source' is 'p7', not the id of any node",
        "edges.csv row 5: 'target' is 'p8', not the id of any node",
    ]
    assert str(caught.value).startswith("14 problems, nothing was written:")


def test_a_thousand_problems_of_one_kind_are_one_line(imported: Importer) -> None:
    with pytest.raises(GraphError, match="1001 problems") as caught:
        imported(edges="source,target\n,p1\n" + "p1,nobody\n" * 1000)
    assert problems(caught) == [
        "edges.csv row 2: 'source' is empty",
        "edges.csv: 'target' is not the id of any node (--id COLUMN, --with OLD.graph or --strangers "
        "drop), in 1,000 rows: row 3 ('nobody'), row 4 ('nobody'), row 5 ('nobody'), …",
    ]


def test_a_hundred_kinds_of_problems_are_not_all_told(imported: Importer) -> None:
    columns = ",".join(f"c{place}" for place in range(100))
    with pytest.raises(GraphError, match="100 problems") as caught:
        imported(f"id,{columns},kind\na{',1' * 100},x\nb{',?' * 100},y\n", "source,target\na,b\n")
    assert problems(caught)[-1] == "and 50 more lines"


def test_free_text_is_refused_as_a_feature(imported: Importer) -> None:
    rows = "".join(f"{node},name {node},a\n" for node in range(100))
    with pytest.raises(GraphError, match=r"100 different words.*--features"):
        imported("id,name,kind\n" + rows, "source,target\n0,1\n")


@pytest.mark.parametrize(
    ("nodes", "edges", "said"),
    [
        (NODES.replace("dose", "age"), EDGES, "two columns called 'age'"),
        ("", EDGES, "nodes.csv is empty"),
        ("id,age,kind\n", EDGES, "no rows below its header"),
        (NODES, "p1,p2\np2,p3\n", "such as source,target"),
        (NODES, "source\np1\n", "has the columns source: call the two"),
        (NODES.replace("ill", "").replace("healthy", ""), EDGES, "is empty in every row"),
        ("id,f,kind\na,1,0.5\nb,1,1.25\n", "source,target\na,b\n", "fractions"),
        ("id,f,kind\na,,x\nb,,y\n", "source,target\na,b\n", "'f' is empty in every row"),
        (NODES.replace("icu", '"icu'), EDGES, "check its quotes"),
        ("\n" + NODES, EDGES, "its first line is"),
        (NODES, ",\n0,1\n", "call the two with the ends"),
        ('id,f,kind\na,"1,500",x\nb,"2,500",y\n', "source,target\na,b\n", "say --decimal comma or"),
    ],
)
def test_tables_that_cannot_be_used_are_answered_in_a_sentence(
    imported: Importer, nodes: str, edges: str, said: str
) -> None:
    with pytest.raises(GraphError, match=said):
        imported(nodes, edges)


@pytest.mark.parametrize("name", ["", "Unnamed: 0", "__index_level_0__"])
def test_the_index_that_pandas_writes_is_neither_a_feature_nor_an_end(
    imported: Importer, name: str
) -> None:
    made = imported(f"{name},f,kind\n1,5,a\n0,6,b\n2,7,a\n", f"{name},from,to\n0,1,2\n")
    assert made.dataset.names.features == ("f",)
    assert made.dataset.graph.edges.tolist() == [[1, 2], [2, 1]]
    assert sum("without a name" in note for note in made.notes) == 2
    if name:  # unless it is asked for
        made = imported(f"{name},f,kind\n1,5,a\n0,6,b\n", "from,to\n0,1\n", id=name)
        assert made.dataset.names.nodes == ("1", "0")


def test_a_column_may_mean_two_things(imported: Importer) -> None:
    made = imported(client="site", label="site", features="age").dataset
    assert made.names.clients == made.names.classes == ("A", "B")
    made = imported("id,f\n3,1\n4,2\n", "source,target\n0,1\n", label="id").dataset
    assert made.names.classes == ("3", "4")  # then rows are numbered


def test_a_split_that_says_nothing_is_refused(imported: Importer) -> None:
    with pytest.raises(GraphError, match="split column 'fold' is empty in every row"):
        imported("id,f,kind,fold\na,1,x,\nb,1,y,\n", "source,target\na,b\n", split="fold")


@pytest.mark.parametrize("classes", ["ill,healthy,ill", "ill,,healthy", ","])
def test_classes_are_named_once_each(imported: Importer, classes: str) -> None:
    with pytest.raises(SettingError, match="--classes is"):
        imported(classes=classes)


def test_a_number_too_large_is_told_beside_a_word(imported: Importer) -> None:
    with pytest.raises(GraphError, match="2 problems"):
        imported("id,f,kind\na,1e99,x\nb,NA,y\n", "source,target\na,b\n")


def test_unknown_columns_are_answered_with_the_known_ones(imported: Importer) -> None:
    with pytest.raises(SettingError, match=r"--label names 'kin'.*did you mean 'kind'"):
        imported(label="kin")
    with pytest.raises(SettingError, match="--client names 'hospital'"):
        imported(client="hospital")
    with pytest.raises(SettingError, match=r"--features names 'dosis'.*did you mean 'dose'"):
        imported(features="age,dosis")


def test_parquet_gives_what_csv_gives_and_lists_are_several_columns(
    imported: Importer, tmp_path: Path
) -> None:
    arrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    by_csv = imported(client="site", split="fold").dataset
    columns = {
        "id": ["p1", "p2", "p3", "p4"],
        "age": [30, 41.5, 7, 65],
        "dose": [1, 0, 2, 0],
        "ward": ["icu", "day", "icu", "day"],
        "kind": ["ill", "healthy", None, "ill"],
        "site": ["B", "A", "A", "B"],
        "fold": ["train", "test", "none", "val"],
    }
    ends = {"source": ["p1", "p2", "p2"], "target": ["p2", "p1", "p3"]}
    nodes, edges = tmp_path / "n.parquet", tmp_path / "e.parquet"
    parquet.write_table(arrow.table(columns), nodes)
    parquet.write_table(arrow.table(ends), edges)
    chosen = Columns("kind", client="site", split="fold")
    by_parquet = import_graph(nodes, edges, chosen).dataset
    assert by_parquet.names == by_csv.names
    assert by_parquet.graph.x.tolist() == by_csv.graph.x.tolist()
    assert by_parquet.graph.y.tolist() == by_csv.graph.y.tolist()
    lists = {"emb": [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0], [7.0, 8.0]]}
    parquet.write_table(arrow.table(columns | lists), nodes)
    with pytest.raises(GraphError, match=r"column 'emb' is of list<.*leave it out"):
        import_graph(nodes, edges, Columns("kind", features="emb"))


def test_a_damaged_parquet_file_is_answered_in_a_sentence(tmp_path: Path) -> None:
    arrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "n.parquet"
    parquet.write_table(arrow.table({"id": [1, 2], "kind": ["x", "y"], "f": [1, 2]}), path)
    content = path.read_bytes()
    path.write_bytes(content[:4] + bytes(byte ^ 0x5A for byte in content[4:60]) + content[60:])
    with pytest.raises(GraphError, match="or damaged"):
        import_graph(path, path, Columns("kind"))


def test_a_parquet_file_of_text_that_is_no_utf8_is_answered_in_a_sentence(tmp_path: Path) -> None:
    arrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "n.parquet"
    parquet.write_table(
        arrow.table({"id": ["northern", "southern"], "kind": ["x", "y"], "f": [1, 2]}), path
    )
    path.write_bytes(path.read_bytes().replace(b"northern", b"northe\xff\xfe"))
    with pytest.raises(GraphError, match=r"damaged \(.*write it again"):
        import_graph(path, path, Columns("kind"))


Command = Callable[..., tuple[int, str, str]]


@pytest.fixture
def pace(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Command:
    """The command in this process: exit code, what it printed, what it complained of."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    Path("nodes.csv").write_text(NODES)
    Path("edges.csv").write_text(EDGES)

    def call(*words: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["pace", *words])
        with pytest.raises(SystemExit) as ended:
            main()
        return (int(ended.value.code or 0), *capsys.readouterr())

    return call


IMPORT = ("graph", "import", "--nodes", "nodes.csv", "--edges", "edges.csv", "--label", "kind")


def test_import_show_and_partition_in_a_terminal(pace: Command) -> None:
    code, shown, complaint = pace(*IMPORT, "--client", "site", "--out", "mine.graph")
    assert (code, complaint) == (0, "")
    assert "healthy 1, ill 2" in shown
    assert shown.rstrip().endswith("Written: mine.graph")
    assert file.read_graph(Path("mine.graph")).names.clients == ("A", "B")
    code, again, _ = pace("inspect", "mine.graph")
    assert (code, "healthy 1, ill 2" in again) == (0, True)
    asked = ("partition", "--dataset", "mine.graph", "--partition", "column")
    code, shown, complaint = pace(*asked, "--out", "mine.json")
    assert (code, complaint) == (0, "")
    assert max(map(len, shown.splitlines())) <= 80
    assert json.loads(Path("mine.json").read_text())["num_clients"] == 2


def test_json_is_one_object(pace: Command) -> None:
    _, shown, _ = pace(*IMPORT, "--client", "site", "--out", "mine.graph", "--json")
    assert json.loads(shown)["classes"] == {"healthy": 1, "ill": 2}
    _, shown, _ = pace("inspect", "mine.graph", "--json")
    assert json.loads(shown)["clients"] == {"A": 2, "B": 2}
    _, shown, _ = pace("partition", "--dataset", "mine.graph", "--partition", "column", "--json")
    found = json.loads(shown)
    assert [client["name"] for client in found["clients"]] == ["A", "B"]
    assert found["edges_kept"] == 1


def test_mistakes_end_with_code_two_and_no_traceback(pace: Command) -> None:
    pace(*IMPORT, "--client", "site", "--out", "mine.graph")
    for words in [
        (*IMPORT, "--out", "mine.csv"),
        (*IMPORT, "--features", "ages", "--out", "bad.graph"),
        (*IMPORT, "--out", "nodes.csv/mine.graph"),
        ("inspect", "nodes.csv"),
        ("inspect", "nowhere.graph"),
        ("partition", "--dataset", "nowhere"),
        ("partition", "--dataset", "mine.graph", "--partition", "column", "--clients", "3"),
    ]:
        code, _, complaint = pace(*words)
        assert code == 2, words
        assert complaint.startswith("pace: "), words
        assert "Traceback" not in complaint
    assert not Path("bad.graph").exists()
