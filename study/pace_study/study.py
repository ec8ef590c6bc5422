"""The parts of the study: which cells each needs, and which rows its table has."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

from pace.datasets import DATA_SEED
from pace.errors import SettingError, did_you_mean
from pace.merging import RANK
from pace.protocol import SEEDS as SEEDS
from pace_study.cell import Cell
from pace_study.controls import spelled

CITATION = ("cora", "citeseer", "pubmed")
AVAILABLE = (*CITATION, "cs", "computers")
SIX = (*AVAILABLE, "ogbn-arxiv")
DRAWS = tuple(range(10))  # of the masks, to see how far a draw alone moves a result
MANY = (10, 20, 30)  # clients
FRESH_DRAWS = tuple(range(10, 20))  # of the masks: nothing was chosen on them
FEW_DRAWS = FRESH_DRAWS[:3]  # of what takes minutes a draw
LARGE = ("cs", "computers")
REDRAW_SEEDS = 3  # of each redraw, the first of those asked for
HETEROPHILOUS = ("tolokers", "minesweeper", "actor", "squirrel-filtered", "chameleon-filtered")
EVERY_MODEL = ("gat", "gin", "sage", "appnp", "gcn", "sgc", "mlp")  # the slowest first
FEW_MODELS = ("gcn", "sage", "mlp")


@dataclass(frozen=True)
class Row:
    """A row of a table: the paper's words for it, and what it reads."""

    label: str
    method: str
    reading: str = "adopted"
    rank: int | None = RANK


NAMES = {
    "fedavg": "FedAvg",
    "fedprox": "FedProx",
    "fednova": "FedNova",
    "fedrcl": "FedRCL",
    "fedrcl-released": "FedRCL, released solver",
    "fedpub": "FedPub",
    "fedtad": "FedTAD",
    "fedgta": "FedGTA",
    "fedaux": "FedAux-1R",
}
UNPUBLISHED = ("fedrcl-released",)  # rows beside the paper's: another reading of what it says
LOCAL, PACE = Row("Local", "local", "local"), Row("PACE", "pace")
EXTERNAL = tuple(Row(label, method, "external") for method, label in NAMES.items())
CALIBRATED = tuple(Row(f"{label}+CNLL", method) for method, label in NAMES.items())
MATRIX = (LOCAL, *EXTERNAL, PACE)  # the ten methods of the main table, one of them read twice
BOTH = tuple(row for pair in zip(EXTERNAL, CALIBRATED, strict=True) for row in pair)
ONE_TRAINING = ("local", "fedavg", "fedtad", "fedgta", "pace")  # their clients train alike
CHEAP = tuple(row for row in MATRIX if row.method in ONE_TRAINING)
ABLATION = (
    LOCAL,
    Row("Transport (alpha=1)", "pace", "external"),
    Row("Fixed alpha=0.5", "pace-half"),
    Row("Mean + CNLL", "pace-mean"),
    Row("Raw-Activation RegMean + CNLL", "pace-raw"),
    Row("Direct Return + CNLL", "pace-direct"),
    replace(PACE, label="Full PACE"),
)
RESOLVER = (Row("Transport", "pace", "external"), Row("Transport + CNLL", "pace"))
RANKS = tuple(
    Row(f"PACE rank {'Dense' if rank is None else rank}", "pace", rank=rank)
    for rank in (2, 4, 6, 8, None)
)
DUO = Row("pace-duo", "pace-duo")
STEPS = (  # from PACE to pace-duo, a part at a time
    LOCAL,
    PACE,
    Row("PACE in int8", "pace-int8"),
    Row("PACE, temperature", "pace-tempered"),
    Row("two corrections", "pace-duo:ridge=1e6,level=1"),
    Row("two corrections, temperature", "pace-duo:level=1"),
    Row("with the guard, float32", "pace-duo:numbers=float32"),
    DUO,
)
GUARDS = {  # the guard's level: 1 is none
    1.0: Row("no guard", "pace-duo:level=1"),
    0.5: DUO,
    0.2: Row("guard at 0.2", "pace-duo:level=0.2"),
    0.05: Row("guard at 0.05", "pace-duo:level=0.05"),
}
RIDGE, SUMS = Row("pace-ridge", "pace-ridge"), Row("pace-ridge-sums", "pace-ridge-sums")
REGRESSIONS = (  # the closed form, and what each choice is worth
    RIDGE,
    SUMS,
    Row("own rows only: nothing is sent", "pace-ridge-alone"),
    Row("only hop 0, a node's own features", "pace-ridge:hops=0"),
    Row("only hop 2, its neighbourhood", "pace-ridge:hops=2"),
    Row("one λ in place of three", "pace-ridge:strengths=3"),
    Row("not corrected on own nodes", "pace-ridge:own=none"),
    Row("every class, every row", "pace-ridge:smallest_class=1,nodes_per_row=1"),
    Row("float32 in place of int8", "pace-ridge:numbers=float32"),
)
BEYOND = tuple(dict.fromkeys((*STEPS, *GUARDS.values(), *REGRESSIONS)))
FULL, FULL_SUMS = Row("pace-full", "pace-full"), Row("pace-full-sums", "pace-full-sums")
ALONE = Row("a site alone, every label", "alone")
LOGISTIC = Row("logistic regression, own features", "logistic", "external")
FEDADAM = (
    Row("FedAdam, 100 rounds", "fedadam"),
    Row("FedAdam + MLP, 100 rounds", "fedadam-rows"),
    Row("FedAdam + MLP, 100 rounds, every label", "fedadam-full"),
)
REFERENCES = (LOCAL, PACE, RIDGE, FULL, FULL_SUMS, ALONE, LOGISTIC, *FEDADAM)
RIVALS = {"spear": "SPEAR", "gh-ofl": "GH-OFL's LDA", "o-pfgl": "O-pFGL"}
TRAINERS = {"spire": "SPIRE", "ghost": "GHOST", "dense": "DENSE"}  # rivals whose server generates
REPEATED = {"fedavg-rounds": "FedAvg", "fedgta-rounds": "FedGTA", "fedpub-rounds": "FedPub"}
FIELD = (
    *REFERENCES,
    Row("FedAvg + CNLL", "fedavg"),
    *(
        Row(f"{label}{end}", method, reading)
        for method, label in (RIVALS | TRAINERS).items()
        for end, reading in (("", "external"), (" + gate", "adopted"))
    ),
    Row("FENS, 100 small rounds", "fens", "external"),
    *(Row(f"{label}, 100 rounds", method) for method, label in REPEATED.items()),
)
# What a ranked setting has to have: not sums of thousands of columns, nor an MLP over rounds.
LABELS_CORE = (LOCAL, PACE, RIDGE, FULL, ALONE)
DEAR = {FULL_SUMS.method, "fedadam-rows", "fedadam-full", *REPEATED}
CORE = tuple(row for row in FIELD if row.method not in DEAR)
RAW = Row("PACE, raw moments", "pace-raw")
MODEL_ROWS = (LOCAL, CALIBRATED[0], PACE, RAW)


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
        long = self.thrifty and (large or row.method in DEAR)
        return self.data_seeds[: len(FEW_DRAWS)] if long else self.data_seeds


def in_order(seeds: Iterable[int]) -> list[int]:
    """The paper's seeds in its order, then any others, each once."""
    distinct = set(seeds)
    return [seed for seed in SEEDS if seed in distinct] + sorted(distinct - set(SEEDS))


CLOSED = (LOCAL, PACE, DUO, RIDGE, SUMS)  # what is compared beyond the 25 settings
FAIR = (LOCAL, replace(LOCAL, label="Local+CNLL"), *BOTH, PACE)
CITATION_ACCURACY: dict[str, Any] = {"metrics": ("accuracy",), "datasets": CITATION}
SHARES = ("mean_alpha", "alpha_zero_percent", "upload_percent", "downlink_percent")
SKEW = "Ten clients, Dirichlet(0.5) label skew"
PAPER = (
    Part("main", MATRIX, "main", "Ten clients, Louvain"),
    Part("c20", MATRIX, "full_c20", "Twenty clients, Louvain", clients=(20,)),
    Part("c30", MATRIX, "full_c30", "Thirty clients, Louvain", clients=(30,)),
    Part("macro-f1", MATRIX, "macro_f1", "Fixed-class macro-F1, Louvain", ("macro_f1",), clients=MANY),
    Part("ablation", ABLATION, "core_ablation", "Component ablation", **CITATION_ACCURACY),
    Part("resolver", RESOLVER, "resolver_ablation", "Transport with and without CNLL", clients=MANY),
    Part("fairness", FAIR, "fairness", "The same CNLL for every method", datasets=CITATION),
    Part("rank", RANKS, "rank", "Rank", **CITATION_ACCURACY),
    Part("communication", (PACE,), "communication", "Communication and use of the correction", SHARES),
    Part("metis", MATRIX, "metis", "Ten clients, METIS", datasets=AVAILABLE, partition="metis"),
    Part("dirichlet", MATRIX, "dirichlet", SKEW, datasets=AVAILABLE, partition="dirichlet"),
    Part("diagnostics", (LOCAL, PACE)),
)  # fmt: skip
PARTS = {part.name: part for part in PAPER}

# Where and on which draws a family of our own parts is run, by the end of the part's name.
PLACES: dict[str, dict[str, Any]] = {
    "": {},
    "-metis": {"partition": "metis"},
    "-dirichlet": {"partition": "dirichlet"},
    "-dirichlet-0.1": {"partition": "dirichlet:alpha=0.1"},
    "-dirichlet-0.05": {"partition": "dirichlet:alpha=0.05"},
    "-masks": {"data_seeds": DRAWS},
    "-heterophilous": {"datasets": HETEROPHILOUS},
    # Half of the nodes train, a tenth validates.
    "-more-labels": {
        "datasets": tuple(f"{name}:train=0.5" for name in AVAILABLE),
        "data_seeds": FEW_DRAWS,
    },
    "-twitch": {"datasets": ("twitch",), "clients": (7,), "partition": "column"},
}
FRESH: dict[str, Any] = {"data_seeds": FRESH_DRAWS, "most_seeds": 1, "thrifty": True}
REDRAWN: dict[str, Any] = {"data_seeds": DRAWS, "most_seeds": REDRAW_SEEDS}
LARGEST_FIRST: dict[str, Any] = {"datasets": AVAILABLE[::-1], "models": EVERY_MODEL}  # end together
OTHERS = ("-heterophilous", "-twitch")
for family, ends, rows, setting in (
    ("beyond", [""], BEYOND, {"clients": MANY}),
    ("beyond", ["-metis", "-dirichlet"], BEYOND, {}),
    ("beyond", ["-masks"], CLOSED, {"most_seeds": 2}),
    ("beyond", OTHERS, CLOSED, {}),
    ("models", [""], MODEL_ROWS, LARGEST_FIRST),
    ("models", ["-masks"], (PACE, RAW), LARGEST_FIRST | {"most_seeds": 1}),
    ("models", OTHERS, MODEL_ROWS, {"models": FEW_MODELS}),
    # The paper's clients, other nodes for training.
    ("masks", [""], (*MATRIX, *CALIBRATED), REDRAWN),
    ("masks", ["-ablation"], ABLATION, REDRAWN | {"datasets": CITATION}),
    ("masks", ["-c20"], CHEAP, REDRAWN | {"clients": (20,)}),
    ("masks", ["-c30"], CHEAP, REDRAWN | {"clients": (30,), "datasets": CITATION[:2]}),
    ("labels", [""], REFERENCES, FRESH | {"clients": MANY}),
    ("labels", ["-metis", "-dirichlet", *OTHERS], REFERENCES, FRESH),
    ("field", [""], FIELD, FRESH | {"clients": MANY}),
    ("field", ["-metis", *OTHERS, "-dirichlet", "-dirichlet-0.1", "-dirichlet-0.05"], FIELD, FRESH),
    ("field", ["-more-labels"], CORE, FRESH),
):
    for end in ends:  # what a place says goes before the setting
        every = {"datasets": AVAILABLE} | setting | PLACES.get(end, {})
        PARTS[family + end] = Part(family + end, rows, **every)
OWN = tuple(PARTS)[len(PAPER) :]
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
