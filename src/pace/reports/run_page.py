"""What a run found, as a page."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from pace.errors import FileError
from pace.io import atomic, regular, untrusted
from pace.page import (
    Block,
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
    page,
)
from pace.reports.stored import LARGEST
from pace.reports.tables import READING, SCORE, distinct, percent, title, verdict


def write(folder: Path) -> Path:
    """Write `index.html` beside a run's `results.json`."""
    path = folder / "results.json"
    try:
        found = untrusted.json(regular.read(path, LARGEST))
        text = page(document(found))
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise FileError(f"{path} is no result of `pace run` ({error!r}): run it again") from None
    atomic.write(folder / "index.html", text.encode())
    return folder / "index.html"


def document(found: dict[str, Any]) -> Document:
    return Document(
        f"PACE: {title(found)}",
        verdict(found) or "One upload, one return, Local always kept.",
        tuple(_headline(found)),
        (
            Section("Scores", tuple(_scores(found))),
            Section("Adoption, bytes and time", (_adoption(found),)),
            Section("α by client", tuple(_alphas(found))),
            Section("Command and versions", tuple(_provenance(found))),
        ),
    )


def _headline(found: dict[str, Any]) -> Iterable[tuple[str, str]]:
    results = [r for r in found["results"] if r["method"] == "pace"]
    scores = {r["reading"]: 100 * r["accuracy"]["mean"] for r in results}
    if scores:
        yield f"{scores['local']:.2f} %", "accuracy of Local"
        yield f"{scores['adopted']:.2f} %", "accuracy with PACE"
        yield f"{scores['adopted'] - scores['local']:+.2f}", "points gained"
        yield f"{100 * found['bytes']['return_ratio']:.1f} %", "of the dense bytes in a return"


def _scores(found: dict[str, Any]) -> Iterable[Block]:
    rows = distinct(found)
    marks = [ranked([row[score]["mean"] for row in rows]) for score in SCORE]
    heads = (Column("Method", numeric=False), Column("Reading", numeric=False))
    yield Table(
        "Scores in percent, on the test nodes of all clients together",
        (*heads, *map(Column, SCORE.values())),
        tuple(
            (
                *_names(row),
                *(
                    Value(percent(row[score]), row[score]["mean"], marks[place][line])
                    for place, score in enumerate(SCORE)
                ),
            )
            for line, row in enumerate(rows)
        ),
        "Mean ± sample standard deviation over seeds; best bold, second underlined. Methods that train "
        "alike have one local model, shown once.",
    )
    by_seed = Table(
        "Accuracy in percent, seed by seed",
        (*heads, *(Column(str(seed)) for seed in found["seeds"])),
        tuple(
            (*_names(row), *(Value(f"{100 * v:.2f}", v) for v in row["accuracy"]["per_seed"]))
            for row in rows
        ),
    )
    yield Fold("Seed by seed", (by_seed,))


def _names(row: dict[str, Any]) -> tuple[Value, Value]:
    reading = READING[row["reading"]]
    return Value(row["method"], row["method"]), Value(reading, reading)


def ranked(means: Sequence[float]) -> list[str]:
    """`best` and `second` by what is displayed, where there is anything to compare."""
    shown = [f"{100 * mean:.2f}" for mean in means]
    order = sorted(set(shown), key=float, reverse=True)
    marks = dict(zip(order, ("best", "second"), strict=False)) if len(shown) > 1 else {}
    return [marks.get(text, "") for text in shown]


def _adoption(found: dict[str, Any]) -> Table:
    rows = []
    for name, each in found["methods"].items():
        alpha, traffic, seconds = each["alpha"], each["bytes"], each["seconds"]
        exchanged = [
            Value(
                f"{traffic[way]:,.0f}",
                traffic[way],
                below=f"{100 * traffic[f'{way}_ratio']:.1f} % of dense",
            )
            for way in ("upload", "return")
        ]
        rows.append(
            (
                Value(name, name),
                Value(f"{alpha['mean']:.3f}", alpha["mean"], share=alpha["mean"]),
                Value(f"{100 * alpha['zero_share']:.0f} %", alpha["zero_share"]),
                *exchanged,
                *(Value(f"{value:.2f}", value) for value in seconds.values()),
            )
        )
    steps = next(iter(found["methods"].values()))["seconds"]
    heads = [Column("Mean α"), Column("α = 0")]
    heads += [Column(way, "Bytes of a client's message") for way in ("Upload", "Return")]
    heads += [Column(step, "Seconds a seed, all clients") for step in steps]
    return Table("By method", (Column("Method", numeric=False), *heads), tuple(rows))


def _alphas(found: dict[str, Any]) -> Iterable[Block]:
    """α = 0 keeps Local, α = 1 takes what came back."""
    yield Text(
        "How much each client took of what came back: α = 0 keeps Local, α = 1 takes it all."
    )
    seeds = [Column(f"{seed}", "By seed") for seed in found["seeds"]]
    choices = []
    for name, each in found["methods"].items():
        if name == "local":
            continue
        rows = []
        for client, alphas in enumerate(zip(*each["alpha"]["per_seed"], strict=True)):
            mean = sum(alphas) / len(alphas)
            values = [Value(f"{alpha:.3f}", alpha, share=alpha) for alpha in (mean, *alphas)]
            rows.append((Value(f"Client {client}", f"Client {client}"), *values))
        columns = (Column("Client", numeric=False), Column("Mean α"), *seeds)
        choices.append(Choice((name,), Table(f"α by client: {name}", columns, tuple(rows))))
    choices.sort(key=lambda choice: choice.keys != ("pace",))
    if choices:
        yield Drilldown(("Method",), tuple(choices))


def _provenance(found: dict[str, Any]) -> Iterable[Block]:
    if "command" in found:
        yield Code(found["command"])
    settings = [
        ("Dataset", found["dataset"]),
        ("Partition", found["partition"]),
        ("Clients", found["clients"]),
        ("Seeds", ", ".join(map(str, found["seeds"]))),
        ("Data seed", _or(found["data_seed"], "the partition file's own")),
        ("Model", _model(found["model"])),
        ("Dropout", found["model"]["dropout"]),
        ("Rank", found["rank"] or "dense"),
        ("Numbers on the wire", found.get("numbers", "float32")),
        ("Training steps", _or(found["epochs"], "each method's own budget")),
        ("Device", found["device"]),
        *found.get("versions", {}).items(),
    ]
    yield Facts(tuple((name, str(value)) for name, value in settings))


def _or(value: object, absent: str) -> object:
    return absent if value is None else value


def _model(model: dict[str, Any]) -> str:
    """`gat, widths 600 → 64 → 6, heads 8`; runs stored by older versions are the GCN's."""
    own = {key: value for key, value in model.items() if key not in ("kind", "widths", "dropout")}
    widths = " → ".join(map(str, model["widths"]))
    words = [str(model.get("kind", "gcn")), f"widths {widths}"]
    return ", ".join([*words, *(f"{key} {value}" for key, value in own.items())])
