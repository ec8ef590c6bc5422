"""The picture in docs/architecture.md is the one that the imports give."""

from itertools import pairwise

from tests.dependencies import (
    PICTURE,
    draw,
    imported,
    layers,
    lines,
    placed,
    reached,
    reduced,
    width,
)


def test_the_picture_is_that_of_the_imports() -> None:
    assert PICTURE.read_text() == draw(), "the imports have changed: `make dependencies`"


def test_the_lines_left_out_follow_from_the_others() -> None:
    whole = imported()
    graph = reduced(whole)
    assert sum(map(len, graph.values())) < sum(map(len, whole.values())) / 2
    for module in whole:
        assert reached(graph, module) == reached(whole, module)


def test_lines_go_up_and_boxes_stand_apart() -> None:
    whole = imported()
    layer = layers(whole)
    pieces = lines(reduced(whole), layer)
    assert all(below[1] == above[1] + 1 for below, above in pieces)
    place = placed(pieces, layer)
    for level in set(layer.values()):
        row = sorted((x, node) for node, x in place.items() if node[1] == level)
        for (x, left), (z, right) in pairwise(row):
            assert z - x > (width(left, layer) + width(right, layer)) / 2
