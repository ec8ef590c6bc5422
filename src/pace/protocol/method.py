"""What a one-round method is."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from torch import Tensor

from pace.gates.cnll import calibrate
from pace.gates.mixture import Weights
from pace.graph import Graph
from pace.models.base import Model, Network
from pace.params import Params
from pace.protocol.number_formats import KINDS
from pace.training.recipe import Recipe

if TYPE_CHECKING:
    from pace.protocol.federation import Federation

Message = Mapping[str, Tensor]  # all that any method sends, either way
Gate = Callable[[Tensor, Tensor, Tensor], float]  # (Local logits, External logits, labels) -> alpha


class Method(Protocol):
    """A one-round method. A client trains by `recipe`, then shares and later adopts; the server merges.

    A method is a frozen dataclass that inherits from this class: its settings are its fields, and
    it has no state. Some parts have defaults; `share`, `merge` and `adopt` are its own.
    """

    @property
    def recipe(self) -> Recipe:
        """How its clients train. Methods with equal recipes and networks share one training."""
        return Recipe()

    @property
    def gate(self) -> Gate:
        """How a receiver chooses alpha from Local logits, External logits and labels: CNLL."""
        return calibrate

    @property
    def promises(self) -> bool:
        """Whether Local stays where the gate's weights would raise validation NLL (`gates.promise`)."""
        return True

    @property
    def numbers(self) -> str:
        """How its messages are written where nobody says otherwise: exactly."""
        return KINDS[0]

    def network(self, model: Model) -> Network:
        """The network its clients train: the shared model, unless the method brings its own."""
        return model

    def share(self, local: Params, graph: Graph, federation: Federation) -> Message:
        """What a trained client sends."""
        ...

    def check(self, upload: Message, federation: Federation) -> None:
        """Refuse an upload of the agreed shapes whose numbers no honest client would send."""
        return

    def merge(self, uploads: Uploads, federation: Federation) -> Iterable[Message]:
        """One return for each upload, in order."""
        ...

    def adopt(self, local: Params, returned: Message, federation: Federation) -> Params:
        """The External model: parameters of the same network."""
        ...

    def externals(
        self, local: Params, returned: Message, federation: Federation
    ) -> tuple[Params, ...]:
        """All External models, for a method that returns more than one."""
        return (self.adopt(local, returned, federation),)

    def weigh(self, sets: Sequence[Tensor], labels: Tensor) -> Weights:
        """A weight for each set of validation logits, Local's and the Externals': by the gate."""
        alpha = self.gate(sets[0], sets[1], labels)
        return 1 - alpha, alpha


class Uploads(Protocol):
    """The uploads of a federation, read as often as a method likes and never held all at once."""

    def __iter__(self) -> Iterator[Message]: ...
    def __len__(self) -> int: ...
