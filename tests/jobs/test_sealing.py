"""Pairwise masks: noise to whoever lacks one upload, and nothing left over when all are there."""

import os
import string
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import permutations
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chi2

from pace.datasets import load
from pace.datasets.partition import divide
from pace.errors import (
    DamageError,
    FileError,
    MomentError,
    NumberError,
    OtherJobError,
    PaceError,
    SealError,
    SettingError,
    SignatureError,
    TooFewError,
    WeightError,
)
from pace.graph import Graph
from pace.jobs import admission, signatures
from pace.jobs.admission import admit
from pace.jobs.job import Job, read_job, write_job
from pace.methods import FedAvg, Pace
from pace.models.networks import GCN
from pace.params import Params
from pace.protocol import Kept, layouts, ring, steps, wire
from pace.protocol.federation import Federation
from pace.protocol.method import Message, Summable
from pace.protocol.ring import Ring, Seal, counted, in_ring, opened_sum
from pace.task import nll
from tests.graphs import clients, federation
from tests.sealed import key_of, sealed_job
from tests.sites import NAMES

Fitted = tuple[Kept, bytes]


def seals(job: Job) -> list[Seal]:
    return [job.seal(name, key_of(name)) for name in job.participants]


def fitted(job: Job, graphs: Sequence[Graph]) -> list[Fitted]:
    """Every participant's model and sealed upload, unsigned."""
    agreed = job.federation
    return [
        steps.fit(graph, agreed, seal=seal) for graph, seal in zip(graphs, seals(job), strict=True)
    ]


def signed(job: Job, name: str, frame: bytes) -> bytes:
    statement = {"kind": signatures.UPLOAD, "job": job.digest, "name": name}
    return signatures.sign(frame, key_of(name), **statement)


def statistic(local: Params, graph: Graph, agreed: Federation) -> Message:
    assert isinstance(agreed.method, Summable)
    return agreed.method.statistic_of(agreed.method.share(local, graph, agreed), agreed)


def elements(frame: bytes, job: Job) -> Ring:
    layout = layouts.upload_layout(job.federation)
    begin = wire.HEAD.size + len(layout.table)
    return ring.from_bytes(frame, sum(layout.volumes), begin)


def agree(graphs: Sequence[Graph], plain: Federation) -> tuple[float, float, int]:
    """How far sealed is from open: in Δ, in alpha, and in predicted nodes."""
    method = plain.method
    assert isinstance(method, Pace)
    hidden = replace(plain, sealed=True, clients=len(graphs))
    opened = [steps.fit(graph, plain) for graph in graphs]
    names = [f"{place:03}" for place in range(len(graphs))]
    drawn = signatures.ephemeral_seals(names, hidden.digest)
    closed = [
        steps.share(kept.local, graph, hidden, seal)
        for (kept, _), graph, seal in zip(opened, graphs, drawn, strict=True)
    ]
    received = steps.received([frame for _, frame in opened], plain)
    theirs = method.answer(method.total(received, plain), plain)
    received = steps.received([frame for _, frame in closed], hidden)
    ours = method.answer(opened_sum(received, len(graphs)), hidden)
    gap = max(float((ours[name] - value).abs().max()) for name, value in theirs.items())
    returns = (
        steps.merge([f for _, f in opened], plain),
        steps.merge([f for _, f in closed], hidden),
    )
    alphas, differ = [], 0
    for graph, (kept, _), (mine, _), one, other in zip(
        graphs, opened, closed, *returns, strict=True
    ):
        before = steps.adopt(graph, kept, one, plain)
        after = steps.adopt(graph, mine, other, hidden)
        alphas.append(abs(before.alpha - after.alpha))
        differ += int((before.logits.argmax(1) != after.logits.argmax(1)).sum())
    return gap, max(alphas), differ


@pytest.mark.parametrize("rank", [2, 6, None])
def test_sealed_and_open_pace_agree(rank: int | None) -> None:
    gap, alpha, differ = agree(clients(5), federation(Pace(rank=rank), epochs=30))
    assert gap <= 1e-8
    assert alpha <= 1e-6
    assert differ == 0


@pytest.mark.slow
@pytest.mark.skipif("PACE_DATA" not in os.environ, reason="needs the benchmarks")
@pytest.mark.parametrize("name", ["cora", "citeseer", "pubmed", "cs", "computers"])
def test_sealed_and_open_pace_agree_on_the_benchmarks(name: str) -> None:
    dataset = load(name)
    gcn = GCN((dataset.graph.features, 64, dataset.classes))
    gap, alpha, differ = agree(divide(dataset, "louvain", 10), Federation(gcn, Pace()))
    print(f"{name}: Δ differs by {gap:.1e}, alpha by {alpha:.1e}, {differ} predictions")
    assert gap <= 1e-8
    assert alpha <= 1e-6
    assert differ == 0


@given(st.data())
@settings(max_examples=25, deadline=None)
def test_sealed_numbers_add_up_to_the_plain_sum(data: st.DataObject) -> None:
    count, size = data.draw(st.integers(3, 7)), data.draw(st.integers(1, 40))
    number = st.floats(-1e6, 1e6) | st.sampled_from([0.0, 1e-12, -1e-12, 2.0**-68, 1e7, -1e7])
    rows = [data.draw(st.lists(number, min_size=size, max_size=size)) for _ in range(count)]
    names = [f"site-{place}" for place in range(count)]
    plain = [ring.from_numbers({"x": torch.tensor(row, dtype=torch.float64)}) for row in rows]
    drawn = signatures.ephemeral_seals(names, b"salt")
    masked = [seal(each) for seal, each in zip(drawn, plain, strict=True)]
    for some in (plain, masked):
        total = some[0]
        for each in some[1:]:
            total = total + each
        sums = total.numbers().tolist()
        for place, found in enumerate(sums):
            assert found == pytest.approx(sum(row[place] for row in rows), rel=1e-12, abs=1e-9)


def test_masks_cancel_in_any_order() -> None:
    made = sealed_job()
    frames = [frame for _, frame in fitted(made, clients(3))]
    answers = {
        bytes(steps.merge(list(order), made.federation)[0][wire.HEAD.size : -wire.CHECKSUM])
        for order in permutations(frames)
    }
    assert len(answers) == 1


def uniform(content: bytes) -> bool:
    """Whether the bytes look drawn: a chi-squared test that noise fails once in a million."""
    counts = np.bincount(np.frombuffer(content, np.uint8), minlength=256)
    statistic = float(((counts - len(content) / 256) ** 2).sum() / (len(content) / 256))
    return bool(chi2.sf(statistic, 255) > 1e-6)


def test_what_fewer_than_all_have_sent_is_noise() -> None:
    """One frame, and the sum of all but one; the sum of all, and a statistic unmasked, are not."""
    made = sealed_job()
    graphs = clients(3)
    parts = [elements(frame, made) for _, frame in fitted(made, graphs)]
    assert all(uniform(part.to_bytes()) for part in parts)
    for left_out in range(3):
        one, other = (part for place, part in enumerate(parts) if place != left_out)
        assert uniform((one + other).to_bytes())
    assert not uniform((parts[0] + parts[1] + parts[2]).to_bytes())
    message = statistic(made.federation.start, graphs[0], made.federation)
    assert not uniform(ring.from_numbers(message).to_bytes())


def test_two_jobs_of_one_site_share_no_keystream() -> None:
    """Zero sealed is the mask itself: that of another job, or of another pair, has nothing of it."""
    zero = ring.from_numbers({"x": torch.zeros(4096)})
    masks = [seal(zero).to_bytes() for made in (sealed_job(), sealed_job()) for seal in seals(made)]
    for place, one in enumerate(masks):
        for other in masks[:place]:
            both = bytes(a ^ b for a, b in zip(one, other, strict=True))
            assert uniform(both)


def test_bad_frames_are_refused_each_by_its_error() -> None:
    made, other = sealed_job(), sealed_job()
    (_, frame), *_ = fitted(made, clients(3))
    content = signed(made, "north", frame)
    assert admit(content, "north", made).name == "north"
    flipped = bytearray(frame)
    flipped[-60] ^= 1
    elsewhere = fitted(other, clients(3))[0][1]
    bad: list[tuple[type[PaceError], bytes]] = [
        (SignatureError, bytes(flipped) + content[-signatures.TRAILER :]),
        (DamageError, signed(made, "north", bytes(flipped))),
        (OtherJobError, signed(made, "north", elsewhere)),
        (SignatureError, signed(other, "north", frame)),
        (SignatureError, signatures.sign(
            frame, key_of("stranger"), kind=signatures.UPLOAD, job=made.digest, name="north"
        )),
    ]  # fmt: skip
    for error, bytes_ in bad:
        with pytest.raises(error):
            admit(bytes_, "north", made)


def merged(frames: list[bytes], made: Job) -> list[bytes]:
    return steps.merge(frames, made.federation)


@pytest.mark.fault(34)
def test_a_sum_without_one_or_with_one_twice_opens_nothing() -> None:
    made = sealed_job()
    frames = [frame for _, frame in fitted(made, clients(3))]
    with pytest.raises(TooFewError, match="2 of 3 sealed uploads"):
        merged(frames[:2], made)
    with pytest.raises(SealError, match="do not cancel"):
        merged([*frames[:2], frames[0]], made)


@pytest.mark.fault(36)
def test_a_key_that_changed_voids_the_job() -> None:
    made = sealed_job()
    frames = [frame for _, frame in fitted(made, clients(3))]
    seal = made.seal("north", key_of("another"))
    frames[0] = steps.fit(clients(3)[0], made.federation, seal=seal)[1]
    with pytest.raises(SealError, match="another key"):
        merged(frames, made)


def lying(made: Job, **changes: float) -> Iterator[bytes]:
    """All uploads; the first site adds to its statistic."""
    agreed = made.federation
    layout = layouts.upload_layout(agreed)
    for place, (graph, seal) in enumerate(zip(clients(3), seals(made), strict=True)):
        local = steps.fit(graph, agreed, seal=seal)[0].local
        message = counted(statistic(local, graph, agreed))
        if place == 0:
            message = {name: value + changes.get(name.replace(".", "_").replace("/", "_"), 0.0)
                       for name, value in message.items()}  # fmt: skip
        yield wire.framed(layout, seal(ring.from_numbers(message)).to_bytes(), agreed.digest)


def test_sums_that_no_honest_sites_have_are_refused() -> None:
    pace, fedavg = sealed_job(), sealed_job(method="fedavg")
    with pytest.raises(MomentError, match="expected at most 3"):
        merged(list(lying(pace, **{"0_weight_m": 3.0})), pace)
    with pytest.raises(MomentError, match="none below 0"):
        merged(list(lying(pace, **{"0_weight_m": -1000.0})), pace)
    with pytest.raises(WeightError, match="clients"):
        merged(list(lying(pace, clients=1.0)), pace)
    for off in (1.0, -1.0):
        with pytest.raises(SealError, match="do not cancel"):
            merged(list(lying(pace, one=off)), pace)
    with pytest.raises(WeightError, match="nodes"):
        merged(list(lying(fedavg, nodes=-1000.0)), fedavg)


@pytest.mark.fault(9)
@pytest.mark.parametrize("size", [1.0, 1e3, 1e6])
def test_a_liar_spoils_the_sum_and_harms_nobody_beyond_the_gate(size: float) -> None:
    """He is not found. What comes back is judged by every receiver on its own validation nodes."""
    made = sealed_job()
    honest = fitted(made, clients(3))
    frames = list(lying(made, **{"0_weight": size}))
    frames[1:] = [frame for _, frame in honest[1:]]
    for graph, (kept, _), returned in zip(
        clients(3)[1:], honest[1:], merged(frames, made)[1:], strict=True
    ):
        adoption = steps.adopt(graph, kept, returned, made.federation)
        labels = graph.y[graph.val]
        assert nll(adoption.logits[graph.val], labels) <= nll(adoption.local[graph.val], labels)


def test_numbers_whose_sum_would_not_fit_are_refused_before_they_are_sealed() -> None:
    in_ring({"x": torch.tensor([2.0**24])}, 4)
    with pytest.raises(NumberError, match="cannot be sealed"):
        in_ring({"x": torch.tensor([-(2.0**25)])}, 4)


def test_without_keys_nothing_is_sent() -> None:
    made = sealed_job()
    with pytest.raises(SettingError, match="keys"):
        steps.fit(clients(3)[0], made.federation)


def test_a_sealed_job_is_read_again_as_it_was_written(tmp_path: Path) -> None:
    made = sealed_job()
    write_job(tmp_path / "job.pace", made)
    again = read_job(tmp_path / "job.pace")
    assert (again.digest, again.sealing) == (made.digest, made.sealing)
    assert again.federation.digest == made.federation.digest
    text = (tmp_path / "job.pace").read_text()
    (tmp_path / "other.pace").write_text(text.replace("[sealing]\nnorth", "[sealing]\nnorthern"))
    with pytest.raises(PaceError, match="was changed after it was made"):
        read_job(tmp_path / "other.pace")


SWAPPED = {
    "north": signatures.sealing_key(key_of("north")),
    "south": signatures.sealing_key(key_of("north")),  # not signed by south
    "west": signatures.sealing_key(key_of("west")),
}


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"minimum": 2}, "needs all 3"),
        ({"keys": {}}, "needs keys"),
        ({"method": "pace-duo"}, "pace-duo cannot be sealed: .* peers by their moments"),
        ({"method": "pace-duo"}, "pace-duo cannot be sealed: it finds each client's peers"),
        ({"method": "pace-ridge"}, "that of pace-ridge-sums does not"),
        ({"method": "fedgta"}, "propagate alike"),
        ({"sealing": {"north": SWAPPED["north"]}}, "every participant has a sealing key"),
        ({"sealing": SWAPPED | {"south": "x25519:AAAA"}}, "not a sealing key"),
    ],
)
def test_jobs_that_cannot_be_sealed_are_refused_with_the_reason(
    changes: dict[str, object], says: str
) -> None:
    with pytest.raises(SettingError, match=says):
        sealed_job(NAMES, **changes)


@pytest.mark.fault(36)
def test_a_sealing_key_in_anothers_place_is_refused() -> None:
    with pytest.raises(SignatureError):
        sealed_job(sealing=SWAPPED)


def test_two_participants_are_too_few() -> None:
    with pytest.raises(SettingError, match="expected 3 or more"):
        sealed_job(NAMES[:2])


def test_a_sealing_key_has_one_spelling_and_its_file_is_read_as_any_other(tmp_path: Path) -> None:
    made = sealed_job()
    public, signer = made.sealing["north"], made.keys["north"]
    letters = string.ascii_uppercase + string.ascii_lowercase + string.digits + "+/"
    other = f"{public[:-2]}{letters[letters.index(public[-2]) ^ 1]}="
    signatures.sealing_key_bytes(public, signer)
    with pytest.raises(SettingError, match="not a sealing key"):
        signatures.sealing_key_bytes(other, signer)
    path = tmp_path / "north.pub"
    path.write_text(f"{signer}\n{public}\n")
    assert signatures.read_sealing_key(path) == public
    for content in (b"", b"\xff" * 9, signer.encode(), b"x" * 2**20):
        path.write_bytes(content)
        with pytest.raises(PaceError, match=str(path)):
            signatures.read_sealing_key(path)
    path.unlink()
    os.mkfifo(path)
    with pytest.raises(FileError, match="not a regular file"):
        signatures.read_sealing_key(path)


def test_a_sealing_key_of_low_order_is_no_secret() -> None:
    publics = {"north": bytes(32), "south": bytes(32)}
    secret = signatures.sealing_secret(key_of("north"))
    with pytest.raises(SettingError, match="cannot be used"):
        signatures.masks(secret, "north", publics, b"salt")(ring.from_numbers({"x": torch.ones(1)}))


def test_any_summable_method_can_be_sealed_with_no_change() -> None:
    """A ridge regression by X^T X and X^T Y, written here: sealing knows nothing of it."""
    agreed = replace(federation(Counting()), sealed=True, clients=3)
    graphs = clients(3)
    drawn = signatures.ephemeral_seals(NAMES, agreed.digest)
    frames = [
        steps.share(agreed.start, graph, agreed, seal)[1]
        for graph, seal in zip(graphs, drawn, strict=True)
    ]
    (answer, *_) = steps.merge(frames, agreed)
    counted = wire.decode(answer).message["gram"]
    expected = sum(graph.x[graph.train].T @ graph.x[graph.train] for graph in graphs)
    torch.testing.assert_close(counted, torch.as_tensor(expected))


class Counting(FedAvg):
    """The sum of X^T X over training nodes."""

    def share(self, local: object, graph: Graph, federation: Federation) -> dict[str, torch.Tensor]:
        rows = graph.x[graph.train]
        return {"gram": rows.T @ rows}

    def statistic_of(self, upload: object, federation: Federation) -> dict[str, torch.Tensor]:
        assert isinstance(upload, dict)
        return {"gram": upload["gram"].double()}

    def check_total(self, total: object, clients: int, federation: Federation) -> None:
        return

    def answer(self, total: object, federation: Federation) -> dict[str, torch.Tensor]:
        assert isinstance(total, dict)
        return {"gram": total["gram"].float()}


def test_the_size_of_a_sealed_upload_is_twelve_bytes_a_number() -> None:
    made = sealed_job()
    layout = layouts.upload_layout(made.federation)
    numbers = sum(layout.volumes)
    assert admission.exact_size(made) == (
        wire.HEAD.size + len(layout.table) + 12 * numbers + wire.CHECKSUM + signatures.TRAILER
    )
