"""What a site decided about a return, how good each model is on its own labels, and the verdict.

`Outcome` lies in the model folder as model.json: counts and sums, never a node. The verdict is what a
site's analyst asks first: is it better, are its probabilities right, and what now? It comes from counts
of test nodes that only one of two models has right, and the interval that chance would give them.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from pace import task
from pace.errors import GraphError, SettingError
from pace.graph import UNKNOWN, Graph
from pace.io import many, records
from pace.jobs import Roll
from pace.protocol import Adoption
from pace.reports import READINGS, Finding
from pace.runtimes.files.site import NEW, ROLES, Site
from pace.training import affine, logistic_regression

MODEL = "pace-model-1"
MASKS = ("train", "val", "test", "new", "all")
PENALTIES = (1e-2, 1e-3, 1e-1, 1e-4)  # of the baseline; the first without validation nodes
NORMAL = 1.959964  # standard deviations of a normal distribution that hold 95 %
ALONE, PLAIN = "this site alone (Local)", "a logistic regression on the columns, without links"
ADVICE = {
    "baseline worse": "A plain logistic regression is better here: use that, and look whether the links "
    "say anything about the classes (`pace inspect` has their homophily: edges within a class).",
    "local worse": "Use Local, the columns local_class and local_probability of the predictions.",
    "local better": "Use it: `pace client predict`. Look at the classes that lost, further down.",
}
UNTOLD = "Use it; nothing speaks against it, and more labelled test nodes would tell more."
STYLES = {"better": "green", "worse": "bold red", "fails": "bold red"}  # in a terminal


@dataclass(frozen=True)
class ReadingScores:
    """Scores of one reading; None or empty where there are no nodes."""

    accuracy: float | None = None
    weighted_f1: float | None = None
    macro_f1_present: float | None = None  # over the classes that occur
    nll: float | None = None  # negative log-likelihood, in nats a node
    confusion: tuple[tuple[int, ...], ...] = ()  # a row a true class: nodes by what they are called
    bins: tuple[task.Bin, ...] = ()  # its calibrated probabilities, and how often it is right
    calibrated_nll: float | None = records.optional(None)  # the NLL of calibrated probabilities


@dataclass(frozen=True, kw_only=True)
class MaskScores:
    """Scores of Local, External and what was adopted on the nodes of a mask."""

    mask: str
    nodes: int
    new: int | None = records.optional(None)  # those that the model has never seen with a label
    classes: int  # of the job
    local: ReadingScores
    external: ReadingScores
    adopted: ReadingScores
    baseline: ReadingScores | None = records.optional(None)  # logistic regression on the columns
    pairs: dict[str, tuple[int, int]] = field(default_factory=dict, metadata=records.OPTIONAL)
    """By reference (local, baseline): nodes only what was adopted has right, nodes only it has."""

    def __post_init__(self) -> None:
        widths = [self.classes] * self.classes if self.nodes else []
        for reading in self.readings.values():
            if [len(row) for row in reading.confusion] != widths:
                raise ValueError(f"a confusion matrix is not of {self.classes} classes")
            counts = [count for row in reading.confusion for count in row]
            if min(counts, default=0) < 0 or sum(b.nodes for b in reading.bins) != sum(counts):
                raise ValueError("a count is below 0, or calibration and confusion differ in nodes")

    @property
    def readings(self) -> dict[str, ReadingScores]:
        """The readings by name, the baseline first if there is one."""
        first = {} if self.baseline is None else {"baseline": self.baseline}
        return first | {reading: getattr(self, reading) for reading in READINGS}


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What a site decided, and how good it is there."""

    job: str  # its digest
    name: str  # the participant
    alpha: float  # the Externals' share of the weights
    weights: tuple[float, ...]  # of Local, then of each External
    decision: str  # what alpha means, in words
    upload: str  # the checksum of the upload it answers
    returned: str = field(metadata=records.record_key("return"))  # the return's SHA-256
    roll: Roll | None  # whose uploads were merged; None where no roll came
    noticed: tuple[str, ...] = records.optional(())  # of Externals of Local's kind, in words
    validation: MaskScores
    test: MaskScores
    temperature: float = records.optional(1.0)  # what its logits are divided by for probabilities
    local_temperature: float = records.optional(1.0)
    rehearsed: dict[str, float] = field(default_factory=dict, metadata=records.OPTIONAL)
    """NLL of Local and of what is used, fitted without the nodes they are measured on, where the models
    in use are fitted to validation labels too."""
    drawn: tuple[float, ...] | None  # shares of train, val and test, where the table had no split
    adopted: str  # when, in UTC
    versions: dict[str, str]
    format: str = MODEL

    def __post_init__(self) -> None:
        weights = self.weights
        sound = all(0 <= weight < math.inf for weight in weights) and 0 < sum(weights) < math.inf
        if not 0 <= self.alpha <= 1 or not sound or len(weights) < 2:
            raise ValueError(f"alpha {self.alpha} and weights {weights}, expected 0 or more")
        if self.validation.classes != self.test.classes:
            raise ValueError("validation and test are of different classes")

    @property
    def edition(self) -> int:
        """Of the job, that the return was of."""
        return 1 if self.roll is None else self.roll.number


def baseline_logits(graph: Graph, classes: int) -> Tensor | None:
    """Of a validated logistic regression on the columns; None where there is nothing to learn from."""
    if not graph.train.any():
        return None
    x, y = graph.x[graph.train], graph.y[graph.train]
    penalties = PENALTIES if graph.val.any() else PENALTIES[:1]
    candidates = (affine(graph.x, logistic_regression(x, y, classes, p)) for p in penalties)
    return min(candidates, key=lambda logits: task.nll(logits[graph.val], graph.y[graph.val]))


def on_unseen(
    score: Callable[[Tensor, Tensor], float], adoption: Adoption, graph: Graph
) -> dict[str, float]:
    """A score of Local and of what is used, on nodes whose labels neither was fitted to."""
    unseen = adoption.unseen(graph.val)
    cases = [(own[nodes], used[nodes], graph.y[nodes]) for own, used, nodes in unseen]
    local, adopted, labels = map(torch.cat, zip(*cases, strict=True))
    return {"local": score(local, labels), "adopted": score(adopted, labels)}


def temperatures(adoption: Adoption, graph: Graph, baseline: Tensor | None) -> dict[str, float]:
    """What the logits of each reading are divided by, chosen on the validation nodes."""
    heat = on_unseen(task.temperature, adoption, graph)
    if baseline is not None:
        heat["baseline"] = task.temperature(baseline[graph.val], graph.y[graph.val])
    return heat


def mask_scores(
    adoption: Adoption,
    graph: Graph,
    nodes: Tensor,
    *,
    mask: str,
    heat: Mapping[str, float],
    baseline: Tensor | None = None,
) -> MaskScores:
    """Scores and counts of each reading on these nodes; `heat` has the readings' temperatures."""
    labels, classes = graph.y[nodes], adoption.local.shape[1]
    readings = {name: logits(adoption)[nodes] for name, logits in READINGS.items()}
    if baseline is not None:
        readings["baseline"] = baseline[nodes]
    hits = {name: task.called(logits) == labels for name, logits in readings.items()}
    used = hits["adopted"]

    def scores(logits: Tensor, reading: str) -> ReadingScores:
        if not len(labels):
            return ReadingScores()
        calibrated = logits.double() / heat.get(reading, 1.0)
        counts = task.counted(logits, labels, classes)
        return ReadingScores(
            task.accuracy(counts),
            task.weighted_f1(counts),
            task.macro_f1_present(counts),
            nll=task.nll(logits, labels),
            calibrated_nll=task.nll(calibrated, labels),
            confusion=tuple(map(tuple, counts.tolist())),
            bins=task.reliability(calibrated, labels),
        )

    scored: dict[str, Any] = {name: scores(logits, name) for name, logits in readings.items()}
    return MaskScores(
        mask=mask,
        nodes=len(labels),
        classes=classes,
        **scored,
        pairs={
            name: (int((used & ~hits[name]).sum()), int((hits[name] & ~used).sum()))
            for name in ("local", "baseline")
            if name in hits and len(labels)
        },
    )


def evaluate_mask(
    adoption: Adoption, site: Site, mask: str, roles: Sequence[str], outcome: Outcome
) -> MaskScores:
    """Scores on the nodes of a mask; `test` is what was held out when the model was made, and labelled
    nodes that it has never seen; of those, the graph's own test nodes, unless its masks were drawn.
    """
    if mask not in MASKS:
        raise SettingError(f"the mask is {mask!r}, expected one of {', '.join(MASKS)}")
    labelled = site.graph.y != UNKNOWN
    labelled[len(labelled) if site.rows is None else site.rows :] = False  # neighbours of old
    role = {kind: torch.tensor([r == kind for r in roles]) for kind in (*ROLES, NEW)}
    unseen = labelled & (role[NEW] | role[ROLES[0]])  # without a label, a node taught nothing
    fair = role["test"] | (unseen & site.graph.test if site.drawn is None else unseen)
    nodes = labelled & {**role, "test": fair, NEW: unseen, "all": labelled}[mask]
    if not nodes.any():
        raise GraphError(f"the graph has no labelled nodes in {mask!r}: choose another --on")
    heat = {"local": outcome.local_temperature, "adopted": outcome.temperature}
    scores = mask_scores(adoption, site.graph, nodes, mask=mask, heat=heat)
    return replace(scores, new=int((nodes & unseen).sum()))


def known_labels(graph: Graph, classes: Sequence[str]) -> list[str]:
    """The class of each node as its table says, empty where it says nothing."""
    return ["" if label == UNKNOWN else classes[label] for label in graph.y.tolist()]


def paired_interval(gained: int, lost: int, nodes: int) -> tuple[float, float]:
    """A 95 % interval of the difference of two accuracies on the same nodes (Bonett and Price, 2012).

    `gained` nodes only the first model has right, `lost` only the second; one is added to each.
    """
    first, second = (gained + 1) / (nodes + 2), (lost + 1) / (nodes + 2)
    difference = first - second
    spread = NORMAL * math.sqrt((first + second - difference**2) / (nodes + 2))
    return max(difference - spread, -1.0), min(difference + spread, 1.0)


def findings(outcome: Outcome) -> Iterator[Finding]:
    """The verdict, in the order in which an analyst asks."""
    scores = outcome.test
    if not scores.nodes:
        text = "There are no test nodes: import with --split 60/20/20, or label some nodes."
        yield Finding("Whether the model is good enough cannot be told here.", "absent", text)
        return
    if outcome.alpha == 0:
        text = "On the validation nodes nothing that came back helped, so Local is used as it was."
        yield Finding(f"The same as {ALONE}.", "same", text)
    verdicts = {}
    for reference, name in (("local", ALONE), ("baseline", PLAIN)):
        if reference in scores.pairs and (outcome.alpha or reference != "local"):
            finding = compare(scores, reference, name)
            verdicts[reference] = finding.verdict
            yield finding
    yield probabilities(scores.adopted)
    yield Finding("What to do next:", "next", next_step(verdicts))


def compare(scores: MaskScores, reference: str, name: str) -> Finding:
    """Better, worse, or not to be told apart from a reference on the same nodes."""
    gained, lost = scores.pairs[reference]
    low, high = (scores.nodes * end for end in paired_interval(gained, lost, scores.nodes))
    more = gained - lost
    kind = "better" if low > 0 else "worse" if high < 0 else "open"
    words = {"better": "Better than", "worse": "Worse than", "open": "Cannot be told apart from"}
    change = f"{abs(more):,} of {many(scores.nodes, 'test node')}"
    sign = "more" if more >= 0 else "fewer"
    chance = "more than chance would do" if kind != "open" else "that is within chance"
    span = f"95 % interval: {low:+.0f} to {high:+.0f} nodes".replace("-", "−")
    only = f"right only now {gained:,}, right only before {lost:,}"
    evidence = f"{change} {sign} are right; {chance} ({span}; {only})."
    return Finding(f"{words[kind]} {name}.", kind, evidence)


def probabilities(reading: ReadingScores) -> Finding:
    """Whether the model is as often right as it says, within two standard deviations of chance."""
    nodes = sum(part.nodes for part in reading.bins)
    right = sum(part.hits for part in reading.bins) / nodes
    sure = sum(part.nodes * part.confidence for part in reading.bins) / nodes
    spread = sum(part.nodes * part.confidence * (1 - part.confidence) for part in reading.bins)
    chance = NORMAL * math.sqrt(spread + 0.25) / nodes
    evidence = (
        f"On average it is {100 * sure:.0f} % sure of the class it names, and right in "
        f"{100 * right:.0f} % of the test nodes (chance: ± {100 * chance:.0f} points). Probabilities "
        "were adjusted on the validation nodes (temperature scaling)."
    )
    if abs(sure - right) <= chance:
        return Finding("Its probabilities can be taken at their word.", "holds", evidence)
    wrong = "too high" if sure > right else "too low"
    return Finding(f"Its probabilities are {wrong}: use its classes only.", "fails", evidence)


def next_step(verdicts: Mapping[str, str]) -> str:
    cases = {f"{reference} {kind}" for reference, kind in verdicts.items()}
    return next((advice for case, advice in ADVICE.items() if case in cases), UNTOLD)
