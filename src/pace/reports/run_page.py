"""What a run found, as a page."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from statistics import fmean

from pace.io import atomic
from pace.io.terminal import many
from pace.metrics import accuracy
from pace.reports import (
    Block,
    Change,
    Changes,
    Choice,
    Code,
    Column,
    Document,
    Drilldown,
    Facts,
    Fold,
    Section,
    Table,
    Text,
    Value,
    render_page,
)
from pace.reports.run_result import ModelSettings, RunResult, ScoreRow
from pace.reports.tables import READING, SCORE, distinct, percent, title, verdict
from pace.reports.trial import Trial


def write(folder: Path) -> Path:
    """Write `index.html` beside a run's `results.json`."""
    atomic.write(folder / "index.html", render_page(document(RunResult.read(folder))).encode())
    return folder / "index.html"


def document(run: RunResult) -> Document:
    return Document(
        f"PACE: {title(run.settings)}",
        verdict(run) or "One upload, one return, Local always kept.",
        tuple(_headline(run)),
        (
            Section("Scores", tuple(_scores(run))),
            *([Section("Client by client", tuple(charts))] if (charts := _clients(run)) else []),
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
    rows = distinct(run.summary.results)
    marks = [ranked([row.scores[score].mean for row in rows]) for score in SCORE]
    heads = (Column("Method", numeric=False), Column("Reading", numeric=False))
    yield Table(
        "Scores in percent, on the test nodes of all clients together",
        (*heads, *map(Column, SCORE.values())),
        tuple(
            (
                *_names(row),
                *(
                    Value(percent(spread), spread.mean, marks[place][line])
                    for place, spread in enumerate(row.scores[score] for score in SCORE)
                ),
            )
            for line, row in enumerate(rows)
        ),
        "Mean ± sample standard deviation over seeds; best bold, second underlined. Methods that train "
        "alike have one local model, shown once.",
    )
    by_seed = Table(
        "Accuracy in percent, seed by seed",
        (*heads, *(Column(str(seed)) for seed in run.settings.seeds)),
        tuple(
            (*_names(row), *(Value(f"{100 * v:.2f}", v) for v in row.accuracy.per_seed))
            for row in rows
        ),
    )
    yield Fold("Seed by seed", (by_seed,))


def _clients(run: RunResult) -> list[Block]:
    """Local against adopted, client by client, α beside: of PACE, the other methods folded."""
    methods = [name for name in run.summary.methods if name != "local"]
    methods.sort(key=lambda name: name != "pace")
    charts = [
        _changes(name, group)
        for name in methods
        if (group := [trial for trial in run.trials if trial.method == name])
    ]
    others = [Fold(chart.caption, (chart,)) for chart in charts[1:]]
    return [*charts[:1], *others]


def _changes(method: str, trials: Sequence[Trial]) -> Changes:
    rows = []
    for client, counts in enumerate(trials[0].confusions["local"]):
        if not counts.sum():
            continue  # it has no test nodes
        before, after = (
            fmean(accuracy(trial.confusions[reading][client]) for trial in trials)
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


def _names(row: ScoreRow) -> tuple[Value, Value]:
    reading = READING[row.reading]
    return Value(row.method, row.method), Value(reading, reading)


def ranked(means: Sequence[float]) -> list[str]:
    """`best` and `second` by what is displayed, where there is anything to compare."""
    shown = [f"{100 * mean:.2f}" for mean in means]
    order = sorted(set(shown), key=float, reverse=True)
    marks = dict(zip(order, ("best", "second"), strict=False)) if len(shown) > 1 else {}
    return [marks.get(text, "") for text in shown]


def _adoption(run: RunResult) -> Table:
    rows = []
    for name, method in run.summary.methods.items():
        alpha, traffic = method.alpha, method.bytes
        rows.append(
            (
                Value(name, name),
                Value(f"{alpha.mean:.3f}", alpha.mean, share=alpha.mean),
                Value(f"{100 * alpha.zero_share:.0f} %", alpha.zero_share),
                _size(traffic.upload, traffic.upload_ratio),
                _size(traffic.returned, traffic.return_ratio),
                *(Value(f"{value:.2f}", value) for value in method.seconds.values()),
            )
        )
    steps = next(iter(run.summary.methods.values())).seconds
    heads = [Column("Mean α"), Column("α = 0")]
    heads += [Column(way, "Bytes of a client's message") for way in ("Upload", "Return")]
    heads += [Column(step, "Seconds a seed, all clients") for step in steps]
    return Table("By method", (Column("Method", numeric=False), *heads), tuple(rows))


def _size(size: float, ratio: float) -> Value:
    return Value(f"{size:,.0f}", size, below=f"{100 * ratio:.1f} % of dense")


def _alphas(run: RunResult) -> Iterable[Block]:
    """α = 0 keeps Local, α = 1 takes what came back."""
    yield Text(
        "How much each client took of what came back: α = 0 keeps Local, α = 1 takes it all."
    )
    seeds = [Column(f"{seed}", "By seed") for seed in run.settings.seeds]
    choices = []
    for name, method in run.summary.methods.items():
        if name == "local":
            continue
        rows = []
        for client, alphas in enumerate(zip(*method.alpha.per_seed, strict=True)):
            mean = sum(alphas) / len(alphas)
            values = [Value(f"{alpha:.3f}", alpha, share=alpha) for alpha in (mean, *alphas)]
            rows.append((Value(f"Client {client}", f"Client {client}"), *values))
        columns = (Column("Client", numeric=False), Column("Mean α"), *seeds)
        choices.append(Choice((name,), Table(f"α by client: {name}", columns, tuple(rows))))
    choices.sort(key=lambda choice: choice.keys != ("pace",))
    if choices:
        yield Drilldown(("Method",), tuple(choices))


def _provenance(run: RunResult) -> Iterable[Block]:
    settings = run.settings
    if settings.command:
        yield Code(settings.command)
    facts = [
        ("Dataset", settings.dataset),
        ("Partition", settings.partition),
        ("Clients", settings.clients),
        ("Seeds", ", ".join(map(str, settings.seeds))),
        ("Data seed", _or(settings.data_seed, "the partition file's own")),
        ("Model", _model(settings.model)),
        ("Dropout", settings.model.dropout),
        ("Rank", settings.rank or "dense"),
        ("Numbers on the wire", settings.numbers),
        ("Training steps", _or(settings.epochs, "each method's own budget")),
        ("Learning rate", _or(settings.lr, "each method's own")),
        ("Weight decay", _or(settings.weight_decay, "each method's own")),
        ("Device", settings.device),
        *settings.versions.items(),
    ]
    yield Facts(tuple((name, str(value)) for name, value in facts))


def _or(value: object, absent: str) -> object:
    return absent if value is None else value


def _model(model: ModelSettings) -> str:
    """`gat, widths 600 → 64 → 6, heads 8`."""
    widths = " → ".join(map(str, model.widths))
    own = (f"{key} {value}" for key, value in model.settings.items())
    return ", ".join([model.kind, f"widths {widths}", *own])
