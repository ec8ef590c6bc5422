"""Local: independent training, nothing exchanged."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from pace.gates.mixture import Weights, local_alone
from pace.graph import Graph
from pace.params import Params
from pace.protocol.federation import Federation
from pace.protocol.method import Message, Method, Uploads


@dataclass(frozen=True)
class Local(Method):
    """Every client trains alone and nothing is sent.

    Every message is empty and the External model is the Local one.
    """

    needs: ClassVar[str] = "nothing is sent"

    def share(self, local: Params, graph: Graph, federation: Federation) -> Message:
        return {}

    def merge(self, uploads: Uploads, federation: Federation) -> Iterator[Message]:
        return ({} for _ in range(len(uploads)))

    def adopt(self, local: Params, returned: Message, federation: Federation) -> Params:
        return local

    def weigh(self, sets: Sequence[Tensor], labels: Tensor) -> Weights:
        return local_alone(sets)
