"""Ridge regression from rows and from sums, against the solution on all rows pooled."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.nn.functional import normalize, one_hot

from pace.merging.ridge import (
    BLOCK,
    BLOCK_ROWS,
    FULL,
    PULL,
    ROWS_HELD,
    SKETCH,
    Gram,
    compressed,
    condensed,
    expanded,
    gram_of,
    limit_rows,
    lower_kernel,
    nystrom,
    own_residuals,
    public_matrix,
    sketched,
    solve_gram,
    solve_rows,
    solve_sums,
)

STRENGTHS = (1.0, 3.0, 10.0)
CLASSES = 3
seeds = st.integers(0, 10**6)


def client(nodes: int, features: int, seed: int, rank: int = 4) -> tuple[Tensor, Tensor]:
    """Unit rows around a few directions, and one-hot labels that follow them."""
    generator = torch.Generator().manual_seed(seed)
    inner = torch.randn(nodes, rank, generator=generator, dtype=torch.float64)
    rows = inner @ torch.randn(rank, features, generator=generator, dtype=torch.float64)
    rows += 0.1 * torch.randn(nodes, features, generator=generator, dtype=torch.float64)
    labels = inner[:, :CLASSES].argmax(1)
    return normalize(rows, dim=1), one_hot(labels, CLASSES).double()


def pooled(clients: list[tuple[Tensor, Tensor]]) -> tuple[Tensor, Tensor]:
    rows, labels = map(torch.cat, zip(*clients, strict=True))
    return rows, labels


def norm(matrix: Tensor) -> float:
    return float(torch.linalg.matrix_norm(matrix, 2))


def test_the_answer_is_scikit_learns_ridge() -> None:
    linear_model = pytest.importorskip("sklearn.linear_model")
    rows, labels = client(30, 12, 1)
    for strength, found in zip(STRENGTHS, solve_rows(rows, labels, STRENGTHS), strict=True):
        oracle = linear_model.Ridge(alpha=strength, fit_intercept=False)
        oracle.fit(rows.numpy(), labels.numpy())
        np.testing.assert_allclose(found.numpy(), oracle.coef_.T, atol=1e-10)


@given(st.integers(1, 30), st.integers(1, 12), seeds)
@settings(max_examples=40, deadline=None)
def test_through_the_short_side_or_the_gram_matrix_the_answer_is_the_same(
    nodes: int, features: int, seed: int
) -> None:
    rows, labels = client(nodes, features, seed)
    gram, sums = rows.T @ rows, rows.T @ labels
    identity = torch.eye(features, dtype=torch.float64)
    expected = torch.stack([torch.linalg.inv(gram + each * identity) @ sums for each in STRENGTHS])
    torch.testing.assert_close(solve_rows(rows, labels, STRENGTHS), expected)
    torch.testing.assert_close(solve_gram(gram, sums, STRENGTHS), expected)


@given(st.integers(2, 6), seeds)
@settings(max_examples=30, deadline=None)
def test_however_the_nodes_are_divided_sums_give_one_answer(count: int, seed: int) -> None:
    rows, labels = client(40, 9, seed)
    cuts = torch.randint(count, (40,), generator=torch.Generator().manual_seed(seed))
    gram = sum((rows[cuts == k].T @ rows[cuts == k] for k in range(count)), torch.zeros(9, 9))
    sums = sum(
        (rows[cuts == k].T @ labels[cuts == k] for k in range(count)), torch.zeros(9, CLASSES)
    )
    torch.testing.assert_close(
        solve_gram(gram, sums, STRENGTHS), solve_rows(rows, labels, STRENGTHS)
    )


@given(st.integers(1, 40), st.integers(1, 14), st.floats(0.01, 10), seeds)
@settings(max_examples=60, deadline=None)
def test_rows_that_stand_for_others_count_nothing_twice(
    nodes: int, count: int, pull: float, seed: int
) -> None:
    rows, labels = client(nodes, 10, seed)
    found, classes = condensed(rows, labels, count, pull)
    assert found.shape == (count, 10)
    assert classes.shape == (count, CLASSES)
    left_out = rows.T @ rows - found.T @ found
    assert float(torch.linalg.eigvalsh(left_out)[0]) >= -1e-9
    if count >= nodes:  # nothing is left out
        torch.testing.assert_close(found.T @ found, rows.T @ rows)
        torch.testing.assert_close(found.T @ classes, rows.T @ labels)


@given(st.integers(1, 5), st.integers(1, 10), st.floats(0.1, 10), st.floats(0.3, 20), seeds)
@settings(max_examples=80, deadline=None)
def test_the_distance_from_the_pooled_solution_is_bounded_by_what_the_rows_leave_out(
    count: int, kept: int, pull: float, strength: float, seed: int
) -> None:
    """|Ŵ - W| ≤ κ (|W| + γ^-½) / λ,  κ = Σ_k the first eigenvalue of HHᵀ + γYYᵀ that k does not send."""
    clients = [client(12 + place, 15, seed + place) for place in range(count)]
    (exact,) = solve_rows(*pooled(clients), [strength])
    (found,) = solve_rows(*pooled([condensed(*each, kept, pull) for each in clients]), [strength])
    kappa = sum(
        float(torch.linalg.eigvalsh(rows @ rows.T + pull * labels @ labels.T)[-kept - 1])
        for rows, labels in clients
    )
    bound = kappa * (norm(exact) + pull**-0.5) / strength
    assert norm(found - exact) <= bound * (1 + 1e-9) + 1e-9


def test_more_rows_bring_the_answer_to_the_pooled_one() -> None:
    clients = [client(40, 30, seed, rank=12) for seed in range(6)]
    exact = solve_rows(*pooled(clients), STRENGTHS)
    distances = [
        float(
            (solve_rows(*pooled([condensed(*c, count) for c in clients]), STRENGTHS) - exact).norm()
        )
        for count in (2, 6, 12, 20, 40)
    ]
    assert distances == sorted(distances, reverse=True)
    assert distances[-1] < 1e-9 < distances[0] / 1e3


@given(st.integers(1, 50), seeds)
@settings(max_examples=30, deadline=None)
def test_a_sketch_of_few_rows_is_exact_and_adds_up(nodes: int, seed: int) -> None:
    rows, labels = client(nodes, 90, seed)
    omega = public_matrix(90, torch.Generator().manual_seed(seed))
    halves = [slice(0, nodes // 2), slice(nodes // 2, nodes)]
    parts = [sketched(rows[half], labels[half], omega) for half in halves]
    sketch, sums, trace = (one + other for one, other in zip(*parts, strict=True))
    assert float(trace) == pytest.approx(nodes)
    found = solve_sums((sketch, sums, trace), omega, STRENGTHS)
    torch.testing.assert_close(found, solve_rows(rows, labels, STRENGTHS), atol=1e-6, rtol=1e-5)


def test_beyond_the_sketch_the_mean_of_what_it_leaves_out_beats_nothing() -> None:
    """With more rows than the sketch has columns, B / λ alone would count unseen directions in full."""
    rows, labels = client(600, 200, 5, rank=150)
    omega = public_matrix(200, torch.Generator().manual_seed(0))
    sketch, sums, trace = sketched(rows, labels, omega)
    exact = solve_rows(rows, labels, STRENGTHS)
    with_tail = solve_sums((sketch, sums, trace), omega, STRENGTHS)
    without = solve_sums((sketch, sums, torch.zeros(())), omega, STRENGTHS)
    assert SKETCH < 150
    assert (with_tail - exact).norm() < 0.5 * (without - exact).norm()


def test_of_orthonormal_rows_a_sketch_leaves_out_as_many_as_there_are_rows_beyond_it() -> None:
    """All eigenvalues of G are one, so the mean of those left out is too, and W is B / (1 + λ)."""
    random = torch.Generator().manual_seed(0)
    rows = torch.linalg.qr(torch.randn(200, 80, generator=random, dtype=torch.float64)).Q.T
    labels = one_hot(torch.arange(80) % CLASSES).double()
    omega = public_matrix(200, random)
    sketch, sums, trace = sketched(rows, labels, omega)
    found = solve_sums((sketch, sums, trace), omega, STRENGTHS)
    expected = torch.stack([sums / (1 + strength) for strength in STRENGTHS])
    torch.testing.assert_close(found, expected, atol=1e-9, rtol=1e-9)


@pytest.mark.parametrize("count", [1, 10, 30, 100])
def test_a_sketch_of_many_clients_is_as_near_as_its_bound_says(count: int) -> None:
    """|Ŵ - W| ≤ |G - Ĝ| |W| / λ, and Ĝ as near to G as a Gaussian sketch is on average."""
    features = 300
    clients = [client(20, features, seed, rank=6) for seed in range(count)]
    omega = public_matrix(features, torch.Generator().manual_seed(5))
    rows, labels = pooled(clients)
    gram, sums, trace = rows.T @ rows, rows.T @ labels, float(len(rows))
    sketch = torch.stack([sketched(*each, omega)[0] for each in clients]).sum(0)
    torch.testing.assert_close(sketch, gram @ omega)
    seen = nystrom(sketch, omega).T @ nystrom(sketch, omega)
    values = torch.linalg.eigvalsh(gram).flip(0).clamp_min(0)
    assert norm(gram - seen) <= expected_error(values) + 1e-9
    inner, outer = torch.linalg.eigh(seen)
    beyond = inner < 1e-9 * inner[-1]  # what U does not span
    kept = min(features, trace) - int((~beyond).sum())
    tail = max(0.0, trace - float(inner.sum())) / kept if kept > 0 else 0.0
    stands_in = seen + tail * outer[:, beyond] @ outer[:, beyond].T
    answers = solve_sums((sketch, sums, torch.tensor(trace)), omega, STRENGTHS)
    exact = solve_gram(gram, sums, STRENGTHS)
    for strength, found, expected in zip(STRENGTHS, answers, exact, strict=True):
        bound = norm(gram - stands_in) * norm(expected) / strength
        assert norm(found - expected) <= bound + 1e-9
    assert (norm(gram - seen) < 1e-9) == (len(rows) <= SKETCH)


def expected_error(values: Tensor) -> float:
    """Frangella, Tropp and Udell (2023), Proposition 2.2: the mean of |G - Ĝ| is at most this."""
    return min(
        (1 + 2 * (SKETCH - p) / (p - 1)) * float(values[SKETCH - p])
        + 2 * math.e**2 * SKETCH / (p**2 - 1) * float(values[SKETCH - p :].sum())
        for p in range(2, SKETCH - 1)
    )


def eigh_of_the_long_side(
    rows: Tensor, labels: Tensor, count: int, pull: float
) -> tuple[Tensor, Tensor]:
    """`condensed` by its definition: the leading eigenvectors of HHᵀ + γYYᵀ, times H and Y."""
    kernel = rows @ rows.T + pull * labels @ labels.T
    leading = torch.linalg.eigh(kernel).eigenvectors[:, -count:].flip(1).T
    return leading @ rows, leading @ labels


@given(st.integers(1, 60), st.integers(1, 14), st.floats(0.1, 10), seeds)
@settings(max_examples=60, deadline=None)
def test_rows_are_those_of_the_definition_whichever_side_is_short(
    nodes: int, features: int, pull: float, seed: int
) -> None:
    """Up to the signs of the rows, and their order where eigenvalues are equal: by their products."""
    rows, labels = client(nodes, features, seed)
    count = min(4, nodes, features)
    found, expected = (
        form(rows, labels, count, pull) for form in (condensed, eigh_of_the_long_side)
    )
    for one, other in ((0, 0), (0, 1), (1, 1)):
        torch.testing.assert_close(found[one].T @ found[other], expected[one].T @ expected[other])


@pytest.mark.parametrize(("nodes", "features"), [(300, 20), (20, 300), (300, 297), (301, 297)])
def test_no_matrix_of_the_long_side_is_factorised(
    nodes: int, features: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    sides: list[int] = []
    for name in ("eigh", "cholesky_ex"):
        plain = getattr(torch.linalg, name)

        def counted(matrix: Tensor, *more: Tensor, plain: Any = plain) -> Any:
            sides.append(len(matrix))
            return plain(matrix, *more)

        monkeypatch.setattr(torch.linalg, name, counted)
    rows, labels = client(nodes, features, 3)
    condensed(rows, labels, 12)
    nothing = torch.zeros(features, CLASSES).double()
    own_residuals(rows, labels, [nothing, nothing], [3.0, 0.3])
    assert sides == [min(nodes, features + CLASSES), *[min(nodes, features)] * 2]


def test_where_both_sides_are_long_the_rows_are_nearly_the_best_and_no_row_counts_twice() -> None:
    generator = torch.Generator().manual_seed(4)
    rows = torch.randn(1100, 1060, generator=generator) * torch.rand(1060, generator=generator) ** 3
    rows = (rows / rows.norm(dim=1, keepdim=True)).double()
    labels = one_hot(torch.arange(1100) % CLASSES, CLASSES).double()
    assert min(rows.shape) > FULL
    found, expected = condensed(rows, labels, 6), eigh_of_the_long_side(rows, labels, 6, 1.0)
    held, most = (float(torch.cat(form, 1).norm().square()) for form in (found, expected))
    assert 0.999 < held / most <= 1 + 1e-9
    left_out = torch.linalg.eigvalsh(rows.T @ rows - found[0].T @ found[0])
    assert float(left_out[0]) > -1e-8


def test_a_kernel_of_many_rows_is_whole_and_half_of_it_is_computed() -> None:
    rows = torch.randn(1100, 7, generator=torch.Generator().manual_seed(2))
    found = lower_kernel(rows)
    torch.testing.assert_close(found.tril(), (rows @ rows.T).tril())
    assert BLOCK == 96
    assert found[0, :BLOCK].all()
    assert not found[0, BLOCK:].any()


def test_what_sites_must_agree_on() -> None:
    """Another value would change messages, or the answer, without any error."""
    rows, labels = client(30, 12, 1)
    assert (SKETCH, PULL) == (64, 1.0)
    assert public_matrix(12, torch.Generator().manual_seed(0)).shape == (12, 64)
    for one, other in zip(
        condensed(rows, labels, 5), eigh_of_the_long_side(rows, labels, 5, 1.0), strict=True
    ):
        torch.testing.assert_close(one.T @ one, other.T @ other)
    assert not torch.allclose(
        condensed(rows, labels, 5)[1].abs(), condensed(rows, labels, 5, 0.5)[1].abs(), atol=1e-3
    )


@pytest.mark.parametrize(("smallest", "kept"), [(2e-7, 3), (5e-8, 2)])
def test_a_direction_of_a_sketch_below_a_ten_millionth_is_rounding(
    smallest: float, kept: int
) -> None:
    core = torch.diag(torch.tensor([1.0, 0.5, smallest], dtype=torch.float64))
    assert len(nystrom(core, torch.eye(3, dtype=torch.float64))) == kept


@given(st.integers(0, 250), st.integers(1, 9), seeds)
@settings(max_examples=20, deadline=None)
def test_the_lower_half_of_a_kernel_is_the_plain_products(
    nodes: int, features: int, seed: int
) -> None:
    rows = torch.randn(nodes, features, generator=torch.Generator().manual_seed(seed))
    torch.testing.assert_close(lower_kernel(rows).tril(), (rows @ rows.T).tril())


def test_a_sketch_of_nothing_answers_nothing() -> None:
    omega = public_matrix(20, torch.Generator().manual_seed(0))
    sketch, sums, trace = sketched(torch.zeros(3, 20), torch.zeros(3, CLASSES), omega)
    found = solve_sums((sketch, sums, trace), omega, STRENGTHS)
    assert torch.equal(found, torch.zeros(3, 20, CLASSES, dtype=torch.float64))


@given(st.integers(1, 12), seeds)
@settings(max_examples=30, deadline=None)
def test_a_return_is_the_best_of_its_rank_and_no_class_is_preferred(rank: int, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    answers = torch.randn(3, 20, CLASSES, generator=generator, dtype=torch.float64)
    back = torch.stack(expanded(*compressed(answers, rank), strengths=3)).double()
    centred = answers - answers.mean(2, keepdim=True)
    assert float(back.mean(2).abs().max()) < 1e-5
    values = torch.linalg.svdvals(torch.cat(list(centred), 1))
    assert float((back - centred).norm()) == pytest.approx(float(values[rank:].norm()), abs=1e-4)


@given(st.integers(1, 20), st.floats(0.1, 10), seeds)
@settings(max_examples=30, deadline=None)
def test_the_own_correction_minimises_its_objective(nodes: int, strength: float, seed: int) -> None:
    rows, labels = client(nodes, 8, seed)
    answer = torch.randn(8, CLASSES, generator=torch.Generator().manual_seed(seed)).double()
    answer -= answer.mean(1, keepdim=True)
    found, again = own_residuals(rows, labels, [answer, answer], [strength, strength])
    assert torch.equal(found, again)
    centred = labels - labels.mean(1, keepdim=True)
    gradient = rows.T @ (rows @ found - centred) + strength * (found - answer)
    assert float(gradient.abs().max()) < 1e-8
    assert own_residuals(rows[:0], labels[:0], [answer], [strength])[0] is answer


def sites(count: int, seed: int = 0) -> list[tuple[Tensor, Tensor]]:
    """Rows of length one at each of some sites, three classes, words that speak for a class."""
    random = torch.Generator().manual_seed(seed)
    made = []
    for _ in range(count):
        labels = torch.randint(3, (60,), generator=random)
        rows = torch.rand(60, 40, generator=random)
        rows[torch.arange(60), labels] += 1
        made.append((rows / rows.norm(dim=1, keepdim=True), torch.eye(3)[labels]))
    return made


def ridge_of(parts: Sequence[tuple[Tensor, Tensor]]) -> Tensor:
    rows, labels = map(torch.cat, zip(*parts, strict=True))
    return solve_rows(rows, labels, (1.0, 3.0))


def without_each(parts: Sequence[tuple[Tensor, Tensor]]) -> list[Tensor]:
    return [ridge_of([*parts[:place], *parts[place + 1 :]]) for place in range(len(parts))]


def centred(answers: Tensor) -> Tensor:
    return answers - answers.mean(-1, keepdim=True)


@pytest.mark.fault(48)
@pytest.mark.parametrize("heavy", [5.0, 1e3])
def test_a_liar_moves_no_row_further_than_rows_usually_are(heavy: float) -> None:
    """Whatever one site says of a word, its row stays near what the honest others say."""
    honest = sites(4)
    lie = torch.zeros(1, 40)
    lie[0, 39] = heavy
    liar = (torch.cat([honest[0][0], lie]), torch.cat([honest[0][1], heavy * torch.eye(3)[:1]]))
    parts = [liar, *honest[1:]]
    whole, without = centred(ridge_of(parts)), without_each(parts)
    others = centred(without[0])  # the honest alone
    moved = torch.stack([(whole - centred(each)).norm(dim=-1) for each in without])
    assert (moved.argmax(0)[:, 39] == 0).all()  # the liar moves its word most
    usual = moved.amax(0).quantile(0.9, dim=1)
    assert ((whole - others)[:, 39].norm(dim=-1) > usual).all()  # the lie would have passed
    limited = limit_rows(whole, without)
    assert ((limited - others)[:, 39].norm(dim=-1) <= usual * (1 + 1e-9)).all()


def test_nine_of_ten_rows_stay_as_they_are() -> None:
    parts = sites(5)
    whole = centred(ridge_of(parts))
    same = ((limit_rows(whole, without_each(parts)) - whole).abs() < 1e-12).all(-1)
    assert (same.double().mean(1) >= 0.9 - 0.5 / whole.shape[1]).all()
    nothing = torch.zeros(2, 4, 3)
    assert torch.equal(limit_rows(nothing, [nothing] * 3), nothing)


def test_groups_that_say_the_same_change_nothing() -> None:
    whole = centred(ridge_of(sites(3)))
    torch.testing.assert_close(limit_rows(whole, [whole] * 3), whole)


def test_nodes_of_small_classes_earn_no_row() -> None:
    """Twelve of one class and four of another that is too small, a row for every four: three rows."""
    rows = client(16, 9, 1)[0]
    labels = torch.eye(CLASSES).double()[[0] * 12 + [1] * 4]
    for held in (100, 5):  # by the rows themselves, and by their products
        sent, classes = in_blocks(rows, labels, 5, 4, held).condensed(10, 4)
        assert int((sent.norm(dim=1) > 1e-9).sum()) == 3
        assert not classes[:, 1].any()


def in_blocks(rows: Tensor, labels: Tensor, smallest: int, block: int, held: int) -> Gram:
    gram = Gram(rows.shape[1], labels.shape[1], smallest)
    gram.most = held
    for part in zip(rows.split(block), labels.split(block), strict=True):
        gram.add(*part)
    return gram


@given(st.integers(1, 120), st.integers(1, 50), st.integers(1, 12), seeds)
@settings(max_examples=40, deadline=None)
def test_blocks_of_rows_give_what_all_rows_give(
    nodes: int, block: int, smallest: int, seed: int
) -> None:
    rows, labels = client(nodes, 9, seed)
    gram = in_blocks(rows, labels, smallest, block, held=10)
    assert (gram.products is not None) == (nodes > 10)
    assert len(gram.held()[0]) <= 10 + (smallest - 1) * CLASSES
    large = labels[:, labels.sum(0) >= smallest].any(1)
    count = min(6, int(large.sum()) // 2)
    found, expected = gram.condensed(6, 2), condensed(rows[large], labels[large], count)
    assert found[0].shape == (6, 9)
    for one, other in zip(found, expected, strict=True):  # up to the signs of eigenvectors
        torch.testing.assert_close(one.T @ one, other.T @ other, atol=1e-9, rtol=1e-7)
        assert not one[count:].any()
    answer = torch.randn(9, CLASSES, generator=torch.Generator().manual_seed(seed)).double()
    for one, other in zip(
        gram.own_residuals([answer, 0 * answer], [3.0, 0.1]),
        own_residuals(rows, labels, [answer, 0 * answer], [3.0, 0.1]),
        strict=True,
    ):
        torch.testing.assert_close(one, other, atol=1e-9, rtol=1e-7)


def test_products_of_many_columns_give_nearly_the_best_rows() -> None:
    generator = torch.Generator().manual_seed(4)
    rows = torch.randn(1500, 1060, generator=generator) * torch.rand(1060, generator=generator) ** 3
    rows = (rows / rows.norm(dim=1, keepdim=True)).double()
    labels = one_hot(torch.arange(1500) % CLASSES, CLASSES).double()
    found = in_blocks(rows, labels, 1, 500, held=0).condensed(6, 1)
    expected = eigh_of_the_long_side(rows, labels, 6, 1.0)
    held, most = (float(torch.cat(form, 1).norm().square()) for form in (found, expected))
    assert 0.999 < held / most <= 1 + 1e-9
    left_out = torch.linalg.eigvalsh(rows.T @ rows - found[0].T @ found[0])
    assert float(left_out[0]) > -1e-6


def test_a_gram_multiplies_in_linear_time_and_holds_one_block(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Operations counted, not seconds: AᵀA of n rows takes n (d + classes)² of them."""
    blocks: list[int] = []

    def counted(rows: Tensor, labels: Tensor) -> Tensor:
        blocks.append(len(rows))
        return gram_of(rows, labels)

    monkeypatch.setattr("pace.merging.ridge.gram_of", counted)
    for nodes in (20_000, 80_000):
        blocks.clear()
        rows = torch.ones(1, 12).expand(nodes, 12)
        labels = one_hot(torch.arange(nodes) % CLASSES, CLASSES).float()
        Gram(12, CLASSES).add(rows, labels)
        assert sum(blocks) == nodes
        assert max(blocks) <= BLOCK_ROWS + ROWS_HELD * (12 + CLASSES)
