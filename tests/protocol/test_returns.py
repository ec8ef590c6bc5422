"""A return is bounded as uploads are, and columns that no node of the site has are not taken."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import pytest
import torch

from pace.graph import Graph
from pace.methods import FedAvg, make
from pace.protocol import External, Federation, Message, Uploads, adoption, steps, wire
from tests.graphs import clients, federation
from tests.protocol.test_steps import messages

ABSENT = [2, 5]  # features that no node of the receiver has
METHODS = (
    "pace",
    "fedavg",
    "pace-limited",
    "pace-duo",
    "pace-ridge",
    "pace-full",
    "pace-ridge-sums",
)


def without_words(graph: Graph) -> Graph:
    x = graph.x.clone()
    x[:, ABSENT] = 0
    return replace(graph, x=x)


def columns(external: External, federation: Federation) -> dict[str, torch.Tensor]:
    """What an External holds for the absent features: columns of a network, rows of a regression."""
    features = federation.model.features
    if external.predict is None:
        return {"0.weight": external.params["0.weight"][:, ABSENT]}
    return {
        name: value[torch.tensor(ABSENT) + first]
        for name, value in external.params.items()
        for first in range(0, len(value) - len(value) % features, features)
        if name != "labels"
    }


@pytest.mark.fault(47)
@pytest.mark.parametrize("name", METHODS)
def test_what_a_return_holds_for_features_that_no_node_has_is_not_taken(name: str) -> None:
    agreed = replace(federation(make(name), epochs=10), numbers="float32")
    graphs = [without_words(clients(3)[0]), *clients(3)[1:]]
    kept, uploads = messages(graphs, agreed)
    honest = wire.decode(steps.merge(uploads, agreed)[0])
    hostile = {key: value.clone() for key, value in honest.message.items()}
    for key, value in hostile.items():
        if key in ("0.weight", "0.weight/R") or (key.endswith("basis") and "labels" not in key):
            for first in range(
                0, value.shape[1] - value.shape[1] % agreed.model.features, agreed.model.features
            ):
                value[:, [column + first for column in ABSENT]] = 1e8
    plain, attacked = (
        steps.adopt(graphs[0], kept[0], wire.encode(each, agreed.digest, honest.answers), agreed)
        for each in (honest.message, hostile)
    )
    assert attacked.problem == ""
    assert torch.equal(plain.logits, attacked.logits)
    local = kept[0].local["0.weight"][:, ABSENT]
    for external in attacked.model.externals:
        for value in columns(external, agreed).values():
            assert torch.equal(
                value, local if external.predict is None else torch.zeros_like(value)
            )
    later = clients(3)[1]  # with these features
    assert torch.equal(plain.model(later), attacked.model(later))


@pytest.mark.fault(22, 47)
@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("large", [1.1e9, 1e37])
def test_a_return_beyond_the_bound_leaves_local_and_finite_models(name: str, large: float) -> None:
    agreed = replace(federation(make(name), epochs=10), numbers="float32")
    graphs = clients(3)
    kept, uploads = messages(graphs, agreed)
    honest = wire.decode(steps.merge(uploads, agreed)[0])
    hostile = dict(honest.message)
    first = next(iter(hostile))
    hostile[first] = hostile[first].clone()
    hostile[first].view(-1)[0] = large
    found = steps.adopt(
        graphs[0], kept[0], wire.encode(hostile, agreed.digest, honest.answers), agreed
    )
    assert found.logits is found.local
    assert f"{large:.3g}, expected at most 1e+09" in found.problem
    for external in found.model.externals:
        assert all(float(value.abs().max()) <= 1e9 for value in external.params.values())


@pytest.mark.fault(47)
def test_an_external_that_overflows_by_its_product_is_local() -> None:
    """Each factor is within the bound, their product is not."""
    agreed = federation(make("pace"), epochs=10)
    (graph,) = clients(1)
    (kept,), uploads = messages([graph], agreed)
    honest = wire.decode(steps.merge(uploads, agreed)[0])
    message = {name: torch.full_like(value, 9e8) for name, value in honest.message.items()}
    found = steps.adopt(graph, kept, wire.encode(message, agreed.digest, honest.answers), agreed)
    assert found.logits is found.local
    for name, value in found.model.externals[0].params.items():
        assert torch.equal(value, kept.local[name])


def test_a_feature_that_one_block_of_nodes_reads_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    """A large graph's rows are looked through block by block; a word may occur in one of them alone."""
    agreed = federation(make("pace"), epochs=10)
    graphs = clients(3)
    kept, uploads = messages(graphs, agreed)
    returned = steps.merge(uploads, agreed)[0]
    found = []
    for block in (graphs[0].nodes, 7):
        monkeypatch.setattr(adoption, "BLOCK", block)
        (external,) = steps.adopt(graphs[0], kept[0], returned, agreed).model.externals
        found.append(external.params["0.weight"])
    assert torch.equal(*found)
    read = (agreed.network(kept[0].local, graphs[0]).inputs["0.weight"][torch.arange(7)] != 0).any(
        0
    )
    assert (found[0] != kept[0].local["0.weight"])[
        :, ~read
    ].any()  # beyond what the first block reads


@dataclass(frozen=True)
class Growing(FedAvg):
    """Returns that are no two alike, which no layout of ours allows and a frame must not hide."""

    def merge(self, uploads: Uploads, federation: Federation) -> Iterator[Message]:
        return ({"rows": torch.ones(1 + client, 2)} for client in range(len(uploads)))


def test_every_frame_says_the_shapes_that_it_holds() -> None:
    agreed = federation(Growing(), epochs=1)
    upload = steps.fit(clients(1)[0], agreed)[1]
    for client, frame in enumerate(steps.merge([upload] * 3, agreed)):
        assert torch.equal(wire.decode(frame).message["rows"], torch.ones(1 + client, 2))
