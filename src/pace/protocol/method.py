"""What a one-round method is, and what it says of its messages."""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import reduce
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, runtime_checkable

import torch
from torch import Tensor

from pace.errors import NumberError
from pace.gates import Gate, cnll
from pace.graph import Graph
from pace.merging import SiteSums
from pace.models import Model, Network
from pace.params import Params, add, norm, subtract
from pace.protocol.number_formats import KINDS
from pace.protocol.uploads import Message as Message
from pace.protocol.uploads import Uploads as Uploads
from pace.training import Recipe

if TYPE_CHECKING:
    from pace.protocol.federation import Federation

LARGEST_NUMBER = 1e9  # of an upload; no training gets there
PLAIN = "It holds no node, edge, feature value or label."
NO_PROMISE = (
    "It is computed from them, and no formal privacy is promised: who gets it may infer something "
    "about your data."
)
UNKNOWN = "of the method; see its documentation"
PARTS = {
    "/L": "update of {}, left factor",
    "/R": "update of {}, right factor",
    "/m": "mean square of what {} reads",
}


@dataclass(frozen=True, eq=False)
class External:
    """A model that a receiver makes of what came back."""

    params: Params
    name: str = "External"
    """What it is called where people read about it."""
    predict: Callable[[Params, Graph], Tensor] | None = None
    """Its logits, (nodes, classes), where it is not a model of the network that clients train."""
    returned: Params | None = None
    """Its parameters as they came back, where the receiver left a part of them out."""
    held_out: str = ""
    """Of one that only weighs others: the labelled nodes it was fitted without, `train` or `val`."""


@dataclass(frozen=True, eq=False)
class Reading:
    """What can be computed from an upload, or from the sum of several, to attack it by."""

    model: External | None = None
    """The model that it is an update of: a node's loss may tell whether it was trained on."""
    moments: Mapping[str, Tensor] = field(default_factory=dict)
    """By weight: squares of what its columns read, summed over training nodes and scaled."""
    words: Tensor | None = None
    """(features,): the larger, the more of it occurs at training nodes."""
    classes: Tensor | None = None
    """(classes,): the larger, the more training nodes of this class."""
    class_words: Tensor | None = None
    """(features, classes): the features of each class's training nodes, added up."""
    leverage: Callable[[Graph], Tensor] | None = None
    """How much of each node's row lies in the span of what was sent, (nodes,)."""


@dataclass(frozen=True)
class Explanation:
    """What a message is, for the people whose data it was made of."""

    tensors: Mapping[str, str]
    """What each tensor is."""
    sentences: tuple[str, ...] = (f"{PLAIN} {NO_PROMISE}",)
    """What can be read out of it; the first says what it does not hold."""
    reading: Callable[[], Reading] = Reading
    """What can be computed from it, for a site that attacks its own upload before it leaves."""
    weights: Callable[[], Sequence[Weight]] = tuple
    """How much each of several uploads weighs, for the server's report."""
    unused: Tensor | None = None
    """(features,): those that it shows not to occur around any training node."""


@dataclass(frozen=True)
class Weight:
    """How much one upload weighs in what everyone is sent."""

    share: float | None = None
    """Of all uploads; None where a method has no one weight for a client."""
    norm: float | None = None
    """The Frobenius norm of its update; None where it sends none."""


def bounded(message: Message, largest: float = LARGEST_NUMBER) -> None:
    """Refuse numbers whose products the server could not compute with."""
    for name, value in message.items():
        if value.numel() and not (highest := float(value.abs().max())) <= largest:  # nor nan
            raise NumberError(f"{name!r} goes up to {highest:.3g}, expected at most {largest:g}")


def tensor_sentence(name: str, tensors: Mapping[str, str], update: bool = False) -> str:
    """What a tensor is; `tensors` explain those that are no parameters, `update`: since W_0."""
    if hop := re.fullmatch(r"hop(\d+)/(.+)", name):
        return tensors.get(f"hop/{hop[2]}", UNKNOWN).format(hop[1])
    parameter = re.fullmatch(r"(\d+)\.(?:(.+)\.)?(\w+)(/[LRm])?", name)
    if parameter is None:
        return tensors.get(name, UNKNOWN)
    number, inner, kind, part = parameter.groups()
    layer = f"layer {int(number) + 1}" + (f" ({inner})" if inner else "")
    if part:
        return PARTS[part].format(layer)
    return f"{'update of ' if update else ''}{layer}, {kind}"


def _in_short(method: Any) -> str:
    """`Pace(rank=6, geometry=propagated, gate=cnll)`: a function by its name."""
    values = ((part.name, getattr(method, part.name)) for part in fields(method))
    settings = (f"{name}={getattr(value, '__name__', repr(value))}" for name, value in values)
    return f"{type(method).__name__}({', '.join(settings)})"


class Method(Protocol):
    """A one-round method. A client trains by `recipe`, then shares and later adopts; the server merges.

    A method is a frozen dataclass that inherits from this class: its settings are its fields, and
    it has no state. It writes `share` and `merge`; everything else has a default.
    """

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        cls.__repr__ = _in_short  # type: ignore[method-assign]  # which `dataclass` then leaves alone

    needs: ClassVar[str] = "its server reads every upload"
    """Why a sum over clients is not enough; empty where it is."""
    tensors: ClassVar[Mapping[str, str]] = {}
    """What the tensors of its messages are that are no parameters of the model; `hop/…` is any hop's."""
    version: ClassVar[int] = 1
    """Of its arithmetic: one more where equal settings no longer give equal results. Digests hold it."""
    every_label: ClassVar[bool] = False
    """Whether validation labels are fitted to as well, which the paper's protocol rules out."""
    numbers: str = KINDS[0]
    """How its messages are written unless the federation says otherwise: exactly."""

    @property
    def recipe(self) -> Recipe:
        """How its clients train. Methods with equal recipes and networks share one training."""
        return Recipe()

    @property
    def gate(self) -> Gate:
        """How a receiver weighs Local and the Externals on its validation nodes: CNLL."""
        return cnll

    def network(self, model: Model) -> Network:
        """The network its clients train: the shared model, unless the method brings its own."""
        return model

    def share(self, local: Params, graph: Graph, federation: Federation) -> Message:
        """What a trained client sends."""

    def check(self, upload: Message, federation: Federation) -> None:
        """Refuse numbers that no honest client would send; by default, too large to compute with."""
        bounded(upload)

    def merge(self, uploads: Uploads, federation: Federation) -> Iterable[Message]:
        """One return for each upload, in order."""

    def adopt(
        self, local: Params, returned: Message, graph: Graph, federation: Federation
    ) -> Sequence[External]:
        """The models that a receiver makes of its return: by default Local, with what came back.

        Where they have seen every label, also a Local and each of them as they are without some: weights
        are chosen on the `held_out` nodes of these, and their mean by nodes is used.
        """
        return [External({**local, **returned})]

    def explain(self, uploads: Uploads, federation: Federation) -> Explanation:
        """What an upload, or the sum of several, holds and tells; sentences are about the first."""
        return Explanation(
            {name: tensor_sentence(name, self.tensors) for name in next(iter(uploads), {})},
            reading=lambda: self.reading(uploads, federation),
            weights=lambda: self.weights(uploads, federation),
        )

    def reading(self, uploads: Uploads, federation: Federation) -> Reading:
        """By default the mean of the models that are sent, W_0 in place of what is not."""
        start = federation.start
        sent = [{**start, **upload} for upload in uploads if start.keys() & upload.keys()]
        if not sent:
            return Reading()
        means = {name: torch.stack([model[name] for model in sent]).mean(0) for name in start}
        return Reading(External(means))

    def weights(self, uploads: Uploads, federation: Federation) -> list[Weight]:
        """By default the norm of each model that is sent whole."""
        start = federation.start
        weights = [
            Weight(norm=norm(subtract(start, upload)) if start.keys() <= upload.keys() else None)
            for upload in uploads
        ]
        return weights or [Weight()] * len(uploads)  # empty messages are not iterated over


@runtime_checkable
class ClosedForm(Method, Protocol):
    """A method whose models are regressions on rows, so that rows are all it reads of a graph."""

    strengths: tuple[float, ...]
    """λ of the regressions."""

    def row_columns(self, federation: Federation) -> Mapping[str, int]:
        """Its maps of a graph to rows, with how many columns each has."""

    def local_columns(self) -> Mapping[str, str]:
        """By what they were fitted on, the columns of Local's logits that a table of rows may bring."""

    def rows_of(self, graph: Graph, nodes: Tensor, federation: Federation) -> Mapping[str, Tensor]:
        """The rows of some nodes by each map of `row_columns`."""

    def fit_rows(self, graph: Graph, federation: Federation) -> Params:
        """A Local model of a table of rows; nothing where the table brings its logits."""

    def local_logits(self, local: Params, graph: Graph, fit: str, federation: Federation) -> Tensor:
        """What Local says of every node; `fit` is one of `local_columns`."""

    def blank_return(self, federation: Federation) -> Message:
        """A return that says nothing, made without an upload, which may be ten times the model."""

    def site_sums(self, uploads: Uploads, federation: Federation) -> Mapping[str, SiteSums]:
        """By map, what each site adds to a regression that the server solves, if it does."""
        return {}


class Summable(Method):
    """A method whose server needs no more than a sum over clients, and gives all the same answer.

    It writes `share`, `statistic_of` and `answer`; a subclass that needs more says so in `needs`.
    """

    needs: ClassVar[str] = ""
    sums_reveal: ClassVar[str] = ""
    """What the sum over all clients tells of one, even where no upload can be read."""

    @abstractmethod
    def statistic_of(self, upload: Message, federation: Federation) -> Message:
        """What a client that would share this upload adds to the sum, in float64."""

    def total(self, uploads: Uploads, federation: Federation) -> Message:
        """The sum of all clients' statistics, added up in their order."""
        return reduce(add, (self.statistic_of(upload, federation) for upload in uploads))

    def check_total(self, total: Message, clients: int, federation: Federation) -> None:
        """Refuse a sum that no honest clients' statistics have, as far as a sum shows it."""

    @abstractmethod
    def answer(self, total: Message, federation: Federation) -> Message:
        """From the sum alone, the same for every client."""

    def personal(self, answer: Message, local: Params, federation: Federation) -> Message:
        """The return to one client, which the client can make of the answer by itself."""
        return answer

    def merge(self, uploads: Uploads, federation: Federation) -> Iterable[Message]:
        answer = self.answer(self.total(uploads, federation), federation)
        return (answer for _ in range(len(uploads)))
