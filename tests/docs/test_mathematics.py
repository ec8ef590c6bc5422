"""The page of the mathematics names what exists; what it alone claims is shown here."""

import ast
import importlib
import re
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from pace.datasets import Dataset
from pace.datasets.partition import Random, client_graphs
from pace.datasets.synthetic import Synthetic, synthetic
from pace.gates.cnll import slope
from pace.graph import Graph
from pace.models.networks import GCN
from pace.params import Params
from pace.protocol import number_formats
from pace.task import nll
from pace.training.optimiser import Recipe
from pace.training.train import train
from tests.gates.blended import blend

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "mathematics.md").read_text()
PAGES = {
    name: (ROOT / "docs" / name).read_text() for name in ("mathematics.md", "beyond-mathematics.md")
}

FUNCTIONS = re.compile(r"\[`([\w.]+)`\]\(\.\./src/pace/([\w/]+)\.py#([\w.]+)\)")
OF_STUDY = re.compile(r"\[`(\w+)`\]\(\.\./(study/[\w/]+\.py)\)")
TESTS = re.compile(r"\[`(test_\w+)`\]\(\.\./(tests/[\w/]+\.py)\)")


def equations() -> dict[int, str]:
    """The text from each numbered equation to the next."""
    parts = re.split(r"\\tag\{(\d+)\}", PAGE)
    return {int(number): text for number, text in zip(parts[1::2], parts[2::2], strict=True)}


@cache
def functions_of(path: str) -> set[str]:
    tree = ast.parse((ROOT / path).read_text())
    return {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}


def test_equations_are_numbered_in_order() -> None:
    numbers = re.findall(r"\\tag\{(\d+)\}", PAGE)
    assert [int(number) for number in numbers] == list(range(1, len(numbers) + 1))
    shown = [block for block in PAGE.split("$$")[1::2] if "\\tag" not in block]
    assert shown == []


@pytest.mark.parametrize("number", equations())
def test_every_equation_has_its_function_and_its_test(number: int) -> None:
    """In the paragraph right after it: who computes it, and what shows that."""
    paragraph = equations()[number].split("\n\n")[1]
    assert paragraph.startswith("Computed by ")
    computed, shown = paragraph.split(
        "; shown by\n" if "; shown by\n" in paragraph else "; shown by "
    )
    assert FUNCTIONS.search(computed) or OF_STUDY.search(computed)
    assert TESTS.search(shown)


@pytest.mark.parametrize("name", PAGES)
def test_every_function_on_a_page_exists(name: str) -> None:
    links = FUNCTIONS.findall(PAGES[name])
    assert len(links) == len(re.findall(r"\]\(\.\./src/[^)]*#", PAGES[name]))
    for shown, module, function in links:
        assert shown == function
        found = importlib.import_module(f"pace.{module.replace('/', '.')}")
        for part in function.split("."):
            found = getattr(found, part)
    for function, path in OF_STUDY.findall(PAGES[name]):
        owner = importlib.import_module(path[len("study/") : -3].replace("/", "."))
        assert hasattr(owner, function)


@pytest.mark.parametrize("name", PAGES)
def test_every_test_on_a_page_exists(name: str) -> None:
    links = TESTS.findall(PAGES[name])
    assert len(links) + 1 == len(re.findall(r"\]\(\.\./tests/", PAGES[name]))  # and one whole file
    for test, path in links:
        assert test in functions_of(path), (path, test)


def test_all_of_section_4_is_on_the_page() -> None:
    linked = {module for _, module, _ in FUNCTIONS.findall(PAGE)}
    assert {
        *(f"merging/{part}" for part in ("carrier", "moments", "consensus", "correction")),
        "gates/cnll",
    } <= linked


def test_no_equation_of_the_paper_is_left_out() -> None:
    """Twenty: one in Section 3, nine in Section 4, ten in the appendix on CNLL."""
    marks = re.findall(r"\(Papers? ([\d and]+)\)", PAGE)
    numbers = [int(number) for mark in marks for number in mark.split(" and ")]
    assert sorted(numbers) == list(range(1, 21))


@given(st.integers(0, 999), st.floats(0, 1))
@settings(max_examples=40)
def test_the_second_derivative_is_the_variance(seed: int, at: float) -> None:
    local, external, labels = drawn(seed)
    alpha = torch.tensor(at, dtype=torch.float64, requires_grad=True)
    mixed = (1 - alpha) * local + alpha * external
    risk = torch.nn.functional.cross_entropy(mixed, labels)
    (first,) = torch.autograd.grad(risk, alpha, create_graph=True)
    (second,) = torch.autograd.grad(first, alpha)
    chances, gap = mixed.detach().softmax(1), external - local
    mean = (chances * gap).sum(1, keepdim=True)
    variance = (chances * (gap - mean).square()).sum(1).mean()
    assert float(second) == pytest.approx(float(variance), abs=1e-9)
    assert slope(local, external, labels, at) == pytest.approx(float(first.detach()), abs=1e-9)


@given(st.integers(0, 999), st.floats(0, 1))
@settings(max_examples=40)
def test_evidence_is_the_risk_counted_from_locals(seed: int, alpha: float) -> None:
    local, external, labels = drawn(seed)
    rows = torch.arange(len(labels))
    ratio = blend(local, external, alpha).softmax(1)[rows, labels] / local.softmax(1)[rows, labels]
    risks = nll(blend(local, external, alpha), labels) - nll(local, labels)
    assert float(ratio.log().sum()) == pytest.approx(-len(labels) * risks, abs=1e-8)


def drawn(seed: int) -> tuple[Tensor, Tensor, Tensor]:
    random = torch.Generator().manual_seed(seed)
    local, external = 3 * torch.randn(2, 9, 4, generator=random, dtype=torch.float64)
    return local, external, torch.randint(4, (9,), generator=random)


@given(
    st.integers(0, 999), st.integers(1, 30), st.integers(9, 30), st.sampled_from([1e-20, 1, 1e20])
)
@settings(max_examples=60)
def test_int8_errs_by_half_a_scale(seed: int, rows: int, columns: int, size: float) -> None:
    value = (np.random.Generator(np.random.PCG64(seed)).normal(size=(rows, columns)) * size).astype(
        np.float32
    )
    content = bytes(number_formats.write(value, "int8"))
    scales = np.frombuffer(content, "<f4", count=min(rows, columns)).astype(np.float64)
    found = number_formats.read(content, 0, value.shape, "int8").astype(np.float64)
    bound = scales[:, None] if rows <= columns else scales
    assert (np.abs(value.astype(np.float64) - found) <= bound * (0.5 + 2.0**-16)).all()


def test_idle_columns_decay_as_autograd_has_them() -> None:
    """Words that no training node's neighbourhood uses, left out of the steps or not."""
    whole = synthetic(Synthetic(nodes=120, classes=3, features=500, communities=3, words=4))
    (graph,) = client_graphs(Dataset("whole", whole, 3), [list(range(120))], Random(0))
    gcn, recipe = GCN((500, 8, 3)), Recipe(epochs=20)
    first = gcn.field(graph, graph.train).operators[0]
    assert not isinstance(first, Tensor)
    active = first.active
    assert 0 < len(active) < 400

    def nothing(
        params: Params, start: Params, outputs: tuple[Tensor, ...], labels: Tensor
    ) -> Tensor:
        return torch.zeros(())

    start = gcn.start(5)
    closed = train(graph, gcn, start, recipe=recipe, seed=1)
    other = train(graph, gcn, start, recipe=replace(recipe, penalty=nothing), seed=1)
    torch.testing.assert_close(closed, other, rtol=1e-4, atol=1e-5)
    idle = torch.ones(500, dtype=torch.bool)
    idle[active] = False
    relabelled = Graph(graph.x, graph.edges, (graph.y + 1) % 3, graph.train, graph.val, graph.test)
    elsewhere = train(relabelled, gcn, start, recipe=recipe, seed=1)
    assert torch.equal(closed["0.weight"][:, idle], elsewhere["0.weight"][:, idle])
    assert not torch.equal(closed["0.weight"], elsewhere["0.weight"])
