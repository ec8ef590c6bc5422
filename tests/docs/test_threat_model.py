"""What the threat model says of the source, held by reading the source."""

import ast
import re
from pathlib import Path

import pytest

import pace
import pace_network
from pace.errors import PaceError

SOURCE = Path(pace.__file__).parent
PAGE = Path(__file__).parents[2] / "docs" / "threat-model.md"
# Modules that run what they read, or make objects of it.
FORBIDDEN = {"pickle", "cPickle", "dill", "cloudpickle", "joblib", "marshal", "shelve", "yaml"}
CALLS = {"torch.load", "numpy.load", "eval", "exec", "pd.read_pickle", "torch.jit.load"}
PLAIN = "np.load"  # only where it is told to take no objects
FILES = sorted([*SOURCE.rglob("*.py"), *Path(pace_network.__file__).parent.rglob("*.py")])


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_no_module_runs_what_it_reads(path: Path) -> None:
    """No pickle, no torch.load, no allow_pickle: benchmarks are read by PyG, from a trusted folder."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            assert not {alias.name.split(".")[0] for alias in node.names} & FORBIDDEN
        elif isinstance(node, ast.ImportFrom) and node.module:
            assert node.module.split(".")[0] not in FORBIDDEN
        elif isinstance(node, ast.Call):
            told = {keyword.arg for keyword in node.keywords}
            assert ast.unparse(node.func) not in CALLS, f"line {node.lineno}"
            assert ast.unparse(node.func) != PLAIN or "allow_pickle" in told, f"line {node.lineno}"
            assert not any(
                keyword.arg == "allow_pickle" and ast.unparse(keyword.value) != "False"
                for keyword in node.keywords
            ), f"line {node.lineno}"


def test_the_page_knows_every_code_of_a_refusal() -> None:
    def kinds(kind: type[PaceError]) -> list[type[PaceError]]:
        return [kind, *(each for child in kind.__subclasses__() for each in kinds(child))]

    page = PAGE.read_text()
    for kind in kinds(PaceError):
        if kind.code not in ("pace", "wire"):  # the two that only gather others
            assert f"`{kind.code}`" in page, kind.code


def test_the_page_speaks_of_every_fault() -> None:
    """Each fault's number stands in the last column of some row."""
    from tests.faults import FAULTS

    rows = [line for line in PAGE.read_text().splitlines() if line.startswith("|")]
    spoken = {int(number) for row in rows for number in re.findall(r"#(\d+)", row)}
    assert set(FAULTS) <= spoken
