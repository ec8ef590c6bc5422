"""The merge report: as data, and for people with the same rows in a terminal and in Markdown."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from pace.io import atomic, records
from pace.jobs.explain import MessageSizes
from pace.jobs.journal import Refusal
from pace.reports import Document, Section, Table, Text

SEALED = "The job is sealed: no client's influence can be seen, nor the size of its update."
NOTES = (
    "Influence: the client's weight in the consensus, averaged over all numbers of the model; the "
    "column sums to 100%. Norm: the size of its update against the median client's."
)


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

    format: str = "pace-merge-report-1"
    job: dict[str, str]
    """Its name and digest."""
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
    refused_ever: tuple[Refusal, ...]
    bytes: MessageSizes
    roll: int = 0
    """Bytes of the largest roll that went with a return."""


def took_part_table(report: MergeReport) -> Table:
    """Whose uploads were merged, with their influence unless uploads are sealed."""
    title = f"Took part: {len(report.took_part)}"
    if report.sealed:
        names = [[client.name] for client in report.took_part]
        return Table.of(title, ["Client"], names, note=SEALED)
    rows = [
        [
            client.name,
            "-" if client.share is None else f"{100 * client.share:.1f}%",
            "-" if client.norm is None else f"{client.norm:.2f}",
            "; ".join(client.flags),
        ]
        for client in report.took_part
    ]
    return Table.of(title, ["Client", "Influence", "Norm", "Look at"], rows, note=NOTES)


def refused_table(title: str, refusals: Sequence[Refusal]) -> Table:
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


def markdown(report: MergeReport) -> str:
    """A page for the records."""
    tables = [took_part_table(report)]
    if report.refused:
        tables.append(refused_table(f"Refused in this run: {len(report.refused)}", report.refused))
    summary = Section("Summary", tuple(map(Text, merge_sentences(report))))
    sections = [Section(table.title, (replace(table, title=""),)) for table in tables]
    title, lede = f"Merge report: {report.job['name']}", f"Job {report.job['digest']}"
    return Document(title, lede, (), (summary, *sections)).markdown()


def write_report(folder: Path, report: MergeReport) -> None:
    """The report as data and as a page."""
    pages = {
        "report.json": json.dumps(records.plain_record(report), indent=1) + "\n",
        "report.md": markdown(report),
    }
    for name, text in pages.items():
        atomic.sweep(folder / name)
        atomic.write(folder / name, text.encode())
