"""What a site's analyst asks first: is it better, are its probabilities right, and what now?

Answers come from counts of test nodes: how many only the one model has right, and how many only the
other. An interval says what chance alone would do to such counts.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from pace.io import many
from pace.reports import Finding
from pace.runtimes.files.outcome import MaskScores, Outcome, ReadingScores
from pace.task import Bin

NORMAL = 1.959964  # standard deviations of a normal distribution that hold 95 %
ALONE, PLAIN = "this site alone (Local)", "a logistic regression on the columns, without links"
STYLES = {"better": "green", "worse": "bold red", "fails": "bold red"}  # in a terminal


def paired_interval(gained: int, lost: int, nodes: int) -> tuple[float, float]:
    """A 95 % interval of the difference of two accuracies on the same nodes (Bonett and Price, 2012).

    `gained` nodes only the first model has right, `lost` only the second. The Wald interval of the two
    shares, with one node added to each.
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
            found = compare(scores, reference, name)
            verdicts[reference] = found.verdict
            yield found
    yield probabilities(scores.adopted)
    yield Finding("What to do next:", "next", next_step(scores, verdicts))


def compare(scores: MaskScores, reference: str, name: str) -> Finding:
    """Better, worse, or not to be told apart from a reference on the same nodes."""
    gained, lost = scores.pairs[reference]
    low, high = (scores.nodes * end for end in paired_interval(gained, lost, scores.nodes))
    more = gained - lost
    kind = "better" if low > 0 else "worse" if high < 0 else "open"
    words = {"better": "Better than", "worse": "Worse than", "open": "Cannot be told apart from"}
    change = (
        f"{abs(more):,} of {many(scores.nodes, 'test node')} {'more' if more >= 0 else 'fewer'}"
    )
    chance = "more than chance would do" if kind != "open" else "that is within chance"
    span = f"95 % interval: {_signed(low)} to {_signed(high)} nodes"
    only = f"right only now {gained:,}, right only before {lost:,}"
    evidence = f"{change} are right; {chance} ({span}; {only})."
    return Finding(f"{words[kind]} {name}.", kind, evidence)


def _signed(count: float) -> str:
    return f"{count:+.0f}".replace("-", "−")


def probabilities(reading: ReadingScores) -> Finding:
    """Whether the model is as often right as it says, within what chance would do."""
    sure, right, chance = confidence(reading.bins)
    evidence = (
        f"On average it is {100 * sure:.0f} % sure of the class it names, and right in "
        f"{100 * right:.0f} % of the test nodes (chance: ± {100 * chance:.0f} points). Probabilities "
        "were adjusted on the validation nodes (temperature scaling)."
    )
    if abs(sure - right) <= chance:
        return Finding("Its probabilities can be taken at their word.", "holds", evidence)
    wrong = "too high" if sure > right else "too low"
    return Finding(f"Its probabilities are {wrong}: use its classes only.", "fails", evidence)


def confidence(bins: Sequence[Bin]) -> tuple[float, float, float]:
    """Mean probability of the named class, share that is right, and two standard deviations of it."""
    nodes = sum(part.nodes for part in bins)
    sure = sum(part.nodes * part.confidence for part in bins) / nodes
    spread = sum(part.nodes * part.confidence * (1 - part.confidence) for part in bins)
    return sure, sum(part.hits for part in bins) / nodes, NORMAL * math.sqrt(spread + 0.25) / nodes


def next_step(scores: MaskScores, verdicts: dict[str, str]) -> str:
    """What the verdicts advise."""
    if verdicts.get("baseline") == "worse":
        return (
            "A plain logistic regression is better here: use that, and look whether the links say "
            "anything about the classes (`pace graph show` counts edges within a class)."
        )
    if verdicts.get("local") == "worse":
        return "Use Local, the columns local_class and local_probability of the predictions."
    if verdicts.get("local") == "better":
        return "Use it: `pace client predict`. Look at the classes that lost, further down."
    if "open" in verdicts.values():
        reference = next(name for name, kind in verdicts.items() if kind == "open")
        gained, lost = scores.pairs[reference]
        text = "Use it; nothing speaks against it, and more labelled test nodes would tell more"
        if gained == lost:
            return f"{text}."
        needed = math.ceil(NORMAL**2 * (gained + lost) * scores.nodes / (gained - lost) ** 2)
        return f"{text} (a difference like this one shows on about {needed:,})."
    return "Use it: `pace client predict`."
