"""The faults that PACE is to survive, and a table of the tests that show it, made by running them.

A test says which rows it shows: `@pytest.mark.fault(2, 5)`. `make faults` runs those tests and
writes `results/tables/faults.md`.
"""

from __future__ import annotations

import ast
import platform
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

TESTS = Path(__file__).parent
PAGE = TESTS.parent / "results" / "tables" / "faults.md"


@dataclass(frozen=True)
class Fault:
    """What happens, and what PACE does about it."""

    what: str
    expected: str


FAULTS = {
    1: Fault(
        "Truncated, empty or random bytes; any single byte of a good message changed",
        "A typed refusal; the server goes on, and the sender's place stays free",
    ),
    2: Fault(
        "Longer than the job's messages; lengths of 2^63; 100,000 tensors; empties of huge shape",
        "Refused before anything is allocated; memory stays bounded",
    ),
    3: Fault("A compressed bomb", "Nothing is ever decompressed"),
    4: Fault(
        "NaN, infinity, -0, subnormals; float16 or whole numbers in place of float32",
        "NaN, infinity and other types refused; -0 and subnormals are numbers like others",
    ),
    5: Fault(
        "Other names, shapes, rank or order; an extra tensor; a name twice",
        "Refused, naming the field",
    ),
    6: Fault("Negative moments", "Refused, naming the field"),
    7: Fault("Moments that are not normalised", "Refused, naming the field; all zero is legal"),
    8: Fault("Moments on one column only", "Legal; the report shows each client's influence"),
    9: Fault(
        "An update × 1000",
        "Flagged in the report; the gate protects",
    ),
    10: Fault(
        "A sign-flipped or label-flipped client",
        "As 9; no receiver's validation loss rises through the gate",
    ),
    11: Fault("The same upload twice", "Accepted once, with the same answer"),
    12: Fault("Another upload under the same name", "Refused and written down; the first counts"),
    13: Fault("An upload of an earlier job, replayed", "Refused: every job has a nonce"),
    14: Fault(
        "An upload signed by another's key, an unlisted one or one taken off the list", "Refused"
    ),
    15: Fault(
        "Another version, rank, network, start W_0 or setting",
        "Refused, with what was found and what was expected",
    ),
    16: Fault(
        "A client missing at the deadline",
        "From `minimum` uploads on, those who came are merged and the others listed; below, "
        "nothing is returned",
    ),
    17: Fault("An upload after the consensus", "Refused as late; no return changes"),
    18: Fault("The server killed at any step on the disk", "Resumed: byte-equal returns"),
    19: Fault(
        "A client killed after training, after sending, before applying",
        "No second training, the same bytes, applied once",
    ),
    20: Fault("A full disk or a read-only folder", "No acknowledgement, and nothing lost"),
    21: Fault(
        "A return that was changed, is another client's or another job's",
        "Refused; the Local model is untouched",
    ),
    22: Fault(
        "A hostile but well-formed return",
        "alpha = 0 gives the Local logits bit for bit; validation loss never above Local's",
    ),
    23: Fault("No validation nodes, or all of one class", "A defined result; without any, Local"),
    25: Fault(
        "Paths, labels or texts leaking with a message or into the server's files",
        "Messages hold the agreed tensors only; the server's files hold stable codes, no paths",
    ),
    26: Fault(
        "Clients in another order, more threads",
        "Byte-equal in the job's order and one thread; otherwise equal to 1e-6",
    ),
    27: Fault("Two jobs at once on one machine", "Folders of their own, no shared state"),
    28: Fault(
        "Logits that confuse a gate: huge and nearly equal over classes, denormal, infinite",
        "What is adopted is finite and no worse than Local on validation nodes; else Local stays",
    ),
    29: Fault(
        "Small files that ask for much: 10^9 classes, a huge model, 60 million equal rows, deep or "
        "long TOML and JSON",
        "Refused before memory or time is spent, in one sentence",
    ),
    30: Fault(
        "FIFOs, sockets and devices in place of files, also swapped in after a check",
        "Refused at once, nobody waits",
    ),
    31: Fault(
        "Public keys in another spelling, of small order, in two roles; key files put there before; "
        "a short nonce",
        "Refused; keys are made anew, for their owner only",
    ),
    32: Fault(
        "A site killed while it masks, or its files lost after it",
        "The same upload again, or none: never two different ones under the same masks",
    ),
    33: Fault("Sealed uploads merged twice", "The same returns, from the journal"),
    34: Fault(
        "A sealed upload that is missing or late",
        "Nothing is opened before all are here, and who is missing is named; then all is",
    ),
    35: Fault("Clocks that differ between sites", "Nothing sealed depends on a clock: same bytes"),
    36: Fault(
        "A key that changed after the job was made, or another's sealing key",
        "Refused, or the sum does not open; never a wrong sum",
    ),
    37: Fault(
        "A backdoor: a few rare features tied to a class, in columns that one liar holds",
        "In `pace` it passes, and the receiver's report shows long columns; `pace-limited` shortens "
        "what its own update and validation nodes do not bear out, whatever a liar adds",
    ),
    38: Fault(
        "A curious server: words, labels and membership read out of an upload",
        "Not prevented: measured in privacy.md, and told to a site before its upload is written",
    ),
    39: Fault(
        "An upload that rots in the server's journal before or after the job is closed",
        "Named and set aside; the good file may be put back; nothing damaged is merged",
    ),
    40: Fault(
        "Two servers on one journal, or two fits with one --keep, at once",
        "One works, the other says so and changes nothing",
    ),
    41: Fault(
        "Escape sequences, newlines, HTML, right-to-left marks and formulas in names; names that "
        "are not UTF-8",
        "Shown so that they do nothing: in a terminal, Markdown, HTML and CSV",
    ),
    42: Fault(
        "One admitted upload with numbers as large as admission allows, for every method",
        "Every return is finite",
    ),
    43: Fault(
        "A server that merges in a later edition what was signed for one edition alone",
        "Its own admission refuses it; sites check each signature in the roll and adopt nothing",
    ),
    44: Fault(
        "A server that ignores a withdrawal",
        "Sites that have the signed withdrawal adopt nothing that was merged with it",
    ),
    45: Fault(
        "A return or roll of another edition, or two editions of one number",
        "Told from tampering, with both numbers; the adopted model stays",
    ),
    46: Fault(
        "The server, or a site, killed at any step of an edition",
        "Run again: the same record, returns and certificate; the leaver's upload is gone",
    ),
    47: Fault(
        "A return with huge numbers, or with numbers for features that no node of the site has; a "
        "folder that holds such numbers",
        "Beyond the uploads' bound Local stays; such features are not taken; the folder is made anew",
    ),
    48: Fault(
        "A backdoor in the rows or sums of a regression",
        "`pace-full` lets no group of clients move a feature far; sums that no rows of length one add "
        "up to are refused, others pass",
    ),
    51: Fault(
        "An upload that nobody agreed to, or beyond a limit of the site's own policy",
        "It is not written; the egress report has what attacks on these very bytes learnt",
    ),
    52: Fault(
        "A line of the site's log of decisions changed, removed, swapped or cut off",
        "Found out by the chain of hashes; its end, by the hash in an egress report",
    ),
    53: Fault(
        "A copy of a key, or a link to it, used to seal a second upload or to forget earlier jobs",
        "The memory goes by the key's fingerprint: refused",
    ),
    54: Fault(
        "Sealed jobs whose sums together give a site away, over any number of jobs",
        "Asked before sealing, naming whose part is given away; other names and keys do not hide it",
    ),
    55: Fault(
        "A sealed job whose other participants its maker invented",
        "Names and fingerprints are shown; with --known, too few known keys are refused",
    ),
    56: Fault(
        "Links and files named like leftovers of a write, in a folder shared with others",
        "Removed without being followed, or left: nothing is blocked",
    ),
    57: Fault(
        "A job whose method takes what comes back whatever it does",
        "Refused at the maker and at every site unless asked for by an option",
    ),
    58: Fault(
        "A server that names a job or an edition which nobody at a node's site put there",
        "The node refuses it, `other-job` or `other-edition`; a changed record is a false signature",
    ),
}


def tagged() -> dict[int, set[str]]:
    """Row -> its tests, as the files' marks say, without running them."""
    found: dict[int, set[str]] = {row: set() for row in FAULTS}
    for path in sorted(TESTS.rglob("test_*.py")):
        room = path.relative_to(TESTS).with_suffix("").as_posix()
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.FunctionDef):
                for row in _rows(node):
                    found[row].add(f"{room}::{node.name}")
    return found


def _rows(test: ast.FunctionDef) -> list[int]:
    return [
        ast.literal_eval(argument)
        for mark in test.decorator_list
        if isinstance(mark, ast.Call) and ast.unparse(mark.func) == "pytest.mark.fault"
        for argument in mark.args
    ]


def render(outcomes: Mapping[int, Mapping[str, Sequence[str]]]) -> str:
    """The page: for each row its tests, with how each of their cases ended."""
    cases = [end for tests in outcomes.values() for ends in tests.values() for end in ends]
    lines = [
        "# Faults",
        "",
        "Every fault, what is expected, and the tests that show it. The numbers are those of the "
        "project's list of faults; 24, a hostile server of a deployment, is tested with the "
        "Flower runtime. This page is written by `make faults` from a run of the tests; another "
        "test fails when a test is added or renamed and the page is not made again.",
        "",
        f"{len(outcomes)} faults, {len(cases)} cases: {_counted(cases)} "
        f"(Python {platform.python_version()}, {platform.system()}).",
        "",
        "| # | Fault | Expected | Tests, and their cases where there are several |",
        "|---|---|---|---|",
    ]
    for row, tests in sorted(outcomes.items()):
        shown = "<br>".join(f"`{test}`{_cases(ends)}" for test, ends in sorted(tests.items()))
        lines.append(f"| {row} | {FAULTS[row].what} | {FAULTS[row].expected} | {shown} |")
    return "\n".join(lines) + "\n"


def _cases(ends: Sequence[str]) -> str:
    """How many cases passed, where there are several; how they ended, where not all passed."""
    if set(ends) != {"passed"}:
        return f" ({_counted(ends)})"
    return f" ×{len(ends)}" if len(ends) > 1 else ""


def _counted(ends: Sequence[str]) -> str:
    return ", ".join(f"{count} {end}" for end, count in Counter(ends).items()) or "not run"


def listed(page: str) -> dict[int, set[str]]:
    """Row -> its tests, as a page says."""
    rows = re.findall(r"^\| (\d+) \|.*\| (`[^|]*) \|$", page, re.M)
    return {int(row): set(re.findall(r"`([\w/]+::\w+)`", tests)) for row, tests in rows}
