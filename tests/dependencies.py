"""The picture of who imports whom, from the imports: `make dependencies` writes it.

Rows are those of tests/test_layers.py, drawn from top to bottom; a line goes from a module up to one
that it imports. Lines that follow from others are left out: if a imports b and c, and b imports c, then
only a to b to c are drawn. Lines to the same module run together.
"""

from collections.abc import Iterable, Mapping
from itertools import pairwise
from pathlib import Path

from tests.test_layers import ROW, ROWS, SOURCE, imports, part

PICTURE = Path(__file__).parent.parent / "docs" / "assets" / "dependencies.svg"

Graph = Mapping[str, set[str]]
Node = tuple[str, int]  # a module in its own layer, or the line to it in a layer below

LETTER, PAD, TALL = 7.4, 22, 26  # a box, in pixels
WIDE, LINE, STEP, BAND, EDGE = 14.0, 9.0, 52, 20, 20  # gaps, and the distances of layers and rows
SWEEPS = 40


def imported() -> dict[str, set[str]]:
    """Each module or package of ours, and those it imports."""
    found: dict[str, set[str]] = {module: set() for row in ROWS for module in sorted(row)}
    for path in sorted(SOURCE.rglob("*.py")):
        if path.parent == SOURCE and path.stem in ("__init__", "__main__"):
            continue
        assert part(path) in found, f"{part(path)} has no row in tests/test_layers.py: give it one"
        for name in imports(path):
            other = name.removeprefix("pace.").split(".")[0]
            if name.startswith("pace.") and other in ROW and other != part(path):
                found[part(path)].add(other)
    return found


def reached(graph: Graph, start: str) -> set[str]:
    found: set[str] = set()
    waiting = list(graph[start])
    while waiting:
        module = waiting.pop()
        if module not in found:
            found.add(module)
            waiting += graph[module]
    return found


def reduced(graph: Graph) -> dict[str, set[str]]:
    """Without the imports that follow from others."""
    return {
        module: {
            other
            for other in others
            if not any(other in reached(graph, each) for each in others - {other})
        }
        for module, others in graph.items()
    }


def layers(graph: Graph) -> dict[str, int]:
    """The layer of each module: the rows in order, modules of a row below those they import of it."""
    found: dict[str, int] = {}
    first = 0
    for row in ROWS:

        def depth(module: str, row: set[str] = row) -> int:
            return max((depth(other) + 1 for other in graph[module] & row), default=0)

        depths = {module: depth(module) for module in sorted(row)}
        found |= {module: first + deep for module, deep in depths.items()}
        first += max(depths.values()) + 1
    return found


def lines(graph: Graph, layer: Mapping[str, int]) -> list[tuple[Node, Node]]:
    """Every piece of a line, from one layer to the one above; pieces to the same module are one."""
    pieces = {
        ((module if level == layer[module] else other, level), (other, level - 1))
        for module, others in graph.items()
        for other in others
        for level in range(layer[module], layer[other], -1)
    }
    return sorted(pieces, key=lambda piece: (piece[0][1], piece))


def placed(pieces: Iterable[tuple[Node, Node]], layer: Mapping[str, int]) -> dict[Node, float]:
    """Where each node stands from left to right: near those it is joined to, none over another."""
    beside: dict[Node, list[Node]] = {node: [] for node in layer.items()}
    for below, above in pieces:
        beside.setdefault(below, []).append(above)
        beside.setdefault(above, []).append(below)
    rows: list[list[Node]] = [[] for _ in {level for _, level in beside}]
    for node in sorted(beside):
        rows[node[1]].append(node)
    place = {node: 0.0 for row in rows for node in row}
    for row in rows:
        place |= apart(row, [0.0] * len(row), layer)
    for sweep in range(SWEEPS):
        for row in rows if sweep % 2 else reversed(rows):
            side = -1 if sweep % 2 else 1
            wish = {
                node: mean(
                    [place[other] for other in beside[node] if other[1] == node[1] + side]
                    or [place[other] for other in beside[node]]
                    or [place[node]]
                )
                for node in row
            }
            if sweep < SWEEPS // 2:  # then the order is settled, and only distances change
                row.sort(key=lambda node, wish=wish: (round(wish[node], 3), node))  # type: ignore[misc]
            place |= apart(row, [wish[node] for node in row], layer)
    return place


def mean(numbers: list[float]) -> float:
    return sum(numbers) / len(numbers)


def width(node: Node, layer: Mapping[str, int]) -> float:
    module, level = node
    return len(module) * LETTER + PAD if layer[module] == level else 0.0


def apart(row: list[Node], wish: list[float], layer: Mapping[str, int]) -> dict[Node, float]:
    """The places nearest to the wishes, by least squares, in this order and with room for each."""
    offsets = [0.0]
    for left, right in pairwise(row):
        boxes = bool(width(left, layer)) + bool(width(right, layer))
        gap = WIDE if boxes else LINE
        offsets.append(offsets[-1] + (width(left, layer) + width(right, layer)) / 2 + gap)
    pools: list[tuple[float, int]] = []  # neighbours that touch: their mean wish, how many
    for want, offset in zip(wish, offsets, strict=True):
        pools.append((want - offset, 1))
        while len(pools) > 1 and pools[-2][0] > pools[-1][0]:
            (b, many), (a, more) = pools.pop(), pools.pop()
            pools.append(((a * more + b * many) / (more + many), more + many))
    starts = [value for value, many in pools for _ in range(many)]
    return {node: start + offset for node, start, offset in zip(row, starts, offsets, strict=True)}


STYLE = """
    text { font: 12.5px ui-monospace, "SF Mono", "DejaVu Sans Mono", Menlo, monospace; fill: #1d2126; }
    .ground { fill: #fdfdfc; } .band { fill: #eef2f7; }
    .box { fill: #fff; stroke: #7b8794; } .line { fill: none; stroke: #8093a8; stroke-width: 1.2; }
    @media (prefers-color-scheme: dark) {
      text { fill: #e6e9ec; } .ground { fill: #1b1e24; } .band { fill: #242932; }
      .box { fill: #2d333d; stroke: #8b96a3; } .line { stroke: #72849a; }
    }"""


def draw() -> str:
    whole = imported()
    graph, layer = reduced(whole), layers(whole)
    pieces = lines(graph, layer)
    place = placed(pieces, layer)
    left = min(x - width(node, layer) / 2 for node, x in place.items())
    right = max(x + width(node, layer) / 2 for node, x in place.items())
    across, shift = round(right - left + 2 * EDGE), EDGE - left
    down: dict[int, int] = {}  # where each layer's boxes have their middle
    bands = []
    y = 0
    for row in ROWS:
        levels = sorted({layer[module] for module in row})
        for level in levels:
            down[level] = y + BAND + STEP * (level - levels[0])
        high = 2 * BAND + STEP * (len(levels) - 1)
        bands.append(f'<rect class="band" x="0" y="{y}" width="{across}" height="{high}"/>')
        y += high + STEP - 2 * BAND + 4
    tall = y - (STEP - 2 * BAND + 4)
    drawn = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {across} {tall}" role="img">',
        f"<title>The modules of pace in {len(ROWS)} rows, each importing only from its own or above"
        f"</title>\n<style>{STYLE}\n</style>",
        f'<rect class="ground" width="{across}" height="{tall}"/>',
        *bands,
    ]
    for below, above in pieces:
        x, z = place[below] + shift, place[above] + shift
        bottom, top = down[below[1]] - TALL // 2, down[above[1]] + TALL // 2
        half = (bottom + top) / 2
        past = "" if width(above, layer) else f"V{top - TALL}"  # straight on beside the boxes
        drawn.append(
            f'<path class="line" d="M{x:.0f} {bottom}C{x:.0f} {half:.0f} {z:.0f} {half:.0f} '
            f'{z:.0f} {top}{past}"/>'
        )
    for module, level in layer.items():
        node = (module, level)
        size, middle = width(node, layer), place[node] + shift
        drawn.append(
            f'<rect class="box" x="{middle - size / 2:.0f}" y="{down[level] - TALL // 2}" '
            f'width="{size:.0f}" height="{TALL}" rx="5"/>'
            f'<text x="{middle:.0f}" y="{down[level] + 4}" text-anchor="middle">{module}</text>'
        )
    return "\n".join([*drawn, "</svg>", ""])


if __name__ == "__main__":
    PICTURE.write_text(draw())
