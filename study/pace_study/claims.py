"""Every quantitative sentence of the paper's Section 5 and appendix, judged on the stored cells."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources

from pace_study.cell import Store
from pace_study.checks import FAILS, HOLDS, UNKNOWN, WITHIN, Numbers, judged
from pace_study.judges import RESULTS
from pace_study.set_up import FACTS

VERDICTS = (HOLDS, WITHIN, FAILS, UNKNOWN)
HISTORY = "tells how the paper was made, not what it found"


@dataclass(frozen=True)
class Sentence:
    """A sentence of the paper that counts, measures or compares.

    Its kind is `result`, `set-up` (how it was done), `history` (how the paper came about), `layout`
    (what a table or figure shows) or `proof`; the last two claim nothing that could be measured.
    """

    id: str
    place: str
    text: str
    kind: str


@dataclass(frozen=True)
class Claim:
    """A sentence in the paper's words, what became of it here, and the numbers that say so."""

    id: str
    place: str
    kind: str
    statement: str
    verdict: str
    evidence: str


@cache
def sentences() -> tuple[Sentence, ...]:
    """All of them; `benchmarks/paper_sentences.py` finds them in the paper's source."""
    text = resources.files("pace_study").joinpath("sentences.json").read_text(encoding="utf-8")
    return tuple(Sentence(**entry) for entry in json.loads(text))


def claims(store: Store, seeds: Sequence[int]) -> list[Claim]:
    """Every sentence that can be true or false here, in the paper's order."""
    numbers = Numbers(store, seeds)
    made = []
    for sentence in sentences():
        if sentence.kind == "result":
            verdict, evidence = judged(RESULTS[sentence.id](numbers))
        elif sentence.kind == "set-up":
            met, evidence = FACTS[sentence.id](store)
            verdict = HOLDS if met else FAILS
        elif sentence.kind == "history":
            verdict, evidence = UNKNOWN, HISTORY
        else:
            continue
        where = sentence.id, sentence.place, sentence.kind, sentence.text
        made.append(Claim(*where, verdict, evidence))
    return made
