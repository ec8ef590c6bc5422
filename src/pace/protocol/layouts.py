"""What a federation's messages look like and tell: derived by sharing a graph of one node, not declared.

Here, and in `steps`, a federation is asked whether it is sealed; nothing else in the protocol asks.
"""

from functools import lru_cache

import torch

from pace.errors import GraphError
from pace.graph import Graph, expect_graph
from pace.params import Params
from pace.protocol import ring, wire
from pace.protocol.federation import Federation
from pace.protocol.method import Explanation, External, Summable, Weight
from pace.protocol.uploads import Message, Messages, Uploads


def check(graph: Graph, federation: Federation) -> None:
    """Refuse a graph that the federation's model cannot read."""
    expect_graph(graph)
    if graph.weights is not None and not federation.model.reads_weights:
        raise GraphError(
            f"the graph has edge weights, which a {federation.model.title} does not read: choose a "
            "model that does, such as gcn, or leave the weights out"
        )
    features, classes = federation.model.features, federation.model.classes
    if graph.features != features:
        raise GraphError(
            f"the graph has {graph.features} features a node, the federation agreed on {features}: "
            "use the same columns in the same order at every site"
        )
    if int(graph.y.max()) >= classes:
        raise GraphError(f"the largest label is {int(graph.y.max())}, expected less than {classes}")


@lru_cache(maxsize=32)
def upload_layout(federation: Federation) -> wire.Layout:
    """The names and shapes of every upload: those of a client with a single node."""
    probe = statement(federation.start, _lonely(federation), federation)
    return wire.layout(probe, wire.SEALED if federation.sealed else federation.numbers)


@lru_cache(maxsize=32)
def return_layout(federation: Federation) -> wire.Layout:
    """The names and shapes of every return: those of a federation with a single client."""
    if (form := federation.closed_form) is not None:
        return wire.layout(form.blank_return(federation), federation.numbers)
    probe = federation.method.share(federation.start, _lonely(federation), federation)
    if federation.sealed:
        method = summable(federation)
        returned = method.answer(method.statistic_of(probe, federation), federation)
    else:
        returned = next(iter(federation.method.merge(Messages([probe]), federation)))
    return wire.layout(returned, federation.numbers)


@lru_cache(maxsize=32)
def blank_externals(federation: Federation) -> tuple[External, ...]:
    """What a receiver makes of a return that says nothing: names, shapes and how they predict."""
    silent = {name: torch.zeros(shape) for name, shape in return_layout(federation).items()}
    start, graph = federation.start, _lonely(federation)
    message = own_return(silent, start, federation)
    externals = federation.method.adopt(start, message, graph, federation)
    return tuple(external for external in externals if not external.held_out)


def local_layouts(federation: Federation) -> tuple[wire.Layout, wire.Layout]:
    """The names and shapes of Local: of the network, and of a table of rows."""
    form = federation.closed_form
    of_rows = {} if form is None else form.fit_rows(_lonely(federation), federation)
    return wire.layout(federation.start), wire.layout(of_rows)


def explain_uploads(uploads: Uploads, federation: Federation) -> Explanation:
    """What uploads hold, and what a server, or one that sees sums only, can read out of them."""
    if not federation.sealed:
        return federation.method.explain(uploads, federation)
    blank = {name: torch.zeros(shape) for name, shape in upload_layout(federation).items()}
    plain = {**federation.method.explain(Messages([blank]), federation).tensors}
    plain[ring.ONE] = "a one, by which the server finds that all masks have cancelled"
    tensors = {name: f"sealed: {sentence}" for name, sentence in plain.items()}
    clients, sums_reveal = federation.clients, summable(federation).sums_reveal
    sentences = (
        f"It is sealed: with fewer than all {clients} uploads it is noise. Of all of them together "
        "the server reads the sums, and nothing of one site.",
        "If the server and others work together, they take their own parts out of the sum: with "
        f"{clients - 2} of the others it sees the sum of you and one more site, with all "
        f"{clients - 1} others your part alone.",
        "No formal privacy is promised: sums over all sites may tell something about the data of all.",
        *filter(None, [sums_reveal]),
    )
    return Explanation(tensors, sentences, weights=lambda: [Weight()] * len(uploads))


def statement(local: Params, graph: Graph, federation: Federation) -> Message:
    """What a client's upload holds, before it is masked where it is sealed."""
    shared = federation.method.share(local, graph, federation)
    if federation.sealed:
        return ring.counted(summable(federation).statistic_of(shared, federation))
    return shared


def own_return(message: Message, local: Params, federation: Federation) -> Message:
    """The return to one client, which it makes of the common answer where uploads are sealed."""
    sealed = federation.sealed
    return summable(federation).personal(message, local, federation) if sealed else message


def summable(federation: Federation) -> Summable:
    """The method of a sealed federation."""
    method = federation.method
    assert isinstance(method, Summable)  # a sealed federation checks it
    return method


def _lonely(federation: Federation) -> Graph:
    """A graph of one node."""
    x, y = torch.zeros(1, federation.model.features), torch.zeros(1, dtype=torch.int64)
    return Graph.build(x, torch.zeros((2, 0), dtype=torch.int64), y, train=torch.tensor([True]))
