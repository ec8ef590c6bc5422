"""The walk of the data in docs/architecture.md, from real runs: `python -m tests.data_walk` writes it.

Each runtime runs on the embedded graph while a profiler watches the functions that are listed here. The
walk has them in the order in which they were first called, with what went in and came out of that first
call. A function that is no longer called, or in another order, or passes something else, makes
tests/test_data_walk.py fail.
"""
# ruff: noqa: E501  a hop is a line, as in the page

from __future__ import annotations

import os
import re
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import pytest
import torch
from torch import Tensor

from pace.datasets import Dataset, file, load
from pace.datasets.partition import divide
from pace.graph import Graph
from pace.io.terminal import many
from pace.jobs.job import Job, write_job
from pace.jobs.journal import DOWN, UP, Journal
from pace.jobs.roll import ROLL_SUFFIX
from pace.merging.carrier import LowRank
from pace.methods import Pace
from pace.models import GCN
from pace.reports.trial import summarise
from pace.runtimes.files.client import adopt_files, fit_files
from pace.runtimes.files.merge import merge_files
from pace.runtimes.files.site import load_site
from pace.runtimes.simulation import simulate
from pace_network.round import play_round
from tests.networked import connected, server_settings, site_nodes, stopped

PAGE = Path(__file__).parent.parent / "docs" / "architecture.md"
ROOT = Path(__file__).parent.parent
BEGIN, END = "<!-- walk: made by python -m tests.data_walk -->\n", "<!-- end of the walk -->\n"
NAMES = ("north", "south", "west")
EPOCHS = 2

Passes = Callable[[Mapping[str, Any], Any], str]  # arguments and result of a call -> what passed


@dataclass(frozen=True)
class Hop:
    """One function on the way, and what passes through it."""

    symbol: str  # module and name, `pace.protocol.steps:merge`
    passes: Passes
    traced: bool = True  # False for Flower's own, which `make test` does not have

    @property
    def link(self) -> str:
        module, _, name = self.symbol.partition(":")
        folder = "network" if module.startswith("pace_network") else "src"
        path = f"{folder}/{module.replace('.', '/')}.py"
        shown = f"{module.removeprefix('pace.')}.{name}"
        return f"[`{shown}`](../{path}#{name})"


def size(value: object) -> str:
    """How large something is: bytes, tensors by name with their shapes, nodes of a graph."""
    match value:
        case bytes():
            return f"{len(value):,} bytes"
        case Tensor():
            return "×".join(map(str, value.shape)) or "a number"
        case LowRank():
            return f"{size(value.left)} · {size(value.right)}"
        case Graph():
            return f"{value.nodes:,} nodes"
        case Mapping():
            return ", ".join(f"{name} {size(item)}" for name, item in value.items())
    raise TypeError(type(value))


def numbers(message: Mapping[str, Tensor]) -> str:
    return f"{many(len(message), 'tensor')}, {sum(map(Tensor.numel, message.values())):,} numbers"


ONE_PROCESS = (
    Hop("pace.datasets.file:load", lambda a, r: f"a name → graph of {size(r.graph)}, {r.graph.features} features, {r.classes} classes"),
    Hop("pace.datasets.partition:divide", lambda a, r: f"the graph → {len(r)} client graphs of {', '.join(f'{g.nodes:,}' for g in r)} nodes"),
    Hop("pace.training.train:train_cohort", lambda a, r: f"graphs and W_0 → each client's Local: {size(next(iter(r.values()))[0])}"),
    Hop("pace.methods.pace:Pace.share", lambda a, r: f"Local − W_0 and the moments of its inputs → message of {numbers(r)}"),
    Hop("pace.merging.carrier:compress", lambda a, r: f"update → factors: {size(r)}"),
    Hop("pace.merging.moments:propagated", lambda a, r: f"one pass → moment of each weight's inputs: {size(r)}"),
    Hop("pace.protocol.wire:encode", lambda a, r: f"message → **upload, {size(r)}**"),
    Hop("pace.protocol.steps:merge", lambda a, r: f"{len(a['uploads'])} uploads → {len(r)} **returns, {size(r[0])}** each"),
    Hop("pace.protocol.wire:batch_of", lambda a, r: f"frames → batches of up to 64 clients: {numbers(r)} here"),
    Hop("pace.merging.consensus:mean", lambda a, r: f"sums over clients → consensus Δ: {size(r)}"),
    Hop("pace.merging.correction:corrections", lambda a, r: f"Δ and each client's own update → correction P_r(Δ − own): {size(r)}"),
    Hop("pace.merging.correction:apply", lambda a, r: f"Local + correction → External: {numbers(r)}"),
    Hop("pace.gates.cnll:calibrate", lambda a, r: f"{len(r)} receivers: logits of the validation nodes, {size(a['receivers'][0][0])} twice, and labels → α of each"),
    Hop("pace.task:counted", lambda a, r: f"logits of test nodes, {size(a['logits'])} → confusion matrix, {size(r)}"),
    Hop("pace.reports.trial:summarise", lambda a, r: f"{len(a['trials'])} trial → a `Summary` for each reading: scores, α, bytes"),
)  # fmt: skip
FILES = (
    Hop("pace.runtimes.files.site:load_site", lambda a, r: f"`mine.graph` → graph of {size(r.graph)}, checked against the job"),
    Hop("pace.runtimes.files.client:fit_files", lambda a, r: "job, site and key → `mine.local` (kept), `north.up` (sent) and the egress report"),
    Hop("pace.protocol.steps:fit", lambda a, r: f"graph → Local, {numbers(r[0].local)}, and **upload, {size(r[1])}**"),
    Hop("pace.jobs.disclosure:disclosure", lambda a, r: f"message → what will leave the site, {many(len(r.items), 'tensor')}, for `confirm`"),
    Hop("pace.runtimes.files.merge:merge_files", lambda a, r: f"{len(r.took_part)} files → {len(r.took_part)} returns and rolls, `MergeReport`"),
    Hop("pace.jobs.admission:admit", lambda a, r: f"{size(a['content'])} from anybody → the upload of a participant, or a refusal"),
    Hop("pace.jobs.journal:Journal.accept", lambda a, r: "upload → the journal, before it counts"),
    Hop("pace.jobs.journal:Journal.close", lambda a, r: f"the decision: {len(r)} names and the SHA-256 of their uploads"),
    Hop("pace.protocol.steps:returns", lambda a, r: f"uploads of the decision → **return, {size(r)}** each, by `Pace.merge` as above"),
    Hop("pace.jobs.roll:roll_writer", lambda a, r: "who was merged, refused, missing → `north.roll`, beside the return"),
    Hop("pace.runtimes.files.client:adopt_files", lambda a, r: "kept model, return and roll → the model folder, `Outcome`"),
    Hop("pace.protocol.steps:adopt", lambda a, r: f"graph, Local and return → External, {numbers(r.model.externals[0].params)}, logits, {size(r.local)}, and {len(r.weights)} weights"),
    Hop("pace.jobs.roll:check_roll", lambda a, r: f"the roll, if it is this server's for this return: {len(r.merged)} merged"),
    Hop("pace.runtimes.files.outcome:mask_scores", lambda a, r: "logits and this site's own labels → `MaskScores`"),
    Hop("pace.runtimes.files.model:write_model", lambda a, r: "parameters, weights, outcome → `mine.model/`, whole or absent"),
)  # fmt: skip
NETWORK = (
    Hop("pace_network.flower.server:play_run", lambda a, r: "a run of Flower's → its grid as a `GridExchange`, and the journal", traced=False),
    Hop("pace_network.round:play_round", lambda a, r: f"job and exchange → `RoundReport`, finished with {len(r.contacts)} contacts"),
    Hop("pace_network.round:Round.collect", lambda a, r: "asks every node for its upload until all are here or time is up"),
    Hop("pace_network.flower.server:GridExchange.send", lambda a, r: "words for each node → Flower messages", traced=False),
    Hop("pace_network.exchange:answer_letters", lambda a, r: "a site's loop: a message of its inbox → `respond` → the reply", traced=False),
    Hop("pace_network.site_steps:respond", lambda a, r: "a child process with a time limit", traced=False),
    Hop("pace_network.site_steps:answer_message", lambda a, r: f"`{a['kind']}` and the job's digest → code, name and payload of {size(r['payload'])}"),
    Hop("pace_network.site_steps:make_upload", lambda a, r: "node and job → `NAME.up`, by `files.client.fit_files` as above"),
    Hop("pace_network.round:Round.take", lambda a, r: "an answer → `admit`, journal, and which node the name is bound to"),
    Hop("pace.jobs.journal:Journal.close", lambda a, r: f"the decision: {len(r)} names"),
    Hop("pace_network.round:Round.deliver", lambda a, r: f"returns of the journal and rolls → nodes; {len(r)} not confirmed"),
    Hop("pace.runtimes.files.merge:make_returns", lambda a, r: f"uploads → returns in the journal, for {len(r)}"),
    Hop("pace_network.site_steps:adopt_return", lambda a, r: f"**return, {size(a['returned'])}**, and roll → the model folder, by `files.client.adopt_files` as above"),
)  # fmt: skip


def code_of(symbol: str) -> CodeType:
    module, _, name = symbol.partition(":")
    found: Any = import_module(module)
    for part in name.split("."):
        found = getattr(found, part)
    code: CodeType = found.__code__
    return code


@contextmanager
def watched(hops: Sequence[Hop]) -> Iterator[dict[str, str]]:
    """While it is open, the first call of each hop is noted: symbol -> what passed, in order."""
    by_code = {code_of(hop.symbol): hop for hop in hops if hop.traced}
    entered: dict[CodeType, tuple[FrameType, dict[str, Any]]] = {}
    passed: dict[str, str] = {}

    def note(frame: FrameType, event: str, result: object) -> None:
        hop = by_code.get(frame.f_code)
        if hop is None:
            return
        if event == "call" and frame.f_code not in entered:
            entered[frame.f_code] = frame, dict(frame.f_locals)
            passed[hop.symbol] = ""
        elif event == "return" and entered[frame.f_code][0] is frame and not passed[hop.symbol]:
            passed[hop.symbol] = hop.passes(entered[frame.f_code][1], result)

    sys.setprofile(note)
    try:
        yield passed
    finally:
        sys.setprofile(None)


def parts() -> tuple[Dataset, list[Graph], GCN]:
    dataset = load("synthetic")
    model = GCN((dataset.graph.features, 64, dataset.classes))
    return dataset, divide(dataset, "louvain", len(NAMES)), model


def in_one_process() -> None:
    _, graphs, model = parts()
    summarise(simulate(graphs, {"pace": Pace()}, model=model, seeds=[1], epochs=EPOCHS).trials)


def sites(root: Path) -> Job:
    """The three sites' folders, the server's and the job."""
    dataset, graphs, model = parts()
    made = Job("walk", model, epochs=EPOCHS, participants=NAMES, minimum=len(NAMES))
    for name, graph in zip(("server", *NAMES), (graphs[0], *graphs), strict=True):
        (root / name).mkdir()
        write_job(root / name / "job.pace", made)
        file.write_graph(root / name / "mine.graph", Dataset(name, graph, dataset.classes))
    return made


def over_files(root: Path, job: Job) -> None:
    inbox, outbox = root / "server" / "inbox", root / "server" / "outbox"
    inbox.mkdir()
    at = {name: load_site(root / name / "mine.graph", job) for name in NAMES}
    for name in NAMES:
        fit_files(job, at[name], root / name / "mine.local", inbox / f"{name}{UP}")
    merge_files(job, [inbox], journal=root / "server" / "journal", out=outbox)
    for name in NAMES:
        returned, roll = (
            (outbox / f"{name}{suffix}").read_bytes() for suffix in (DOWN, ROLL_SUFFIX)
        )
        kept, to = root / name / "mine.local", root / name / "mine.model"
        adopt_files(job, at[name], kept, to, returned=returned, roll=roll)


def over_a_network(root: Path, job: Job) -> None:
    """With an exchange in memory in Flower's place."""
    settings = server_settings(root)
    book = Journal.open(settings.journal, job)
    with pytest.MonkeyPatch.context() as patch, open(os.devnull, "w") as nothing:
        stopped(patch)
        patch.setattr(sys, "stderr", nothing)
        report = play_round(connected(site_nodes(root, NAMES)), settings, book)
    assert report.finished, report


def walks() -> dict[str, dict[str, str]]:
    """What passed each hop, by runtime."""
    torch.set_num_threads(1)
    found = {}
    with watched(ONE_PROCESS) as found["one process"]:
        in_one_process()
    for runtime, hops, run in (
        ("files", FILES, over_files),
        ("network", NETWORK, over_a_network),
    ):
        with tempfile.TemporaryDirectory() as folder:
            job = sites(Path(folder))
            with watched(hops) as found[runtime]:
                run(Path(folder), job)
    return found


RUNTIMES = {
    "one process": ("In one process", ONE_PROCESS),
    "files": ("Over files", FILES),
    "network": ("Over a network", NETWORK),
}


def section() -> str:
    """The Markdown of the walks, made from runs."""
    lines = []
    found = walks()
    for runtime, (title, hops) in RUNTIMES.items():
        absent = [hop.symbol for hop in hops if hop.traced and not found[runtime].get(hop.symbol)]
        assert not absent, f"{absent} are listed in tests/data_walk.py and were not called"
        called = list(found[runtime])
        listed = [hop.symbol for hop in hops if hop.traced]
        assert called == listed, f"{runtime}: called in the order {called}"
        lines += [f"**{title}**", "", "| hop | what passes |", "|---|---|"]
        for hop in hops:
            note = "" if hop.traced else " (Flower's, not traced)"
            said = found[runtime].get(hop.symbol) or hop.passes({}, None)
            lines.append(f"| {hop.link} | {said}{note} |")
        lines.append("")
    return "\n".join(lines)


def written(page: str, text: str) -> str:
    """The page with this section between its marks."""
    before, rest = page.split(BEGIN)
    return before + BEGIN + "\n" + text + "\n" + END + rest.split(END)[1]


def defined(link: str) -> bool:
    """Whether the file of a link defines what it names."""
    path, _, name = re.sub(r".*\]\(\.\./(.*)\)", r"\1", link).partition("#")
    source = (ROOT / path).read_text()
    return all(re.search(rf"^\s*(def|class) {part}\b", source, re.M) for part in name.split("."))


if __name__ == "__main__":
    PAGE.write_text(written(PAGE.read_text(), section()))
