"""The numbers of the paper's tables, ours and the published ones, and the tables made of them."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from pace.io import atomic
from pace.protocol import SEEDS
from pace.reports import Column, Table, Value
from pace_study import content
from pace_study.scores import SCORES, Draws, Harm, of_part, student_t
from pace_study.study import CITATION, CONTENT, NAMES, OWN, PARTS, SHARES, UNPUBLISHED, Part

TITLES, METRIC, COLUMNS = CONTENT["titles"], CONTENT["metrics"], CONTENT["columns"]
SAME = CONTENT["same"]  # labels of one row in several tables -> its label among the redraws
CITATION_MEAN = "Cora+CiteSeer+PubMed mean"  # the rank table's bytes are averaged over these
PRINTED = 0.005  # points: what rounding to two digits hides
NUMBER = ["table", "dataset", "method", "metric", "clients"]  # what tells a number of the paper
Key = tuple[str, str, str, str, int]  # dataset's title, row's label, metric, partition, clients
DIGITS = {"mean_alpha": 3, "alpha_zero_percent": 1}  # two, where nothing is said
NOT_RUN = Value("not run", mark="absent")
MEAN = {CITATION_MEAN: "mean"}  # a short head
FIRST = {"communication": "Dataset", "resolver": "Setting"}  # what the rows are; methods elsewhere

# A frame's column, among `COLUMNS`, or its head, the column and how its values are written.
Columns = Sequence[str | tuple[str, Any, str]]
PERCENT, BYTES = "%", "B"
Row = Any  # a row of `beside`, as a named tuple
Show = Callable[[Row, str], Value]  # of a number and its mark, "best", "second" or ""


def title(dataset: str) -> str:
    """The paper's name of a dataset; a file of one's own goes by its stem."""
    other = Path(dataset).stem if dataset.endswith(".graph") else dataset
    return str(TITLES.get(dataset, other))


@cache
def published() -> pd.DataFrame:
    """The paper's numbers: percent, with the standard deviation over seeds where it prints one."""
    return pd.DataFrame(json.loads(content("paper.json"))["records"])


def measured(part: Part, scores: pd.DataFrame, seeds: Sequence[int]) -> pd.DataFrame:
    """The numbers of a part's table: `NUMBER`, partition, mean and sample standard deviation."""
    trials = of_part(scores, part, seeds)
    groups = trials.groupby(["dataset", "clients", "label"], sort=False)[list(part.metrics)]
    tables = [groups.agg(["mean", "std"]).stack(0, future_stack=True)]
    if part.name == "rank" and set(part.datasets) == set(CITATION) == set(trials.dataset):
        first = trials[trials.seed == part.seeds(seeds)[0]].assign(dataset=CITATION_MEAN)
        groups = first.groupby(["dataset", "clients", "label"], sort=False)[list(SHARES[2:])]
        whole = groups.size() == len(CITATION)
        tables.append(groups.agg(["mean"])[whole].stack(0, future_stack=True).assign(std=np.nan))
    table = pd.concat(tables).rename_axis(["dataset", "clients", "method", "metric"]).reset_index()
    table = table.assign(
        table=part.table, dataset=table.dataset.map(title), partition=part.partition
    )
    return table[["table", "dataset", "method", "metric", "mean", "std", "partition", "clients"]]


def known_draws(scores: pd.DataFrame, seeds: Sequence[int]) -> dict[Key, Draws]:
    """Every score that `pace reproduce masks` has measured on at least two draws."""
    known: dict[Key, Draws] = {}
    metrics = [*SCORES, *SHARES[:2]]
    for part in (PARTS[name] for name in OWN if name.startswith("masks")):
        trials = of_part(scores, part, seeds, fewest=2)
        means = trials.groupby(["dataset", "label", "data_seed"])[metrics].mean()
        for (dataset, label), draws in means.groupby(level=[0, 1]):
            for metric in metrics:
                key = (title(dataset), label, metric, part.partition, part.clients[0])
                known[key] = Draws(tuple(draws[metric]))
    return known


def beside(records: pd.DataFrame, redrawn: Mapping[Key, Draws]) -> pd.DataFrame:
    """Our numbers with the paper's, and whether a draw of the masks explains the difference.

    Draws of the same row with ten Louvain clients are borrowed where those of its own setting were not
    made. `reach` is how far two draws and two sets of seeds are apart at most, with 95 %:

        t sqrt(2 s² + (σ² + σ'²) / 5),   s over draws, σ and σ' over our seeds and the paper's
    """
    paper = published().rename(columns={"mean": "published_mean", "std": "published_std"})
    table = records.merge(paper.drop(columns="partition"), on=NUMBER, how="left")
    table["difference"] = table["mean"] - table.published_mean
    added = []
    for row in table.itertuples():
        key = row.dataset, SAME.get(row.method, row.method), row.metric
        own = redrawn.get((*key, row.partition, row.clients))
        numbers = (len(own.values), own.mean, *own.interval) if own else (0, None, None, None)
        spread = own or redrawn.get((*key, "louvain", 10))
        within = _within(row.difference, row.std, row.published_std, spread)
        added.append((*numbers, within, own is None))
    columns = ["draws", "draws_mean", "draws_low", "draws_high", "within_draws", "borrowed"]
    return table.join(pd.DataFrame(added, table.index, columns, dtype=object))


def _within(difference: float, ours: float, theirs: float, draws: Draws | None) -> bool | None:
    if draws is None or np.isnan(difference):
        return None
    seeds = np.nan_to_num(ours) ** 2 + np.nan_to_num(theirs) ** 2
    both = 2 * draws.std**2 + seeds / len(SEEDS)
    reach = student_t(len(draws.values)) * float(np.sqrt(both))
    return bool(abs(difference) <= reach + PRINTED)


# --- tables -------------------------------------------------------------------------------------


def frame_table(
    caption: str, frame: pd.DataFrame, columns: Columns, *, names: int = 1, words: int = 0
) -> Table:
    """A row of the frame is a row of the table, which a page sorts by what the frame holds."""
    shown = [(COLUMNS[c][0], c, COLUMNS[c][1]) if isinstance(c, str) else c for c in columns]
    rows = [
        [_written(row[key], form) for _, key, form in shown] for row in frame.to_dict("records")
    ]
    return Table.of(caption, [head for head, *_ in shown], rows, names=names, words=words)


def _written(value: Any, form: str) -> str | Value:
    if isinstance(value, str):
        return value
    if isinstance(value, Harm):
        return Value(f"{value.harmed:{form}}" if form else str(value), value.harmed)
    if isinstance(value, tuple) and not pd.isna(value[0]):  # an interval
        return Value("{:+.2f} to {:+.2f}".format(*value), round(value[0], 2))
    if isinstance(value, tuple) or pd.isna(value):
        return "-"
    if form == PERCENT:
        return Value(f"{100 * value:.1f} %", value)
    if form == BYTES:
        return Value(f"{value / 1e6:,.1f} MB" if value >= 1e6 else f"{value / 1e3:.1f} kB", value)
    return Value(f"{value:{form}}", value)


def part_tables(part: Part, numbers: pd.DataFrame, show: Show) -> list[Table]:
    """A part's tables as the paper lays them out, each number as `show` writes it.

    Rows are methods, in a table for each number of clients, or settings (`FIRST`).
    """
    names, labels = [title(name) for name in part.datasets], [row.label for row in part.rows]
    settings = [(name, clients) for name in names for clients in part.clients]
    by_setting, count = part.name in FIRST, ", C = {}" if len(part.clients) > 1 else ""
    column = ["method", "metric"] if by_setting else ["dataset", "metric", "clients"]
    marks = _marks(numbers, column, compared=len(settings if by_setting else labels) > 1)
    pairs = zip(numbers.itertuples(), marks, strict=True)
    cells = {(r.dataset, r.clients, r.method, r.metric): show(r, mark) for r, mark in pairs}

    def line(label: str, keys: Iterable[tuple[str, int, str, str]]) -> tuple[Value, ...]:
        return Value(label, label), *(cells.get(key, NOT_RUN) for key in keys)

    first = Column(FIRST.get(part.name, "Method"), numeric=False)
    if by_setting:
        across = list(product(labels, part.metrics))
        heads = [Column(METRIC[m], label if len(labels) > 1 else "") for label, m in across]
        rows = [
            line(name + count.format(clients), [(name, clients, *cell) for cell in across])
            for name, clients in settings
        ]
        return [Table(part.title, (first, *heads), tuple(rows))]
    across = list(product(names, part.metrics))
    if part.name == "rank":
        across += product([CITATION_MEAN], SHARES[2:])
    heads, tables = [Column(METRIC[m], MEAN.get(name, name)) for name, m in across], []
    for clients in part.clients:
        rows = [line(label, [(name, clients, label, m) for name, m in across]) for label in labels]
        tables.append(Table(part.title + count.format(clients), (first, *heads), tuple(rows)))
    return tables


def _marks(numbers: pd.DataFrame, column: Sequence[str], *, compared: bool) -> list[str]:
    """The best and the second-best distinct displayed mean of each column of scores."""
    means = numbers["mean"].map("{:.2f}".format).astype(float)
    order = means.groupby([numbers[key] for key in column]).rank("dense", ascending=False)
    marks = {1: "best", 2: "second"} if compared else {}
    return [marks.get(rank, "") for rank in order.where(numbers.metric.isin(SCORES))]


def mean_and_std(mean: float, std: float, metric: str) -> str:
    """`80.34 ± 0.61` with the digits the paper prints."""
    digits = DIGITS.get(metric, 2)
    text = f"{mean:.{digits}f}"
    return text if pd.isna(std) or metric not in SCORES else f"{text} ± {std:.{digits}f}"


def show_ours(row: Row, mark: str) -> Value:
    return Value(mean_and_std(row.mean, row.std, row.metric), row.mean, mark)


def show_beside(row: Row, mark: str) -> Value:
    """Ours, where one more draw of the masks falls, the paper's in brackets, the difference.

    ✓ or ✗: whether the draws explain it; in brackets where they are borrowed.
    """
    text, digits = mean_and_std(row.mean, row.std, row.metric), DIGITS.get(row.metric, 2)
    if row.draws:
        text += f" [{row.draws_low:.{digits}f}, {row.draws_high:.{digits}f}]"
    if not pd.isna(row.difference):
        paper = mean_and_std(row.published_mean, row.published_std, row.metric)
        text += f" ({paper}) {row.difference:+.{digits}f}"
        if row.within_draws is not None:
            explained = "✓" if row.within_draws else "✗"
            text += f" ({explained})" if row.borrowed else f" {explained}"
    return Value(text, row.mean)


def fairness_summary(numbers: pd.DataFrame) -> Table:
    """For each dataset and metric the best baseline with CNLL, PACE and the gap; the paper's beside."""
    paper = published()
    rivals = [f"{label}+CNLL" for name, label in NAMES.items() if name not in UNPUBLISHED]
    both = []
    for table in (numbers, paper[paper.table == "fairness"]):
        means = table.set_index(["metric", "dataset", "method"])["mean"]
        wide = means.unstack(sort=False).reindex(columns=[*rivals, "PACE"]).dropna(subset="PACE")
        best, names = wide[rivals].max(axis=1), wide[rivals].idxmax(axis=1)
        both.append(wide[["PACE"]].assign(name=names, best=best, gap=wide.PACE - best))
    ours, theirs = both
    rows = []
    for metric, dataset in ours.index.intersection(theirs.index, sort=False):
        row, paper = ours.loc[metric, dataset], theirs.loc[metric, dataset]
        numbers = [f"{row[key]:.2f} ({paper[key]:.2f})" for key in ("best", "PACE")]
        gap = f"{row.gap:+.2f} ({paper.gap:+.2f})"
        rows.append([dataset, METRIC[metric], f"{row['name']} ({paper['name']})", *numbers, gap])
    heads = ["Dataset", "Metric", "Best with CNLL", "Its score", "PACE", "Gap"]
    ordered = sorted(rows, key=lambda row: row[1])
    return Table.of("Fairness summary", heads, ordered, names=3, words=0)


def unexplained(numbers: Mapping[Part, pd.DataFrame]) -> Table:
    """Every score that is farther from the paper than the draws explain, METIS first, each once."""
    parts = sorted(numbers, key=lambda part: part.name != "metis")
    table = pd.concat([numbers[part].assign(part=part) for part in parts])
    scores = table[table.within_draws.eq(False) & table.metric.isin(SCORES)]
    keys = ["dataset", "row", "metric", "partition", "clients"]
    scores = scores.assign(row=scores.method.replace(SAME)).drop_duplicates(keys)
    rows, groups = [], scores.groupby(["part", "dataset", "clients"], sort=False)
    for (part, dataset, clients), group in groups:
        setting = dataset + (f", C = {clients}" if len(part.clients) > 1 else "")
        methods = group.groupby("method", sort=False)
        differences = [f"{name} {_differences(part, metrics)}" for name, metrics in methods]
        rows.append([part.title, setting, "; ".join(differences)])
    return Table.of("", ["Table", "Dataset", "Ours less the paper's"], rows, names=2)


def _differences(part: Part, metrics: pd.DataFrame) -> str:
    """`-9.20 / -10.58`, a dash where the draws do explain it; brackets where they are borrowed."""
    differences = metrics.set_index("metric").difference
    text = " / ".join(f"{differences[m]:+.2f}" if m in differences else "–" for m in part.metrics)
    return f"({text})" if metrics.borrowed.all() else text


def agreement(numbers: Mapping[Part, pd.DataFrame]) -> Table:
    """For each part, how far its scores are from the published ones."""
    rows = []
    for part, table in numbers.items():
        scores = table[table.difference.notna() & table.metric.isin(SCORES)]
        if len(scores):
            sizes = scores.difference.abs()
            farthest = scores.loc[sizes.idxmax()]
            where = f"{farthest.method}, {farthest.dataset}"
            judged = scores.within_draws.dropna()
            middle = Value(f"{sizes.median():.2f}", sizes.median())
            worst = Value(f"{farthest.difference:+z.2f}", sizes.max(), below=where)
            explained = f"{judged.sum()} of {len(judged)}"
            rows.append((part.title, len(scores), middle, worst, explained))
    heads = ("Part", "Numbers", "Median |difference|", "Farthest", "Explained by the draw")
    return Table.of("Our scores against the published ones, in points", heads, rows, words=0)


def filled(tables: Iterable[Table]) -> list[Table]:
    """Those that have rows."""
    return [table for table in tables if table.rows]


def markdown(tables: Iterable[Table]) -> str:
    """Tables below each other, each under its title."""
    blocks = [f"## {t.title}\n\n{t.markdown()}" if t.title else t.markdown() for t in tables]
    return "\n\n".join(blocks) + "\n"


def write_tables(folder: Path, name: str, tables: Iterable[Table]) -> Path:
    """Write `tables/NAME.md` of a folder of results."""
    path = folder / "tables" / f"{name}.md"
    atomic.write(path, markdown(tables).encode())
    return path
