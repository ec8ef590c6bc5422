"""A perceptron that looks at no edge: what the edges are worth is what the others gain over it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from pace.models.layers import Layer, Layered, Linear


@dataclass(frozen=True)
class MLP(Layered):
    """H_l+1 = ReLU(H_l W_l^T + 1 b_l^T), logits last; PyG's `MLP` without normalisation."""

    title: ClassVar[str] = "perceptron that reads no edge"
    reads_weights: ClassVar[bool] = True  # it reads no edge at all

    def layer(self, number: int, fan_in: int, fan_out: int) -> tuple[Layer, ...]:
        return (Layer((Linear(f"{number}.linear", fan_in, fan_out, travels=False),)),)
