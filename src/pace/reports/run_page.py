"""A run as a page."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from statistics import fmean
from typing import TYPE_CHECKING

from pace.io.terminal import many
from pace.reports.document import (
    Block,
    Change,
    Changes,
    Choice,
    Code,
    Document,
    Drilldown,
    Facts,
    Fold,
    Section,
    Text,
)
from pace.reports.run_tables import NAMES, distinct, row_names, verdict
from pace.reports.table import Column, Table, Value
from pace.reports.trial import Trial
from pace.task import accuracy

if TYPE_CHECKING:
    from pace.reports.run_result import RunResult


def document(run: RunResult) -> Document:
    charts = [
        _changes(name, [trial for trial in run.trials if trial.method == name])
        for name in _exchanging(run)
    ]
    clients = (*charts[:1], *(Fold(chart.caption, (chart,)) for chart in charts[1:]))
    return Document(
        f"PACE: {run.settings.title}",
        verdict(run) or "One upload, one return, Local always kept.",
        tuple(_headline(run)),
        (
            Section("Scores", tuple(_scores(run))),
            *([Section("Client by client", clients)] if clients else []),
            Section("Adoption, bytes and time", (_adoption(run),)),
            Section("α by client", tuple(_alphas(run))),
            Section("Command and versions", tuple(_provenance(run))),
        ),
        flows=True,
    )


def _headline(run: RunResult) -> Iterable[tuple[str, str]]:
    rows = [row for row in run.summary.results if row.method == "pace"]
    scores = {row.reading: 100 * row.accuracy.mean for row in rows}
    if scores:
        yield f"{scores['local']:.2f} %", "accuracy of Local"
        yield f"{scores['adopted']:.2f} %", "accuracy with PACE"
        yield f"{scores['adopted'] - scores['local']:+.2f}", "points gained"
        yield f"{100 * run.summary.bytes.return_ratio:.1f} %", "of the dense bytes in a return"


def _scores(run: RunResult) -> Iterable[Block]:
    caption = "Scores in percent, on the test nodes of all clients together"
    yield replace(run.table(), title=caption)
    by_seed = Table(
        "Accuracy in percent, seed by seed",
        (*NAMES, *(Column(str(seed)) for seed in run.settings.seeds)),
        tuple(
            (*row_names(row), *(Value(f"{100 * v:.2f}", v) for v in row.accuracy.per_seed))
            for row in distinct(run.summary.results)
        ),
    )
    yield Fold("Seed by seed", (by_seed,))


def _exchanging(run: RunResult) -> list[str]:
    """Methods that exchange anything, PACE first."""
    methods = [name for name in run.summary.methods if name != "local"]
    return sorted(methods, key=lambda name: name != "pace")


def _changes(method: str, trials: Sequence[Trial]) -> Changes:
    """Local against adopted, client by client, α beside."""
    rows = []
    for client, counts in enumerate(trials[0].counts["local"]):
        if not counts.sum():
            continue  # it has no test nodes
        before, after = (
            fmean(accuracy(trial.counts[reading][client]) for trial in trials)
            for reading in ("local", "adopted")
        )
        share = fmean(trial.alphas[client] for trial in trials)
        rows.append(Change(str(client), before, after, share))
    return Changes(
        f"Accuracy on each client's test nodes, in percent: {method}",
        ("Client", "Local", "Adopted"),
        tuple(rows),
        "α",
        f"Means over {many(len(trials), 'seed')}. α is the weight of what came back: 0 keeps Local.",
    )


def _adoption(run: RunResult) -> Table:
    def size(size: float, ratio: float) -> Value:
        return Value(f"{size:,.0f}", size, below=f"{100 * ratio:.1f} % of dense")

    rows = []
    for name, method in run.summary.methods.items():
        alpha, traffic = method.alpha, method.bytes
        values = (
            Value(name, name),
            Value(f"{alpha.mean:.3f}", alpha.mean, share=alpha.mean),
            Value(f"{100 * alpha.zero_share:.0f} %", alpha.zero_share),
            size(traffic.upload, traffic.upload_ratio),
            size(traffic.returned, traffic.return_ratio),
            *(Value(f"{value:.2f}", value) for value in method.seconds.values()),
        )
        rows.append(values)
    heads = [NAMES[0], Column("Mean α"), Column("α = 0")]
    heads += [Column(way, "Bytes of a client's message") for way in ("Upload", "Return")]
    heads += [Column(step, "Seconds a seed, all clients") for step in method.seconds]
    return Table("By method", tuple(heads), tuple(rows))


def _alphas(run: RunResult) -> Iterable[Block]:
    yield Text(
        "How much each client took of what came back: α = 0 keeps Local, α = 1 takes it all."
    )
    columns = (
        Column("Client", numeric=False),
        Column("Mean α"),
        *(Column(str(seed), "By seed") for seed in run.settings.seeds),
    )
    choices = []
    for name in _exchanging(run):
        rows = []
        per_seed = run.summary.methods[name].alpha.per_seed
        for client, alphas in enumerate(zip(*per_seed, strict=True)):
            values = [Value(f"{a:.3f}", a, share=a) for a in (fmean(alphas), *alphas)]
            rows.append((Value(f"Client {client}", f"Client {client}"), *values))
        choices.append(Choice((name,), Table(f"α by client: {name}", columns, tuple(rows))))
    if choices:
        yield Drilldown(("Method",), tuple(choices))


def _provenance(run: RunResult) -> Iterable[Block]:
    settings = run.settings
    if settings.command:
        yield Code(settings.command)
    seed, shape = settings.data_seed, dict(settings.shape)
    widths, dropout = shape.pop("widths"), shape.pop("dropout", "the module's own")
    model = [settings.model, f"widths {' → '.join(map(str, widths))}"]
    model += [f"{key} {value}" for key, value in shape.items() if key != "kind"]
    facts = [
        ("Dataset", settings.dataset),
        ("Partition", settings.partition),
        ("Clients", settings.clients),
        ("Seeds", ", ".join(map(str, settings.seeds))),
        ("Data seed", "the partition file's own" if seed is None else seed),
        ("Model", ", ".join(model)),
        ("Dropout", dropout),
        ("Numbers on the wire", settings.numbers),
        ("Device", settings.device),
        *settings.versions.items(),
    ]
    yield Facts(tuple((name, str(value)) for name, value in facts))
    heads = ["Method", "Rank", "Training steps", "Learning rate", "Weight decay"]
    rows = [
        [
            name,
            str(setup["method"].get("rank", "–") or "dense"),
            *(f"{setup['recipe'][field]:g}" for field in ("epochs", "rate", "decay")),
        ]
        for name, setup in settings.setups.items()
    ]
    yield Table.of("Training by method", heads, rows, words=0)
