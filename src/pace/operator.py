"""A constant matrix in the form in which multiplying by it is fastest."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from scipy import sparse
from torch import Tensor

SPARSE_BELOW = 0.25  # share of non-zeros under which CSR products beat dense ones on one core


@dataclass(frozen=True, eq=False)
class Operator:
    """A constant A, dense or CSR, with `A @ H` differentiable in H.

    The gradient needs A^T G. Autograd would transpose a sparse A anew at every step; the operator
    transposes once and keeps the result.
    """

    matrix: Tensor  # (rows, columns), strided or CSR

    @classmethod
    def of(cls, matrix: Tensor | sparse.csr_array) -> Operator:
        """Keep `matrix` dense or sparse by its measured density."""
        if isinstance(matrix, Tensor):
            if matrix.is_sparse_csr or density(matrix) >= SPARSE_BELOW:
                return cls(matrix)
            matrix = sparse.csr_array(matrix.numpy())
        if matrix.nnz >= SPARSE_BELOW * max(1, matrix.shape[0] * matrix.shape[1]):
            return cls(torch.from_numpy(matrix.toarray()))
        return cls(csr_tensor(matrix))

    @property
    def shape(self) -> torch.Size:
        return self.matrix.shape

    @cached_property
    def transposed(self) -> Tensor:
        if not self.is_sparse:
            return self.matrix.t()
        return csr_tensor(csr_array(self.matrix).T.tocsr()).to(self.matrix.device)

    def to(self, device: torch.device | str) -> Operator:
        return Operator(self.matrix.to(device))

    def __matmul__(self, dense: Tensor) -> Tensor:
        product: Tensor = _Product.apply(dense, self)  # type: ignore[no-untyped-call]
        return product

    @property
    def is_sparse(self) -> bool:
        return self.matrix.layout != torch.strided

    def rows(self, chosen: Tensor) -> Operator:
        """The operator with the chosen rows only (a mask or indices)."""
        if not self.is_sparse:
            return Operator(self.matrix[chosen])
        part = csr_array(self.matrix)[chosen.cpu().numpy()]
        return Operator(csr_tensor(part).to(self.matrix.device))

    def __getitem__(self, chosen: Tensor) -> Tensor:
        """The chosen rows, dense."""
        matrix = self.rows(chosen).matrix
        return matrix.to_dense() if self.is_sparse else matrix


class _Product(torch.autograd.Function):
    """A H forward, A^T G backward."""

    @staticmethod
    def forward(ctx: Any, dense: Tensor, operator: Operator) -> Tensor:
        ctx.operator = operator
        return operator.matrix @ dense

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        return ctx.operator.transposed @ gradient, None


def density(matrix: Tensor) -> float:
    """The share of entries that are not zero."""
    return int(torch.count_nonzero(matrix)) / max(1, matrix.numel())


def csr_tensor(matrix: sparse.csr_array) -> Tensor:
    """The same matrix for torch. Its announcement that CSR is in beta is not news to a user."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Sparse CSR tensor support is in beta state")
        return torch.sparse_csr_tensor(
            torch.from_numpy(matrix.indptr.astype(np.int64)),
            torch.from_numpy(matrix.indices.astype(np.int64)),
            torch.from_numpy(matrix.data),
            size=matrix.shape,
            check_invariants=False,
        )


def csr_array(matrix: Tensor) -> sparse.csr_array:
    """A CSR tensor for SciPy."""
    parts = (matrix.values(), matrix.col_indices(), matrix.crow_indices())
    rows, columns = matrix.shape
    return sparse.csr_array(tuple(part.cpu().numpy() for part in parts), shape=(rows, columns))
