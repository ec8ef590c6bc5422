"""The merge report for people: the same rows in a terminal and in Markdown."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pace.io import atomic
from pace.io.text import Medium, shown

Table = tuple[list[str], list[list[str]]]  # heads, rows


def took_part(found: dict[str, Any]) -> Table:
    if found["sealed"]:
        return ["Client"], [[each["name"]] for each in found["took_part"]]
    rows = [
        [
            each["name"],
            "-" if each["share"] is None else f"{100 * each['share']:.1f}%",
            "-" if each["norm"] is None else f"{each['norm']:.2f}",
            "; ".join(each["flags"]) or "",
        ]
        for each in found["took_part"]
    ]
    return ["Client", "Influence", "Norm", "Look at"], rows


def refused(found: dict[str, Any]) -> Table:
    return ["Sender", "Code", "Reason"], [
        [each["sender"], each["code"], each["reason"]] for each in found["refused"]
    ]


def sentences(found: dict[str, Any]) -> list[str]:
    """Who came and what it cost, in words."""
    said = []
    if found["waiting"]:
        said.append(found["waiting"])
    elif found["missing"]:
        said.append(
            f"Merged without {', '.join(found['missing'])}: if they send now, they are refused."
        )
    traffic = found["bytes"]
    signature = f"; a signature adds {traffic['signature']} to each" if traffic["signature"] else ""
    said.append(
        f"A client's upload has {traffic['upload_frame']:,} bytes "
        f"({100 * traffic['upload_share_of_dense']:.1f}% of a dense model), its return "
        f"{traffic['return_frame']:,} ({100 * traffic['return_share_of_dense']:.1f}%)"
        + f"{signature}."
        + (f" The roll of who was in has {traffic['roll']:,}." if traffic["roll"] else "")
    )
    return said


SEALED = "The job is sealed: nobody's influence can be seen, nor the size of its update."
NOTES = (
    "Influence: the client's weight in the consensus, averaged over all numbers of the model; the "
    "column sums to 100%. Norm: the size of its update against the median client's."
)


def notes(found: dict[str, Any]) -> str:
    """What the table of those who took part shows."""
    return SEALED if found["sealed"] else NOTES


def markdown(found: dict[str, Any]) -> str:
    """A page for the records."""
    parts = [
        f"# Merge report: {shown(found['job']['name'], Medium.MARKDOWN)}",
        f"Job `{found['job']['digest']}`",
        "\n\n".join(shown(said, Medium.MARKDOWN) for said in sentences(found)),
        f"## Took part: {len(found['took_part'])}",
        _table(took_part(found)),
        notes(found),
    ]
    if found["refused"]:
        parts += [f"## Refused in this run: {len(found['refused'])}", _table(refused(found))]
    return "\n\n".join(parts) + "\n"


def write(folder: Path, found: dict[str, Any]) -> None:
    """The report as data and as a page."""
    pages = {"report.json": json.dumps(found, indent=1) + "\n", "report.md": markdown(found)}
    for name, text in pages.items():
        atomic.sweep(folder / name)
        atomic.write(folder / name, text.encode())


def _table(table: Table) -> str:
    heads, rows = table
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join(
        "| " + " | ".join(shown(cell, Medium.MARKDOWN) for cell in line) + " |" for line in lines
    )
