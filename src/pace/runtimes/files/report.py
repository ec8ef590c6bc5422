"""The merge report: as data, and for people with the same rows in a terminal and in Markdown."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pace.io import atomic, records
from pace.io.text import Medium, shown
from pace.jobs.explain import MessageSizes
from pace.jobs.journal import PastRefusal
from pace.reports import Table
from pace.runtimes.files.intake import Refusal

FORMAT = "pace-merge-report-1"


@dataclass(frozen=True)
class JobName:
    """Which job it is."""

    name: str
    digest: str


@dataclass(frozen=True)
class TookPart:
    """A participant whose upload was merged."""

    name: str
    sha256: str
    """Of its upload."""
    share: float | None
    """Its weight in the consensus; None where the method has no one weight for a client."""
    norm: float | None
    """The size of its update against the median client's."""
    flags: tuple[str, ...]
    """What is worth a look, in words."""


@dataclass(frozen=True, kw_only=True)
class MergeReport:
    """What became of a job at the server; `report.json`."""

    format: str = FORMAT
    job: JobName
    sealed: bool = False
    """Whether the server saw sums only."""
    merged: bool
    waiting: str | None
    """Why nothing was merged yet."""
    took_part: tuple[TookPart, ...]
    here: tuple[str, ...]
    """Whose uploads are in the journal."""
    missing: tuple[str, ...]
    """Participants of whom there is no upload."""
    refused: tuple[Refusal, ...]
    """In this run."""
    refused_ever: tuple[PastRefusal, ...]
    bytes: MessageSizes
    roll: int = 0
    """Bytes of the largest roll that went with a return."""


def took_part_table(report: MergeReport) -> Table:
    title = f"Took part: {len(report.took_part)}"
    if report.sealed:
        return Table.of(title, ["Client"], [[client.name] for client in report.took_part])
    rows = [
        [
            client.name,
            "-" if client.share is None else f"{100 * client.share:.1f}%",
            "-" if client.norm is None else f"{client.norm:.2f}",
            "; ".join(client.flags),
        ]
        for client in report.took_part
    ]
    return Table.of(title, ["Client", "Influence", "Norm", "Look at"], rows)


def refused_table(title: str, refusals: Sequence[Refusal | PastRefusal]) -> Table:
    rows = [[refusal.sender, refusal.code, refusal.reason] for refusal in refusals]
    return Table.of(title, ["Sender", "Code", "Reason"], rows, words=2)


def merge_sentences(report: MergeReport) -> list[str]:
    """Who came and what it cost, in words."""
    lines = []
    if report.waiting:
        lines.append(report.waiting)
    elif report.missing:
        lines.append(
            f"Merged without {', '.join(report.missing)}: if they send now, they are refused."
        )
    sizes = report.bytes
    signature = f"; a signature adds {sizes.signature} to each" if sizes.signature else ""
    roll = f" The roll of who was in has {report.roll:,}." if report.roll else ""
    lines.append(
        f"A client's upload has {sizes.shown(sizes.upload_frame)}, its return "
        f"{sizes.shown(sizes.return_frame)}{signature}.{roll}"
    )
    return lines


SEALED = "The job is sealed: no client's influence can be seen, nor the size of its update."
NOTES = (
    "Influence: the client's weight in the consensus, averaged over all numbers of the model; the "
    "column sums to 100%. Norm: the size of its update against the median client's."
)


def notes(report: MergeReport) -> str:
    """What the table of those who took part shows."""
    return SEALED if report.sealed else NOTES


def markdown(report: MergeReport) -> str:
    """A page for the records."""
    took_part = took_part_table(report)
    parts = [
        f"# Merge report: {shown(report.job.name, Medium.MARKDOWN)}",
        f"Job `{report.job.digest}`",
        "\n\n".join(shown(line, Medium.MARKDOWN) for line in merge_sentences(report)),
        f"## {took_part.title}",
        took_part.markdown(),
        notes(report),
    ]
    if report.refused:
        title = f"Refused in this run: {len(report.refused)}"
        parts += [f"## {title}", refused_table(title, report.refused).markdown()]
    return "\n\n".join(parts) + "\n"


def write_report(folder: Path, report: MergeReport) -> None:
    """The report as data and as a page."""
    pages = {
        "report.json": json.dumps(records.plain_record(report), indent=1) + "\n",
        "report.md": markdown(report),
    }
    for name, text in pages.items():
        atomic.sweep(folder / name)
        atomic.write(folder / name, text.encode())
