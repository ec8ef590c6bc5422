"""Tables as spreadsheets and clinics write them: each trap is read rightly, or said."""

import codecs
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pace.datasets import divide, file
from pace.errors import FileError, GraphError, SettingError
from pace.graph import UNKNOWN
from pace.tables.codebook import Codebook, read_columns
from pace.tables.dates import parse_dates, show_day
from pace.tables.importing import Columns, Imported, import_graph
from pace.tables.proposal import propose_columns

EDGES = "source,target\na,b\nb,c\n"


def imported(
    folder: Path, nodes: str | bytes, edges: str | bytes = EDGES, **columns: Any
) -> Imported:
    for name, content in (("nodes.csv", nodes), ("edges.csv", edges)):
        (folder / name).write_bytes(content.encode() if isinstance(content, str) else content)
    chosen = replace(Columns(label="kind"), **columns)
    return import_graph(folder / "nodes.csv", folder / "edges.csv", chosen)


def column(made: Imported, place: int = 0) -> list[float]:
    return [round(value, 4) for value in made.dataset.graph.x[:, place].tolist()]


@pytest.mark.parametrize("first", ["sep=;\n", "SEP=;\r\n", '"sep=;"\n', "\ufeffsep=;\n"])
def test_excels_line_with_the_delimiter_is_no_header(tmp_path: Path, first: str) -> None:
    made = imported(
        tmp_path, first + "id;f;kind\na;1;x\nb;2;y\nc;3;x\n", "sep=\t\nid1\tid2\na\tb\n"
    )
    assert column(made) == [1, 2, 3]
    assert made.dataset.graph.edges.shape[1] == 2


def test_rows_are_counted_as_the_editor_shows_them_below_such_a_line(tmp_path: Path) -> None:
    with pytest.raises(GraphError, match=r"nodes.csv row 4: 'f' is 'two', expected"):
        imported(tmp_path, "sep=;\nid;f;kind\na;1;x\nb;two;y\nc;3;x\n")


def test_another_delimiter_than_ours_is_said(tmp_path: Path) -> None:
    with pytest.raises(GraphError, match="after sep= and one of"):
        imported(tmp_path, "sep=^\nid^f^kind\na^1^x\n")


@pytest.mark.parametrize("encoding", ["cp1252", "latin-1", "utf-8", "utf-8-sig", "utf-16"])
def test_encodings_give_the_same_graph(tmp_path: Path, encoding: str) -> None:
    text = "id;f;ward;kind\na;1;Süd;groß\nb;2;Nord;klein\nc;3;Süd;groß\n"
    made = imported(tmp_path, text.encode(encoding))
    assert made.dataset.names.features == ("f", "ward=Nord", "ward=Süd")
    assert made.dataset.names.classes == ("groß", "klein")
    noted = any("Windows-1252" in note for note in made.notes)
    assert noted == (encoding in ("cp1252", "latin-1"))


def test_letters_are_composed_wherever_they_were_typed(tmp_path: Path) -> None:
    made = imported(tmp_path, "id,f,kind\nm\u0075\u0308,1,x\nb,2,y\n", "source,target\nm\u00fc,b\n")
    assert made.dataset.names.nodes == ("m\u00fc", "b")


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"PK\x03\x04\x14\x00 a workbook", "is not text"),
        (b"id,f\n\x00\x01\n", "is not text"),
        (codecs.BOM_UTF16_LE + b"i\x00d", "is not text"),
    ],
)
def test_what_is_no_text_is_said(tmp_path: Path, content: bytes, said: str) -> None:
    with pytest.raises((GraphError, SettingError), match=said):
        imported(tmp_path, content)


@pytest.mark.parametrize(
    ("cells", "expected"),
    [
        (["61,5", "1.234,25", "7"], [61.5, 1234.25, 7]),
        (["61,5", "1.234", "-7"], [61.5, 1234, -7]),  # a point between thousands
        (["0,125", "2\u00a0500,5", "1'000,5"], [0.125, 2500.5, 1000.5]),
        (["1.5", "2.25", "3"], [1.5, 2.25, 3]),
        (["1.234.567", "2.000", "3"], [1234567, 2000, 3]),
    ],
)
def test_decimal_commas_and_thousands(
    tmp_path: Path, cells: list[str], expected: list[float]
) -> None:
    rows = "".join(f"{node};{cell};x,5\n" for node, cell in zip("abc", cells, strict=True))
    made = imported(tmp_path, "id;f;kind\n" + rows, EDGES)
    assert column(made) == expected


def test_points_between_thousands_show_by_the_files_other_columns(tmp_path: Path) -> None:
    nodes = "id;dose;units;kind\na;1,5;1.200;x\nb;2,5;12.000;y\nc;2,0;900;x\n"
    made = imported(tmp_path, nodes)
    assert column(made, 1) == [1200, 12000, 900]
    assert any("between thousands" in note and "units" in note for note in made.notes)
    assert column(imported(tmp_path, nodes, decimal="comma"), 1) == [1200, 12000, 900]


def test_a_column_with_real_decimal_points_stays_beside_one_with_commas(tmp_path: Path) -> None:
    made = imported(tmp_path, "id;dose;lab;kind\na;1,5;0.25;x\nb;2,5;12.5;y\nc;2,0;9;x\n")
    assert column(made, 0) == [1.5, 2.5, 2]
    assert column(made, 1) == [0.25, 12.5, 9]


def test_only_columns_with_points_between_thousands_are_noted_as_such(tmp_path: Path) -> None:
    nodes = "id;dose;units;whole;lab;kind\na;1,5;1.200;7;1.200;x\nb;2,5;900;8;0.5;y\nc;2,0;2.000;9;3;x\n"
    made = imported(tmp_path, nodes)
    assert [column(made, place) for place in range(4)] == [
        [1.5, 2.5, 2], [1200, 900, 2000], [7, 8, 9], [1.2, 0.5, 3],
    ]  # fmt: skip
    (note,) = (note for note in made.notes if "points between thousands" in note)
    assert "elsewhere: units (--decimal" in note
    assert "nodes.csv: decimal commas: dose" in made.notes


def test_both_notations_in_one_column_are_asked_about(tmp_path: Path) -> None:
    nodes = 'id,f,kind\na,"1.234,5",x\nb,"1,234.5",y\nc,"2,5",x\n'
    with pytest.raises(GraphError, match=r"1 problem(.|\n)*say --decimal comma or --decimal point"):
        imported(tmp_path, nodes)
    with pytest.raises(GraphError, match=r"row 3: 'f' is '1,234.5', expected a number with a dec"):
        imported(tmp_path, nodes, decimal="comma")


def test_words_stay_words_where_the_decimal_is_named(tmp_path: Path) -> None:
    made = imported(tmp_path, "id;ward;f;kind\na;icu;1,5;x\nb;day;2;y\n", "source,target\na,b\n",
                    decimal="comma")  # fmt: skip
    assert made.dataset.names.features == ("ward=day", "ward=icu", "f")
    assert column(made, 2) == [1.5, 2]


def test_what_is_no_word_among_words_is_not_passed_over(tmp_path: Path) -> None:
    with pytest.raises(GraphError, match="row 3: 'ward' is 'nan', expected a word"):
        imported(tmp_path, "id,ward,kind\na,icu,x\nb,nan,y\nc,day,x\n")
    with pytest.raises(GraphError, match="row 3: 'ward' is 'nan', expected a word"):
        imported(tmp_path, "id;ward;f;kind\na;icu;1,5;x\nb;nan;2,5;y\nc;day;3;x\n", decimal="comma")


def test_english_thousands(tmp_path: Path) -> None:
    made = imported(tmp_path, 'id,f,kind\na,"1,234.5",x\nb,"12,000",y\nc,7,x\n')
    assert column(made) == [1234.5, 12000, 7]


def test_what_may_be_either_is_asked_about(tmp_path: Path) -> None:
    nodes = 'id,f,kind\na,"1,234",x\nb,"2,345",y\nc,"3,456",x\n'
    with pytest.raises(GraphError, match="say --decimal comma or --decimal point"):
        imported(tmp_path, nodes)
    assert column(imported(tmp_path, nodes, decimal="comma")) == [1.234, 2.345, 3.456]
    assert column(imported(tmp_path, nodes, decimal="point")) == [1234, 2345, 3456]
    with pytest.raises(SettingError, match="--decimal is 'dot', expected comma or point"):
        imported(tmp_path, nodes, decimal="dot")


def test_a_missing_value_among_decimal_commas_is_called_missing(tmp_path: Path) -> None:
    nodes = "id;f;kind\na;1,5;x\nb;;y\nc;2,5;x\n"
    with pytest.raises(GraphError, match=r"row 3: 'f' is empty, expected a number with a decimal"):
        imported(tmp_path, nodes)
    with pytest.raises(GraphError, match=r"row 3: 'f' is '2.5', expected a number with a decimal"):
        imported(tmp_path, nodes.replace("b;;y", "b;2.5;y"))


@pytest.mark.parametrize(
    "cells",
    [
        ("2000-01-02", "2000-01-31", "2001-01-01"),
        ("02.01.2000", "31.01.2000", "1.1.2001"),
        ("02/01/2000", "31/01/2000", "01/01/2001"),
        ("01/02/2000", "01/31/2000", "01/01/2001"),
        ("2000-01-02T00:00:00Z", "2000-01-31 00:00", "2001-01-01"),
    ],
)
def test_dates_become_days(tmp_path: Path, cells: tuple[str, ...]) -> None:
    rows = "".join(f"{node};{cell};x\n" for node, cell in zip("abc", cells, strict=True))
    made = imported(tmp_path, "id;born;kind\n" + rows)
    assert column(made) == [1, 30, 366]
    assert made.dataset.names.features == ("born",)
    assert any("days since 2000-01-01" in note for note in made.notes)


def test_dates_that_could_be_either_are_asked_about(tmp_path: Path) -> None:
    with pytest.raises(GraphError, match="day and month cannot be told apart"):
        imported(tmp_path, "id;born;kind\na;03/04/2020;x\nb;05/06/2020;y\nc;01/02/2020;x\n")
    with pytest.raises(GraphError, match=r"row 3: 'born' is '31\.02\.2020', expected a date"):
        imported(tmp_path, "id;born;kind\na;03.04.2020;x\nb;31.02.2020;y\nc;01.02.2020;x\n")


def test_days_have_hours_and_go_back(tmp_path: Path) -> None:
    assert parse_dates(["2000-01-01 12:00", "1999-12-31"]).tolist() == [0.5, -1]
    assert parse_dates(["2000-01-02 06:45:36"]) == pytest.approx(
        [1 + (6 + 45 / 60 + 36 / 3600) / 24]
    )
    abroad = ["2000-01-02 12:00+05:30", "2000-01-02 12:00-03:30"]  # in UTC 06:30 and 15:30
    assert parse_dates(abroad) == pytest.approx([1 + 6.5 / 24, 1 + 15.5 / 24])
    assert show_day(parse_dates(["2024-02-29"])[0] or 0) == "2024-02-29"
    assert show_day(1e300) == "1e+300 days"


def test_edges_keep_their_weights_where_others_are_dropped(tmp_path: Path) -> None:
    nodes = "id,f,kind\na,1,x\nb,0,y\nc,1,x\n"
    edges = "source,target,w\nz,a,9\na,b,2\nb,c,5\n"
    graph = imported(tmp_path, nodes, edges, strangers="drop", weight="w").dataset.graph
    assert graph.weights is not None
    found = zip(*graph.edges.tolist(), graph.weights.tolist(), strict=True)
    assert set(found) == {(0, 1, 2.0), (1, 0, 2.0), (1, 2, 5.0), (2, 1, 5.0)}


def test_features_that_are_not_scaled_are_told_of(tmp_path: Path) -> None:
    made = imported(tmp_path, "id,age,f,kind\na,61,1,x\nb,70,0,y\nc,80,1,x\n")
    assert [warning for warning in made.warnings if "age (about 70.8)" in warning]
    assert not imported(tmp_path, "id,age,f,kind\na,.1,1,x\nb,.2,0,y\nc,.3,1,x\n").warnings


def test_a_table_without_labels_is_a_graph_to_predict(tmp_path: Path) -> None:
    nodes = "id,f\na,1\nb,2\nc,3\n"
    (tmp_path / "nodes.csv").write_text(nodes)
    (tmp_path / "edges.csv").write_text(EDGES)
    made = import_graph(tmp_path / "nodes.csv", tmp_path / "edges.csv", Columns())
    assert made.dataset.graph.y.tolist() == [UNKNOWN] * 3
    assert made.dataset.classes == 0
    with pytest.raises(GraphError, match="leave --label out"):
        imported(tmp_path, "id,f,kind\na,1,\nb,2,\nc,3,\n")


def test_edges_to_others_can_be_dropped(tmp_path: Path) -> None:
    nodes = "id,f,kind\na,1,x\nb,2,y\nc,3,x\n"
    made = imported(tmp_path, nodes, EDGES + "a,z\nz,y\n", strangers="drop")
    assert made.dataset.graph.edges.shape[1] == 4
    assert "dropped: edges to nodes that are not in the table, 2" in made.notes
    with pytest.raises(SettingError, match="--strangers is 'keep'"):
        imported(tmp_path, nodes, strangers="keep")


@pytest.mark.parametrize(
    ("cells", "said"),
    [
        (("2020-01-02", "14.03.2021", "05/06/2020"), "holds dates in several forms"),
        (("2.1.20", "14.3.21", "6.5.20"), "a form that is not read, 14.3.21"),
    ],
)
def test_dates_that_cannot_be_read_do_not_become_words(
    tmp_path: Path, cells: tuple[str, ...], said: str
) -> None:
    rows = "".join(f"{node};{cell};x\n" for node, cell in zip("abc", cells, strict=True))
    with pytest.raises(GraphError, match=said):
        imported(tmp_path, "id;born;kind\n" + rows)
    with pytest.raises(GraphError, match=said):
        propose_columns(tmp_path / "nodes.csv", label="kind")
    found, _ = propose_columns(tmp_path / "nodes.csv", label="kind", category=["born"])
    assert found.columns[0].kind == "category"


@pytest.mark.parametrize("word", ["NA", "n/a", "-", "leer", "NaN", "#NV", "?"])
def test_a_label_that_means_missing_is_no_class(tmp_path: Path, word: str) -> None:
    made = imported(tmp_path, f"id,f,kind\na,1,x\nb,2,{word}\nc,3,y\n")
    assert made.dataset.names.classes == ("x", "y")
    assert made.dataset.graph.y.tolist() == [0, UNKNOWN, 1]
    assert [note for note in made.notes if f"{word!r} read as unknown, in 1 row" in note]
    named = imported(tmp_path, f"id,f,kind\na,1,x\nb,2,{word}\nc,3,y\n", classes=f"x,y,{word}")
    assert named.dataset.graph.y.tolist() == [0, 2, 1]


def test_a_minus_beside_a_plus_is_a_result(tmp_path: Path) -> None:
    made = imported(tmp_path, "id,f,rh,kind\na,1,+,+\nb,2,-,-\nc,3,-,+\n")
    assert made.dataset.names.classes == ("+", "-")
    assert made.dataset.names.features == ("f", "rh=+", "rh=-")


def test_classes_and_words_that_differ_in_case_are_told_of(tmp_path: Path) -> None:
    made = imported(tmp_path, "id,smokes,kind\na,ja,Ja\nb,Ja,nein \nc,nein,ja\n")
    assert made.dataset.names.classes == ("Ja", "ja", "nein")  # a space at the end is no difference
    assert [note for note in made.notes if "'Ja' and 'ja' are 2 classes" in note]
    assert [note for note in made.notes if "'Ja' and 'ja' are 2 words" in note]
    _, notes = propose_columns(tmp_path / "nodes.csv", label="kind")
    assert [note for note in notes if "'Ja' and 'ja' are 2 classes" in note]


def test_words_that_mean_missing_are_no_category(tmp_path: Path) -> None:
    nodes = "id,ward,kind\na,icu,x\nb,-,y\nc,leer,x\n"
    made = imported(tmp_path, nodes)  # without a codebook a word is a word, and that is said
    assert [note for note in made.notes if "'-', 'leer' taken as words; if they mean miss" in note]
    found, _ = propose_columns(tmp_path / "nodes.csv", label="kind", least=1)
    assert (found.columns[0].words, found.columns[0].missing) == (("icu",), 2)


def test_numbers_in_two_notations_do_not_become_words(tmp_path: Path) -> None:
    """Neither do numbers that are not finite."""
    (tmp_path / "nodes.csv").write_text('id,f,kind\na,0.5,x\nb,"1,5",y\nc,0.7,x\n')
    with pytest.raises(GraphError, match=r"'f' is '0.5', expected a number with a decimal comma"):
        propose_columns(tmp_path / "nodes.csv", label="kind")
    (tmp_path / "nodes.csv").write_text("id,f,kind\na,inf,x\nb,1e400,y\nc,0.7,x\n")
    with pytest.raises(GraphError, match="row 2: 'f' is 'inf', expected a finite number"):
        propose_columns(tmp_path / "nodes.csv", label="kind")


@pytest.mark.parametrize("unit", [" mg", "%", " mmol/l"])
def test_a_unit_behind_numbers_is_told_of(tmp_path: Path, unit: str) -> None:
    made = imported(tmp_path, f"id,f,kind\na,5{unit},x\nb,6{unit},y\nc,7{unit},x\n")
    assert [note for note in made.notes if f"such as '5{unit}'" in note]
    _, notes = propose_columns(tmp_path / "nodes.csv", label="kind", least=1)
    assert [note for note in notes if "numbers with a unit" in note]


def test_a_typographers_minus_is_one(tmp_path: Path) -> None:
    made = imported(tmp_path, "id,f,kind\na,−0.5,x\nb,2,y\nc,3,x\n")
    assert column(made) == [-0.5, 2, 3]


def test_the_id_may_be_written_large(tmp_path: Path) -> None:
    """Rows would be numbered otherwise, and these edges fit the wrong nodes."""
    made = imported(tmp_path, "ID,f,kind\n2,.2,x\n0,.0,y\n1,.1,x\n", "source,target\n0,1\n")
    assert made.dataset.names.nodes == ("2", "0", "1")
    assert sorted(made.dataset.graph.edges[0].tolist()) == [1, 2]
    assert "nodes.csv: 'ID' is taken as the id (else: --id)" in made.notes


@pytest.mark.parametrize("ends", ["1,2", "001.0,002.0"])
def test_ids_that_a_spreadsheet_rewrote_are_no_ids(tmp_path: Path, ends: str) -> None:
    with pytest.raises(GraphError, match=r"'source' is '.*', not the id of any node"):
        imported(tmp_path, "id,f,kind\n001,.5,x\n002,.5,y\n003,.5,x\n", f"source,target\n{ends}\n")


@pytest.mark.parametrize("names", ["weight,from,to", "weight,VON,NACH", "weight,src,dst"])
def test_both_ends_are_found_by_their_names(tmp_path: Path, names: str) -> None:
    nodes = "id,f,kind\na,1,x\nb,2,y\nc,3,x\n"
    made = imported(tmp_path, nodes, f"{names}\n0.5,a,b\n2,b,c\n", weight="weight")
    assert made.dataset.graph.edges.shape[1] == 4
    assert sorted(made.dataset.graph.weights.tolist()) == [0.5, 0.5, 2, 2]  # type: ignore[union-attr]


def test_a_column_name_that_a_spreadsheet_broke_into_lines_is_one_line(tmp_path: Path) -> None:
    """`--category 'Alter (Jahre)'` can be typed, and messages need no escapes."""
    made = imported(tmp_path, 'id,"Alter\r\n (Jahre)",kind\na,1,x\nb,2,y\nc,3,x\n')
    assert made.dataset.names.features == ("Alter (Jahre)",)
    assert column(made) == [1, 2, 3]


def test_a_quote_that_is_not_closed_is_said_in_words(tmp_path: Path) -> None:
    book = tmp_path / "book.toml"
    book.write_text('format = "pace-codebook-1"\nlabel = "kind\nid = "id"\n')
    with pytest.raises(
        FileError, match=r"a quote is opened and not closed on its line \(at line 2"
    ):
        read_columns(book, Codebook)


def test_edges_with_features_and_graphs_without_labels_are_told_what_pace_does_not_do(
    tmp_path: Path,
) -> None:
    nodes, edges = "id,f\na,1\nb,2\nc,3\n", "source,target,days\na,b,3\nb,c,9\n"
    made = imported(tmp_path, nodes, edges, label=None)
    assert any("days, as no model here reads features of edges" in note for note in made.notes)
    file.write_graph(tmp_path / "mine.graph", made.dataset)
    read = file.read_graph(tmp_path / "mine.graph")
    assert (read.classes, read.graph.nodes) == (0, 3)
    with pytest.raises(GraphError, match="has no labels: import it with --label"):
        divide(read, "louvain", clients=2)
