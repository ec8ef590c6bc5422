"""Every model on every graph: Local, FedAvg+CNLL and PACE, and what propagated moments are worth."""

from collections.abc import Sequence
from dataclasses import replace

import pandas as pd

from pace.reports import Table
from pace_study.scores import of_part
from pace_study.study import CALIBRATED, LOCAL, MODEL_PARTS, PACE, PARTS, RAW
from pace_study.tables import title

ORDER = ("gcn", "sage", "gin", "gat", "sgc", "appnp", "mlp")
SHOWN = (LOCAL, CALIBRATED[0], PACE)
MEASURES = {"accuracy": "", "roc_auc": " (ROC AUC)"}  # the latter where there are two classes


def ordered(table: pd.DataFrame) -> pd.DataFrame:
    """Small graphs first, accuracy before ROC AUC, models in `ORDER`."""
    parts = [PARTS[name] for name in MODEL_PARTS]
    names = [name for part in parts for name in part.datasets[::-1]]
    places = {name: place for place, name in enumerate(dict.fromkeys([*names, *MEASURES, *ORDER]))}
    keys = [key for key in ("dataset", "metric", "model") if key in table]
    return table.sort_values(keys, key=lambda column: column.map(places), kind="stable")


def model_scores(scores: pd.DataFrame, seeds: Sequence[int]) -> pd.DataFrame:
    """A row for each graph, metric, model and seed, a column for each method, and PACE's mean α."""
    names = [name for name in MODEL_PARTS if name != "models-masks"]
    trials = pd.concat(
        of_part(scores, PARTS[name], seeds, SHOWN).assign(part=name) for name in names
    )
    trials = trials.set_index(["part", "dataset", "model", "seed", "label"])
    tables = []
    for metric in MEASURES:
        table = trials[metric].unstack().reindex(columns=[row.label for row in SHOWN])
        alphas = trials.mean_alpha.unstack().get(PACE.label)
        tables.append(table.dropna().assign(metric=metric, alpha=alphas).reset_index())
    return ordered(pd.concat(tables))


def geometries(scores: pd.DataFrame, seeds: Sequence[int]) -> pd.DataFrame:
    """Propagated minus raw moments in points, a row for each graph, model and redrawn mask."""
    points = {}
    for reading in ("external", "adopted"):
        rows = [replace(row, reading=reading) for row in (PACE, RAW)]
        trials = of_part(scores, PARTS["models-masks"], seeds, rows)
        wide = trials.set_index(["dataset", "model", "data_seed", "label"]).accuracy.unstack()
        wide = wide.reindex(columns=[row.label for row in rows])
        points[reading] = wide[PACE.label] - wide[RAW.label]
    return ordered(pd.DataFrame(points).dropna().reset_index())


def model_table(scores: pd.DataFrame, seeds: Sequence[int]) -> Table:
    """Local, FedAvg+CNLL and PACE by graph and model."""
    rows = []
    groups = model_scores(scores, seeds).groupby(["dataset", "metric", "model"], sort=False)
    for (dataset, metric, model), found in groups:
        columns = [found[row.label] for row in SHOWN]
        gains = spread(found[PACE.label] - found[LOCAL.label], "+.2f")
        name = title(dataset) + MEASURES[metric]
        rows.append([name, model, *map(spread, columns), gains, f"{found.alpha.mean():.2f}"])
    heads = ("Graph", "Model", "Local", "FedAvg+CNLL", "PACE", "PACE − Local", "mean α")
    return Table.of("Models", heads, rows, names=2, words=0)


def geometry_table(scores: pd.DataFrame, seeds: Sequence[int]) -> Table:
    """What propagated moments change, over redrawn masks."""
    rows = []
    groups = geometries(scores, seeds).groupby(["dataset", "model"], sort=False)
    for (dataset, model), draws in groups:
        points = [spread(draws[name], "+.2f", error=True) for name in ("external", "adopted")]
        won = f"{(draws.adopted > 0).sum()} of {len(draws)}"
        rows.append([title(dataset), model, *points, won])
    heads = ("Graph", "Model", "External", "adopted", "draws won")
    return Table.of("Propagated − raw", heads, rows, names=2, words=0)


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
