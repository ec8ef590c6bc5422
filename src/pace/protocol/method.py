"""What a one-round method is."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import fields
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from torch import Tensor

from pace.gates.cnll import calibrate, calibrate_all
from pace.gates.mixture import Weights
from pace.graph import Graph
from pace.models.base import Model, Network
from pace.params import Params, add
from pace.protocol.bounds import bounded
from pace.protocol.number_formats import KINDS
from pace.protocol.uploads import Message as Message
from pace.protocol.uploads import Uploads as Uploads
from pace.training.recipe import Recipe

if TYPE_CHECKING:
    from pace.protocol.federation import Federation

Gate = Callable[[Tensor, Tensor, Tensor], float]  # (Local logits, External logits, labels) -> alpha


def _in_short(method: Any) -> str:
    """`Pace(rank=6, geometry=propagated, gate=calibrate)`: a function by its name."""
    settings = {field.name: getattr(method, field.name) for field in fields(method)}
    shown = (
        f"{name}={getattr(value, '__name__', repr(value))}" for name, value in settings.items()
    )
    return f"{type(method).__name__}({', '.join(shown)})"


class Method(Protocol):
    """A one-round method. A client trains by `recipe`, then shares and later adopts; the server merges.

    A method is a frozen dataclass that inherits from this class: its settings are its fields, and
    it has no state. Some parts have defaults; `share`, `merge` and `adopt` are its own.
    """

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        cls.__repr__ = _in_short  # type: ignore[method-assign]  # which `dataclass` then leaves alone

    needs: ClassVar[str] = "its server reads every upload"  # why a sum over clients is not enough

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
        """Refuse an upload of the agreed shapes whose numbers no honest client would send.

        By default those that are too large to compute with.
        """
        bounded(upload)

    def caution(self, clients: int) -> str:
        """What to tell people before a federation of so many clients begins, if anything."""
        return ""

    def merge(self, uploads: Uploads, federation: Federation) -> Iterable[Message]:
        """One return for each upload, in order."""
        ...

    def probe(self, federation: Federation) -> Method:
        """A method whose returns look like this one's and that merges one upload at little cost."""
        return self

    def adopt(self, local: Params, returned: Message, federation: Federation) -> Params:
        """The External model: parameters of the same network."""
        ...

    def externals(
        self, local: Params, returned: Message, graph: Graph, federation: Federation
    ) -> tuple[Params, ...]:
        """All External models, for a method that returns more than one, or models of another kind."""
        return (self.adopt(local, returned, federation),)

    def logits(self, external: Params, graph: Graph, federation: Federation) -> Tensor:
        """What an External says of every node, by the same network unless it is of another kind."""
        return federation.network(external, graph).logits

    @property
    def same_network(self) -> bool:
        """Whether its Externals are models of the network that clients train."""
        return type(self).logits is Method.logits

    @property
    def parts(self) -> tuple[str, ...]:
        """What its Externals are called where people read about them, in order."""
        return ("External",)

    def supported(
        self, graph: Graph, local: Params, external: Params, federation: Federation
    ) -> Params:
        """As much of an External as the receiver's own nodes give evidence for: by default, all."""
        return external

    def weigh(self, sets: Sequence[Tensor], labels: Tensor) -> Weights:
        """A weight for each set of validation logits, Local's and the Externals': by the gate."""
        alpha = self.gate(sets[0], sets[1], labels)
        return 1 - alpha, alpha

    def weigh_all(self, receivers: Sequence[tuple[Sequence[Tensor], Tensor]]) -> list[Weights]:
        """`weigh` for many receivers, each with its sets and labels: all at once where the gate can."""
        if type(self).weigh is not Method.weigh or self.gate is not calibrate:
            return [
                self.weigh([each.cpu() for each in sets], labels.cpu())
                for sets, labels in receivers
            ]
        pairs = [(sets[0], sets[1], labels) for sets, labels in receivers]
        return [(1 - alpha, alpha) for alpha in calibrate_all(pairs)]


class Summable(Method):
    """A method whose server needs of its clients no more than a sum, and answers everybody alike.

    It writes `share`, `statistic_of`, `answer` and `adopt`; a subclass that needs more says so in
    `needs`.
    """

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        cls.__repr__ = _in_short  # type: ignore[method-assign]  # which `dataclass` then leaves alone

    needs: ClassVar[str] = ""

    def statistic(self, local: Params, graph: Graph, federation: Federation) -> Message:
        """What a trained client adds to the sum, in float64."""
        return self.statistic_of(self.share(local, graph, federation), federation)

    @abstractmethod
    def statistic_of(self, upload: Message, federation: Federation) -> Message:
        """The same from what the client shares where the server may see it."""
        ...

    def total(self, uploads: Uploads, federation: Federation) -> Message:
        """The sum of all clients' statistics, added up in their order."""
        total: Message = {}
        for upload in uploads:
            statistic = self.statistic_of(upload, federation)
            total = add(total, statistic) if total else statistic
        return total

    def check_total(self, total: Message, clients: int, federation: Federation) -> None:
        """Refuse a sum that no honest clients' statistics have, as far as a sum shows it."""
        return

    @abstractmethod
    def answer(self, total: Message, federation: Federation) -> Message:
        """From the sum alone, the same for everybody."""
        ...

    def personal(self, answer: Message, local: Params, federation: Federation) -> Message:
        """The return to one client, which the client can make of the answer by itself."""
        return answer

    def merge(self, uploads: Uploads, federation: Federation) -> Iterable[Message]:
        answer = self.answer(self.total(uploads, federation), federation)
        return (answer for _ in range(len(uploads)))
