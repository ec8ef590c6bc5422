"""Exports that once gave a plausible wrong graph: each is read rightly, warned of or refused."""

from dataclasses import replace
from datetime import datetime, time, timedelta
from pathlib import Path
from typing import Any

import pytest

from pace.errors import GraphError, ProblemsError, SettingError
from pace.tables.dates import parse_dates
from pace.tables.importing import Columns, Imported, import_graph
from pace.tables.proposal import Proposal, merge_proposals, propose_columns

ROWS = 40
EDGES = "source,target\n" + "".join(f"n{node},n{node + 1}\n" for node in range(ROWS - 1))


def write(
    folder: Path, cells: list[str], kinds: str = "xyyx", delimiter: str = ",", head: str = "v"
) -> Path:
    """A table of forty nodes whose column `v` holds these cells in turn."""
    rows = [["id", head, "kind"]]
    rows += [
        [f"n{node}", cells[node % len(cells)], kinds[node % len(kinds)]] for node in range(ROWS)
    ]
    path = folder / "nodes.csv"
    path.write_text("".join(delimiter.join(row) + "\n" for row in rows), encoding="utf-8")
    return path


def imported(folder: Path, edges: str = EDGES, codebook: Any = None, **columns: Any) -> Imported:
    (folder / "edges.csv").write_text(edges)
    chosen = replace(Columns(label=None if codebook else "kind"), **columns)
    return import_graph(folder / "nodes.csv", folder / "edges.csv", chosen, codebook=codebook)


def proposed(folder: Path, **asked: Any) -> tuple[Proposal, str]:
    proposal, notes = propose_columns(folder / "nodes.csv", label="kind", **asked)
    return proposal, "\n".join(notes)


def features(made: Imported) -> list[float]:
    return [round(value, 4) for value in made.dataset.graph.x[:, 0].tolist()]


@pytest.mark.parametrize("word", ["999", "-999", "999.0"])
def test_a_number_may_mean_a_missing_value(tmp_path: Path, word: str) -> None:
    write(tmp_path, ["50", "52", "54", "56", str(int(float(word)))])
    proposal, _ = proposed(tmp_path, missing=[word])
    (column,) = proposal.columns
    assert column.spread is not None
    assert (column.rows, column.missing, column.spread.mean) == (32, 8, 53)
    book = merge_proposals({"a": proposal, "b": proposal})[0]
    made = imported(tmp_path, codebook=book)
    assert made.dataset.graph.x[4].tolist() == [0, 1]  # the mean, and marked
    assert "missing, filled with 53 and marked" in str(made.changes[0])


@pytest.mark.parametrize("nines", ["999", "-99", "9999"])
def test_nines_far_from_all_others_are_asked_about(tmp_path: Path, nines: str) -> None:
    write(tmp_path, ["50.5", "52", "54", "56", nines])
    assert f"column 'v' is {nines} in 8 rows and from 50.5 to 56" in proposed(tmp_path)[1]
    assert f"is {nines} in 8 rows" in "\n".join(imported(tmp_path).warnings)
    write(tmp_path, ["95.5", "97", "98", "99"])
    assert "in 10 rows" not in proposed(tmp_path)[1]
    assert not any("99" in warning for warning in imported(tmp_path).warnings)


@pytest.mark.parametrize("delimiter", [";", "\t", "|"])
def test_points_that_may_be_between_thousands_are_asked_about(
    tmp_path: Path, delimiter: str
) -> None:
    for cells in (["2.000", "12.000"], ["1.234", "2.500", "12.000"]):
        write(tmp_path, cells, delimiter=delimiter)
        for look in (imported, proposed):
            with pytest.raises(ProblemsError, match="say --decimal comma or --decimal point"):
                look(tmp_path)
    assert features(imported(tmp_path, decimal="comma"))[:3] == [1234, 2500, 12000]
    assert features(imported(tmp_path, decimal="point"))[:3] == [1.234, 2.5, 12]
    write(tmp_path, ["1.234", "2.5", "12.000"], delimiter=delimiter)  # 2.5 shows it
    assert features(imported(tmp_path))[:3] == [1.234, 2.5, 12]


def test_times_with_a_zone_are_those_of_one_zone() -> None:
    noon = ["2024-03-01T12:00:00Z", "2024-03-01T14:00:00+02:00", "2024-03-01 06:30-0530"]
    assert set(parse_dates(noon)) == {8826.5}
    expected = (datetime(2024, 3, 1, 22, 30) - datetime(2000, 1, 1)) / timedelta(days=1)
    assert parse_dates(["2024-03-02 00:30:00+02:00"])[0] == pytest.approx(expected)


@pytest.mark.parametrize(
    "cells",
    [
        ["2024/03/01", "2024/03/31"],
        ["01-03-2024", "31-03-2024"],
        ["03-01-2024", "03-31-2024"],
        ["20240301", "20240331"],
    ],
)
def test_more_forms_of_dates_are_read(tmp_path: Path, cells: list[str]) -> None:
    assert parse_dates(cells).tolist() == [8826, 8856]
    write(tmp_path, cells)
    assert proposed(tmp_path)[0].columns[0].kind == "date"


def test_dates_as_whole_numbers_are_no_numbers(tmp_path: Path) -> None:
    write(tmp_path, ["20240301", "20240315", "20240331", "20231224"])
    assert features(imported(tmp_path))[:2] == [8826, 8840]
    write(tmp_path, ["20240301", "20240315", "20249931", "20231224"])  # no calendar has a month 99
    assert features(imported(tmp_path))[0] == pytest.approx(20240301, rel=1e-7)


@pytest.mark.parametrize(
    "form", ["{:02}-Mar-2024", "{:02}MAR2024", "March {}, 2024", "{}. März 2024"]
)
def test_months_in_words_are_no_categories(tmp_path: Path, form: str) -> None:
    write(tmp_path, [form.format(day) for day in range(10, 20)], delimiter="|")
    for look in (imported, proposed):
        with pytest.raises(
            ProblemsError, match="holds dates in several forms or a form that is not read"
        ):
            look(tmp_path)


def test_days_that_no_calendar_has_are_refused_before_they_are_sent(tmp_path: Path) -> None:
    write(tmp_path, ["2024-02-30", "2024-01-01", "2024-01-02"])
    with pytest.raises(ProblemsError, match=r"'v' is not a date .* in 14 rows: row 2"):
        proposed(tmp_path)


@pytest.mark.parametrize("cell", ["=A2+1", "#REF!", "#WERT!", "########"])
def test_what_a_spreadsheet_shows_in_place_of_a_value_is_no_word(tmp_path: Path, cell: str) -> None:
    write(tmp_path, ["a", "b", cell])
    for look in (imported, proposed):
        with pytest.raises(ProblemsError, match="what a spreadsheet shows in place of a value"):
            look(tmp_path)


def test_what_makes_excel_leave_cells_alone_is_taken_away(tmp_path: Path) -> None:
    write(tmp_path, ['="1.5"', '"=""2.5"""', "3.5"])
    text = (tmp_path / "nodes.csv").read_text()
    for node in range(ROWS):
        text = text.replace(f"\nn{node},", f'\n="00{node}",')
    (tmp_path / "nodes.csv").write_text(text)
    made = imported(tmp_path, "source,target\n001,002\n")
    assert made.dataset.names.nodes[:2] == ("000", "001")
    assert features(made)[:3] == [1.5, 2.5, 3.5]


def test_cells_of_parquet_are_taken_as_those_of_csv(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    (tmp_path / "edges.csv").write_text("source,target\n000,001\n")
    columns = {
        "id": [f'="00{node}"' for node in range(ROWS)],
        "v": ['="1.5"', " 2.5 "] * (ROWS // 2),
    }
    columns["kind"] = ["xyyx"[node % 4] for node in range(ROWS)]
    nodes = tmp_path / "nodes.parquet"
    parquet.write_table(pyarrow.table(columns), nodes)
    made = import_graph(nodes, tmp_path / "edges.csv", Columns(label="kind"))
    assert made.dataset.names.nodes[:2] == ("000", "001")
    assert features(made)[:2] == [1.5, 2.5]


def test_problems_show_cells_as_the_file_has_them(tmp_path: Path) -> None:
    write(tmp_path, ["1e400", "1.5", "2.5", "3.5", "4.5"])
    with pytest.raises(
        ProblemsError, match=r"'v' is not a finite number, in 8 rows: row 2 \('1e400'"
    ):
        imported(tmp_path)


def test_words_are_one_whatever_cannot_be_seen_in_them(tmp_path: Path) -> None:
    write(tmp_path, ["süd", "s\u00adüd", "\u200bsüd", "nord", '"no\nrd"'])
    assert imported(tmp_path).dataset.names.features == ("v=no rd", "v=nord", "v=süd")


def test_text_that_was_encoded_twice_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path, ["Größe", "Maß"])
    once = path.read_bytes()
    path.write_bytes(once.decode().encode("cp1252") + "n99,Größe,x\n".encode())
    with pytest.raises(GraphError, match="'Ã¶', text of one encoding inside another"):
        imported(tmp_path)
    path.write_bytes(once)
    assert imported(tmp_path).dataset.names.features == ("v=Größe", "v=Maß")


def test_words_of_which_almost_all_are_rare_are_no_feature(tmp_path: Path) -> None:
    write(tmp_path, [f"patient said {node}" for node in range(ROWS)])
    proposal, notes = proposed(tmp_path, id_column="id")
    assert proposal.columns[0].kind == "text"
    assert "too many different words, so no feature: v" in notes
    write(tmp_path, [f"said {node}" for node in range(30)])
    with pytest.raises(ProblemsError, match="30 different words in 40 rows, too many"):
        imported(tmp_path)


@pytest.mark.parametrize("cells", [["€1.50", "€2.00"], ["120/80", "130/85"], ["12:30", "08:00"]])
def test_words_that_look_like_numbers_are_told_of(tmp_path: Path, cells: list[str]) -> None:
    write(tmp_path, cells)
    assert "in a notation that is not read, so words: v" in proposed(tmp_path)[1]
    assert any("looks like numbers" in note for note in imported(tmp_path).notes)


@pytest.mark.parametrize("cells", [["1", "2", "3", "4"], [f"0{code}" for code in range(100, 140)]])
def test_codes_are_told_of(tmp_path: Path, cells: list[str]) -> None:
    write(tmp_path, cells)
    assert "if they are codes, say --category: v" in proposed(tmp_path, id_column="id")[1]
    write(tmp_path, ["1.5", "2", "3", "4"])
    assert "if they are codes" not in proposed(tmp_path)[1]


def test_a_label_must_recur(tmp_path: Path) -> None:
    write(tmp_path, [str(node) for node in range(ROWS)])
    with pytest.raises(ProblemsError, match="holds 40 classes in 40 rows"):
        imported(tmp_path, label="v")
    write(tmp_path, ["2024-03-01", "2024-03-02"])
    with pytest.raises(ProblemsError, match="holds 2 classes in 40 rows, such as '2024-03-01'"):
        imported(tmp_path, label="v")


def test_one_class_and_classes_that_mean_unknown_are_warned_of(tmp_path: Path) -> None:
    write(tmp_path, ["1.5", "2.5"], kinds="x")
    assert "nothing can be learnt from it" in imported(tmp_path).warnings[0]
    proposal, _ = proposed(tmp_path)
    with pytest.raises(SettingError, match="'x' is the only class at all sites"):
        merge_proposals({"a": proposal, "b": proposal})
    path = write(tmp_path, ["1.5", "2.5", "3.5"])
    path.write_text(path.read_text().replace(",x", ",Unbekannt"))
    assert "'Unbekannt' is learnt as a class" in imported(tmp_path).warnings[0]
    assert "'Unbekannt' is learnt as a class" in proposed(tmp_path)[1]


def test_a_feature_that_says_the_label_is_warned_of(tmp_path: Path) -> None:
    path = write(tmp_path, ["1.5", "2.5", "3.5"])
    lines = path.read_text().splitlines()
    told = {"x": "home", "y": "readmitted"}
    rows = [f"{line},{told[line[-1]]}" for line in lines[1:]]
    path.write_text("\n".join([f"{lines[0]},outcome_text", *rows]) + "\n")
    (warning,) = imported(tmp_path).warnings
    assert warning.startswith("outcome_text=home, outcome_text=readmitted: the same for all nodes")
    rows[5] = rows[5].replace("readmitted", "home")  # no longer the same for all
    path.write_text("\n".join([f"{lines[0]},outcome_text", *rows]) + "\n")
    assert not imported(tmp_path).warnings


def test_rows_that_are_no_nodes_and_ids_that_are_none(tmp_path: Path) -> None:
    path = write(tmp_path, ["1.5", "2.5", "3.5"])
    text = path.read_text()
    path.write_text(f"{text}Total,100,\n")
    with pytest.raises(ProblemsError, match="row 42: 'Total' looks like the sum of the rows above"):
        imported(tmp_path)
    path.write_text(f"{text}1.23E+12,1.5,x\n")
    with pytest.raises(ProblemsError, match=r"id '1.23E\+12' was rewritten by a spreadsheet"):
        imported(tmp_path)


def test_the_ends_of_edges_are_named_or_the_only_two_columns(tmp_path: Path) -> None:
    write(tmp_path, ["1.5", "2.5", "3.5"])
    made = imported(tmp_path, "patient_a,patient_b\nn1,n2\nn2,n3\n")
    names = made.dataset.names.nodes
    pairs = {tuple(sorted(names[node] for node in edge)) for edge in made.dataset.graph.edges.T}
    assert pairs == {("n1", "n2"), ("n2", "n3")}
    with pytest.raises(GraphError, match="has the columns edge, a, b: call the two with the ends"):
        imported(tmp_path, "edge,a,b\n1,n1,n2\n2,n2,n3\n")


def test_edges_that_count_from_one_and_no_edges_are_warned_of(tmp_path: Path) -> None:
    path = write(tmp_path, ["1.5", "2.5", "3.5"])
    assert "no node has a neighbour" in imported(tmp_path, "source,target\n").warnings[0]
    path.write_text(
        "".join(line.partition(",")[2] + "\n" for line in path.read_text().splitlines())
    )
    assert "never names node 0" in imported(tmp_path, "source,target\n1,2\n2,3\n").warnings[0]
    assert not imported(tmp_path, "source,target\n0,1\n1,2\n").warnings


@pytest.mark.parametrize(
    "cells", [[time(12, 30), time(13)], [timedelta(days=1)], [b"a"], [[1.0, 2.0]]]
)
def test_columns_of_parquet_that_no_codebook_has_are_named(
    tmp_path: Path, cells: list[Any]
) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    columns = {"id": [f"n{node}" for node in range(ROWS)], "v": (cells * ROWS)[:ROWS]}
    columns["kind"] = ["xyyx"[node % 4] for node in range(ROWS)]
    parquet.write_table(pyarrow.table(columns), tmp_path / "nodes.parquet")
    with pytest.raises(GraphError, match=r"column 'v' is of .*neither text, numbers nor dates"):
        propose_columns(tmp_path / "nodes.parquet", label="kind")
    proposal, _ = propose_columns(tmp_path / "nodes.parquet", label="kind", without=["v"])
    assert not proposal.columns


def test_classes_that_are_numbered_otherwise_are_asked_about(tmp_path: Path) -> None:
    write(tmp_path, ["1.5", "2.5", "3.5"], kinds="0110")
    zero, _ = proposed(tmp_path)
    write(tmp_path, ["1.5", "2.5", "3.5"], kinds="1221")
    one, _ = proposed(tmp_path)
    book, _ = merge_proposals({"a": zero, "b": one})
    assert book.warnings == (
        "the classes are 0, 1 at a and 1, 2 at b: do the numbers mean the same?",
    )
    assert not merge_proposals({"a": zero, "b": zero})[0].warnings


def test_numbers_in_another_unit_lie_close_together(tmp_path: Path) -> None:
    """Glucose in mmol/l, by a codebook in mg/dl, is but three scales off."""
    write(tmp_path, [str(60 + 2.5 * step) for step in range(ROWS)])
    proposal, _ = proposed(tmp_path)
    book, _ = merge_proposals({"a": proposal, "b": proposal})
    assert not imported(tmp_path, codebook=book).warnings
    write(tmp_path, [str(round((60 + 2.5 * step) / 18, 1)) for step in range(ROWS)])
    assert "half of the values are 4 scales" in imported(tmp_path, codebook=book).warnings[0]


def test_words_that_the_codebook_does_not_know_are_warned_of_where_they_are_most(
    tmp_path: Path,
) -> None:
    write(tmp_path, ["innere", "chirurgie"])
    proposal, _ = proposed(tmp_path)
    book, _ = merge_proposals({"a": proposal, "b": proposal})
    write(tmp_path, ["innere", "chirurgie", "palliativ"])
    assert not imported(tmp_path, codebook=book).warnings
    write(tmp_path, ["INN", "CHIR", "innere"])
    (warning,) = imported(tmp_path, codebook=book).warnings
    assert warning.startswith("column 'v': 27 of 40 rows hold words that are not in the codebook")
