"""One table, four views."""

import re
from io import StringIO

import torch
from hypothesis import given
from hypothesis import strategies as some
from rich.console import Console

from pace.reports.run_result import adoption_table, score_table
from pace.reports.table import Column, Table, Value
from pace.reports.trial import Spread, Summary, Trial

NAMED = ("accuracy", "weighted_f1", "macro_f1")
SCORES = Table(
    "Scores",
    (Column("Method", numeric=False), Column("Acc. %", "Cora"), Column("F1", "Cora")),
    (
        (Value("pace_1"), Value("80.5 ± 0.4", 80.5, "best"), Value("79", below="+1")),
        (Value("local"), Value("79.5", 79.5, "second"), Value("not run", mark="absent")),
    ),
    sums=1,
)


def test_markdown_has_groups_marks_and_escapes() -> None:
    assert SCORES.markdown().splitlines() == [
        r"| Method | Cora Acc. % | Cora F1 |",
        r"| --- | ---: | ---: |",
        r"| pace\_1 | **80.5 ± 0.4** | 79 (+1) |",
        r"| local | <u>79.5</u> | not run |",
    ]


def test_latex_is_a_tabular_with_groups_marks_and_escapes() -> None:
    assert SCORES.latex().splitlines() == [
        r"\begin{tabular}{lrr}",
        r"\toprule",
        r"\multicolumn{1}{c}{} & \multicolumn{2}{c}{Cora} \\",
        r"Method & Acc. \% & F1 \\",
        r"\midrule",
        r"pace\_1 & \textbf{80.5 $\pm$ 0.4} & 79 (+1) \\",
        r"\midrule",
        r"local & \underline{79.5} & not run \\",
        r"\bottomrule",
        r"\end{tabular}",
    ]


SIGNS = {
    "&": r"\&",
    "%": r"\%",
    "_": r"\_",
    "#": r"\#",
    "$": r"\$",
    "{": r"\{",
    "}": r"\}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "\\": r"\textbackslash{}",
}


def test_every_sign_of_latex_is_text_in_titles_of_columns_and_in_cells() -> None:
    signs = "".join(SIGNS)
    lines = Table.of("", [f"a{signs}", "b"], [["[2pt]", signs]]).latex().splitlines()
    escaped = "".join(SIGNS.values())
    assert lines[0] == r"\begin{tabular}{ll}"
    assert lines[2:5] == [rf"a{escaped} & b \\", r"\midrule", rf"{{[}}2pt] & {escaped} \\"]


def test_latex_of_no_rows_has_its_heads() -> None:
    assert Table.of("", ["a", "b"], []).latex().splitlines()[2:4] == [r"a & b \\", r"\midrule"]


def test_html_is_one_figure_and_what_a_notebook_shows() -> None:
    html = SCORES._repr_html_()
    assert html.startswith('<figure class="table"><figcaption>Scores</figcaption>')
    assert "<strong>80.5 ± 0.4</strong>" in html
    assert 'colspan="2"' in html


def test_plain_text_is_the_terminals() -> None:
    lines = str(SCORES).splitlines()
    assert lines[0] == "Scores"
    assert any(re.match(r" ?pace_1 +80.5 ± 0.4 +79 \(\+1\)", line) for line in lines)


def shown(rows: list[list[str]], heads: list[str], width: int = 80, words: int = 1) -> list[str]:
    to = Console(file=StringIO(), width=width, color_system=None, highlight=False, markup=False)
    with to.capture() as caught:
        Table.of("", heads, rows, words=words).show(to)
    return caught.get().splitlines()


WORD = some.text("abcdefgh-", min_size=1, max_size=60)
NUMBER = some.integers(0, 10**12).map(lambda number: f"{number:,}")


@given(some.lists(some.tuples(WORD, *[NUMBER] * 5, WORD), min_size=1, max_size=4))
def test_every_table_fits_and_no_number_is_broken(rows: list[tuple[str, ...]]) -> None:
    lines = shown([list(row) for row in rows], ["Name", *"abcde", "What"])
    assert max(map(len, lines)) <= 80
    words = " ".join(lines).split()
    for row in rows:
        for number in row[1:-1]:
            assert number in words
    letters = sorted("".join(row[-1] for row in rows))
    assert len(re.findall(r"[abcdefgh-]", "".join(lines))) >= len(letters)  # folded, never cut


def test_columns_that_do_not_fit_go_below_with_the_first() -> None:
    heads = ["", *(f"dataset {number}" for number in range(9))]
    lines = shown([["PACE", *["80.50±0.42"] * 9]], heads, words=0)
    assert max(map(len, lines)) <= 80
    assert sum("PACE" in line for line in lines) == 2
    assert sum(line.count("80.50±0.42") for line in lines) == 9


def test_forty_clients_and_long_names_fit() -> None:
    method, spread = "a-method-with-a-name", Spread(0.8, 0.01)
    alphas, counts = [index / 39 for index in range(40)], [torch.ones(1, 1, dtype=torch.int64)] * 40
    by_reading = dict.fromkeys(("local", "external", "adopted"), counts)
    sent = ([1_764_321] * 40, [1_764_300] * 40, 1_762_206)
    trials = [Trial(method, seed, alphas, by_reading, *sent, {}) for seed in (1, 2)]
    title = "synthetic:nodes=2000,features=4000,communities=9,classes=6,mixing=0.2,degree=5"
    rows = [Summary(method, each, dict.fromkeys(NAMED, spread)) for each in by_reading]
    to = Console(file=StringIO(), width=80, color_system=None, highlight=False, markup=False)
    with to.capture() as caught:
        score_table(rows, title, {method: "Guarded"}).show(to)
        adoption_table(trials).show(to)
    text = caught.get()
    assert max(map(len, text.splitlines())) <= 80
    assert len(re.findall("[▁▂▃▄▅▆▇█·]", text)) == 40  # every client has its bar
    assert text.count("80.00 ± 1.00") == 9
    assert "1,764,321" in text
