"""Parties that are late, hostile, talkative, in another order or many at once."""

import json
import re
import shutil
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch

from pace.errors import PaceError
from pace.jobs.admission import admit
from pace.jobs.journal import Journal
from pace.protocol import layouts, steps, wire
from pace.protocol.steps import Kept
from pace.task import nll
from tests.graphs import clients, federation, none
from tests.preloaded import Preloaded
from tests.protocol.test_steps import PACE, messages, rebuilt
from tests.runtimes.files.test_files import hashes
from tests.sites import FIT, MERGE, NAMES, job, write_sites


@pytest.mark.fault(9, 10, 22)
@pytest.mark.parametrize("attack", ["× 1000", "× -1", "other labels"])
def test_no_attacker_raises_a_receivers_validation_loss(attack: str) -> None:
    """Through the whole protocol, with the paper's consensus: the gate alone protects."""
    graphs = clients(4)
    kept, uploads = messages(graphs)
    sent = dict(wire.decode(uploads[0]).message)
    if attack == "other labels":
        flipped = rebuilt(graphs[0], y=3 - graphs[0].y)
        sent = dict(wire.decode(messages([flipped])[1][0]).message)
    else:
        by = float(attack.removeprefix("× "))
        sent = {
            name: value * (1 if name.endswith(("/m", "/L")) else by) for name, value in sent.items()
        }
    hostile = wire.encode(sent, PACE.digest)
    steps.check_upload(hostile, PACE)  # well-formed: it is admitted
    returns = steps.merge([hostile, *uploads[1:]], PACE)
    for graph, mine, returned in zip(graphs[1:], kept[1:], returns[1:], strict=True):
        found = steps.adopt(graph, mine, returned, PACE)
        labels = graph.y[graph.val]
        assert nll(found.logits[graph.val], labels) <= nll(found.local[graph.val], labels)


@pytest.mark.fault(21, 22)
def test_a_refused_return_leaves_the_kept_model_as_it_was() -> None:
    graphs = clients(2)
    kept, uploads = messages(graphs)
    returns = steps.merge(uploads, PACE)
    local = {name: value.clone() for name, value in kept[0].local.items()}
    with pytest.raises(PaceError, match="ask the server"):
        steps.adopt(graphs[0], kept[0], returns[1], PACE)
    frame = wire.decode(returns[0])
    worst = {name: torch.full_like(value, 1e30) for name, value in frame.message.items()}
    hostile = wire.encode(worst, PACE.digest, frame.answers)
    found = steps.adopt(graphs[0], kept[0], hostile, PACE)
    assert found.alpha == 0
    alone = PACE.network(local, graphs[0]).logits
    assert torch.equal(found.logits, alone)  # bit for bit
    assert all(torch.equal(kept[0].local[name], local[name]) for name in local)


@pytest.mark.fault(23)
def test_validation_nodes_of_one_class_give_a_defined_result() -> None:
    graphs = clients(3)
    first = graphs[0]
    label = int(first.y[first.val][0])
    graphs[0] = rebuilt(first, val=first.val & (first.y == label))
    kept, uploads = messages(graphs)
    returned = steps.merge(uploads, PACE)[0]
    one = steps.adopt(graphs[0], kept[0], returned, PACE)
    assert 0 <= one.alpha <= 1
    labels = graphs[0].y[graphs[0].val]
    assert nll(one.logits[graphs[0].val], labels) <= nll(one.local[graphs[0].val], labels)
    nobody = rebuilt(first, val=none(first.nodes))
    assert steps.adopt(nobody, kept[0], returned, PACE).alpha == 0


@pytest.mark.fault(25)
def test_what_leaves_a_site_holds_numbers_and_agreed_names_only(
    pace: Preloaded, tmp_path: Path
) -> None:
    """An upload's bytes are accounted for to the last: nothing is left for a path or a text."""
    made = job()
    root = tmp_path / "secret-folder"
    for site in write_sites(root, made):
        done = pace(*FIT, f"{site.name}.up", cwd=site)
        assert done.code == 0
        shutil.copy(site / f"{site.name}.up", root / "server" / "inbox")
    frame = (root / "north" / "north.up").read_bytes()
    layout = layouts.upload_layout(made.federation)
    numbers = sum(4 * torch.Size(shape).numel() for shape in layout.values())
    head = wire.HEAD.pack(b"PACE", 1, made.federation.digest, bytes(4), len(layout))
    assert frame.startswith(head + layout.table)
    assert len(frame) == len(head + layout.table) + numbers + wire.CHECKSUM
    assert set(re.findall(rb"[A-Za-z_]{6,}", layout.table)) <= {b"weight"}
    # The same for what the server writes, with hostile files in its inbox.
    server = root / "server"
    (server / "inbox" / "east.up").write_bytes(b"noise")
    (server / "inbox" / "south-2.up").write_bytes((root / "south" / "south.up").read_bytes())
    assert pace(*MERGE, cwd=server).code == 0
    for name, content in hashes(server).items():
        if not name.startswith("inbox/"):
            assert b"secret-folder" not in content, name
            assert b"Traceback" not in content, name
    report = json.loads((server / "outbox" / "report.json").read_bytes())
    codes = {each["sender"]: each["code"] for each in report["refused"]}
    assert codes == {"east": "size", "south-2": "unknown-participant"}


@pytest.mark.fault(25)
def test_every_refusal_has_a_stable_code_of_its_own() -> None:
    def kinds(kind: type[PaceError]) -> list[type[PaceError]]:
        return [kind, *(each for child in kind.__subclasses__() for each in kinds(child))]

    codes = [kind.code for kind in kinds(PaceError)]
    assert len(set(codes)) == len(codes)
    assert all(re.fullmatch(r"[a-z-]+", code) for code in codes)


@pytest.mark.fault(26)
def test_threads_change_no_more_than_the_last_digits() -> None:
    graphs = clients(3)
    _, uploads = messages(graphs)
    one = steps.merge(uploads, PACE)
    assert steps.merge(uploads, PACE) == one  # byte-equal with fixed order and threads
    torch.set_num_threads(2)
    try:
        two = steps.merge(uploads, PACE)
    finally:
        torch.set_num_threads(1)
    turned = steps.merge(uploads[::-1], PACE)[::-1]
    for first, *others in zip(one, two, turned, strict=True):
        for other in others:
            _close(first, other)


def _close(one: bytes, other: bytes) -> None:
    """Factors are compared as products."""
    first, second = (wire.decode(each).message for each in (one, other))
    for name in PACE.start:
        if name in first:
            torch.testing.assert_close(first[name], second[name], rtol=1e-5, atol=1e-6)
        else:
            products = [each[f"{name}/L"] @ each[f"{name}/R"] for each in (first, second)]
            torch.testing.assert_close(*products, rtol=1e-5, atol=1e-6)


@pytest.mark.fault(27)
def test_two_jobs_in_two_threads_of_one_process_are_the_jobs_alone(tmp_path: Path) -> None:
    graphs = clients(3)
    jobs = [job(), job(settings={"rank": 4}), job(seed=9)]
    together = threading.Barrier(len(jobs))

    def run(place: int, wait: bool) -> list[bytes]:
        made = jobs[place]
        book = Journal.open(tmp_path / f"{place}-{wait}", made)
        if wait:
            together.wait()
        for name, graph in zip(NAMES, graphs, strict=True):
            book.accept(admit(steps.fit(graph, made.federation)[1], name, made))
        book.close()
        return steps.merge(book.frames(), made.federation)

    alone = [run(place, False) for place in range(len(jobs))]
    with ThreadPoolExecutor(len(jobs)) as pool:
        assert list(pool.map(lambda place: run(place, True), range(len(jobs)))) == alone


@pytest.mark.fault(19)
def test_what_is_kept_suffices_to_adopt_after_a_restart() -> None:
    """Nothing but the kept parameters and four bytes is needed: no generator, no optimiser."""
    graphs = clients(2)
    kept, uploads = messages(graphs)
    returned = steps.merge(uploads, PACE)[0]
    again = Kept({name: value.clone() for name, value in kept[0].local.items()}, kept[0].upload)
    fresh = federation(PACE.method)
    one = steps.adopt(graphs[0], kept[0], returned, PACE)
    two = steps.adopt(graphs[0], again, returned, fresh)
    assert one.alpha == two.alpha
    assert torch.equal(one.logits, two.logits)
