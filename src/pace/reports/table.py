"""A table as data, and four views of it: terminal, Markdown, LaTeX, HTML."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING

from pace.io import Medium, console, drawn, rule, shown

if TYPE_CHECKING:
    from rich.console import Console

FOLDED = 22  # terminal columns that words keep when there is no room
GAP, EDGES = 3, 2  # terminal columns between the columns of a table, and at its edges
STYLES = {"best": "bold", "second": "underline", "absent": "dim"}
MARKS: dict[Medium, dict[str, str]] = {
    "markdown": {"best": "**{}**", "second": "<u>{}</u>"},
    "latex": {"best": r"\textbf{{{}}}", "second": r"\underline{{{}}}"},
}


@dataclass(frozen=True)
class Value:
    """What a cell shows, and what a page sorts it by (None: last)."""

    text: str
    sort: float | str | None = None
    mark: str = ""  # `best`, `second` or `absent`
    below: str = ""  # a smaller second line; in brackets where there is one line only
    share: float | None = None  # from 0 to 1: drawn as a bar on a page

    @property
    def line(self) -> str:
        return f"{self.text} ({self.below})" if self.below else self.text


Cell = str | int | Value


@dataclass(frozen=True)
class Column:
    """The head of a column, and the head above it that it shares with its neighbours."""

    head: str
    group: str = ""
    numeric: bool = True
    """Numbers are set to the right; words to the left."""
    folds: bool = False
    """Whether its cells may break in a narrow terminal; words always may, numbers should not."""

    @property
    def line(self) -> str:
        return f"{self.group} {self.head}".strip()


@dataclass(frozen=True)
class Table:
    """Columns and rows; the first `names` columns name the rows.

    Example:
        >>> from pace.reports.table import Table
        >>> print(Table.of("Scores", ["Method", "Accuracy"], [["pace", "80.5"]], words=0).markdown())
        | Method | Accuracy |
        | --- | ---: |
        | pace | 80.5 |
    """

    title: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Value, ...], ...]
    note: str = ""
    names: int = 1  # leading columns that are repeated where the table goes on below
    sums: int = 0  # rows at the end that are set apart

    @classmethod
    def of(
        cls,
        title: str,
        heads: Sequence[str | Column],
        rows: Iterable[Sequence[Cell]],
        *,
        note: str = "",
        names: int = 1,
        words: int = 1,
        sums: int = 0,
    ) -> "Table":
        """A table of text: the first `names` and last `words` columns hold words, others numbers.

        A page sorts words by themselves, whole numbers by their value, and other cells as they say.
        """
        last = len(heads) - words

        def column(head: str | Column, index: int) -> Column:
            if isinstance(head, Column):
                return head
            return Column(head, numeric=names <= index < last)

        def value(cell: Cell, column: Column) -> Value:
            if isinstance(cell, str):
                return Value(cell, None if column.numeric else cell)
            return Value(f"{cell:,}", cell) if isinstance(cell, int) else cell

        columns = tuple(map(column, heads, range(len(heads))))
        values = tuple(tuple(map(value, row, columns)) for row in rows)
        return cls(title, columns, values, note, names, sums=sums)

    def __str__(self) -> str:
        return drawn(self.show)

    def show(self, to: "Console | None" = None) -> None:
        """Print it within the width of the terminal, in parts below each other where it must."""
        from rich.cells import cell_len
        from rich.table import Table as RichTable
        from rich.text import Text

        to = to or console()
        heads = [shown(column.line) for column in self.columns]
        cells = [[shown(value.line) for value in row] for row in self.rows]
        least, most = list[int](), list[int]()  # terminal columns that each column needs
        for column, *texts in zip(self.columns, heads, *cells, strict=True):
            longest = max((cell_len(word) for text in texts for word in text.split()), default=0)
            most.append(max(map(cell_len, texts)))
            least.append(most[-1] if column.numeric and not column.folds else min(FOLDED, longest))
        widths = list(least)
        if self.title:
            to.print(shown(self.title), style="bold")
        for part in _parts(least, self.names, to.width):
            view = RichTable(box=rule(to), pad_edge=False)
            room = to.width - EDGES - GAP * (len(part) - 1) - sum(least[index] for index in part)
            spare = {index: most[index] - least[index] for index in part}
            for index in sorted(part, key=spare.__getitem__):  # the narrowest is served first
                widths[index] = least[index] + min(max(room, 0), spare[index])
                room -= spare[index]
            for index in part:
                justify = "right" if self.columns[index].numeric else "left"
                view.add_column(heads[index], justify=justify, overflow="fold", width=widths[index])  # type: ignore[arg-type]
            for number, (row, texts) in enumerate(zip(self.rows, cells, strict=True)):
                if self.sums and number == len(self.rows) - self.sums:
                    view.add_section()
                view.add_row(*(Text(texts[i], STYLES.get(row[i].mark, "")) for i in part))
            to.print(view)

    def markdown(self) -> str:
        """Best bold, second underlined; text is escaped."""
        lines = [
            [shown(column.line, "markdown") for column in self.columns],
            ["---:" if column.numeric else "---" for column in self.columns],
            *self._marked("markdown"),
        ]
        return "\n".join(f"| {' | '.join(line)} |" for line in lines)

    def latex(self) -> str:
        """A `tabular` for the package booktabs, with the marks of Markdown; text is escaped."""
        sides = "".join("r" if column.numeric else "l" for column in self.columns)
        heads = [[shown(column.head, "latex") for column in self.columns]]
        if any(column.group for column in self.columns):
            groups = [(shown(group, "latex"), n) for group, n in head_groups(self.columns)]
            heads.insert(0, [rf"\multicolumn{{{n}}}{{c}}{{{group}}}" for group, n in groups])
        lines = [" & ".join(row) + r" \\" for row in [*heads, *self._marked("latex")]]
        lines.insert(len(heads), r"\midrule")
        if self.sums:
            lines.insert(-self.sums, r"\midrule")
        begin = [rf"\begin{{tabular}}{{{sides}}}", r"\toprule"]
        return "\n".join([*begin, *lines, r"\bottomrule", r"\end{tabular}"])

    def _marked(self, medium: Medium) -> list[list[str]]:
        """The rows as text with its marks."""
        marks = MARKS[medium]
        return [
            [marks.get(v.mark, "{}").format(shown(v.line, medium)) for v in r] for r in self.rows
        ]

    def html(self) -> str:
        """A figure with the table, as pages have it; notebooks show it."""
        from pace.reports.document import environment

        return str(environment().get_template("table.html.jinja").module.table(self))  # type: ignore[attr-defined]

    _repr_html_ = html


def head_groups(columns: Sequence[Column]) -> list[tuple[str, int]]:
    """Heads that neighbouring columns share, and over how many of them."""
    groups = groupby(columns, key=lambda column: column.group)
    return [(group, len(list(members))) for group, members in groups]


def _parts(widths: Sequence[int], names: int, room: int) -> Iterator[list[int]]:
    """Columns in groups that fit, each with those that name the rows."""
    start = EDGES + sum(widths[:names]) + GAP * (names - 1)
    part, used = list(range(names)), start
    for index in range(names, len(widths)):
        needed = GAP + widths[index]
        if used + needed > room and len(part) > names:
            yield part
            part, used = list(range(names)), start
        part, used = [*part, index], used + needed
    yield part
