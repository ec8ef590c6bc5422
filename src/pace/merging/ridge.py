"""Ridge regression on all clients' training rows, from what each sends of its own. Not in the paper.

    G = Σ_v h_v h_vᵀ,   B = Σ_v h_v y_vᵀ,   W_λ = (G + λI)⁻¹ B      over all clients' training nodes v

h_v is a row of length one (`models.unit_rows`), y_v its class as a unit vector. G and B are sums over
clients: W_λ does not depend on how the nodes were divided. G has d² numbers, and two smaller things
stand in for it:

    factored   a few rows of each client, Z = QH and M = QY:  G ≈ ZᵀZ,  B ≈ ZᵀM,  over the stacked rows
    summed     S = GΩ for a public random Ω (d × 64), and B:   G ≈ S (ΩᵀS)⁺ Sᵀ,    exact for small d
"""

from collections.abc import Sequence
from typing import Self

import torch
from torch import Tensor
from torch.nn.functional import pad

SKETCH = 64  # columns of Ω
BLOCK = 96  # columns of a kernel at a time
BLOCK_ROWS = 8192  # rows that are multiplied together
ROWS_HELD = 4  # times the columns of [H, Y]: as many rows in float32 take twice the memory of AᵀA
FULL = 1024  # short side up to which eigenvectors are computed in full
KRYLOV = 8  # blocks of a Krylov space
PULL = 1.0  # γ: how strongly the classes decide which rows stand for all
USUAL = 0.9  # share of the rows that move no further without any one group of clients
SMALLEST_EIGENVALUE = 1e-7  # of a sketch's core, against its largest: below it is rounding


class Gram:
    """Rows H and their classes Y, given in blocks, in no more memory than AᵀA takes, A = [H, √γY].

    The rows themselves are held while they are few; from then on AᵀA is added up in float64: for n
    rows of d columns n (d + classes)² operations, and memory (d + classes)² and a block. Rows of a
    class that has fewer than `smallest` wait apart: `condensed` leaves them out.
    """

    def __init__(self, columns: int, classes: int, smallest: int = 1) -> None:
        self.columns, self.smallest = columns, smallest
        self.most = ROWS_HELD * (columns + classes)
        self.counts = torch.zeros(classes, dtype=torch.int64)
        self.products: Tensor | None = None
        self.waiting: list[tuple[Tensor, Tensor]] = []

    def add(self, rows: Tensor, labels: Tensor) -> Self:
        """Take in some rows, (n, d), and their classes as unit vectors, (n, classes)."""
        for block, classes in zip(rows.split(BLOCK_ROWS), labels.split(BLOCK_ROWS), strict=True):
            self.waiting.append((block, classes))
            self.counts = self.counts.to(classes.device) + classes.sum(0).long()
            if self.products is not None or int(self.counts.sum()) > self.most:
                self._multiply()
        return self

    def _multiply(self) -> None:
        """AᵀA of the rows that wait and whose class is large enough by now."""
        rows, labels = self.held()
        large = labels[:, self.counts >= self.smallest].any(1)
        products = gram_of(rows[large], labels[large])
        self.products = products if self.products is None else self.products + products
        self.waiting = [(rows[~large], labels[~large])]

    def held(self) -> tuple[Tensor, Tensor]:
        """The rows that are not multiplied, in the order in which they came."""
        if not self.waiting:
            return torch.zeros(0, self.columns), torch.zeros(0, len(self.counts))
        if len(self.waiting) > 1:
            self.waiting = [tuple(map(torch.cat, zip(*self.waiting, strict=True)))]  # type: ignore[list-item]
        return self.waiting[0]

    def condensed(self, most: int, nodes_per_row: int) -> tuple[Tensor, Tensor]:
        """Z and M of `condensed`: at most `most` rows, and one for every `nodes_per_row`."""
        rows, labels = self.held()
        large = self.counts >= self.smallest
        count = min(most, int(self.counts[large].sum()) // nodes_per_row)
        if self.products is None:
            chosen = labels[:, large].any(1)
            sent = condensed(rows[chosen], labels[chosen], count)
        else:
            both = leading_rows(self.products, count)
            sent = both[:, : self.columns], both[:, self.columns :] / PULL**0.5
        return padded(sent, most, rows.dtype)

    def own_residuals(self, answers: Sequence[Tensor], strengths: Sequence[float]) -> list[Tensor]:
        """V of `own_residuals`, on all rows."""
        rows, labels = self.held()
        if self.products is None:
            return own_residuals(rows, labels, answers, strengths)
        products = self.products + gram_of(rows, labels)
        kernel, sums = products[: self.columns].split([self.columns, len(self.counts)], 1)
        centred = (sums - sums.mean(1, keepdim=True)) / PULL**0.5
        return [
            answer + _solved(kernel, strength, centred - kernel @ answer.double()).to(answer.dtype)
            for answer, strength in zip(answers, strengths, strict=True)
        ]


def gram_of(rows: Tensor, labels: Tensor) -> Tensor:
    """AᵀA for A = [H, √γY], in float64."""
    both = torch.cat([rows, PULL**0.5 * labels.to(rows.dtype)], 1).double()
    return both.T @ both


def condensed(
    rows: Tensor, labels: Tensor, count: int, pull: float = PULL
) -> tuple[Tensor, Tensor]:
    """`count` rows Z that stand for H, (n, d), and what is known of their classes Y, one-hot: M.

        Z = QH,  M = QY,   Q the leading eigenvectors of HHᵀ + γYYᵀ, as rows

    Q has orthonormal rows, so G - ZᵀZ = Hᵀ(1 - QᵀQ)H is positive semidefinite: nothing is counted
    twice. γYYᵀ pulls the class indicators into Q; where it holds them, ZᵀM = B exactly.

    With A = [H, √γY] the eigenvectors V of AᵀA give the same rows, QA = diag(σ)Vᵀ. The smaller of AAᵀ
    and AᵀA is decomposed, cubic in min(n, d + classes). Where both are large, Q is the best in a
    block Krylov space, by products with A alone; what is said of Q above holds there too. Rows of Z
    and M are zero where there are fewer than `count` nodes.
    """
    nodes, features = rows.shape
    if not (nodes and count):
        return rows.new_zeros(count, features), rows.new_zeros(count, labels.shape[1])
    if nodes <= min(FULL, features + labels.shape[1]):
        kernel = (rows @ rows.T + pull * labels @ labels.T).double()
        leading = torch.linalg.eigh(kernel).eigenvectors[:, -count:].flip(1).T
        parts = leading.to(rows.dtype) @ rows, leading.to(labels.dtype) @ labels
    else:
        both = torch.cat([rows, pull**0.5 * labels], 1)
        if both.shape[1] <= FULL:
            both = both.double()
            leading = leading_rows(both.T @ both, count)
        else:
            leading = krylov_rows(both, count)
        parts = leading[:, :features], leading[:, features:] / pull**0.5
    return padded(parts, count, rows.dtype)


def padded(parts: Sequence[Tensor], count: int, kind: torch.dtype) -> tuple[Tensor, Tensor]:
    """Z and M with rows of zeros below, up to `count`."""
    first, second = (pad(part, (0, 0, 0, count - len(part))).to(kind) for part in parts)
    return first, second


def leading_rows(products: Tensor, count: int) -> Tensor:
    """diag(σ)Vᵀ with V the leading eigenvectors of AᵀA; above `FULL`, nearly."""
    if len(products) > FULL:
        rows = krylov_rows(products, count)  # of AᵀA itself, diag(σ²)Vᵀ
        return rows / lengths(rows).sqrt().clamp_min(torch.finfo(rows.dtype).tiny)
    squares, vectors = torch.linalg.eigh(products)
    first = max(0, len(vectors) - count)
    leading: Tensor = (vectors * squares.clamp_min(0).sqrt())[:, first:].flip(1).T
    return leading


def krylov_rows(matrix: Tensor, count: int) -> Tensor:
    """QA with Q the Ritz vectors of AAᵀ in the span of AΩ, (AAᵀ)AΩ, …, 2 · count columns each.

    Costs 2 · KRYLOV products of A with a block. For a start that does not change, Ω is drawn from a
    fixed seed.
    """
    fixed = torch.Generator().manual_seed(0)
    start = torch.randn(matrix.shape[1], 2 * count, generator=fixed, dtype=matrix.dtype)
    basis = torch.linalg.qr(matrix @ start).Q
    block = basis
    for _ in range(KRYLOV - 1):
        block = matrix @ (matrix.T @ block)
        for _ in range(2):  # once leaves what rounding puts back
            block = block - basis @ (basis.T @ block)
        block = torch.linalg.qr(block).Q
        basis = torch.cat([basis, block], 1)
    within = basis.T @ matrix
    vectors = torch.linalg.eigh((within @ within.T).double()).eigenvectors[:, -count:].flip(1)
    rows: Tensor = vectors.T.to(matrix.dtype) @ within
    return rows


def solve_rows(rows: Tensor, labels: Tensor, strengths: Sequence[float]) -> Tensor:
    """W_λ = Zᵀ(ZZᵀ + λI)⁻¹M for each λ, (strengths, d, classes), from all clients' stacked rows."""
    kernel = lower_kernel(rows).double()
    labels = labels.double()
    duals = [_solved(kernel, strength, labels) for strength in strengths]
    answers = rows.T @ torch.cat(duals, 1).to(rows.dtype)
    return torch.stack(answers.double().split(labels.shape[1], 1))


def lower_kernel(rows: Tensor) -> Tensor:
    """The lower half of ZZᵀ, which is all that Cholesky reads; above it are blocks of zeros.

    In blocks of columns from the diagonal down: with many rows little more than half of the products
    (60 clients of Cora's shape: 10 ms in place of 16).
    """
    kernel = rows.new_zeros(len(rows), len(rows))
    for first in range(0, len(rows), BLOCK):
        below = rows[first:]
        kernel[first:, first : first + BLOCK] = below @ below[:BLOCK].T
    return kernel


def sketched(rows: Tensor, labels: Tensor, omega: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
    """S = Hᵀ(HΩ), or G itself without Ω, B = HᵀY and tr G of some rows; each adds up, in float64."""
    left = rows if omega is None else rows @ omega.to(rows.dtype)
    both = (rows.T @ torch.cat([left, labels], 1)).double()
    trace = torch.linalg.vector_norm(rows).double().square()
    return both[:, : left.shape[1]], both[:, left.shape[1] :], trace


def public_matrix(features: int, generator: torch.Generator) -> Tensor:
    """Ω, which everybody can draw."""
    return torch.randn(features, SKETCH, generator=generator, dtype=torch.float64)


def solve_gram(gram: Tensor, sums: Tensor, strengths: Sequence[float]) -> Tensor:
    """W_λ = (G + λI)⁻¹B for each λ, from G itself."""
    return torch.stack([_solved(gram, strength, sums) for strength in strengths])


def _solved(matrix: Tensor, strength: float, right: Tensor) -> Tensor:
    """(M + λI)⁻¹ R for a positive definite M, and the pseudo-inverse's where a liar sent another.

    Of M the lower half is read.
    """
    damped = matrix.clone()
    damped.diagonal().add_(strength)
    factor, failed = torch.linalg.cholesky_ex(damped)
    if failed:
        factor = torch.linalg.pinv(damped, hermitian=True)
    answer: Tensor = factor @ right if failed else torch.cholesky_solve(right, factor)
    return answer


def solve_sums(sums: Sequence[Tensor], omega: Tensor | None, strengths: Sequence[float]) -> Tensor:
    """W_λ for each λ from what `sketched` gives, added up over clients: G and B or, with Ω, S, B, tr G.

        G ≈ Σ_i s_i u_i u_iᵀ + τ (I - UUᵀ),   Σ_i s_i u_i u_iᵀ = S (ΩᵀS)⁺ Sᵀ
        W_λ = B / (τ + λ) + U diag( 1 / (s + λ) - 1 / (τ + λ) ) UᵀB

    The sum is Nyström's approximation, never above G. τ is the mean of the eigenvalues it leaves out,
    of which there are as many as rows beyond the sketch: rows have length one, so tr G counts them.
    """
    if omega is None:
        return solve_gram(sums[0], sums[1], strengths)
    sketch, class_sums, trace = sums[0], sums[1], float(sums[2])
    factor = nystrom(sketch, omega)
    squares, inner = torch.linalg.eigh(factor @ factor.T)
    squares = squares.clamp_min(torch.finfo(torch.float64).tiny)
    basis = factor.T @ (inner / squares.sqrt())  # U
    beyond = min(len(sketch), trace) - len(squares)
    tail = max(0.0, trace - float(squares.sum())) / beyond if beyond > 0 else 0.0
    seen = basis.T @ class_sums
    answers = []
    for strength in strengths:
        damped = 1 / (squares + strength) - 1 / (tail + strength)
        answers.append(class_sums / (tail + strength) + basis @ (seen * damped[:, None]))
    return torch.stack(answers)


def nystrom(sketch: Tensor, omega: Tensor) -> Tensor:
    """F with FᵀF = S (ΩᵀS)⁺ Sᵀ, of at most l rows: what a sketch S = GΩ knows of G."""
    core = omega.T @ sketch
    values, vectors = torch.linalg.eigh((core + core.T) / 2)
    kept = values > SMALLEST_EIGENVALUE * values[-1].clamp_min(0)
    factor: Tensor = (vectors[:, kept] / values[kept].sqrt()).T @ sketch.T
    return factor


def compressed(answers: Tensor, rank: int) -> tuple[Tensor, Tensor]:
    """The best rank-`rank` form of [W_λ …], each centred over its classes: basis (rank, d), mixing.

    A constant over the classes changes no prediction, so it is taken out first.
    """
    centred = answers - answers.mean(2, keepdim=True)
    wide = torch.cat(list(centred), 1)  # (d, strengths · classes)
    vectors = torch.linalg.eigh(wide.T @ wide).eigenvectors[:, -rank:].flip(1)
    basis, mixing = wide.new_zeros(rank, len(wide)), wide.new_zeros(rank, wide.shape[1])
    basis[: vectors.shape[1]], mixing[: vectors.shape[1]] = (wide @ vectors).T, vectors.T
    return basis.float(), mixing.float()


def limit_rows(answers: Tensor, without: Sequence[Tensor]) -> Tensor:
    """W, (strengths, d, classes), with no row moved by one group further than rows usually are.

        W_c - max(0, 1 - q / |D_c|) D_c,   D_c = W_c - (W without g)_c,   g the group that moves W_c most

    W_c is the row of feature c, centred over classes, and q the 90 % quantile of all |D_c|, for each λ.
    `without` are the answers without each group of clients. A feature that one group alone ties to a
    class is left with what the others say of it, and q of what that group says.
    """
    centred = answers - answers.mean(-1, keepdim=True)
    most = torch.zeros_like(centred)
    for others in without:
        moved = centred - (others - others.mean(-1, keepdim=True))
        most = torch.where(lengths(moved) > lengths(most), moved, most)
    usual = lengths(most).quantile(USUAL, dim=1, keepdim=True)
    excess = (1 - usual / lengths(most).clamp_min(torch.finfo(most.dtype).tiny)).clamp_min(0)
    return centred - excess * most


def lengths(rows: Tensor) -> Tensor:
    """Of each row, with one column."""
    norms: Tensor = torch.linalg.vector_norm(rows, dim=-1, keepdim=True)
    return norms


def expanded(basis: Tensor, mixing: Tensor, strengths: int) -> tuple[Tensor, ...]:
    """The answers again, (d, classes) each."""
    return (basis.T @ mixing).chunk(strengths, 1)


def own_residuals(
    rows: Tensor, labels: Tensor, answers: Sequence[Tensor], strengths: Sequence[float]
) -> list[Tensor]:
    """V = W + Hᵀ(HHᵀ + μI)⁻¹(Y - HW) for each answer W and its μ: W, corrected on what it misses here.

    Of all V it minimises |Y - HV|² + μ |V - W|². Without rows of one's own it is W. The second term is
    also (HᵀH + μI)⁻¹Hᵀ(Y - HW): the products are those of the shorter side of H, made once for all.
    """
    if not len(rows):
        return list(answers)
    wide = len(rows) <= rows.shape[1]
    kernel = lower_kernel(rows if wide else rows.T).double()
    centred = labels - labels.mean(1, keepdim=True)  # as the answers are
    uncorrected = torch.cat(list(answers), 1)
    missed = centred.repeat(1, len(answers)) - rows @ uncorrected
    right = (missed if wide else rows.T @ missed).double().split(labels.shape[1], 1)
    solutions = list(right)
    for strength in set(strengths):  # one factor for all answers of a strength
        indices = [index for index, other in enumerate(strengths) if other == strength]
        solved = _solved(kernel, strength, torch.cat([right[i] for i in indices], 1))
        for index, solution in zip(indices, solved.split(labels.shape[1], 1), strict=True):
            solutions[index] = solution
    together = torch.cat(solutions, 1).to(rows.dtype)
    corrected = uncorrected + (rows.T @ together if wide else together)
    return list(corrected.split(labels.shape[1], 1))
