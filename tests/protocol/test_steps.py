import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, cast

import pytest
import torch
from torch import Tensor

from pace.errors import (
    DamageError,
    FileError,
    GraphError,
    NumberError,
    OtherJobError,
    SettingError,
    SizeError,
    TooFewError,
    WireError,
)
from pace.gates.gate import cnll
from pace.graph import Graph
from pace.jobs import signatures
from pace.jobs.disclosure import influence
from pace.methods import METHODS, FedAvg, Fixed, Local, Pace, make
from pace.models.networks import GCN
from pace.params import Params
from pace.protocol import adopt_all, steps, uploads, wire
from pace.protocol.federation import Federation
from pace.protocol.method import LARGEST_NUMBER, External, Method
from pace.protocol.number_formats import KINDS
from pace.protocol.steps import Kept, Receiver, adopt, fit, merge
from pace.training.optimiser import Recipe
from pace_study.baselines.ablations import Direct
from pace_study.baselines.duo import PaceDuo
from pace_study.baselines.fedgta import FedGTA
from pace_study.baselines.fednova import FedNova
from tests.graphs import CLASSES, FEATURES, clients, federation, none

PACE = federation(Pace())


class Slower(Pace):
    """PACE with the same fields and another recipe: software of another version, say."""

    @property
    def recipe(self) -> Recipe:
        return Recipe(rate=0.001)


Slower.__name__ = "Pace"


def messages(graphs: list[Graph], agreed: Federation = PACE) -> tuple[list[Kept], list[bytes]]:
    fitted = [fit(graph, agreed) for graph in graphs]
    return [kept for kept, _ in fitted], [upload for _, upload in fitted]


@pytest.mark.parametrize("method", [Pace(), Pace(rank=None), FedAvg(), Local()])
def test_three_steps_over_bytes(method: Method) -> None:
    graphs, agreed = clients(3), federation(method)
    kept, uploads = messages(graphs, agreed)
    for graph, mine, returned in zip(graphs, kept, merge(uploads, agreed), strict=True):
        adoption = adopt(graph, mine, returned, agreed)
        assert 0 <= adoption.alpha <= 1
        assert adoption.logits.shape == (graph.nodes, CLASSES)
        torch.testing.assert_close(adoption.local, agreed.network(mine.local, graph).logits)


def test_dense_pace_with_uniform_geometry_is_the_mean_of_the_models() -> None:
    """Nothing compressed and no geometry: External is W_0 + mean(Δ), for everyone."""
    from pace.merging.moments import uniform

    graphs, agreed = clients(3), federation(Pace(rank=None, geometry=uniform))
    kept, uploads = messages(graphs, agreed)
    for graph, mine, returned in zip(graphs, kept, merge(uploads, agreed), strict=True):
        mean = {
            name: torch.stack([each.local[name] for each in kept]).mean(0) for name in mine.local
        }
        external = adopt(graph, mine, returned, agreed).external
        torch.testing.assert_close(
            external, agreed.network(mean, graph).logits, rtol=1e-4, atol=1e-4
        )


def test_what_a_client_sends_does_not_depend_on_the_others_or_their_order() -> None:
    graphs = clients(3)
    alone = fit(graphs[1], PACE)[1]
    assert messages(graphs)[1][1] == alone
    assert messages(graphs[::-1])[1][1] == alone


@pytest.mark.fault(26)
def test_returns_follow_their_uploads_when_the_order_changes() -> None:
    graphs = clients(3)
    kept, uploads = messages(graphs)
    forward, backward = merge(uploads, PACE), merge(uploads[::-1], PACE)
    for client, graph in enumerate(graphs):
        one = adopt(graph, kept[client], forward[client], PACE)
        other = adopt(graph, kept[client], backward[-1 - client], PACE)
        torch.testing.assert_close(one.external, other.external, rtol=1e-4, atol=1e-5)
        assert one.alpha == pytest.approx(other.alpha, abs=1e-3)


def test_merging_twice_gives_the_same_bytes() -> None:
    uploads = messages(clients(3))[1]
    assert merge(uploads, PACE) == merge(uploads, PACE)


@pytest.mark.parametrize("numbers", KINDS)
@pytest.mark.parametrize("size", [1, 2, 32])
def test_the_size_of_batches_does_not_matter(
    monkeypatch: pytest.MonkeyPatch, numbers: str, size: int
) -> None:
    agreed = replace(PACE, numbers=numbers)
    frames = [fit(graph, agreed)[1] for graph in clients(3)]
    returns = merge(frames, agreed)
    monkeypatch.setattr(uploads, "BATCH", size)
    for frame, one, other in zip(frames, returns, merge(frames, agreed), strict=True):
        opened, again = wire.decode(one), wire.decode(other)
        assert opened.answers == again.answers == wire.checksum(frame)
        for name, value in again.message.items():
            torch.testing.assert_close(opened.message[name], value, rtol=0, atol=1e-6)


@pytest.mark.parametrize("method", [Pace(), PaceDuo(), FedAvg(), FedGTA()])
@pytest.mark.parametrize("held", [1, uploads.HELD], ids=["spilled", "in memory"])
def test_uploads_are_decoded_once_for_the_merge_and_the_report(
    monkeypatch: pytest.MonkeyPatch, method: Method, held: int
) -> None:
    """Whatever their size: with admission, that is twice at the server."""
    agreed = federation(method)
    frames = [fit(graph, agreed)[1] for graph in clients(3)]
    expected = merge(frames, agreed)
    decoded = Counter[bytes]()

    def counted(frames: list[bytes], offset: int, shapes: wire.Layout) -> Tensor:
        decoded.update(frames)
        return decode_rows(frames, offset, shapes)

    decode_rows = wire.decode_rows
    monkeypatch.setattr(wire, "decode_rows", counted)
    monkeypatch.setattr(uploads, "HELD", held)
    received = steps.received(frames, agreed)
    assert list(steps.returns(received, agreed)) == expected
    influence(received, agreed)
    assert decoded == Counter(frames)


def test_uploads_that_do_not_fit_on_the_disk_are_said_not_to(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Full:
        def seek(self, *place: int) -> None: ...

        def write(self, content: object) -> None:
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(uploads, "HELD", 0)
    store = uploads.RowStore()
    store.file = cast(Any, Full())
    with pytest.raises(FileError, match=r"No space left on device\): set TMPDIR"):
        store.append(torch.zeros(2, 3))


def test_many_rows_leave_memory_and_come_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(uploads, "HELD", 1000)
    store, batches = uploads.RowStore(), [torch.randn(rows, 30) for rows in (4, 8, 2)]
    for number, rows in enumerate(batches):
        store.append(rows)
        # 480 bytes, then 960 more, for which there is no room, and 240, for which there is.
        assert [isinstance(b, Tensor) for b in store.batches] == [True, False, True][: number + 1]
        assert torch.equal(next(iter(store)), batches[0])  # who reads in between changes nothing
    for _ in range(2):
        for before, after in zip(batches, store, strict=True):
            assert torch.equal(before, after)
            after.zero_()  # a method may write into what it reads


@pytest.mark.parametrize("clients", [3, 7, 10])
def test_each_upload_is_left_out_with_one_group(clients: int) -> None:
    every = uploads.Messages([{"client": torch.tensor([client])} for client in range(clients)])
    left_out = Counter[int]()
    for group in range(3):
        rest = uploads.Without(every, group, 3)
        present = [int(upload["client"]) for upload in rest]
        assert len(rest) == len(present) > 0
        left_out.update(set(range(clients)) - set(present))
    assert left_out == Counter(range(clients))


@pytest.mark.parametrize("place", [0, 2])
def test_a_bad_upload_among_good_ones_is_refused_as_it_is_alone(place: int) -> None:
    """By its size, its checksum, its federation, its numbers."""
    uploads = [fit(graph, PACE)[1] for graph in clients(3)]
    damaged = bytearray(uploads[place])
    damaged[-60] ^= 1
    message = dict(wire.decode(uploads[place]).message)
    message["0.bias"] = torch.full_like(message["0.bias"], torch.inf)
    bad = {
        SizeError: uploads[place][:-1],
        DamageError: bytes(damaged),
        OtherJobError: fit(clients(3)[place], replace(PACE, seed=PACE.seed + 1))[1],
        NumberError: wire.encode(message, PACE.digest),
    }
    for error, upload in bad.items():
        with pytest.raises(error):
            merge([*uploads[:place], upload, *uploads[place + 1 :]], PACE)


def test_a_single_client_gets_nothing_new_and_stays_local() -> None:
    graphs = clients(1)
    kept, uploads = messages(graphs)
    adoption = adopt(graphs[0], kept[0], merge(uploads, PACE)[0], PACE)
    assert torch.equal(adoption.external, adoption.local)
    assert adoption.alpha == 0
    assert adoption.logits is adoption.local


def test_alpha_is_the_externals_share_of_weights_that_need_not_sum_to_one() -> None:
    (graph,) = clients(1)
    (kept,), uploads = messages([graph])
    one = adopt(graph, kept, merge(uploads, PACE)[0], PACE)
    several = replace(one, externals=(one.local, one.local), weights=(1.0, 0.5, 1.5))
    assert several.alpha == pytest.approx(2 / 3)
    torch.testing.assert_close(several.logits, 3 * one.local)


@pytest.mark.fault(21)
def test_a_return_for_another_receiver_is_refused() -> None:
    graphs = clients(2)
    kept, uploads = messages(graphs)
    returns = merge(uploads, PACE)
    with pytest.raises(WireError, match=f"ask the server for the return to {kept[0].upload.hex()}"):
        adopt(graphs[0], kept[0], returns[1], PACE)


@pytest.mark.fault(13, 15, 21)
@pytest.mark.parametrize(
    "other", [federation(Pace(), seed=8), federation(Pace(), epochs=6), federation(Pace(rank=5))]
)
def test_a_message_of_another_federation_is_refused(other: Federation) -> None:
    graphs = clients(2)
    kept, uploads = messages(graphs)
    with pytest.raises(WireError):
        merge(uploads, other)
    with pytest.raises(WireError):
        adopt(graphs[0], kept[0], merge(uploads, PACE)[0], other)


def test_federations_that_differ_in_anything_have_different_digests() -> None:
    gcn = GCN((5, 4, 3))
    different = [
        Federation(gcn, Pace()),
        Federation(gcn, Pace(), seed=1),
        Federation(gcn, Pace(), epochs=3),
        Federation(gcn, Pace(rank=2)),
        Federation(gcn, FedAvg()),
        Federation(GCN((5, 4, 3), dropout=0.2), Pace()),
        Federation(GCN((5, 6, 3)), Pace()),
    ]
    slower = Federation(gcn, Slower())
    assert len({each.digest for each in (*different, slower)}) == len(different) + 1
    assert Federation(GCN((5, 4, 3)), Pace()).digest == different[0].digest


def test_random_numbers_belong_to_one_seed_and_one_purpose() -> None:
    """Two maps' public matrices must not be one, and everybody draws the same."""

    def drawn(agreed: Federation, purpose: str) -> tuple[float, ...]:
        return tuple(torch.rand(8, generator=agreed.random(purpose)).tolist())

    other = federation(Pace(), seed=8)
    each = [drawn(agreed, purpose) for agreed in (PACE, other) for purpose in ("hop 0", "hop 2")]
    assert len(set(each)) == len(each)
    assert drawn(federation(FedAvg(), epochs=1), "hop 0") == each[0]


@pytest.mark.fault(21)
def test_a_damaged_return_leaves_nothing_behind() -> None:
    graphs = clients(2)
    kept, uploads = messages(graphs)
    returned = bytearray(merge(uploads, PACE)[0])
    returned[60] ^= 1
    before = {name: value.clone() for name, value in kept[0].local.items()}
    with pytest.raises(WireError):
        adopt(graphs[0], kept[0], bytes(returned), PACE)
    assert all(torch.equal(before[name], value) for name, value in kept[0].local.items())


@pytest.mark.fault(22)
def test_a_hostile_return_cannot_make_validation_worse() -> None:
    graphs = clients(2)
    kept, uploads = messages(graphs)
    honest = wire.decode(merge(uploads, PACE)[0])
    for scale in (-3.0, 1e3, 3e38):
        message = {name: scale * value.sign() for name, value in honest.message.items()}
        hostile = wire.encode(message, PACE.digest, honest.answers)
        adoption = adopt(graphs[0], kept[0], hostile, PACE)
        labels = graphs[0].y[graphs[0].val]

        def risk(logits: torch.Tensor, labels: torch.Tensor = labels) -> float:
            chosen = logits[graphs[0].val].double()
            return float(torch.nn.functional.cross_entropy(chosen, labels))

        assert risk(adoption.logits) <= risk(adoption.local)
        if not torch.isfinite(adoption.external).all():
            assert adoption.alpha == 0
            assert adoption.logits is adoption.local


def test_externals_that_are_not_finite_are_not_taken_by_a_gate_that_asks_nobody() -> None:
    agreed = federation(Pace(gate=Fixed(1.0)))
    (graph,) = clients(1)
    (kept,), uploads = messages([graph], agreed)
    honest = wire.decode(merge(uploads, agreed)[0])
    message = {name: torch.full_like(value, 3e38) for name, value in honest.message.items()}
    adoption = adopt(graph, kept, wire.encode(message, agreed.digest, honest.answers), agreed)
    assert adoption.logits is adoption.local
    assert "goes up to 3e+38, expected at most 1e+09" in adoption.problem
    for external in adoption.model.externals:
        assert all(torch.isfinite(value).all() for value in external.params.values())


@pytest.mark.parametrize("method", [Pace(), Direct(), PaceDuo()])
def test_an_upload_as_large_as_is_admitted_does_not_stop_the_merge(method: Method) -> None:
    """Powers of what it gives would overflow if it were larger still."""
    agreed = federation(method, hidden=64, epochs=1)
    graphs = clients(3)
    kept, uploads = messages(graphs, agreed)
    message = {
        name: value if name.endswith("/m") else LARGEST_NUMBER / 2 * value.sign()
        for name, value in wire.decode(uploads[0]).message.items()
    }
    uploads[0] = wire.encode(message, agreed.digest, numbers=agreed.numbers)
    steps.check_upload(uploads[0], agreed)
    returned = merge(uploads, agreed)
    for place in (1, 2):
        assert torch.isfinite(
            adopt(graphs[place], kept[place], returned[place], agreed).logits
        ).all()


def rebuilt(graph: Graph, **changes: torch.Tensor) -> Graph:
    parts = {
        name: getattr(graph, name) for name in ("x", "edges", "y", "train", "val", "test")
    } | changes
    return Graph(**parts)


def edge_cases() -> dict[str, Graph]:
    graph = clients(3)[0]
    empty, one_class = none(graph.nodes), graph.y == int(graph.y[graph.train][0])
    return {
        "no edges": rebuilt(graph, edges=torch.zeros((2, 0), dtype=torch.int64)),
        "no validation nodes": rebuilt(graph, val=empty),
        "no test nodes": rebuilt(graph, test=empty),
        "one class": rebuilt(
            graph,
            train=graph.train & one_class,
            val=graph.val & one_class,
            test=graph.test & one_class,
        ),
        "no features set": rebuilt(graph, x=torch.zeros_like(graph.x)),
        "one node": rebuilt(graph.induced(graph.train.nonzero()[0])),
    }


@pytest.mark.fault(23)
@pytest.mark.parametrize("case", edge_cases())
def test_unusual_clients_have_a_defined_result(case: str) -> None:
    odd = edge_cases()[case]
    graphs = [odd, *clients(3)[1:]]
    kept, uploads = messages(graphs)
    for graph, mine, returned in zip(graphs, kept, merge(uploads, PACE), strict=True):
        adoption = adopt(graph, mine, returned, PACE)
        assert torch.isfinite(adoption.logits).all()
        if not graph.val.any():
            assert adoption.alpha == 0
            assert adoption.logits is adoption.local


def test_a_class_nobody_else_has_is_kept_by_alpha_zero_or_blended() -> None:
    graphs = clients(3)
    only = rebuilt(graphs[0], y=torch.full_like(graphs[0].y, CLASSES - 1))
    others = [rebuilt(graph, y=graph.y.clamp(max=CLASSES - 2)) for graph in graphs[1:]]
    kept, uploads = messages([only, *others])
    adoption = adopt(only, kept[0], merge(uploads, PACE)[0], PACE)
    assert (adoption.logits[only.test].argmax(1) == CLASSES - 1).all()


def test_a_graph_of_another_width_is_refused() -> None:
    graph = clients(1)[0]
    narrow = Graph.build(graph.x[:, :-1], graph.edges, graph.y)
    with pytest.raises(GraphError, match=re.escape("has 39 features a node, the federation")):
        fit(narrow, PACE)


@pytest.mark.parametrize("numbers", KINDS)
@pytest.mark.parametrize(("method", "scale"), [(Pace(), 1e25), (FedNova(), 1e15)])
def test_a_client_whose_training_diverged_is_told_so(
    method: Method, scale: float, numbers: str
) -> None:
    graph = clients(1)[0]
    agreed = replace(federation(method), numbers=numbers)
    with pytest.raises(NumberError, match=f"up to {scale:.3g}".replace("+", r"\+")):
        fit(rebuilt(graph, x=scale * graph.x), agreed)


@pytest.mark.parametrize("name", METHODS)
def test_nothing_cannot_be_merged(name: str) -> None:
    with pytest.raises(TooFewError):
        merge([], federation(METHODS[name]()))


def test_a_setting_without_a_name_is_refused() -> None:
    with pytest.raises(SettingError, match="has no name"):
        _ = federation(Pace(gate=partial(cnll))).digest


def test_a_seed_beyond_64_bits_is_refused() -> None:
    with pytest.raises(SettingError, match="the seed is 1000"):
        replace(PACE, seed=10**20)


def test_labels_beyond_the_agreed_classes_are_refused() -> None:
    graph = clients(1)[0]
    with pytest.raises(GraphError, match="the largest label is 4"):
        fit(rebuilt(graph, y=graph.y + 1), PACE)


def receivers(graphs: list[Graph], method: Method, seeds: tuple[int, ...]) -> list[Receiver]:
    """Every client of a round for each seed, with its return."""
    found = []
    for seed in seeds:
        made = Federation(GCN((FEATURES, 8, CLASSES)), method, seed, 5)
        fitted = [steps.fit(graph, made) for graph in graphs]
        returns = steps.merge([upload for _, upload in fitted], made)
        found += [
            Receiver(graph, kept, returned, made)
            for graph, (kept, _), returned in zip(graphs, fitted, returns, strict=True)
        ]
    return found


@dataclass(frozen=True)
class Seeded(FedAvg):
    """Its Externals are models of another kind, whose logits depend on the round's seed."""

    def adopt(
        self, local: Params, returned: Params, graph: Graph, federation: Federation
    ) -> list[External]:
        def predict(params: Params, graph: Graph) -> Tensor:
            return federation.network(params, graph).logits * federation.seed

        return [External(returned, predict=predict)]


@pytest.mark.parametrize("known", [True, False], ids=["local known", "local computed"])
@pytest.mark.parametrize(
    "method",
    [*map(make, ("local", "fedavg", "pace", "pace-duo", "pace-ridge", "fedpub")), Seeded()],
    ids=lambda method: type(method).__name__,
)
def test_receivers_that_adopt_together_adopt_what_each_does_alone(
    method: Method, known: bool
) -> None:
    """Bit for bit, whatever the method's Externals and gate are."""
    several = receivers(clients(3), method, (1, 2))
    if known:
        several = [replace(each, local=local_logits(each)) for each in several]
    for receiver, together in zip(several, adopt_all(several), strict=True):
        alone = adopt(receiver.graph, receiver.kept, receiver.returned, receiver.federation)
        assert together.weights == alone.weights
        assert torch.equal(together.logits, alone.logits)
        assert torch.equal(together.external, alone.external)


def local_logits(receiver: Receiver) -> Tensor:
    return receiver.federation.network(receiver.kept.local, receiver.graph).logits


def test_a_prediction_for_all_is_what_receivers_adopt() -> None:
    """Models of all receivers may go in batches, as on a GPU."""
    several = receivers(clients(2), Pace(), (1, 2))
    asked: list[int] = []

    def predict(models: Sequence[Sequence[Params]]) -> list[list[Tensor]]:
        asked.extend(map(len, models))
        return [
            [each.federation.network(model, each.graph).logits for model in by_receiver]
            for each, by_receiver in zip(several, models, strict=True)
        ]

    for one, other in zip(adopt_all(several, predict), adopt_all(several), strict=True):
        assert torch.equal(one.logits, other.logits)
    assert asked == [2] * 4


@pytest.mark.parametrize("hidden", [False, True], ids=["open", "sealed"])
@pytest.mark.parametrize("name", METHODS)
def test_test_labels_change_no_adoption(name: str, hidden: bool) -> None:
    """Scrambled labels of test nodes: the same messages and the same adoptions, bit for bit."""
    method, graphs = make(name), clients(3)
    if hidden and method.needs:
        pytest.skip("it cannot be sealed")
    agreed = replace(federation(method), sealed=hidden, clients=3 if hidden else 0)
    scrambled = [
        rebuilt(graph, y=torch.where(graph.test, (graph.y + 1) % CLASSES, graph.y))
        for graph in graphs
    ]
    assert not any(torch.equal(a.y, b.y) for a, b in zip(graphs, scrambled, strict=True))
    results = []
    for some in (graphs, scrambled):
        seals = signatures.ephemeral_seals(["a", "b", "c"], b"salt") if hidden else [None] * 3
        fitted = [fit(graph, agreed, seal=seal) for graph, seal in zip(some, seals, strict=True)]
        returns = merge([upload for _, upload in fitted], agreed)
        results.append(
            [
                adopt(graph, kept, returned, agreed)
                for graph, (kept, _), returned in zip(some, fitted, returns, strict=True)
            ]
        )
    for one, other in zip(*results, strict=True):
        assert one.weights == other.weights
        assert torch.equal(one.logits, other.logits)


def test_an_adopted_model_predicts_other_graphs() -> None:
    agreed = PACE
    graphs = clients(3)
    fitted = [fit(graph, agreed) for graph in graphs]
    returns = merge([upload for _, upload in fitted], agreed)
    for graph, (kept, _), returned in zip(graphs, fitted, returns, strict=True):
        adoption = adopt(graph, kept, returned, agreed)
        assert torch.equal(adoption.model(graph), adoption.logits)
        part = graph.induced(torch.arange(graph.nodes // 2))
        logits = adoption.model(part)
        assert logits.shape == (part.nodes, adoption.logits.shape[1])
        assert torch.isfinite(logits).all()
        with pytest.raises(GraphError, match="features a node, the federation agreed on"):
            adoption.model(rebuilt(part, x=part.x[:, :2]))


def test_a_graph_without_masks_is_refused() -> None:
    graph = clients(1)[0]
    nothing = none(graph.nodes)
    with pytest.raises(GraphError, match="the graph has no masks: mark training nodes"):
        fit(rebuilt(graph, train=nothing, val=nothing, test=nothing), PACE)
