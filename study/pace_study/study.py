"""The parts of the study: which cells each needs, and which rows its table has."""

import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

from pace.datasets import DATA_SEED
from pace.errors import SettingError, did_you_mean
from pace.merging import RANK
from pace.protocol import SEEDS as SEEDS
from pace_study import content
from pace_study.cell import Cell
from pace_study.controls import spelled

CONTENT = tomllib.loads(content("study.toml"))
LISTS = {name: tuple(items) for name, items in CONTENT["lists"].items()}
CITATION, AVAILABLE, SIX = LISTS["citation"], LISTS["available"], LISTS["six"]
EVERY_MODEL, FEW_MODELS, SHARES = LISTS["every-model"], LISTS["few-models"], LISTS["shares"]
DRAWS, FRESH_DRAWS, FEW_DRAWS = LISTS["draws"], LISTS["fresh-draws"], LISTS["few-draws"]
LARGE = ("cs", "computers")
REDRAW_SEEDS: int = CONTENT["settings"]["redrawn"]["most_seeds"]  # of those asked for, the first


@dataclass(frozen=True)
class Row:
    """A row of a table: the paper's words for it, and what it reads."""

    label: str
    method: str
    reading: str = "adopted"
    rank: int | None = RANK


def _row(label: str, method: str, reading: str = "adopted", rank: int = RANK) -> Row:
    return Row(label, method, reading, rank or None)


ROWS = {
    label: _row(label, *([read] if isinstance(read, str) else read))
    for label, read in CONTENT["rows"].items()
}
SETS = {name: tuple(ROWS[label] for label in labels) for name, labels in CONTENT["sets"].items()}
LOCAL, PACE, DUO, RIDGE, SUMS = SETS["closed"]
FULL, ALONE, RAW = ROWS["pace-full"], ROWS["a site alone, every label"], ROWS["PACE, raw moments"]
MATRIX, CALIBRATED, ABLATION = SETS["matrix"], SETS["calibrated"], SETS["ablation"]
STEPS, GUARDS, REGRESSIONS = SETS["steps"], SETS["guards"], SETS["regressions"]
BEYOND = tuple(dict.fromkeys((*STEPS, *GUARDS, *REGRESSIONS)))
REFERENCES, LABELS_CORE = SETS["references"], SETS["labels-core"]
FIELD = (*REFERENCES, *SETS["rivals"])
# What a ranked setting has to have: not sums of thousands of columns, nor an MLP over rounds.
CORE = tuple(row for row in FIELD if row.method not in LISTS["dear"])
NAMES = {row.method: row.label for row in MATRIX[1:-1]}  # the paper's, of its baselines
UNPUBLISHED = ("fedrcl-released",)  # rows beside the paper's: another reading of what it says


@dataclass(frozen=True)
class Part:
    """One table of the paper, or a part of our own: rows on some datasets, under one partition."""

    name: str
    rows: tuple[Row, ...]
    table: str = ""  # its name among the published records; a part of our own has none
    title: str = ""
    metrics: tuple[str, ...] = ("accuracy", "weighted_f1")
    datasets: tuple[str, ...] = SIX
    clients: tuple[int, ...] = (10,)
    partition: str = "louvain"
    data_seeds: tuple[int, ...] = (DATA_SEED,)
    models: tuple[str, ...] = ("gcn",)
    most_seeds: int | None = None  # it takes only the first of the seeds, where not None
    thrifty: bool = False  # what takes long has the first few of the draws

    @property
    def family(self) -> str:
        return self.name.split("-")[0]

    def seeds(self, seeds: Iterable[int]) -> list[int]:
        """Those of the seeds that it is computed on."""
        return in_order(seeds)[: self.most_seeds]

    def cells(self, seeds: Sequence[int]) -> list[Cell]:
        """Every cell that the table is computed from."""
        setting = product(self.datasets, self.clients, self.models, self.data_seeds)
        return [
            Cell(dataset, self.partition, clients, row.method, row.rank, seed, data_seed, model)
            for dataset, clients, model, data_seed in setting
            for seed in self.seeds(seeds)
            for row in self.rows
            if data_seed in self.draws(dataset, clients, row)
        ]

    def draws(self, dataset: str, clients: int, row: Row) -> tuple[int, ...]:
        """The draws of the masks that a row has in a setting.

        Methods over rounds, sums of thousands of columns, and large graphs other than Louvain's ten
        clients take long.
        """
        large = dataset in LARGE and (self.partition, clients) != ("louvain", 10)
        long = self.thrifty and (large or row.method in LISTS["dear"])
        return self.data_seeds[: len(FEW_DRAWS)] if long else self.data_seeds


def in_order(seeds: Iterable[int]) -> list[int]:
    """The paper's seeds in its order, then any others, each once."""
    distinct = set(seeds)
    return [seed for seed in SEEDS if seed in distinct] + sorted(distinct - set(SEEDS))


def _part(name: str, content: Mapping[str, Any], **settings: Any) -> Part:
    """With the settings that it shares with others, and its own in front of them."""
    for shared in content.get("is", ()):
        settings |= CONTENT["settings"][shared]
    settings |= content
    sets, _ = settings.pop("rows"), settings.pop("is", ())
    for key, value in settings.items():
        settings[key] = tuple(value) if isinstance(value, list) else LISTS.get(value, value)
    rows = dict.fromkeys(row for name in sets for row in SETS[name])
    return Part(name, tuple(rows), **settings)


PARTS = {name: _part(name, content) for name, content in CONTENT["paper"].items()}
PARTS |= {name: _part(name, it, datasets="available") for name, it in CONTENT["own"].items()}
OWN = tuple(CONTENT["own"])
FAMILIES = {PARTS[name].family for name in OWN}  # asked for together by the first word
MODEL_PARTS = tuple(name for name in OWN if name.startswith("models"))


def chosen(names: Iterable[str]) -> list[Part]:
    """The named parts; `all` is every part of the paper. `masks`, `beyond`, `models` are our own."""
    wanted: dict[str, Part] = {}
    for name in names:
        if name == "all":
            wanted |= {key: part for key, part in PARTS.items() if key not in OWN}
        elif name in FAMILIES:
            wanted |= {key: PARTS[key] for key in OWN if key.startswith(name)}
        elif name in PARTS:
            wanted[name] = PARTS[name]
        else:
            hint = did_you_mean(name, PARTS)
            raise SettingError(
                f"the study has no part {name!r}: {hint}its parts are {', '.join(PARTS)} and all"
            )
    return list(wanted.values())


def moved(
    names: Sequence[str],
    partition: str | None,
    clients: int | None,
    draws: Sequence[str] | None = None,
) -> list[Part]:
    """The named parts, or under another partition or with other clients the first of each family."""
    if not all(draw.isdecimal() for draw in draws or ()):
        raise SettingError(f"--draws is {','.join(draws or ())!r}, expected data seeds like 10,11")
    setting: dict[str, Any] = {}
    if draws:
        setting = {"data_seeds": tuple(map(int, draws)), "thrifty": False}
    if partition is None and clients is None:
        return [replace(part, **setting) for part in chosen(names)]
    setting |= {} if partition is None else {"partition": partition}
    setting |= {} if clients is None else {"clients": (clients,)}
    firsts = [PARTS[name] if name in PARTS else chosen([name])[0] for name in names]
    return [replace(part, **{"clients": part.clients[:1]} | setting) for part in firsts]


def narrowed(
    parts: Iterable[Part], datasets: Sequence[str] | None, methods: Sequence[str] | None
) -> list[Part]:
    """The parts with only the wanted datasets and methods; empty ones fall away."""
    kept = []
    known = {name for part in PARTS.values() for name in part.datasets}
    for part in parts:
        rows = tuple(row for row in part.rows if methods is None or spelled(row.method) in methods)
        if part.family == "field":  # which any other method joins
            its = {spelled(row.method) for row in part.rows}
            rows += tuple(Row(name, name) for name in methods or () if name not in its)
        names = part.datasets
        if datasets is not None:
            # One's own graph joins every part, but those whose sites a column of the data names.
            new = set() if part.partition == "column" else set(datasets) - known
            names = tuple(name for name in datasets if name in part.datasets or name in new)
        if rows and names:
            kept.append(replace(part, rows=rows, datasets=names))
    return kept
