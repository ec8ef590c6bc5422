"""Ridge regression on all clients' training rows, from what each sends of its own. Not in the paper.

    G = Σ_v h_v h_vᵀ,   B = Σ_v h_v y_vᵀ,   W_λ = (G + λI)⁻¹ B      over all clients' training nodes v

h_v is a row of length one (`models.unit_rows`), y_v its class as a unit vector. G and B are sums over
clients: W_λ does not depend on how the nodes were divided. G has d² numbers, and two smaller things
stand in for it:

    factored   a few rows of each client, Z = QH and M = QY:  G ≈ ZᵀZ,  B ≈ ZᵀM,  over the stacked rows
    summed     S = GΩ for a public random Ω (d × 64), and B:   G ≈ S (ΩᵀS)⁺ Sᵀ,    exact for small d
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

SKETCH = 64  # columns of Ω
BLOCK = 96  # columns of a kernel at a time
FULL = 1024  # short side up to which eigenvectors are computed in full
KRYLOV = 8  # blocks of a Krylov space
PULL = 1.0  # γ: how strongly the classes decide which rows stand for all
SUPPORT = 2.0  # times the length of a row without any one group of clients
SMALLEST_EIGENVALUE = 1e-7  # of a sketch's core, against its largest: below it is rounding


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
    sent = rows.new_zeros(count, features), rows.new_zeros(count, labels.shape[1])
    if not (nodes and count):
        return sent
    if nodes <= min(FULL, features + labels.shape[1]):
        kernel = (rows @ rows.T + pull * labels @ labels.T).double()
        leading = torch.linalg.eigh(kernel).eigenvectors[:, -count:].flip(1).T
        parts = leading.to(rows.dtype) @ rows, leading.to(labels.dtype) @ labels
    else:
        both = torch.cat([rows, pull**0.5 * labels], 1)
        if both.shape[1] <= FULL:
            both = both.double()
            squares, vectors = torch.linalg.eigh(both.T @ both)
            leading = (vectors * squares.clamp_min(0).sqrt())[:, -count:].flip(1).T
        else:
            leading = krylov_rows(both, count)
        parts = leading[:, :features], leading[:, features:] / pull**0.5
    for whole, part in zip(sent, parts, strict=True):
        whole[: len(part)] = part
    return sent


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
    duals = [_solved(_damped(kernel, strength), labels) for strength in strengths]
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
    return torch.stack([_solved(_damped(gram, strength), sums) for strength in strengths])


def _damped(matrix: Tensor, strength: float) -> Tensor:
    """M + λI."""
    damped = matrix.clone()
    damped.diagonal().add_(strength)
    return damped


def solve_sums(sums: Sequence[Tensor], omega: Tensor | None, strengths: Sequence[float]) -> Tensor:
    """W_λ for each λ from what `sketched` gives, added up over clients; tr G only with Ω."""
    if omega is None:
        return solve_gram(sums[0], sums[1], strengths)
    return solve_sketch(sums[0], sums[1], omega, strengths, float(sums[2]))


def _solved(matrix: Tensor, right: Tensor) -> Tensor:
    """M⁻¹ R for a positive definite M, and its pseudo-inverse's answer where a liar sent another.

    Of M the lower half is read.
    """
    factor, failed = torch.linalg.cholesky_ex(matrix)
    if failed:
        factor = torch.linalg.pinv(matrix, hermitian=True)
    answer: Tensor = factor @ right if failed else torch.cholesky_solve(right, factor)
    return answer


def solve_sketch(
    sketch: Tensor, sums: Tensor, omega: Tensor, strengths: Sequence[float], trace: float
) -> Tensor:
    """W_λ for each λ from S = GΩ, B and tr G.

        G ≈ Σ_i s_i u_i u_iᵀ + τ (I - UUᵀ),   Σ_i s_i u_i u_iᵀ = S (ΩᵀS)⁺ Sᵀ
        W_λ = B / (τ + λ) + U diag( 1 / (s + λ) - 1 / (τ + λ) ) UᵀB

    The sum is Nyström's approximation, never above G. τ is the mean of the eigenvalues it leaves out,
    of which there are as many as rows beyond the sketch: rows have length one, so tr G counts them.
    """
    factor = nystrom(sketch, omega)
    squares, inner = torch.linalg.eigh(factor @ factor.T)
    squares = squares.clamp_min(torch.finfo(torch.float64).tiny)
    basis = factor.T @ (inner / squares.sqrt())  # U
    beyond = min(len(sketch), trace) - len(squares)
    tail = max(0.0, trace - float(squares.sum())) / beyond if beyond > 0 else 0.0
    seen = basis.T @ sums
    return torch.stack(
        [
            sums / (tail + strength)
            + basis @ (seen * (1 / (squares + strength) - 1 / (tail + strength))[:, None])
            for strength in strengths
        ]
    )


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
    """W with rows as long as several groups of clients support: at most twice what any can be missed.

        factor_c = min_λ min(1, 2 max(r_c, median_k r_k) / ‖W_c‖),   r_c = min_g ‖W_c without group g‖

    W_c is the row of feature c, centred over classes. A feature that one group alone ties to a class
    has a short r_c. The liar's group is among those left out, so r_c is never above what the honest
    others say. One factor for all λ keeps the rank of [W_λ …].

    Args:
        answers: W, (strengths, d, classes).
        without: the same without each group of clients.
    """

    def lengths(given: Tensor) -> Tensor:
        return (given - given.mean(-1, keepdim=True)).norm(dim=-1)

    least = torch.stack([lengths(each) for each in without]).amin(0)
    limit = SUPPORT * torch.maximum(least, least.median(1, keepdim=True).values)
    whole = lengths(answers)
    factors = torch.where(whole > limit, limit / whole, 1.0).amin(0)
    return answers * factors[:, None]


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
    corrected = []
    for answer, strength in zip(answers, strengths, strict=True):
        missed = centred - rows @ answer
        right = (missed if wide else rows.T @ missed).double()
        solution = _solved(_damped(kernel, strength), right).to(rows.dtype)
        corrected.append(answer + (rows.T @ solution if wide else solution))
    return corrected
