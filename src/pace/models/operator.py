"""A constant matrix in the form in which multiplying by it is fastest."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from scipy import sparse
from torch import Tensor

# Some versions of torch warn unless this is set; the matrices here come from SciPy.
torch.sparse.check_sparse_tensor_invariants.disable()
SPARSE_BELOW = 0.25  # share of non-zeros under which CSR products beat dense ones on one core
Multiply = Callable[..., Tensor]  # (dense, out=None): a constant times a dense matrix


@dataclass(frozen=True, eq=False)
class Operator:
    """A constant A, dense or CSR, `A @ H` differentiable in H; a sparse A is transposed only once."""

    matrix: Tensor  # (rows, columns), strided or CSR

    @classmethod
    def of(cls, matrix: Tensor) -> Operator:
        """Keep a dense matrix, or make it sparse, by its measured density."""
        if density(matrix) >= SPARSE_BELOW:
            return cls(matrix)
        values = matrix.numpy()
        entries = values != 0  # a third of SciPy's time, which goes by way of coordinates
        starts = np.concatenate([[0], entries.sum(1).cumsum()])
        columns = np.flatnonzero(entries) % values.shape[1]
        parts = (values[entries], columns, starts)
        return cls(csr_tensor(sparse.csr_array(parts, shape=values.shape)))

    @property
    def shape(self) -> torch.Size:
        return self.matrix.shape

    @property
    def is_sparse(self) -> bool:
        return self.matrix.layout != torch.strided

    def to(self, device: torch.device | str) -> Operator:
        return Operator(self.matrix.to(device))

    def times(self, factor: float) -> Operator:
        return Operator(self.matrix * factor)

    def __matmul__(self, dense: Tensor) -> Tensor:
        return linear_map(dense, self._forward, self.back)

    @cached_property
    def _forward(self) -> Multiply:
        return multiplier(self.matrix)

    @cached_property
    def back(self) -> Multiply:
        """A^T G of G, written to `out` if it is given."""
        if not self.is_sparse:
            return multiplier(self.matrix.t())
        return multiplier(self._beside(csr_array(self.matrix).T.tocsr()).matrix)

    def block(self, nodes: Any) -> Any:
        """The rows of some nodes (an array), sparse."""
        return csr_array(self.matrix)[nodes]

    def rows(self, chosen: Tensor) -> Operator:
        """The operator with the chosen rows only (a mask or indices)."""
        if not self.is_sparse:
            return Operator(self.matrix[chosen])
        return self._beside(csr_array(self.matrix)[chosen.cpu().numpy()])

    def columns(self, chosen: Tensor) -> Operator:
        """The operator with the chosen columns only."""
        if not self.is_sparse:
            return Operator(self.matrix[:, chosen])
        return self._beside(csr_array(self.matrix)[:, chosen.cpu().numpy()].tocsr())

    def _beside(self, matrix: sparse.csr_array) -> Operator:
        """Another sparse matrix on the same device."""
        return Operator(csr_tensor(matrix)).to(self.matrix.device)

    @property
    def active(self) -> Tensor:
        """The columns that are not all zero; of a dense matrix, all."""
        if not self.is_sparse:
            return torch.arange(self.shape[1], device=self.matrix.device)
        columns: Tensor = torch.unique(self.matrix.col_indices())
        return columns.long()

    def __getitem__(self, chosen: Tensor) -> Tensor:
        """The chosen rows, dense."""
        return self.rows(chosen).matrix.to_dense()


@dataclass(frozen=True, eq=False)
class Product:
    """A B for sparse A and B, applied one after the other: P X has five times its factors' entries."""

    left: Operator
    right: Operator

    @property
    def shape(self) -> torch.Size:
        return torch.Size((self.left.shape[0], self.right.shape[1]))

    def to(self, device: torch.device | str) -> Product:
        return Product(self.left.to(device), self.right.to(device))

    def __matmul__(self, dense: Tensor) -> Tensor:
        return self.left @ (self.right @ dense)

    def back(self, gradient: Tensor, out: Tensor | None = None) -> Tensor:
        return self.right.back(self.left.back(gradient), out)

    def rows(self, chosen: Tensor) -> Product:
        """The chosen rows of A, and of B the rows that those read."""
        left = self.left.rows(chosen)
        return Product(left.columns(left.active), self.right.rows(left.active))

    def columns(self, chosen: Tensor) -> Product:
        return Product(self.left, self.right.columns(chosen))

    @property
    def active(self) -> Tensor:
        return self.right.active

    def __getitem__(self, chosen: Tensor) -> Tensor:
        """The chosen rows, multiplied out and dense."""
        part = csr_array(self.left.matrix)[chosen.cpu().numpy()] @ csr_array(self.right.matrix)
        return torch.from_numpy(part.toarray()).to(self.left.matrix.device)


class LinearMap(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, dense: Tensor, forward: Any, back: Any) -> Any:
        ctx.back = back
        return forward(dense)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        return ctx.back(gradient), None, None


def linear_map(dense: Tensor, forward: Multiply, back: Multiply) -> Tensor:
    """forward(H), linear in H, whose gradient is back(G)."""
    if not dense.requires_grad:
        return forward(dense)
    product: Tensor = LinearMap.apply(dense, forward, back)  # type: ignore[no-untyped-call]
    return product


def multiplier(matrix: Tensor) -> Multiply:
    """`matrix @ dense` as a function of `dense`, written to `out` if that is given.

    A CSR matrix's product is a weighted sum of rows, Σ_c A_rc H_c, each summed in one order: on a CPU
    2.4 to 3 times as fast as MKL's (64 columns, one core); on a GPU cuSPARSE's order varies. The parts
    are taken once, and torch's functional form is not asked: both take as long as a small product.
    """
    if matrix.layout == torch.strided:
        return lambda dense, out=None: torch.mm(matrix, dense, out=out)
    starts, columns, values = matrix.crow_indices(), matrix.col_indices(), matrix.values()

    def multiply(dense: Tensor, out: Tensor | None = None) -> Tensor:
        rows = dense.contiguous()
        product, *_ = torch.embedding_bag(
            rows, columns, starts, per_sample_weights=values, include_last_offset=True
        )
        return product if out is None else out.copy_(product)

    return multiply


def multiplied(left: Operator, right: Operator) -> Operator | Product:
    """left · right, multiplied out and dense only where that beats the two factors in CSR."""
    entries = sum(len(part.matrix.values()) for part in (left, right) if part.is_sparse)
    if right.is_sparse and entries < SPARSE_BELOW * left.shape[0] * right.shape[1]:
        return Product(left, right)
    dense = csr_array(left.matrix) @ right.matrix.to_dense().cpu().numpy()
    return Operator(torch.from_numpy(dense).to(left.matrix.device))


def density(matrix: Tensor) -> float:
    """The share of entries that are not zero."""
    return int(torch.count_nonzero(matrix)) / max(1, matrix.numel())


def csr_tensor(matrix: sparse.csr_array) -> Tensor:
    """The same matrix for torch, with the 32-bit indices that MKL reads without converting them."""
    narrow = np.int32 if max(matrix.nnz, *matrix.shape) < 2**31 else np.int64
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Sparse CSR tensor support is in beta state")
        parts = (matrix.indptr.astype(narrow), matrix.indices.astype(narrow), matrix.data)
        starts, columns, data = map(torch.from_numpy, parts)
        return torch.sparse_csr_tensor(starts, columns, data, matrix.shape, check_invariants=False)


def csr_array(matrix: Tensor) -> sparse.csr_array:
    """A CSR tensor for SciPy."""
    parts = (matrix.values(), matrix.col_indices(), matrix.crow_indices())
    rows, columns = matrix.shape
    return sparse.csr_array(tuple(part.cpu().numpy() for part in parts), shape=(rows, columns))
