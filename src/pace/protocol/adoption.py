"""What receivers make of their returns: Externals, their logits and their weights."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from operator import mul

import torch
from torch import Tensor

from pace import gates
from pace.errors import NumberError, ReceiverError
from pace.gates import Gate, Weights, local_alone, mix
from pace.graph import Graph
from pace.merging import seen
from pace.models import regrouped
from pace.params import Params
from pace.protocol import wire
from pace.protocol.federation import Federation
from pace.protocol.layouts import check, own_return, return_layout
from pace.protocol.method import External, bounded

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
    local: Params  # W_L
    externals: tuple[External, ...]
    weights: Weights  # of Local, then of each External

    def __call__(self, graph: Graph) -> Tensor:
        """The logits of any graph with the federation's features, (nodes, classes)."""
        return self.adoption(graph).logits

    def adoption(self, graph: Graph) -> "Adoption":
        """What every part of it says of a graph.

        An External that is finite on the receiver's graph may overflow on another: then Local answers.
        """
        check(graph, self.federation)
        sets = logit_sets(graph, self.local, self.externals, self.federation)
        adoption = Adoption(sets[0], tuple(sets[1:]), self.weights, self)
        finite = _finite([adoption.logits])
        return adoption if finite else replace(adoption, weights=local_alone(sets))


@dataclass(frozen=True, eq=False)
class Rehearsal:
    """Models fitted without some labelled nodes, on which they are weighed."""

    sets: Sequence[Tensor]  # logits of every node, of Local and of each External as in `adopt`
    held_out: Tensor  # the nodes to weigh on, (nodes,) bool


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
        cases = self.rehearsals or (Rehearsal((self.local, *self.externals), val),)
        return [(case.sets[0], mix(case.sets, self.weights), case.held_out) for case in cases]


@dataclass(frozen=True, eq=False)
class Receiver:
    """A client to which a return has come."""

    graph: Graph
    kept: Kept
    returned: bytes
    federation: Federation
    local: Tensor | None = None  # Local's logits on the graph, where they are known


Predict = Callable[[Sequence[Sequence[Params]]], Sequence[Sequence[Tensor]]]


def adopt_all(receivers: Sequence[Receiver], predict: Predict | None = None) -> list[Adoption]:
    """`adopt` for many receivers, of one federation or of some that differ in their seed alone.

    Gates go in batches. On a CPU each adoption is the one that `adopt` makes, bit for bit.

    Args:
        receivers: who adopts.
        predict: the logits of some models of each receiver, of the network that clients train;
            by default, one model after the other. A simulation gives it, and keeps no model.
    """
    models, problems = zip(*map(_received_models, receivers), strict=True)
    externals = [[external for external in own if not external.held_out] for own in models]
    with torch.no_grad():
        if predict is None:
            pairs = zip(receivers, externals, strict=True)
            externals = [[_evident(external, r) for external in own] for r, own in pairs]
        sets = _logit_sets(receivers, externals, predict)
        rehearsals = list(map(_rehearsals, receivers, models))
    cases = [
        own or [Rehearsal(logits, receiver.graph.val)]
        for own, logits, receiver in zip(rehearsals, sets, receivers, strict=True)
    ]
    adoptions = []
    for index, weights in enumerate(_weighed(receivers, cases)):
        if problems[index] or not _finite(sets[index][1:]):
            weights = local_alone(sets[index])
        local, *others = (logits.cpu() for logits in sets[index])
        kept, federation = receivers[index].kept.local, receivers[index].federation
        model = AdoptedModel(federation, kept, tuple(externals[index]), weights)
        tried = tuple(rehearsals[index]) if predict is None else ()
        adoptions.append(
            Adoption(local, tuple(others), weights, model, problems[index], rehearsals=tried)
        )
    return adoptions


def _received_models(receiver: Receiver) -> tuple[Sequence[External], str]:
    """What the method makes of the return to a receiver's very own upload, and what is wrong with it.

    A return with numbers that no upload may have is one that says nothing: all of it is zero.
    """
    kept, graph, federation = receiver.kept, receiver.graph, receiver.federation
    check(graph, federation)
    frame = wire.decode(receiver.returned, return_layout(federation), federation.digest)
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
    message = own_return(message, kept.local, federation)
    return federation.method.adopt(kept.local, message, graph, federation), problem


def _evident(external: External, receiver: Receiver) -> External:
    """An External with Local's columns where no node of this graph reads them.

    Its logits stay as they are. What such columns hold would show on later graphs only, and no
    validation node can speak against it. One with numbers that no upload may have is no model: Local
    takes its place.
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


def _rehearsals(receiver: Receiver, models: Sequence[External]) -> list[Rehearsal]:
    """What the models that only weigh say of every node, by the nodes that they were fitted without."""
    graph, sets = regrouped(receiver.graph), defaultdict[str, list[Tensor]](list)
    for external in models:
        if external.held_out and external.predict is not None:
            sets[external.held_out].append(external.predict(external.params, graph))
    return [Rehearsal(logits, getattr(graph, held_out)) for held_out, logits in sets.items()]


@torch.no_grad()
def logit_sets(
    graph: Graph, local: Params, externals: Sequence[External], federation: Federation
) -> list[Tensor]:
    """What a stored model's Local and Externals say of every node of a graph, Local first."""
    receiver = Receiver(graph, Kept(local, b""), b"", federation)
    return _logit_sets([receiver], [externals])[0]


def _known_logits(receiver: Receiver) -> Tensor | None:
    """Local's logits where they were given, or are not those of the network that clients train."""
    local, graph, federation = receiver.kept.local, receiver.graph, receiver.federation
    if receiver.local is not None or (graph.has_edges and local.keys() == federation.start.keys()):
        return receiver.local
    form = federation.closed_form
    assert form is not None  # a table of rows is read for no other method
    *_, fit = form.local_columns()
    return form.local_logits(local, graph, fit, federation)


def _logit_sets(
    receivers: Sequence[Receiver],
    externals: Sequence[Sequence[External]],
    predict: Predict | None = None,
) -> list[list[Tensor]]:
    """What each receiver's Local and Externals say of every node, Local first; (nodes, classes)."""
    known = list(map(_known_logits, receivers))
    trained = []  # models of the network that clients train, whose logits are not known
    for r, local, own in zip(receivers, known, externals, strict=True):
        others = [e.params for e in own if e.predict is None and e.params is not r.kept.local]
        trained.append([r.kept.local, *others] if local is None else others)
    if predict is None:
        pairs = zip(receivers, trained, strict=True)
        logits = [[r.federation.network(m, r.graph).logits for m in models] for r, models in pairs]
    else:
        logits = list(map(list, predict(trained)))
    sets = []
    for r, local, own, rest in zip(receivers, known, externals, map(iter, logits), strict=True):
        local = next(rest) if local is None else local
        sets.append([local])
        for external in own:
            if external.predict is not None:
                sets[-1].append(external.predict(external.params, r.graph))
            else:
                sets[-1].append(local if external.params is r.kept.local else next(rest))
    return sets


def _weighed(
    receivers: Sequence[Receiver], rehearsals: Sequence[Sequence[Rehearsal]]
) -> Iterator[Weights]:
    """Each receiver's weights, Local's first: the mean of its rehearsals' by their held-out nodes."""
    pairs = zip(receivers, rehearsals, strict=True)
    cases = [(receiver.graph.y, rehearsal) for receiver, own in pairs for rehearsal in own]
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
        logits = [part[case.held_out.to(part.device)] for part in case.sets]
        validations.append((logits, labels[case.held_out].to(logits[0].device)))
    for index, chosen in zip(sound, gates.weigh_receivers(gate, validations), strict=True):
        weights[index] = chosen
    if not gates.promises(gate):
        return weights
    return [
        gates.no_worse_than_local(
            [logits.cpu() for logits in case.sets], chosen, case.held_out, labels[case.held_out]
        )
        for (labels, case), chosen in zip(cases, weights, strict=True)
    ]


def _finite(sets: Iterable[Tensor]) -> bool:
    return all(bool(torch.isfinite(logits).all()) for logits in sets)
