"""Reading a table takes at most ten times its bytes, whatever its cells are."""

import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from pace.tables.cells import Words

SIZE = 3_000_000  # bytes
CHILD = """
import sys
from pathlib import Path
import torch
from pace.errors import ProblemsError
from pace.tables import Columns, import_graph

def mebibytes(kind):
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith(kind))

def read(nodes):
    try:
        import_graph(Path(nodes), Path("edges.csv"), Columns(label="label", id="id"))
    except ProblemsError as error:
        print(error, file=sys.stderr)

read("few.csv")
before = mebibytes("VmRSS")
read("many.csv")
print(mebibytes("VmHWM") - before)
"""


def words(row: int, draw: random.Random) -> str:
    return ",".join(draw.choice(("red", "blue", "", "green")) for _ in range(10))


def commas(row: int, draw: random.Random) -> str:
    return ";".join(f"{draw.random():.2f}".replace(".", ",") for _ in range(10))


def ragged(row: int, draw: random.Random) -> str:
    return ",".join("0" * (10 if row < 9 else 1))


@pytest.mark.skipif(sys.platform != "linux", reason="peak memory is read from /proc")
@pytest.mark.parametrize("cells", [words, commas, ragged])
def test_ten_times_the_bytes(tmp_path: Path, cells: Callable[[int, random.Random], str]) -> None:
    draw, comma = random.Random(0), ";" if cells is commas else ","
    lines = [comma.join(("id", "label", *(f"x{column}" for column in range(10)))) + "\n"]
    size = 0
    while size < SIZE:
        row = len(lines)
        lines.append(f"n{row}{comma}{row % 3}{comma}{cells(row, draw)}\n")
        size += len(lines[-1])
    (tmp_path / "many.csv").write_text("".join(lines))
    (tmp_path / "few.csv").write_text("".join(lines[:9]))
    (tmp_path / "edges.csv").write_text("source,target\nn1,n2\n")
    done = subprocess.run(
        [sys.executable, "-c", CHILD], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert float(done.stdout) < 10 * size / 2**20 + 5, done.stderr


def test_words_are_what_lists_are() -> None:
    draw = random.Random(1)
    for count in (0, 1, 511, 512, 513, 5_000):
        cells = [draw.choice(("", "ü", "a b", "–", f"{draw.random()}")) for _ in range(count)]
        packed = Words()
        for start in range(0, count, 700):
            packed.extend(cells[start : start + 700])
        assert list(packed) == cells
        assert len(packed) == count
        places = sorted(draw.sample(range(count), count // 3))
        assert [packed[place] for place in places] == [cells[place] for place in places]
    assert list(Words(["a\0b", "c"])) == ["a b", "c"]  # NUL ends a cell
