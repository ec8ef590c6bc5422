"""Local: independent training, nothing exchanged."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from pace.gates.gate import Gate, keep_local
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

    @property
    def gate(self) -> Gate:
        return keep_local
