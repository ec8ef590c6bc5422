"""A summable method whose server sees sums only: uploads are ring elements under masks that cancel.

A client adds to its statistic what `jobs.sealing` draws from the secrets it shares with each of the
others. What the server holds of fewer than all clients is noise; the sum of all is the sum of their
statistics. The answer is the same for everybody, and a receiver makes its own return of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

import torch
from torch import Tensor

from pace.errors import NumberError, SealError, SettingError, TooFewError
from pace.gates.mixture import Weights
from pace.graph import Graph
from pace.models.base import Model, Network
from pace.params import Params
from pace.protocol import ring
from pace.protocol.method import Gate, Message, Method, Summable, Uploads
from pace.protocol.ring import Ring
from pace.training.recipe import Recipe

if TYPE_CHECKING:
    from pace.protocol.federation import Federation

Seal = Callable[[Ring], Ring]  # adds this client's masks

ONE = "one"  # of each client: their sum tells whether all masks have cancelled
LEAST = 3  # clients; of the sum of two, each knows the other's part


def check_sealable(method: Method, name: str) -> None:
    """Refuse a method that needs more than a sum, with the reason."""
    if not isinstance(method, Summable) or method.needs:
        raise SettingError(
            f"{name} cannot be sealed: {method.needs}, and a sealed server sees sums only; choose a "
            "method such as pace or fedavg, or do not seal"
        )


@dataclass(frozen=True)
class Sealed(Method):
    """`method` for exactly so many clients, whose statistics only come to light added up."""

    needs: ClassVar[str] = "it is sealed already"

    method: Method
    clients: int

    def __post_init__(self) -> None:
        check_sealable(self.method, type(self.method).__name__)
        if self.clients < LEAST:
            raise SettingError(
                f"{self.clients} participants cannot be sealed, expected {LEAST} or more: each of "
                "two knows its own part of their sum, so also the other's"
            )

    @property
    def summable(self) -> Summable:
        assert isinstance(self.method, Summable)  # see `__post_init__`
        return self.method

    @property
    def recipe(self) -> Recipe:
        return self.method.recipe

    @property
    def gate(self) -> Gate:
        return self.method.gate

    @property
    def promises(self) -> bool:
        return self.method.promises

    @property
    def numbers(self) -> str:
        return self.method.numbers

    def network(self, model: Model) -> Network:
        return self.method.network(model)

    def check(self, upload: Message, federation: Federation) -> None:
        """Under its masks an upload is any ring elements; what can be checked is checked on the sum."""

    def share(self, local: Params, graph: Graph, federation: Federation) -> Message:
        """The statistic, before it is masked."""
        one = torch.ones(1, dtype=torch.float64)
        return {**self.summable.statistic(local, graph, federation), ONE: one}

    def in_ring(self, message: Message) -> Ring:
        """A statistic as elements of the ring, if the sum of all will fit."""
        for name, value in message.items():
            if (highest := float(value.abs().max())) * self.clients >= ring.LIMIT:
                raise NumberError(
                    f"{name!r} goes up to {highest:.3g}: the sum of {self.clients} such numbers "
                    f"may exceed {ring.LIMIT:.3g} and cannot be sealed"
                )
        return ring.from_numbers(message)

    def merge(self, uploads: Uploads, federation: Federation) -> Iterable[Message]:
        """The same answer for everybody, from a sum of one model's size."""
        if len(uploads) != self.clients:
            raise TooFewError(
                f"{len(uploads)} of {self.clients} sealed uploads are here: they can be opened all "
                "together or not at all"
            )
        sums: dict[str, Ring] = {}
        for batch in uploads.batches():
            for name, words in batch.items():
                part = ring.from_words(words).total()
                sums[name] = sums[name] + part if name in sums else part
        answer = self.answer({name: total.numbers() for name, total in sums.items()}, federation)
        return (answer for _ in range(self.clients))

    def answer(self, total: Message, federation: Federation) -> Message:
        """Of a sum that is checked as far as a sum can be."""
        if float(total[ONE]) != self.clients:
            raise SealError(
                "the masks of the sealed uploads do not cancel, so nothing can be read: somebody "
                "sealed with another key or for another job; make a new job"
            )
        self.summable.check_total(total, self.clients, federation)
        return self.answer_to(total, federation)

    def answer_to(self, total: Message, federation: Federation) -> Message:
        """What follows from a sum, whatever it is."""
        statistics = {name: value for name, value in total.items() if name != ONE}
        return self.summable.answer(statistics, federation)

    def adopt(self, local: Params, returned: Message, federation: Federation) -> Params:
        own = self.summable.personal(returned, local, federation)
        return self.method.adopt(local, own, federation)

    def externals(
        self, local: Params, returned: Message, graph: Graph, federation: Federation
    ) -> tuple[Params, ...]:
        own = self.summable.personal(returned, local, federation)
        return self.method.externals(local, own, graph, federation)

    def logits(self, external: Params, graph: Graph, federation: Federation) -> Tensor:
        return self.method.logits(external, graph, federation)

    @property
    def parts(self) -> tuple[str, ...]:
        return self.method.parts

    def probe(self, federation: Federation) -> Method:
        return replace(self, method=self.method.probe(federation))

    def weigh(self, sets: Sequence[Tensor], labels: Tensor) -> Weights:
        return self.method.weigh(sets, labels)
