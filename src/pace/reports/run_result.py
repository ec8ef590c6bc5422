"""What a simulation found: its settings, its trials, and every view of them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pace.errors import FileError, SettingError
from pace.io import atomic, console, drawn, many, plain_record, record_key, records, untrusted
from pace.registry import installed
from pace.reports import run_views
from pace.reports.document import render_page
from pace.reports.table import Table
from pace.reports.trial import Comparison, Row, Summary, Trial, summarise, tidy_frame
from pace.task import SCORES

if TYPE_CHECKING:
    import pandas
    from matplotlib.figure import Figure
    from rich.console import Console

NAME, PAGE = "results.json", "index.html"
LARGEST = 2**28  # bytes of a file of results
LIBRARIES = ("pace-fgl", "torch", "numpy", "scikit-network", "pymetis", "torch-geometric")


def versions() -> dict[str, str]:
    """What a result is made with."""
    return installed(LIBRARIES)


@dataclass(frozen=True, kw_only=True)
class RunSettings:
    """What was asked for, and what it ran with."""

    command: str = ""
    versions: dict[str, str] = field(default_factory=versions)
    dataset: str
    partition: str
    clients: int
    seeds: tuple[int, ...]
    device: str
    data_seed: int | None
    """Of the partition and the masks; None where they were given."""
    model: str
    """Its name in `pace.MODELS`."""
    setups: dict[str, dict[str, Any]] = field(metadata=record_key("settings"))
    """By method: what `Federation.describe` says of the first seed's federation, and its gate."""

    @property
    def shape(self) -> dict[str, Any]:
        """The shared model's fields: widths, dropout and the rest."""
        return dict(next(iter(self.setups.values()))["model"])

    @property
    def numbers(self) -> str:
        """How messages are written: `float32`, or of several methods `float32, int8`."""
        return ", ".join(sorted({setup["numbers"] for setup in self.setups.values()}))

    @property
    def title(self) -> str:
        """`synthetic, louvain, 10 clients, 5 seeds`; model and numbers where they are not the usual."""
        parts = [self.dataset, self.partition, many(self.clients, "client")]
        parts.append(many(len(self.seeds), "seed"))
        parts += [self.model] if self.model != "gcn" else []
        parts += [f"messages in {self.numbers}"] if self.numbers != "float32" else []
        return ", ".join(parts)


@dataclass(frozen=True, eq=False)
class RunResult:
    """What `pace.simulate` or `pace run` found. Its repr is the table of scores.

    Example:
        >>> import pace
        >>> dataset = pace.load("synthetic:nodes=90,features=12,communities=3,classes=3")
        >>> graphs = pace.divide(dataset, "dirichlet", clients=3)
        >>> result = pace.simulate(graphs, methods=["local", "pace"], seeds=[7], epochs=5)
        >>> print(result.table().markdown().splitlines()[0])
        | Method | Reading | Accuracy | W-F1 | Macro-F1 |
        >>> len(result.compare("pace", "local").per_seed)
        1
    """

    settings: RunSettings
    trials: tuple[Trial, ...]
    """One for each method and seed."""

    def __repr__(self) -> str:
        return drawn(self.show)

    def show(self, to: Console | None = None) -> None:
        """Print scores, what receivers adopted, and a sentence."""
        adoption = run_views.adoption_table(self.trials)
        more = filter(None, [adoption if adoption.rows else None, run_views.verdict(self)])
        (to or console()).print(self.table(), *more)

    def _repr_html_(self) -> str:
        return self.table().html()

    @cached_property
    def summary(self) -> list[Summary]:
        """Scores, α and bytes by method and reading."""
        return summarise(self.trials)

    def table(self) -> Table:
        """Pooled test scores in percent, mean ± standard deviation over seeds."""
        gates = {name: setup["gate"] for name, setup in self.settings.setups.items()}
        return run_views.score_table(self.summary, self.settings.title, gates)

    def frame(self, by: str = "seed") -> pandas.DataFrame:
        """One tidy pandas table, a row for each method, reading and seed, or also each client.

        Args:
            by: `"seed"`, scores pooled over clients, or `"client"`.
        """
        return tidy_frame(self.keyed(), by)

    def keyed(self) -> Iterator[tuple[Row, Trial]]:
        """Each trial, and what it is of: the columns that its rows begin with."""
        settings, widths = self.settings, self.settings.shape["widths"]
        shared = ("dataset", "partition", "clients", "data_seed", "model")
        common = {name: getattr(settings, name) for name in shared}
        common |= {"hidden": widths[1] if len(widths) > 2 else None, "layers": len(widths) - 1}
        for trial in self.trials:
            setup = settings.setups[trial.method]
            rank = setup["method"].get("rank")
            own = {"epochs": setup["recipe"]["epochs"], "numbers": setup["numbers"]}
            yield common | own | {"rank": rank if isinstance(rank, int) else None}, trial

    def compare(self, first: str, second: str, score: str = "accuracy") -> Comparison:
        """One method's adopted models less another's, seed by seed, with a 95 % interval.

        Args:
            first: a method of this run.
            second: another.
            score: `accuracy`, `weighted_f1` or `macro_f1`.
        Raises:
            SettingError: the run has no such method or score.
        """
        rows = {row.method: row.spreads for row in self.summary}  # the last reading's
        for name in (first, second):
            if name not in rows:
                raise SettingError(f"the run has no method {name!r}: it has {', '.join(rows)}")
        scores = [name for name in rows[first] if name in (*SCORES, "roc_auc")]
        if score not in scores:
            raise SettingError(f"the score is {score!r}, expected one of {', '.join(scores)}")
        pairs = zip(rows[first][score].per_seed, rows[second][score].per_seed, strict=True)
        return Comparison(first, second, score, tuple(a - b for a, b in pairs))

    def plot(self) -> Figure:
        """Accuracy by method with its spread over seeds, and α by client: a matplotlib figure."""
        return run_views.draw_run(self)

    def page(self, folder: str | Path) -> Path:
        """Write `index.html`, one page that needs nothing but itself; its path."""
        path = Path(folder) / PAGE
        atomic.write(path, render_page(run_views.run_document(self)).encode())
        return path

    def write(self, folder: str | Path) -> Path:
        """Write `results.json`, which `RunResult.read` reads; its path."""
        path = Path(folder) / NAME
        atomic.write(path, (json.dumps(self.plain(), indent=1) + "\n").encode())
        return path

    def plain(self) -> dict[str, Any]:
        """As JSON has it: settings, a result for each method and reading, then the trials."""
        results = [row | row.pop("spreads") for row in map(plain_record, self.summary)]
        trials = [trial.plain() for trial in self.trials]
        return {**plain_record(self.settings), "results": results, "trials": trials}

    @classmethod
    def read(cls, folder: str | Path) -> RunResult:
        """The run that `pace run --out` stored in a folder.

        Raises:
            FileError: there is none, or it is damaged.
        """
        path = Path(folder) / NAME
        if not path.exists():
            raise FileError(f"{path} not found: name a folder that `pace run --out` has written")
        with records.reading(path, "not a result of `pace run`", "run it again"):
            content = untrusted.json(untrusted.read(path, LARGEST))
            trials = tuple(Trial.of(trial) for trial in content["trials"])
            return cls(records.read_record(RunSettings, content), trials)
