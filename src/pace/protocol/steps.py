"""fit, merge, adopt over bytes: the three pure steps, and all that a runtime calls.

graph ─fit→ (kept, upload) ══▶ merge ══▶ returned ─adopt→ Adoption
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import islice, repeat
from operator import mul

import torch
from torch import Tensor

from pace.errors import (
    GraphError,
    LayoutError,
    NumberError,
    ReceiverError,
    SettingError,
    TooFewError,
)
from pace.gates import (
    Gate,
    Weights,
    local_alone,
    mix,
    no_worse_than_local,
    promises,
    weigh_receivers,
)
from pace.graph import Graph, expect_graph
from pace.merging import SiteSums, seen
from pace.models import RowTable
from pace.params import Params
from pace.protocol import sealing, wire
from pace.protocol.federation import Federation
from pace.protocol.method import (
    ClosedForm,
    Explanation,
    External,
    Rehearsal,
    Summable,
    Weight,
    bounded,
)
from pace.protocol.sealing import Seal
from pace.protocol.uploads import Message, Messages, Received, Uploads, opened
from pace.training import train

BLOCK = 4096  # nodes whose rows are multiplied out together


@dataclass(frozen=True, eq=False)
class Kept:
    """What a client keeps between `fit` and `adopt`."""

    local: Params
    """W_L, its complete Local model."""
    upload: bytes
    """The checksum of the upload it sent, four bytes: a return names the upload that it answers."""

    def __repr__(self) -> str:
        return f"Kept(local: {wire.say(wire.layout(self.local))}; upload {self.upload.hex()})"


@dataclass(frozen=True, eq=False)
class AdoptedModel:
    """Local and the Externals with their weights: what a receiver predicts with from now on."""

    federation: Federation
    local: Params
    """W_L."""
    externals: tuple[External, ...]
    weights: Weights
    """Of Local, then of each External."""

    def __call__(self, graph: Graph) -> Tensor:
        """The logits of any graph with the federation's features, (nodes, classes)."""
        return self.adoption(graph).logits

    def adoption(self, graph: Graph) -> Adoption:
        """What every part of it says of a graph.

        An External that is finite on the receiver's graph may overflow on another: then Local answers.
        """
        check(graph, self.federation)
        sets = logit_sets(graph, self.local, self.externals, self.federation)
        adoption = Adoption(sets[0], tuple(sets[1:]), self.weights, self)
        finite = bool(torch.isfinite(adoption.logits).all())
        return adoption if finite else replace(adoption, weights=local_alone(sets))


@dataclass(frozen=True, eq=False)
class Adoption:
    """What a receiver ends up with."""

    local: Tensor
    """Local's logits, (nodes, classes)."""
    externals: tuple[Tensor, ...]
    """Logits of each External; PACE has one."""
    weights: Weights
    """Weight of Local, then of each External."""
    model: AdoptedModel
    """Predicts other graphs, such as nodes that came later: `model(graph)` are their logits."""
    problem: str = ""
    """Why the return was not used at all, if it was not."""
    rehearsals: tuple[Rehearsal, ...] = ()
    """Models fitted without some labelled nodes, of a method that learns from validation labels too."""

    def __repr__(self) -> str:
        nodes, classes = self.local.shape
        return f"Adoption(alpha={self.alpha:.4f}, {nodes} nodes, {classes} classes)"

    @property
    def alpha(self) -> float:
        """The Externals' share of all weight: 0 is Local, 1 is External."""
        return sum(self.weights[1:]) / sum(self.weights)

    @property
    def external(self) -> Tensor:
        """What came back, in place of Local: the External, or the mean of several."""
        return mix(self.externals, (1 / len(self.externals),) * len(self.externals))

    @property
    def logits(self) -> Tensor:
        """The logits to use, (nodes, classes). With α = 0 they are Local's, bit for bit."""
        return mix((self.local, *self.externals), self.weights)

    def unseen(self, val: Tensor) -> list[tuple[Tensor, Tensor, Tensor]]:
        """Local's logits, the logits to use, and nodes whose labels neither was fitted on."""
        seen = self.rehearsals or (Rehearsal((self.local, *self.externals), val),)
        return [(r.sets[0], mix(r.sets, self.weights), r.held_out) for r in seen]


def fit(
    graph: Graph,
    federation: Federation,
    seed: int | None = None,
    *,
    device: torch.device | str = "cpu",
    progress: Callable[[int], None] | None = None,
    seal: Seal | None = None,
) -> tuple[Kept, bytes]:
    """Train a Local model on one's own graph and make the upload: a client's first step.

    Args:
        graph: the client's graph, with the federation's features and classes.
        federation: what all parties agreed on.
        seed: of the dropout masks; the federation's own by default.
        seal: the client's keys, where the federation's uploads are sealed.
        device: where to train, `"cpu"` or `"cuda"`.
        progress: is told each epoch that is done.

    Returns:
        What to keep for `adopt`, and the upload's bytes, to be sent once.

    Raises:
        GraphError: the graph has other features or classes than the federation, or no training
            nodes.
        NumberError: training diverged, as happens with unscaled features.

    Example:
        >>> import pace
        >>> dataset = pace.load("synthetic:nodes=90,features=12,communities=3,classes=3")
        >>> graphs = pace.divide(dataset, "dirichlet", clients=3)
        >>> federation = pace.agree(graphs, "pace:rank=2", hidden=8, epochs=5)
        >>> kept, upload = pace.fit(graphs[0], federation)
        >>> upload[:4]
        b'PACE'
    """
    check(graph, federation)
    if not (graph.train | graph.val | graph.test).any():
        raise GraphError(
            "the graph has no masks: mark training nodes with Graph.build(…, train=mask), or divide a "
            "dataset, which draws masks"
        )
    local = train(
        graph.to(device),
        federation.network,
        federation.start,
        recipe=federation.recipe,
        seed=federation.seed if seed is None else seed,
        progress=progress,
    )
    return share({name: value.cpu() for name, value in local.items()}, graph, federation, seal)


def fit_rows(
    table: RowTable, federation: Federation, seal: Seal | None = None
) -> tuple[Kept, bytes]:
    """`fit` for a table of rows: in one pass over them, with Local a closed form of its own rows.

    Where the table brings Local's logits there is no Local to keep.
    """
    form = _closed_form(federation)
    brought = set(form.local_columns().values()) <= set(table.maps)
    local = {} if brought else form.fit_rows(table, federation)
    return share(local, table, federation, seal)


def _logits_beside(local: Params, graph: Graph, federation: Federation) -> Tensor | None:
    """Local's logits where they are not those of the network that clients train."""
    if not isinstance(graph, RowTable) and local.keys() == federation.start.keys():
        return None
    form = _closed_form(federation)
    *_, fit = form.local_columns()
    with torch.no_grad():
        return form.local_logits(local, graph, fit, federation)


def local_layouts(federation: Federation) -> tuple[wire.Layout, wire.Layout]:
    """The names and shapes of Local: of the network, and of a table of rows."""
    form, none = federation.method.closed_form, torch.zeros(0, dtype=torch.int64)
    of_rows: Params = {}
    if form is not None:
        columns = form.row_columns(federation)
        maps = {name: torch.zeros(0, width) for name, width in columns.items()}
        table = RowTable.of(none, none, maps, federation.model.features)
        of_rows = form.fit_rows(table, federation)
    return wire.layout(federation.start), wire.layout(of_rows)


def share(
    local: Params, graph: Graph, federation: Federation, seal: Seal | None = None
) -> tuple[Kept, bytes]:
    """The second half of `fit`, for a model that is already trained."""
    _check_finite(local, graph)
    message = _shared(local, graph, federation)
    _check_finite(message, graph)
    if federation.sealed:
        if seal is None:
            raise SettingError(
                "a sealed federation needs every client's keys: give `fit` its `seal`"
            )
        masked = seal(sealing.in_ring(message, federation.clients))
        upload = wire.encode_sealed(masked, upload_layout(federation), federation.digest)
    else:
        upload = wire.encode(message, federation.digest, numbers=federation.numbers)
    return Kept(local, wire.checksum(upload)), upload


def _check_finite(learnt: Message, graph: Graph) -> None:
    """Nobody could use such an upload; the client can still do something about it."""
    for name, value in learnt.items():
        # The least and the largest are read in one pass, and are nan where any number is.
        if value.numel() and not all(map(math.isfinite, map(float, torch.aminmax(value)))):
            raise NumberError(
                f"after training, {name!r} holds a number that is not finite, as happens when "
                f"features are large (here up to {float(graph.x.abs().max()):.3g}): bring them to "
                "about the size of 1, in the same way at every site"
            )


def merge(uploads: Sequence[bytes], federation: Federation) -> list[bytes]:
    """Merge all uploads: the server's one step.

    Args:
        uploads: the bytes of `fit`, one for each client.
        federation: what all parties agreed on.

    Returns:
        One return for each upload, in the same order; each is for the sender of its upload alone.

    Raises:
        TooFewError: there are no uploads.
        WireError: an upload is damaged, of another federation or not an upload.

    Example:
        >>> import pace
        >>> dataset = pace.load("synthetic:nodes=90,features=12,communities=3,classes=3")
        >>> graphs = pace.divide(dataset, "dirichlet", clients=3)
        >>> federation = pace.agree(graphs, "pace:rank=2", hidden=8, epochs=5)
        >>> len(pace.merge([pace.fit(graph, federation)[1] for graph in graphs], federation))
        3
    """
    return list(returns(received(uploads, federation), federation))


def received(uploads: Sequence[bytes], federation: Federation) -> Received:
    """Uploads as the server reads them; one that is not of this federation is refused when read."""
    return Received(uploads, upload_layout(federation), federation.digest)


def returns(uploads: Received, federation: Federation) -> Iterator[bytes]:
    """The frame of each return, one at a time; what is the same for all is written once."""
    if not len(uploads):
        raise TooFewError("there are no uploads, expected one or more to merge")
    if federation.sealed:
        summable, clients = _summable(federation), federation.clients
        total = sealing.opened_sum(uploads, clients)
        summable.check_total(total, clients, federation)
        messages: Iterable[Message] = repeat(summable.answer(total, federation), clients)
    else:
        messages = federation.method.merge(uploads, federation)
    last = None
    for client, message in enumerate(messages):
        if message is not last:
            last, content = message, wire.written(message, federation.numbers)
            layout = wire.layout(message, federation.numbers)
        yield wire.framed(layout, content, federation.digest, uploads.checksums[client])


def adopt(graph: Graph, kept: Kept, returned: bytes, federation: Federation) -> Adoption:
    """Make the External model of a return and choose α on one's own validation nodes.

    The logits that are used never have a higher negative log-likelihood there than Local's.

    Args:
        graph: the client's graph, as it was for `fit`.
        kept: what `fit` gave beside the upload.
        returned: the server's return to that upload.
        federation: what all parties agreed on.

    Returns:
        The logits of Local and External, and their weights.

    Raises:
        ReceiverError: the return answers another client's upload.
        WireError: the return is damaged or of another federation.

    Example:
        >>> import pace
        >>> dataset = pace.load("synthetic:nodes=90,features=12,communities=3,classes=3")
        >>> graphs = pace.divide(dataset, "dirichlet", clients=3)
        >>> federation = pace.agree(graphs, "pace:rank=2", hidden=8, epochs=5)
        >>> kept, uploads = zip(*(pace.fit(graph, federation) for graph in graphs))
        >>> returns = pace.merge(uploads, federation)
        >>> adoption = pace.adopt(graphs[0], kept[0], returns[0], federation)
        >>> 0 <= adoption.alpha <= 1
        True
        >>> adoption.model(dataset.graph).shape  # any graph with these features
        torch.Size([90, 3])
    """
    local = _logits_beside(kept.local, graph, federation)
    return adopt_all([Receiver(graph, kept, returned, federation, local)])[0]


@dataclass(frozen=True, eq=False)
class Receiver:
    """A client to which a return has come."""

    graph: Graph
    kept: Kept
    returned: bytes
    federation: Federation
    local: Tensor | None = None
    """Local's logits on the graph, where they are known."""


Predict = Callable[[Sequence[Sequence[Params]]], Sequence[Sequence[Tensor]]]


def adopt_all(receivers: Sequence[Receiver], predict: Predict | None = None) -> list[Adoption]:
    """`adopt` for many receivers, of one federation or of some that differ in their seed alone.

    Gates go in batches. On a CPU each adoption is the one that `adopt` makes, bit for bit.

    Args:
        receivers: who adopts.
        predict: the logits of some models of each receiver, of the network that clients train;
            by default, one model after the other.
    """
    opened_, problems = zip(*map(_own_message, receivers), strict=True)
    given = [
        (r.kept.local, message, r.graph, r.federation)
        for r, message in zip(receivers, opened_, strict=True)
    ]
    externals = [parts[-1].method.adopt(*parts) for parts in given]
    with torch.no_grad():
        if predict is None:  # a simulation keeps no model
            externals = [
                [_evident(external, r) for external in own]
                for r, own in zip(receivers, externals, strict=True)
            ]
        sets = _logit_sets(receivers, externals, predict)
        own = [parts[-1].method.rehearse(*parts) or () for parts in given]
        rehearsals = [
            rehearsed or [Rehearsal(logits, parts[2].val)]
            for rehearsed, parts, logits in zip(own, given, sets, strict=True)
        ]
    adoptions = []
    weighed = _weighed(receivers, rehearsals)
    for parts, models, logits, weights, problem, rehearsed in zip(
        given, externals, sets, weighed, problems, own, strict=True
    ):
        sound = not problem and _finite(logits[1:])
        chosen = weights if sound else local_alone(logits)
        model = AdoptedModel(parts[-1], parts[0], tuple(models), chosen)
        local, *others = (each.cpu() for each in logits)
        kept = tuple(rehearsed) if predict is None else ()
        adoptions.append(Adoption(local, tuple(others), chosen, model, problem, kept))
    return adoptions


def _own_message(receiver: Receiver) -> tuple[Message, str]:
    """The return to a receiver's very own upload, and what is wrong with its numbers, if anything.

    A return with numbers that no upload may have is one that says nothing: all of it is zero.
    """
    kept, federation = receiver.kept, receiver.federation
    check(receiver.graph, federation)
    frame = opened(receiver.returned, federation.digest, return_layout(federation))
    if frame.answers != kept.upload:
        raise ReceiverError(
            f"the return answers upload {frame.answers.hex()}, this model sent {kept.upload.hex()}: "
            f"ask the server for the return to {kept.upload.hex()}"
        )
    message, problem = frame.message, ""
    try:
        bounded(message)
    except NumberError as error:
        problem = f"the return's {error}"
        message = {name: torch.zeros_like(value) for name, value in message.items()}
    return _own_return(message, kept.local, federation), problem


def _evident(external: External, receiver: Receiver) -> External:
    """An External with Local's columns where no node of this graph reads them.

    Its logits stay as they are. What such columns hold would show on later graphs only, and no
    validation node can speak against it. One with numbers that no upload may have is no model: Local
    stands in for it.
    """
    local, graph = receiver.kept.local, receiver.graph
    try:
        bounded(external.params)
    except NumberError:
        blank = {name: torch.zeros_like(value) for name, value in external.params.items()}
        return replace(external, params=local if external.predict is None else blank)
    if external.predict is not None or external.params is local:
        return external
    params = dict(external.params)
    nodes = torch.arange(graph.nodes, device=graph.x.device).split(BLOCK)
    for name, rows in receiver.federation.network(params, graph).inputs.items():
        read = torch.stack([seen(rows[some]) > 0 for some in nodes]).any(0)
        if not read.all() and params[name].shape[-1:] == read.shape:
            params[name] = torch.where(read, params[name], local[name])
    return replace(external, params=params)


def _logit_sets(
    receivers: Sequence[Receiver],
    externals: Sequence[Sequence[External]],
    predict: Predict | None = None,
) -> list[list[Tensor]]:
    """What each receiver's Local and Externals say of every node, Local first; (nodes, classes)."""
    trained = []  # models of the network that clients train, whose logits are not known
    for r, own in zip(receivers, externals, strict=True):
        others = [e.params for e in own if e.predict is None and e.params is not r.kept.local]
        trained.append([r.kept.local, *others] if r.local is None else others)
    if predict is None:
        pairs = zip(receivers, trained, strict=True)
        logits = [[r.federation.network(m, r.graph).logits for m in models] for r, models in pairs]
    else:
        logits = list(map(list, predict(trained)))
    sets = []
    for r, own, rest in zip(receivers, externals, map(iter, logits), strict=True):
        local = next(rest) if r.local is None else r.local
        sets.append([local])
        for external in own:
            if external.predict is not None:
                sets[-1].append(external.predict(external.params, r.graph))
            else:
                sets[-1].append(local if external.params is r.kept.local else next(rest))
    return sets


def logit_sets(
    graph: Graph, local: Params, externals: Sequence[External], federation: Federation
) -> list[Tensor]:
    """What a stored model's Local and Externals say of every node of a graph, Local first."""
    beside = _logits_beside(local, graph, federation)
    with torch.no_grad():
        receiver = Receiver(graph, Kept(local, b""), b"", federation, beside)
        return _logit_sets([receiver], [externals])[0]


def _weighed(
    receivers: Sequence[Receiver], rehearsals: Sequence[Sequence[Rehearsal]]
) -> Iterator[Weights]:
    """Each receiver's weights, Local's first: the mean of its rehearsals' by their held-out nodes."""
    cases = [
        (receiver.graph.y, rehearsal)
        for receiver, own in zip(receivers, rehearsals, strict=True)
        for rehearsal in own
    ]
    chosen = iter(_weighed_cases(receivers[0].federation.method.gate, cases))
    for own in rehearsals:
        several = list(islice(chosen, len(own)))
        counts = [float(rehearsal.held_out.sum()) for rehearsal in own]
        if len(several) == 1 or not sum(counts):
            yield several[0]
        else:
            columns = zip(*several, strict=True)
            yield tuple(sum(map(mul, counts, column)) / sum(counts) for column in columns)


def _weighed_cases(gate: Gate, cases: Sequence[tuple[Tensor, Rehearsal]]) -> list[Weights]:
    """By the gate, where the Externals' logits are finite; never worse than Local on these nodes."""
    weights = [local_alone(case.sets) for _, case in cases]
    sound = [index for index, (_, case) in enumerate(cases) if _finite(case.sets[1:])]
    validations = []
    for labels, case in (cases[index] for index in sound):
        seen = [logits[case.held_out.to(logits.device)] for logits in case.sets]
        validations.append((seen, labels[case.held_out].to(seen[0].device)))
    for index, chosen in zip(sound, weigh_receivers(gate, validations), strict=True):
        weights[index] = chosen
    if not promises(gate):
        return weights
    return [
        no_worse_than_local(
            [logits.cpu() for logits in case.sets], chosen, case.held_out, labels[case.held_out]
        )
        for (labels, case), chosen in zip(cases, weights, strict=True)
    ]


def _finite(sets: Sequence[Tensor]) -> bool:
    return all(bool(torch.isfinite(logits).all()) for logits in sets)


def check_upload(upload: bytes, federation: Federation) -> Message:
    """The message of an upload that may count; anything else is refused, each kind by its error."""
    frame = opened(upload, federation.digest, upload_layout(federation))
    if frame.answers != wire.NOBODY:
        raise LayoutError(
            f"this is the return to upload {frame.answers.hex()}, expected an upload: "
            "uploads go to the server, returns come from it"
        )
    if not federation.sealed:  # under its masks it is noise: what can be checked is their sum
        federation.method.check(frame.message, federation)
    return frame.message


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
        raise GraphError(
            f"the largest label is {int(graph.y.max())}, the federation agreed on {classes} classes, "
            f"numbered 0 to {classes - 1}"
        )


@lru_cache(maxsize=16)
def upload_layout(federation: Federation) -> wire.Layout:
    """The names and shapes of every upload: those of a client with a single node."""
    probe = _shared(federation.start, _lonely(federation), federation)
    return wire.layout(probe, wire.SEALED if federation.sealed else federation.numbers)


@lru_cache(maxsize=16)
def return_layout(federation: Federation) -> wire.Layout:
    """The names and shapes of every return: those of a federation with a single client."""
    probe = federation.method.share(federation.start, _lonely(federation), federation)
    if federation.sealed:
        summable = _summable(federation)
        returned = summable.answer(summable.statistic_of(probe, federation), federation)
    else:
        returned = next(iter(federation.method.merge(Messages([probe]), federation)))
    return wire.layout(returned, federation.numbers)


@lru_cache(maxsize=16)
def blank_externals(federation: Federation) -> tuple[External, ...]:
    """What a receiver makes of a return that says nothing: names, shapes and how they predict."""
    silent = {name: torch.zeros(shape) for name, shape in return_layout(federation).items()}
    start, graph = federation.start, _lonely(federation)
    message = _own_return(silent, start, federation)
    return tuple(federation.method.adopt(start, message, graph, federation))


def explain_upload(
    message: Message, federation: Federation, features: Sequence[str] = ()
) -> Explanation:
    """What an upload holds, and what a server, or one that sees sums only, can read out of it."""
    if not federation.sealed:
        return federation.method.explain(Messages([message]), federation, features)
    blank = {name: torch.zeros(shape) for name, shape in upload_layout(federation).items()}
    plain = {**federation.method.explain(Messages([blank]), federation).tensors}
    plain[sealing.ONE] = sealing.ONE_SENTENCE
    tensors = {name: f"sealed: {sentence}" for name, sentence in plain.items()}
    sentences = sealing.sealed_sentences(federation.clients, _summable(federation))
    return Explanation(tensors, sentences)


def upload_weights(uploads: Uploads, federation: Federation) -> list[Weight]:
    """How much each upload weighs in what everyone is sent; of sealed ones nothing can be seen."""
    if federation.sealed:
        return [Weight()] * len(uploads)
    return federation.method.influence(uploads, federation)


def site_sums(uploads: Uploads, federation: Federation) -> Mapping[tuple[str, float], SiteSums]:
    """What each site adds to the regressions that the server solves; of sealed sums nothing shows."""
    form = None if federation.sealed else federation.method.closed_form
    return {} if form is None else form.site_sums(uploads, federation)


def external_names(federation: Federation) -> tuple[str, ...]:
    """What the Externals are called, in order."""
    return tuple(external.name for external in blank_externals(federation))


def _closed_form(federation: Federation) -> ClosedForm:
    form = federation.method.closed_form
    assert form is not None  # a table of rows is read for no other method
    return form


def _summable(federation: Federation) -> Summable:
    method = federation.method
    assert isinstance(method, Summable)  # a sealed federation checks it
    return method


def _shared(local: Params, graph: Graph, federation: Federation) -> Message:
    """What a client's upload holds, before it is masked where it is sealed."""
    if federation.sealed:
        return sealing.counted(_summable(federation).statistic(local, graph, federation))
    return federation.method.share(local, graph, federation)


def _own_return(message: Message, local: Params, federation: Federation) -> Message:
    """The return to one client, which it makes of the common answer where uploads are sealed."""
    sealed = federation.sealed
    return _summable(federation).personal(message, local, federation) if sealed else message


def _lonely(federation: Federation) -> Graph:
    """A graph of one node."""
    yes, no = torch.tensor([True]), torch.tensor([False])
    edges, label = torch.zeros((2, 0), dtype=torch.int64), torch.tensor([0])
    return Graph(torch.zeros(1, federation.model.features), edges, label, yes, no, no)
