"""The constants of many clients as one operator, padded with zeros to the largest of them.

It acts on tensors (clients, seeds, rows, width). Padding meets only zeros, so no client sees another.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cache, cached_property
from importlib.util import find_spec
from types import ModuleType
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import pad


@cache
def own_kernels(device: str) -> ModuleType | None:
    """`pace.training.gpu.kernels` where Triton can compile them, or is told to interpret them."""
    modern = device == "cuda" and torch.cuda.get_device_capability() >= (8, 0)  # has bfloat16
    wanted = modern or os.environ.get("TRITON_INTERPRET") == "1"
    if not wanted or find_spec("triton") is None:
        return None
    from pace.training.gpu import kernels

    return kernels


@dataclass(frozen=True, eq=False)
class Sparse:
    """A matrix by its rows (CSR), wherever it is: each row of a product is summed in one order."""

    starts: Tensor  # (rows + 1,) where the entries of each row begin
    columns: Tensor  # (entries,)
    values: Tensor  # (entries,)
    shape: tuple[int, int]

    @classmethod
    def of(cls, rows: Tensor, columns: Tensor, values: Tensor, shape: tuple[int, int]) -> Sparse:
        """From entries in order of their rows."""
        narrow = torch.int32 if max(len(values), *shape) < 2**31 else torch.int64
        starts = torch.zeros(shape[0] + 1, dtype=narrow, device=values.device)
        starts[1:] = torch.bincount(rows, minlength=shape[0]).cumsum(0)
        return cls(starts, columns.to(narrow), values, shape)

    @property
    def lengths(self) -> Tensor:
        return self.starts.diff()

    @property
    def rows(self) -> Tensor:
        """The row of each entry."""
        return torch.repeat_interleave(self.lengths)

    @cached_property
    def order(self) -> Tensor:
        """The rows, longest first, so that none is left to the end."""
        return self.lengths.argsort(descending=True, stable=True).to(self.starts.dtype)

    @cached_property
    def filled(self) -> int:
        """How many rows have entries."""
        return int(self.lengths.count_nonzero())

    @cached_property
    def transposed(self) -> Sparse:
        order = self.columns.argsort(stable=True)
        rows, columns = self.columns[order], self.rows[order]
        return Sparse.of(rows, columns, self.values[order], (self.shape[1], self.shape[0]))

    def times(self, factor: float) -> Sparse:
        return Sparse(self.starts, self.columns, self.values * factor, self.shape)

    def __matmul__(self, dense: Tensor) -> Tensor:
        """The product with (columns, width)."""
        dense = dense.contiguous()
        kernels = own_kernels(dense.device.type)
        if kernels is not None:
            out = dense.new_empty(self.shape[0], dense.shape[1])
            product: Tensor = kernels.rows(self, dense, out)
            return product
        # cuSPARSE is faster, but its sums vary from run to run.
        return torch.nn.functional.embedding_bag(
            self.columns,
            dense,
            self.starts,
            mode="sum",
            per_sample_weights=self.values,
            include_last_offset=True,
        )


@dataclass(frozen=True, eq=False)
class Split:
    """Dense matrices for tensor cores: three bfloat16 parts hold what a float32 does."""

    parts: Tensor  # (3, K, rows, columns padded to a multiple of 16)
    columns: int

    @classmethod
    def of(cls, matrix: Tensor) -> Split:
        """Of (K, rows, columns), where there are kernels."""
        columns = matrix.shape[2]
        padded = pad(matrix, (0, -columns % 16))
        kernels: Any = own_kernels(matrix.device.type)
        return cls(kernels.split(padded), columns)

    def times(self, dense: Tensor, out: Tensor | None = None, *, transposed: bool) -> Tensor:
        """A_k H_k or A_k^T H_k."""
        _, clients, rows, _ = self.parts.shape
        if out is None:
            out = dense.new_empty(clients, self.columns if transposed else rows, dense.shape[2])
        kernels: Any = own_kernels(dense.device.type)
        product: Tensor = kernels.product(self.parts, self.columns, dense, out, transposed)
        return product


@dataclass(frozen=True, eq=False)
class Blocks:
    """A_1, ..., A_K, each acting on its own client."""

    # (K, rows, columns), in parts or not; or (K rows, K columns) with the A_k on the diagonal
    matrix: Tensor | Split | Sparse
    clients: int

    def __matmul__(self, dense: Tensor) -> Tensor:
        """A_k H_k."""
        return apart(self._product(beside(dense), transposed=False), dense.shape[1])

    def back(self, gradient: Tensor, out: Tensor | None = None) -> Tensor:
        """A_k^T G_k, written to `out` if it is given."""
        # A view, if `out` lies so that one product serves all seeds.
        flat = None if out is None else beside(out)
        product = self._product(beside(gradient), flat, transposed=True)
        return apart(product, gradient.shape[1]) if out is None else out

    def _product(self, dense: Tensor, out: Tensor | None = None, *, transposed: bool) -> Tensor:
        """For (K, rows, seeds × width)."""
        if isinstance(self.matrix, Tensor):
            return torch.bmm(self.matrix.mT if transposed else self.matrix, dense, out=out)
        if isinstance(self.matrix, Split):
            return self.matrix.times(dense, out, transposed=transposed)
        matrix = self.matrix.transposed if transposed else self.matrix
        product = (matrix @ dense.flatten(0, 1)).unflatten(0, (self.clients, -1))
        return product if out is None else out.copy_(product)


@dataclass(frozen=True, eq=False)
class Chain:
    """A_k B_k, applied one after the other."""

    left: Blocks
    right: Blocks

    def __matmul__(self, dense: Tensor) -> Tensor:
        return self.left @ (self.right @ dense)

    def back(self, gradient: Tensor, out: Tensor | None = None) -> Tensor:
        return self.right.back(self.left.back(gradient), out)


def beside(dense: Tensor) -> Tensor:
    """(clients, seeds, rows, width) with the seeds of a row next to each other: one product for all."""
    return dense.transpose(1, 2).flatten(2)


def apart(product: Tensor, seeds: int) -> Tensor:
    """The same back, by seeds."""
    clients, rows, _ = product.shape
    return product.view(clients, rows, seeds, -1).transpose(1, 2)
