"""Every model on every graph: Local, FedAvg+CNLL and PACE, and what propagated moments are worth."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import product

import pandas as pd

from pace.reports import Table
from pace_study.scores import of_part
from pace_study.study import CALIBRATED, LOCAL, MODEL_PARTS, PACE, PARTS, RAW
from pace_study.tables import title

ORDER = ("gcn", "sage", "gin", "gat", "sgc", "appnp", "mlp")
SHOWN = (LOCAL, CALIBRATED[0], PACE)


def model_scores(scores: pd.DataFrame, seeds: Sequence[int]) -> pd.DataFrame:
    """A row for each graph, model, metric and seed, a column for each method, and PACE's mean α.

    ROC AUC too, where there are two classes.
    """
    labels = [row.label for row in SHOWN]
    found = [pd.DataFrame(columns=["seed", *labels, "dataset", "model", "metric", "alpha"])]
    for part in (PARTS[name] for name in MODEL_PARTS if name != "models-masks"):
        here = of_part(scores, part, seeds, SHOWN)
        alphas = here[here.label == PACE.label].groupby(["dataset", "model"]).mean_alpha.mean()
        models = sorted(part.models, key=ORDER.index)
        for dataset, metric, model in product(part.datasets[::-1], ("accuracy", "roc_auc"), models):
            values = here[(here.dataset == dataset) & (here.model == model) & here[metric].notna()]
            table = values.pivot(index="seed", columns="label", values=metric)
            if len(table.columns) == len(SHOWN):
                where = {"dataset": dataset, "model": model, "metric": metric}
                table = table.reindex(part.seeds(seeds)).reset_index()
                found.append(table.assign(**where, alpha=alphas[dataset, model]))
    return pd.concat(found[1:] or found, ignore_index=True)


def geometries(scores: pd.DataFrame, seeds: Sequence[int]) -> pd.DataFrame:
    """Propagated minus raw moments in points, a row for each graph, model and redrawn mask."""
    part, points = PARTS["models-masks"], {}
    for reading in ("external", "adopted"):
        ours, raw = (
            of_part(scores, part, seeds, [replace(row, reading=reading)])
            .set_index(["dataset", "model", "data_seed"])
            .accuracy.sort_index()
            for row in (PACE, RAW)
        )
        points[reading] = (ours - raw).dropna()
    return pd.DataFrame(points).reset_index()


def model_table(scores: pd.DataFrame, seeds: Sequence[int]) -> Table:
    """The first table of docs/models.md; a graph is named where its rows begin."""
    rows = []
    groups = model_scores(scores, seeds).groupby(["dataset", "metric", "model"], sort=False)
    for (dataset, metric, model), found in groups:
        name = title(dataset) + (" (ROC AUC)" if metric == "roc_auc" else "")
        columns = (found[row.label] for row in SHOWN)
        gains = found[PACE.label] - found[LOCAL.label]
        alpha = f"{found.alpha.iloc[0]:.2f}"
        rows.append([name, model, *map(spread, columns), spread(gains, "+.2f"), alpha])
    heads = ("Graph", "Model", "Local", "FedAvg+CNLL", "PACE", "PACE − Local", "mean α")
    return Table.of("Models", heads, named_once(rows), names=2, words=0)


def geometry_table(scores: pd.DataFrame, seeds: Sequence[int]) -> Table:
    """What propagated moments change, over redrawn masks."""
    found = dict(iter(geometries(scores, seeds).groupby(["dataset", "model"])))
    rows = []
    for dataset, model in product(reversed(PARTS["models-masks"].datasets), ORDER):
        if (dataset, model) in found:
            draws = found[dataset, model]
            columns = (draws.external, draws.adopted)
            errors = [spread(points, "+.2f", error=True) for points in columns]
            won = f"{(draws.adopted > 0).sum()} of {len(draws)}"
            rows.append([title(dataset), model, *errors, won])
    heads = ("Graph", "Model", "External", "adopted", "draws won")
    return Table.of("Propagated − raw", heads, named_once(rows), names=2, words=0)


def named_once(rows: list[list[str]]) -> list[list[str]]:
    """The rows, with each graph named where its own begin."""
    before = ["", *(row[0] for row in rows)]
    return [
        [row[0] if row[0] != last else "", *row[1:]]
        for row, last in zip(rows, before, strict=False)
    ]


def spread(values: pd.Series, form: str = ".2f", *, error: bool = False) -> str:
    """Mean ± sample standard deviation, or the mean's standard error."""
    mean = f"{values.mean():{form}}"
    return mean if len(values) < 2 else f"{mean} ± {values.sem() if error else values.std():.2f}"


def models_markdown(scores: pd.DataFrame, seeds: Sequence[int]) -> str:
    """Both tables, each under what it shows."""
    many = f"{len(seeds)} seeds" if len(seeds) > 1 else "one seed"
    text = (
        f"Pooled test accuracy in percent, mean ± standard deviation over {many}; gains are paired "
        f"by seed.\n\n{model_table(scores, seeds).markdown()}\n"
    )
    table = geometry_table(scores, seeds)
    if table.rows:
        text += (
            f"\nPropagated minus raw moments, points of accuracy, mean ± standard error over "
            f"{len(PARTS['models-masks'].data_seeds)} draws of the masks; External is the returned "
            f"model alone (α = 1).\n\n{table.markdown()}\n"
        )
    return text
