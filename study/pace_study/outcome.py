"""What the stored cells amount to: tables, figures and claims, as files and in the terminal."""

import json
from collections.abc import Iterable, Sequence
from functools import cached_property
from pathlib import Path

import pandas as pd
from rich.console import Console

from pace.io import atomic
from pace_study import beyond, field, models, tables
from pace_study.cell import Store
from pace_study.claims import claims_tables, judge_claims
from pace_study.figures import draw_figures
from pace_study.folder import read_json
from pace_study.membership import add_membership, read_membership
from pace_study.scores import score_cells
from pace_study.study import CORE, FIELD, LABELS_CORE, REFERENCES, SEEDS, Part, Row


class Outcome:
    """What is made of some parts of a study, from the cells of a store and some seeds."""

    def __init__(self, parts: Sequence[Part], store: Store, seeds: Sequence[int]) -> None:
        self.parts, self.seeds, self.folder = parts, seeds, store.folder.parent
        self.scores = score_cells(store)
        self.beyond = beyond.Beyond(self.scores, seeds)
        redrawn = tables.known_draws(self.scores, seeds)
        # A run of our own parts alone may have had fewer seeds than the paper's tables have here.
        stored = [seed for seed in SEEDS if seed in set(self.scores.seed)]
        paper = any(part.table for part in parts)
        self.paper_seeds = seeds if paper else stored or seeds
        self.numbers: dict[Part, pd.DataFrame] = {}
        for part in parts:
            if part.table and len(numbers := tables.measured(part, self.scores, seeds)):
                self.numbers[part] = tables.beside(numbers, redrawn)

    def _asked(self, family: str) -> bool:
        return any(part.family == family for part in self.parts)

    @cached_property
    def draws(self) -> dict[str, tuple[pd.DataFrame, Sequence[Row]]]:
        """Every-label methods and the field over fresh draws, and the rows that are ranked.

        The field has newcomers too. Empty where it was not asked for.
        """
        families = {"labels": (REFERENCES, LABELS_CORE, False), "field": (FIELD, CORE, True)}
        membership = read_membership(self.folder)
        frames = {
            name: (field.field_settings(self.scores, rows, self.seeds, membership, own=own), core)
            for name, (rows, core, own) in families.items()
            if self._asked(name)
        }
        return {name: pair for name, pair in frames.items() if len(pair[0])}

    def add_membership(self) -> None:
        """Measure what the uploads of the field's methods tell, of those not in the folder yet."""
        if "field" in self.draws:
            methods = self.draws["field"][0].method.unique()
            sending = (name for name in methods if name not in field.NOTHING_SENT)
            add_membership(self.folder, sending)
            del self.draws  # it is read anew

    def write(self, out: Path, absent: Iterable[str]) -> list[Path]:
        """Write `tables/` and `figures/`; the paths written."""
        texts = {f"tables/{name}": text for name, text in self._tables()}
        claims = judge_claims(self.scores, self.paper_seeds)
        texts["claims.md"] = tables.markdown(claims_tables(claims))
        # With those that an earlier run on other parts noted.
        datasets = {name for part in self.parts for name in part.datasets}
        earlier = set(read_json(out / "absent.json") or ()) - datasets
        texts["absent.json"] = json.dumps(sorted(earlier | set(absent))) + "\n"
        for name, text in texts.items():
            atomic.write(out / name, text.encode())
        return [*(out / name for name in texts), *draw_figures(self, out / "figures")]

    def _tables(self) -> Iterable[tuple[str, str]]:
        for part, numbers in self.numbers.items():
            ours = tables.part_tables(part, numbers, tables.show_ours)
            pairs = tables.part_tables(part, numbers, tables.show_beside)
            yield f"{part.name}.md", tables.markdown(ours)
            yield f"{part.name}-beside-paper.md", tables.markdown(pairs)
            yield f"{part.name}.csv", numbers.drop(columns="borrowed").to_csv(index=False)
            if part.name == "fairness":
                yield "fairness-summary.md", tables.markdown([tables.fairness_summary(numbers)])
        if self.numbers:
            yield "unexplained.md", tables.markdown([tables.unexplained(self.numbers)])
        if self._asked("beyond") and len(self.beyond.settings()):
            yield "beyond.md", tables.markdown(tables.filled(beyond.duo_tables(self.beyond)))
            if len(self.beyond.lines(beyond.METHODS)):
                yield "ridge.md", tables.markdown(tables.filled(beyond.ridge_tables(self.beyond)))
        for name, (settings, core) in self.draws.items():
            yield f"{name}.md", tables.markdown(tables.filled(field.field_tables(settings, core)))
            tidy = settings.rename(columns={"worst_local": "worst"})[field.TIDY]
            yield f"{name}.csv", tidy.to_csv(index=False)
        if self._asked("models") and len(models.model_scores(self.scores, self.seeds)):
            yield "models.md", models.models_markdown(self.scores, self.seeds)

    def show(self, console: Console) -> None:
        """Each part's table in the terminal, then summaries of what is beyond the paper."""
        shown = [
            table
            for part, numbers in self.numbers.items()
            for table in tables.part_tables(part, numbers, tables.show_ours)
        ]
        for name, (settings, core) in self.draws.items():
            parts = [part for part in self.parts if part.family == name]
            summary = field.summary_table(settings, core)
            shown.append(summary)
            one = len({dataset for part in parts for dataset in part.datasets}) == 1
            if one or not summary.rows:  # nothing is ranked of a few methods, or on one's own graph
                shown.append(field.asked_table(settings, parts))
        if self._asked("models"):
            shown.append(models.model_table(self.scores, self.seeds))
            shown.append(models.geometry_table(self.scores, self.seeds))
        if self._asked("beyond") and len(self.beyond.settings()):
            shown += beyond.duo_tables(self.beyond)[::2]
        for table in tables.filled(shown):
            table.show(console)
