"""The constants of many clients as one operator, padded with zeros to the largest of them.

It acts on tensors (clients, seeds, rows, width). Padding meets only zeros, so no client sees another.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from scipy import sparse
from torch import Tensor

from pace.operator import Operator, Product, csr_array, csr_tensor, multiply

SPARSE_BELOW = 0.04  # share of non-zeros under which CSR products beat dense ones on a GPU


@dataclass(frozen=True, eq=False)
class Blocks:
    """A_1, ..., A_K, each acting on its own client."""

    matrix: Tensor  # (K, rows, columns), or CSR (K rows, K columns) with the A_k on the diagonal
    clients: int

    @classmethod
    def dense(cls, parts: Sequence[Operator | Product]) -> Blocks:
        """Multiplied out."""
        padded = torch.zeros(len(parts), *tallest(parts))
        for block, part in zip(padded, parts, strict=True):
            block[: part.shape[0], : part.shape[1]] = part[torch.arange(part.shape[0])]
        return cls(padded, len(parts))

    @classmethod
    def sparse(cls, parts: Sequence[Operator]) -> Blocks:
        """On the diagonal of one CSR matrix."""
        rows, columns = tallest(parts)
        corners = []
        for matrix in (csr_array(part.matrix) for part in parts):
            ends = np.pad(matrix.indptr, (0, rows - matrix.shape[0]), "edge")
            filled = (matrix.data, matrix.indices, ends)
            corners.append(sparse.csr_array(filled, shape=(rows, columns)))
        return cls(csr_tensor(sparse.block_diag(corners, format="csr")), len(parts))

    @cached_property
    def transposed(self) -> Tensor:
        if self.matrix.layout == torch.strided:
            return self.matrix.mT
        return csr_tensor(csr_array(self.matrix).T.tocsr()).to(self.matrix.device)

    def to(self, device: torch.device | str) -> Blocks:
        moved = Blocks(self.matrix.to(device), self.clients)
        object.__setattr__(moved, "transposed", self.transposed.to(device))
        return moved

    def times(self, factor: float) -> Blocks:
        return Blocks(self.matrix * factor, self.clients)

    def __matmul__(self, dense: Tensor) -> Tensor:
        return self._product(self.matrix, dense)

    def back(self, gradient: Tensor, out: Tensor | None = None) -> Tensor:
        """A_k^T G_k, written to `out` if it is given."""
        return self._product(self.transposed, gradient, out)

    def _product(self, matrix: Tensor, dense: Tensor, out: Tensor | None = None) -> Tensor:
        """All seeds in one product, side by side: memory goes (clients, rows, seeds, width)."""
        _, seeds, rows, width = dense.shape
        beside = dense.transpose(1, 2).reshape(self.clients, rows, seeds * width)
        flat = None if out is None else out.transpose(1, 2).flatten(2)  # a view, as `out` lies so
        if matrix.layout == torch.strided:
            product = torch.bmm(matrix, beside, out=flat)
        else:
            flat = None if flat is None else flat.flatten(0, 1)
            product = multiply(matrix, beside.flatten(0, 1), flat)
        return product.view(self.clients, -1, seeds, width).transpose(1, 2)


@dataclass(frozen=True, eq=False)
class Chain:
    """A_k B_k, applied one after the other."""

    left: Blocks
    right: Blocks

    def to(self, device: torch.device | str) -> Chain:
        return Chain(self.left.to(device), self.right.to(device))

    def times(self, factor: float) -> Chain:
        return Chain(self.left.times(factor), self.right)

    def __matmul__(self, dense: Tensor) -> Tensor:
        return self.left @ (self.right @ dense)

    def back(self, gradient: Tensor, out: Tensor | None = None) -> Tensor:
        return self.right.back(self.left.back(gradient), out)


def together(parts: Sequence[Operator | Product]) -> Blocks | Chain:
    """The clients' operators as one: in sparse factors if all have them and they are few enough."""
    rows, columns = tallest(parts)
    few = SPARSE_BELOW * len(parts) * rows * columns
    factors = [part for part in parts if isinstance(part, Product)]
    singles = [part for part in parts if isinstance(part, Operator) and part.is_sparse]
    if len(factors) == len(parts):
        lefts, rights = [part.left for part in factors], [part.right for part in factors]
        if entries(lefts) + entries(rights) < few:
            return Chain(Blocks.sparse(lefts), Blocks.sparse(rights))
    if len(singles) == len(parts) and entries(singles) < few:
        return Blocks.sparse(singles)
    return Blocks.dense(parts)


def tallest(parts: Sequence[Operator | Product]) -> tuple[int, int]:
    """The rows and columns that hold every part."""
    return max(part.shape[0] for part in parts), max(part.shape[1] for part in parts)


def entries(parts: Sequence[Operator]) -> int:
    return sum(part.matrix.values().numel() for part in parts)
