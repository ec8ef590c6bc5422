"""PACE against backdoors: a correction goes as far as the receiver's own nodes bear it out."""

from dataclasses import dataclass

import torch

from pace.graph import Graph
from pace.merging.correction import column_factors, seen
from pace.methods.pace import Pace
from pace.params import Params
from pace.protocol.federation import Federation
from pace.protocol.method import External, Message

ROUNDING = 1e-6  # of a column: a shorter change is float32's


@dataclass(frozen=True)
class Limited(Pace):
    """PACE whose correction goes as far as the receiver's own nodes bear it out.

    PACE's messages; the receiver shortens columns of the weights that read its features.

    See `pace.merging.correction`. What hidden layers read is every node's, so their columns stay.
    """

    def adopt(
        self, local: Params, returned: Message, graph: Graph, federation: Federation
    ) -> list[External]:
        (whole,) = super().adopt(local, returned, graph, federation)
        with torch.no_grad():
            inputs = federation.network(local, graph).inputs
        limited = dict(whole.params)
        for name, rows in inputs.items():
            on_validation = rows[graph.val]
            if on_validation.shape[-1] == graph.features == local[name].shape[1]:
                correction = limited[name] - local[name]
                moved = correction.norm(dim=0) > ROUNDING * local[name].norm(dim=0)
                correction = correction * moved  # or rounding would count in the median column
                factors = column_factors(correction, seen(on_validation))
                limited[name] = local[name] + correction * factors.to(correction.dtype)
        return [External(limited, returned=whole.params)]
