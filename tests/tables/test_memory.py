"""Reading a table takes at most ten times its bytes, whatever its cells are."""

import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from pace.tables.cells import Words

SIZE = 6_000_000  # bytes
NOISE = 10  # MiB that the allocator may hold beyond, more or less from run to run
CHILD = """
import sys
from pathlib import Path
import torch
from pace.errors import ProblemsError
from pace.tables import Columns, import_graph

def mebibytes(kind):
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith(kind))

def read(nodes, edges):
    try:
        import_graph(Path(nodes), Path(edges), Columns(label="label", id="id"))
    except ProblemsError as error:
        print(error, file=sys.stderr)

read("few.csv", "few_edges.csv")
before = mebibytes("VmRSS")
read("many.csv", "edges.csv")
print(mebibytes("VmHWM") - before)
"""


def words(row: int, draw: random.Random) -> str:
    return ",".join(draw.choice(("red", "blue", "", "green")) for _ in range(10))


def commas(row: int, draw: random.Random) -> str:
    return ";".join(f"{draw.random():.2f}".replace(".", ",") for _ in range(10))


def ragged(row: int, draw: random.Random) -> str:
    return ",".join("0" * (10 if row < 9 else 1))


def short(row: int, draw: random.Random) -> str:
    return str(row % 7)


def check_peak(folder: Path, nodes: list[str], edges: list[str]) -> None:
    """Both tables take ten times their bytes more than few rows of them."""
    for name, lines in (("many.csv", nodes), ("edges.csv", edges)):
        (folder / name).write_text("".join(lines))
    (folder / "few.csv").write_text("".join(nodes[:9]))
    (folder / "few_edges.csv").write_text("".join(edges[:1]))
    done = subprocess.run(
        [sys.executable, "-c", CHILD], cwd=folder, capture_output=True, text=True, check=True
    )
    size = sum(map(len, (*nodes, *edges)))
    assert float(done.stdout) < 10 * size / 2**20 + NOISE, done.stderr


@pytest.mark.skipif(sys.platform != "linux", reason="peak memory is read from /proc")
@pytest.mark.parametrize("cells", [words, commas, ragged, short])
def test_ten_times_the_bytes(tmp_path: Path, cells: Callable[[int, random.Random], str]) -> None:
    draw, comma = random.Random(0), ";" if cells is commas else ","
    width = 1 if cells is short else 10
    lines = [comma.join(("id", "label", *(f"x{column}" for column in range(width)))) + "\n"]
    size = 0
    while size < SIZE:
        row = len(lines)
        lines.append(f"n{row}{comma}{row % 3}{comma}{cells(row, draw)}\n")
        size += len(lines[-1])
    check_peak(tmp_path, lines, ["source,target\n", "n1,n2\n"])


@pytest.mark.skipif(sys.platform != "linux", reason="peak memory is read from /proc")
def test_ten_times_the_bytes_of_edges(tmp_path: Path) -> None:
    draw, nodes = random.Random(0), 5_000
    rows = [f"n{row},{row % 3},{row % 7}\n" for row in range(nodes)]
    ends = [(draw.randrange(nodes), draw.randrange(nodes)) for _ in range(SIZE // 12)]
    edges = [f"n{one},n{two}\n" for one, two in ends]
    check_peak(tmp_path, ["id,label,x\n", *rows], ["source,target\n", *edges])


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
