"""A page that shows collaborators how a round goes: who is in, since when, what is awaited.

It refreshes itself, loads nothing, and has names, states and times only: no keys, addresses or sizes.
"""

import time
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from pace.io import atomic
from pace.jobs import Job
from pace.reports import Document, Section, Table, render_page
from pace_network.progress import ENGINE, Progress

EVERY = 2.0  # seconds between two writes
REFRESH = 5  # seconds until a browser reads it again
AWAITED = {
    "missing": "its node",
    "asked": "its upload",
    "uploaded": "the other uploads",
    "refused": "a correction at the site",
    "lost": "an answer",
    "returned": "its confirmation",
    "adopted": "nothing",
}


@dataclass
class StatusPage:
    """The page of one round; `update` writes it now and then, `close` at the end."""

    path: Path
    job: Job
    since: dict[str, tuple[str, str]] = field(default_factory=dict)  # who -> state, since when
    written: float = float("-inf")

    def update(self, progress: Progress) -> None:
        """Note who is where; write it if it is time."""
        now = datetime.now().astimezone()
        for row in progress.rows.values():
            if self.since.get(row.who, ("",))[0] != row.state and row.who != ENGINE:
                self.since[row.who] = row.state, f"{now:%Y-%m-%d %H:%M:%S %Z}"
        if time.monotonic() - self.written >= EVERY:
            self.write(f"The round is running. Last change {now:%H:%M:%S %Z}.", REFRESH)
            self.written = time.monotonic()

    def write(self, lede: str, refresh: int = 0) -> None:
        rows = [[who, state, since, AWAITED[state]] for who, (state, since) in self.since.items()]
        states = [state for state, _ in self.since.values()]
        uploaded = sum(state in ("uploaded", "returned", "adopted") for state in states)
        headline = (
            (str(len(self.job.participants) or len(rows)), "participants"),
            (str(uploaded), "uploads here"),
            (str(states.count("adopted")), "returns confirmed"),
        )
        table = Table.of("", ["Participant", "State", "Since", "Awaited"], sorted(rows), words=3)
        section = Section("Who is in", (table,))
        page = Document(self.job.name, lede, headline, (section,), refresh=refresh)
        atomic.write(self.path, render_page(page).encode())
