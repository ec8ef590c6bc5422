"""Our GPU kernels where there is no GPU: in Triton's interpreter, and compiled for one elsewhere."""

import os
import subprocess
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
import torch
from packaging.version import Version
from torch import Tensor

from pace.models.networks import GCN
from pace.models.operator import Operator
from pace.training.optimiser import Proximal, Recipe, Target
from pace.training.train import train
from pace_gpu import cohort
from pace_gpu.cohort import WIDEST
from tests.graphs import CLASSES, FEATURES, clients
from tests.training.gpu.test_cohort import DEVICE, bag_of_words

INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
WORDS = 40
POINTERS = {torch.float32: "*fp32", torch.bfloat16: "*bf16"}


@pytest.mark.parametrize(
    "recipe",
    [
        Recipe(epochs=2),
        Recipe(epochs=2, penalty=Proximal(0.05)),
        Recipe(epochs=2, optimiser="sgd", rate=0.1, momentum=0.9),
    ],
    ids=["adam", "proximal", "sgd"],
)
@pytest.mark.parametrize("dropout", [0.0, 0.3, 0.5])
@pytest.mark.parametrize("hidden", [(8,), (5, 4)])
@pytest.mark.parametrize("words", [0, WORDS])
def test_a_small_cohort_learns_what_its_clients_learn_alone(
    words: int, hidden: tuple[int, ...], dropout: float, recipe: Recipe
) -> None:
    graphs = [clients(1, nodes, seed=nodes)[0] for nodes in (20, 9)]
    if words:
        graphs = [bag_of_words(graph, words) for graph in graphs]
    gcn = GCN((words or FEATURES, *hidden, CLASSES), dropout)
    starts = {seed: gcn.start(seed) for seed in (3, 4)}
    batch = cohort.learn(graphs, gcn, starts, recipe, DEVICE)
    for seed, start in starts.items():
        for graph, found in zip(graphs, batch[seed], strict=True):
            alone = train(graph, gcn, start, recipe=recipe, seed=seed)
            torch.testing.assert_close(found, alone, rtol=1e-4, atol=2e-5)


@pytest.mark.skipif(INTERPRETED, reason="this is the interpreter")
def test_the_same_in_tritons_interpreter() -> None:
    pytest.importorskip("triton")
    triton, numpy = (Version(metadata.version(name)) for name in ("triton", "numpy"))
    if triton < Version("3.7") and numpy >= Version("2.5"):
        pytest.skip("Triton's interpreter fails with these versions; kernels on a GPU work")
    alone = ["-p", "no:xdist", "-p", "no:cacheprovider"]  # plugins may warn about an idle xdist
    # Triton 3.2 does what NumPy 2.5 will refuse
    older = ["-W", "ignore:Conversion of an array with ndim:DeprecationWarning"]
    words = ["-m", "pytest", *alone, *older, __file__, "-k", "small_cohort"]
    done = subprocess.run(
        [sys.executable, *words],
        env=os.environ | {"TRITON_INTERPRET": "1"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout


def test_the_interpreter_runs_our_kernels() -> None:
    from pace_gpu.blocks import own_kernels

    assert (own_kernels("cpu") is not None) == INTERPRETED


class Compiled:
    """In place of a kernel: compiles what a call would launch for a GPU that need not be here."""

    def __init__(self, kernel: Any, target: Any) -> None:
        self.kernel, self.target = kernel, target

    def __getitem__(self, grid: tuple[int, ...]) -> Any:
        return self.launch

    def launch(self, *values: Any, **options: int) -> None:
        import triton
        from triton import compiler

        # constants are told by name, and have no kind
        by_name = Version(triton.__version__) < Version("3.3")
        kinds: dict[str, str] = {}
        constants: dict[Any, int] = {}
        for place, (parameter, value) in enumerate(zip(self.kernel.params, values, strict=True)):
            if not parameter.is_constexpr:
                pointer = isinstance(value, Tensor)
                kinds[parameter.name] = POINTERS[value.dtype] if pointer else "i32"
            elif by_name:
                constants[parameter.name] = value
            else:
                kinds[parameter.name], constants[place,] = "constexpr", value
        source = compiler.ASTSource(self.kernel, kinds, constants)
        made = compiler.compile(source, target=self.target, options=options)
        self.shared, self.ptx = made.metadata.shared, made.asm["ptx"]


@pytest.fixture
def gpu(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    if INTERPRETED:
        pytest.skip("nothing is compiled")
    pytest.importorskip("triton")
    from triton.backends.compiler import GPUTarget

    return GPUTarget("cuda", request.param, 32)


@pytest.mark.filterwarnings("ignore:TRITON_")  # of Triton 3.9, about its next release
@pytest.mark.parametrize("gpu", [86], indirect=True)
def test_the_tiles_of_the_widest_layers_fit_on_a_small_gpu(
    gpu: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pace_gpu.kernels import layers

    compiled = {
        name: Compiled(getattr(layers, name), gpu) for name in ("_linear", "_outer", "_below")
    }
    for name, kernel in compiled.items():
        monkeypatch.setattr(layers, name, kernel)
    rows = torch.zeros(1, 2, 30, WIDEST)  # of one client and two seeds
    params = {"0.weight": torch.zeros(1, 2, WIDEST, WIDEST), "0.bias": torch.zeros(1, 2, WIDEST)}
    target = Target(torch.zeros(1, 1, WIDEST, 30), torch.zeros(1, 1, 1, 30))
    gradient = layers.DeviceGradient(params, params, [Operator(rows)], target)
    gradient.linear(rows, 0)
    gradient.slopes(rows.mT, rows, 0)
    gradient.below(rows, rows, 0)
    assert max(kernel.shared for kernel in compiled.values()) <= 99 * 2**10


@pytest.mark.filterwarnings("ignore:TRITON_")
@pytest.mark.parametrize("gpu", [86, 90], indirect=True)
@pytest.mark.parametrize("transposed", [False, True])
def test_dense_products_run_on_products(
    transposed: bool, gpu: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pace_gpu.kernels import products

    cutting, multiplying = (
        Compiled(getattr(products, name), gpu) for name in ("_split", "_product")
    )
    monkeypatch.setattr(products, "_split", cutting)
    monkeypatch.setattr(products, "_product", multiplying)
    parts = torch.zeros(3, 2, 100, 64, dtype=torch.bfloat16)  # of two clients
    dense = torch.zeros(2, 100 if transposed else 50, 32)
    out = torch.zeros(2, 50 if transposed else 100, 32)
    products.product(parts, 50, dense, out, transposed)
    assert "mma" in multiplying.ptx
    assert "mma" not in cutting.ptx
