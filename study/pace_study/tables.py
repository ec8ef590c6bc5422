"""Tables in the paper's layout, and short ones over the whole study."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from pace.io import atomic
from pace.reports import Column, Table, Value
from pace_study.claims import VERDICTS, Claim
from pace_study.records import CITATION_MEAN, SAME, published, title
from pace_study.scores import SCORES, Harm
from pace_study.study import NAMES, UNPUBLISHED, Part

METRIC = {
    "accuracy": "Accuracy",
    "weighted_f1": "W-F1",
    "macro_f1": "Macro-F1",
    "mean_alpha": "Mean α",
    "alpha_zero_percent": "α = 0 (%)",
    "upload_percent": "Upload (%)",
    "downlink_percent": "Downlink (%)",
}
DIGITS = {"mean_alpha": 3, "alpha_zero_percent": 1}  # two, where nothing is said
NOT_RUN = Value("not run", mark="absent")
FIRST = {"communication": "Dataset", "resolver": "Setting"}  # what the rows are; methods elsewhere
BESIDE = (
    "Ours; in square brackets where one more draw of the masks falls with 95 %; the paper's in round "
    "ones, and the difference. ✓ or ✗: two draws and two sets of seeds explain it or not; in brackets, "
    "by the draws of ten Louvain clients; no mark: not measured."
)

Columns = Sequence[tuple[str, Any, str]]  # head, the frame's column, how its values are written
POINTS, PERCENT, BYTES = "+.2f", "%", "B"
INTERVAL = re.compile(r"([+-][\d.]+) to ")
Row = Any  # a row of `records.beside`, as a named tuple
Place = tuple[str, str, str, int]  # dataset, method, metric, clients
Show = Callable[[Row, str], Value]  # of a number and its mark, "best", "second" or ""


def frame_table(
    caption: str, frame: pd.DataFrame, columns: Columns, *, names: int = 1, words: int = 0
) -> Table:
    """A row of the frame is a row of the table, which a page sorts by what the frame holds."""
    rows = [
        [_written(row[key], form) for _, key, form in columns] for row in frame.to_dict("records")
    ]
    return Table.of(caption, [head for head, *_ in columns], rows, names=names, words=words)


def _written(value: Any, form: str) -> str | Value:
    if isinstance(value, str):
        interval = INTERVAL.match(value)
        return Value(value, float(interval[1])) if interval else value
    if isinstance(value, Harm):
        return Value(str(value), value.harmed)
    if pd.isna(value):
        return "-"
    if form == PERCENT:
        return Value(f"{100 * value:.1f} %", value)
    if form == BYTES:
        return Value(f"{value / 1e6:,.1f} MB" if value >= 1e6 else f"{value / 1e3:.1f} kB", value)
    return Value(f"{value:{form}}", value)


def part_tables(part: Part, numbers: pd.DataFrame, show: Show) -> list[Table]:
    """A part's tables as the paper lays them out, each number as `show` writes it."""
    known = {(r.dataset, r.method, r.metric, r.clients): r for r in numbers.itertuples()}
    first = Column(FIRST.get(part.name, "Method"), numeric=False)
    made = []
    for head, columns, lines in _layouts(part):
        marks = [
            _marks([known.get(line[at]) for line in lines.values()]) for at in range(len(columns))
        ]
        rows = []
        for down, (label, places) in enumerate(lines.items()):
            cells = [
                show(known[place], marks[across][down]) if place in known else NOT_RUN
                for across, place in enumerate(places)
            ]
            rows.append((Value(label, label), *cells))
        made.append(Table(head, (first, *columns), tuple(rows)))
    return made


def _layouts(part: Part) -> Iterator[tuple[str, list[Column], dict[str, list[Place]]]]:
    """Of each table: its title, its columns, and for each of its rows the numbers in it."""
    names = [title(name) for name in part.datasets]
    if part.name in FIRST:  # settings down, rows and metrics across
        across = [(row.label, metric) for row in part.rows for metric in part.metrics]
        lines = {
            f"{name}, C = {clients}" if len(part.clients) > 1 else name: [
                (name, label, metric, clients) for label, metric in across
            ]
            for name in names
            for clients in part.clients
        }
        columns = [
            Column(METRIC[metric], label if len(part.rows) > 1 else "") for label, metric in across
        ]
        yield part.title, columns, lines
        return
    places = [(name, metric) for name in names for metric in part.metrics]
    if part.name == "rank":
        places += [(CITATION_MEAN, metric) for metric in ("upload_percent", "downlink_percent")]
    columns = [
        Column(METRIC[metric], "mean" if name == CITATION_MEAN else name) for name, metric in places
    ]
    for clients in part.clients:
        lines = {
            row.label: [(name, row.label, metric, clients) for name, metric in places]
            for row in part.rows
        }
        yield part.title + (f", C = {clients}" if len(part.clients) > 1 else ""), columns, lines


def _marks(column: Sequence[Row | None]) -> list[str]:
    """The best and the second-best distinct displayed mean of a column of scores."""
    means = [f"{r.mean:.2f}" if r is not None and r.metric in SCORES else "" for r in column]
    order = sorted(set(means) - {""}, key=float, reverse=True)[: 2 if len(column) > 1 else 0]
    words = dict(zip(order, ("best", "second"), strict=False))
    return [words.get(mean, "") for mean in means]


def mean_and_std(row: Row, *, published: bool = False) -> str:
    """`80.34 ± 0.61` with the digits the paper prints."""
    mean, std = (row.published_mean, row.published_std) if published else (row.mean, row.std)
    digits = DIGITS.get(row.metric, 2)
    text = f"{mean:.{digits}f}"
    return text if pd.isna(std) or row.metric not in SCORES else f"{text} ± {std:.{digits}f}"


def over_draws(row: Row) -> str:
    """` [79.31, 80.92]`: where one more draw of the masks falls with 95 %."""
    if row.spread is None or row.borrowed:
        return ""
    digits = DIGITS.get(row.metric, 2)
    low, high = row.spread.interval
    return f" [{low:.{digits}f}, {high:.{digits}f}]"


def explained(row: Row) -> str:
    """Whether the draws explain the difference; in brackets where they are borrowed."""
    text = {True: "✓", False: "✗", None: ""}[row.within_draws]
    return f" ({text})" if text and row.borrowed else f" {text}".rstrip()


def signed(value: float, digits: int = 2) -> str:
    """With its sign; what rounds to zero is +0, not -0."""
    return f"{round(value, digits) + 0.0:+.{digits}f}"


def show_ours(row: Row, mark: str) -> Value:
    return Value(mean_and_std(row), row.mean, mark)


def show_beside(row: Row, mark: str) -> Value:
    """Ours with both intervals, the paper's in brackets, the difference; ✓ or ✗ by the draws."""
    ours = mean_and_std(row) + over_draws(row)
    if pd.isna(row.difference):
        return Value(ours, row.mean)
    digits = DIGITS.get(row.metric, 2)
    paper = mean_and_std(row, published=True)
    return Value(f"{ours} ({paper}) {row.difference:+.{digits}f}{explained(row)}", row.mean)


def fairness_summary(numbers: pd.DataFrame) -> Table:
    """For each dataset and metric the best baseline with CNLL, PACE and the gap; the paper's beside."""
    paper = published()
    ours, theirs = (
        {place: rows.set_index("method")["mean"] for place, rows in groups}
        for groups in (
            table.groupby(["metric", "dataset"], sort=False)
            for table in (numbers, paper[paper.table == "fairness"])
        )
    )
    rivals = [f"{label}+CNLL" for name, label in NAMES.items() if name not in UNPUBLISHED]
    rows = []
    for metric, dataset in sorted(ours, key=lambda place: METRIC[place[0]]):
        if "PACE" not in ours[metric, dataset] or (metric, dataset) not in theirs:
            continue
        both = [means[metric, dataset] for means in (ours, theirs)]
        best = [means[means.index.isin(rivals)].idxmax() for means in both]
        its = [means[name] for means, name in zip(both, best, strict=True)]
        pace = [means["PACE"] for means in both]
        gaps = [mine - other for mine, other in zip(pace, its, strict=True)]
        pairs = ("{} ({})", best), *(("{:.2f} ({:.2f})", pair) for pair in (its, pace))
        texts = [form.format(*pair) for form, pair in (*pairs, ("{:+.2f} ({:+.2f})", gaps))]
        rows.append([dataset, METRIC[metric], *texts])
    heads = ["Dataset", "Metric", "Best with CNLL", "Its score", "PACE", "Gap"]
    return Table.of("Fairness summary", heads, rows, names=3, words=0)


def unexplained(numbers: Mapping[Part, pd.DataFrame]) -> Table:
    """Every score that is farther from the paper than the draws explain, METIS first, each once."""
    rows: list[list[str]] = []
    told: set[tuple[object, ...]] = set()
    for part in sorted(numbers, key=lambda part: part.name != "metis"):
        found: dict[str, dict[str, dict[str, Row]]] = {}  # place, method, metric
        for row in numbers[part].itertuples():
            label = SAME.get(row.method, row.method)
            number = row.dataset, label, row.metric, row.partition, row.clients
            if row.within_draws is False and row.metric in SCORES and number not in told:
                told.add(number)
                place = row.dataset + (f", C = {row.clients}" if len(part.clients) > 1 else "")
                found.setdefault(place, {}).setdefault(row.method, {})[row.metric] = row
        for place, methods in found.items():
            words = [f"{name} {_differences(part, each)}" for name, each in methods.items()]
            rows.append([part.title, place, "; ".join(words)])
    return Table.of("", ["Table", "Dataset", "Ours less the paper's"], rows, names=2)


def _differences(part: Part, metrics: Mapping[str, Row]) -> str:
    """`-9.20 / -10.58`, a dash where the draws do explain it; brackets where they are borrowed."""
    text = " / ".join(
        f"{metrics[name].difference:+.2f}" if name in metrics else "–" for name in part.metrics
    )
    return f"({text})" if all(row.borrowed for row in metrics.values()) else text


def claims_tables(claims: Sequence[Claim]) -> list[Table]:
    """Counts of the verdicts, then every sentence."""
    counts = Counter(claim.verdict for claim in claims)
    rows: list[list[str | Value]] = []
    for each in claims:
        mark = "best" if each.verdict == VERDICTS[2] else ""
        rows.append([each.place, each.statement, Value(each.verdict, mark=mark), each.evidence])
    heads = ["Where", "The paper's sentence", "Here", "Numbers"]
    total = [[str(counts[verdict]) for verdict in VERDICTS]]
    return [Table.of("", VERDICTS, total, names=0, words=0), Table.of("", heads, rows, names=4)]


def agreement(numbers: Mapping[Part, pd.DataFrame]) -> Table:
    """For each part, how far its scores are from the published ones."""
    rows: list[list[str | int | Value]] = []
    for part, table in numbers.items():
        scores = table[table.difference.notna() & table.metric.isin(SCORES)]
        if len(scores):
            sizes = scores.difference.abs()
            farthest = scores.loc[sizes.idxmax()]
            where = f"{farthest.method}, {farthest.dataset}"
            judged = scores.within_draws.dropna()
            middle = Value(f"{sizes.median():.2f}", sizes.median())
            worst = Value(signed(farthest.difference), sizes.max(), below=where)
            explained = f"{judged.sum()} of {len(judged)}"
            rows.append([part.title, len(scores), middle, worst, explained])
    heads = ("Part", "Numbers", "Median |difference|", "Farthest", "Explained by the draw")
    return Table.of("Our scores against the published ones, in points", heads, rows, words=0)


def markdown(tables: Iterable[Table]) -> str:
    """Tables below each other, each under its title."""
    return (
        "\n\n".join(
            f"## {table.title}\n\n{table.markdown()}" if table.title else table.markdown()
            for table in tables
        )
        + "\n"
    )


def write_tables(folder: Path, name: str, tables: Iterable[Table]) -> Path:
    """Write `tables/NAME.md` of a folder of results."""
    path = folder / "tables" / f"{name}.md"
    atomic.write(path, markdown(tables).encode())
    return path
