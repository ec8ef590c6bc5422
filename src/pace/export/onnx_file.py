"""The same networks as ONNX, opset 18: inputs x, edge_index, edge_weight; outputs logits and local.

Written node by node: the file then depends on no tracer of torch's, has dynamic numbers of nodes and
edges, and takes a moment. `network.py` has the formulas.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from torch import Tensor

from pace.errors import SettingError
from pace.export.parts import Part

OPSET, IR = 18, 8
SLOPE = 0.2  # of the leaky ReLU on attention scores
SHORTEST = 1e-12  # of a row that is divided by its length
LOWEST = np.float32(-3e38)  # below every score


@dataclass
class Graph:
    """An ONNX graph while it is written; values go by name."""

    onnx: Any
    nodes: list[Any] = field(default_factory=list)
    constants: list[Any] = field(default_factory=list)

    def __call__(self, operator: str, *inputs: str, **attributes: Any) -> str:
        name = f"{operator.lower()}_{len(self.nodes)}"
        self.nodes.append(self.onnx.helper.make_node(operator, inputs, [name], **attributes))
        return name

    def constant(self, value: Any, kind: Any = np.float32) -> str:
        name = f"constant_{len(self.constants)}"
        array: np.ndarray[Any, Any] = np.asarray(
            value.numpy() if isinstance(value, Tensor) else value, dtype=kind
        )
        self.constants.append(self.onnx.numpy_helper.from_array(array, name))
        return name

    def whole(self, *values: int) -> str:
        return self.constant(values, np.int64)

    def linear(self, rows: str, weight: Any, bias: Any = None) -> str:
        given = [self.constant(each) for each in (weight, bias) if each is not None]
        return self("Gemm", rows, *given, transB=1)

    def full(self, shape: str, value: float) -> str:
        filling = self.onnx.numpy_helper.from_array(np.array([value], dtype=np.float32))
        return self("ConstantOfShape", shape, value=filling)


@dataclass
class Edges:
    """A sparse matrix: where edges begin and end, and their values."""

    graph: Graph
    count: str  # of nodes, (1,)
    source: str
    target: str
    values: str

    def sum(self, rows: str, width: int | None) -> str:
        """Of rows, one an edge, the sum at every target; of numbers where `width` is None."""
        return self._gathered(rows, width, 0.0, "add")

    def most(self, rows: str, width: int) -> str:
        return self._gathered(rows, width, float(LOWEST), "max")

    def _gathered(self, rows: str, width: int | None, start: float, how: str) -> str:
        to = self.graph
        shape = self.count if width is None else to("Concat", self.count, to.whole(width), axis=0)
        places = to("Unsqueeze", self.target, to.whole(1))
        return to("ScatterND", to.full(shape, start), places, rows, reduction=how)

    def times(self, rows: str, width: int) -> str:
        """A H."""
        to = self.graph
        weights = to("Unsqueeze", self.values, to.whole(1))
        return self.sum(to("Mul", weights, to("Gather", rows, self.source)), width)


def edges(to: Graph, *, weighted: bool, loops: float | None) -> Edges:
    """The graph's own edges, with self-loops of that weight."""
    count = to("Shape", "x", start=0, end=1)
    first, second = (to("Gather", "edge_index", to.constant(row, np.int64)) for row in (0, 1))
    values = "edge_weight" if weighted else to.full(to("Shape", "edge_weight"), 1.0)
    if loops is not None:
        zero, one = to.constant(0, np.int64), to.constant(1, np.int64)
        own = to("Range", zero, to("Squeeze", count), one)
        first, second = (to("Concat", ends, own, axis=0) for ends in (first, second))
        values = to("Concat", values, to.full(count, loops), axis=0)
    return Edges(to, count, first, second, values)


def propagation(to: Graph) -> Edges:
    """P = D^-1/2 (A + I) D^-1/2."""
    made = edges(to, weighted=True, loops=1.0)
    root = to("Reciprocal", to("Sqrt", made.sum(made.values, None)))
    ends = (to("Gather", root, ends) for ends in (made.source, made.target))
    made.values = to("Mul", made.values, to("Mul", *ends))
    return made


def _gcn(to: Graph, part: Part, layer: int, rows: str, along: Edges) -> str:
    weight, bias = (part.params[f"{layer}.{end}"] for end in ("weight", "bias"))
    if part.kind == "headed" and layer + 2 == len(part.widths):
        return to.linear(rows, weight, bias)
    spread = along.times(to.linear(rows, weight), len(weight))
    return to("Add", spread, to.constant(bias))


def _sage(to: Graph, part: Part, layer: int, rows: str, along: Edges) -> str:
    around, own = f"{layer}.neighbours", f"{layer}.root"
    weight, bias = (part.params[f"{around}.{end}"] for end in ("weight", "bias"))
    near = to.linear(along.times(rows, weight.shape[1]), weight, bias)
    return to("Add", near, to.linear(rows, part.params[f"{own}.weight"]))


def _means(to: Graph) -> Edges:
    made = edges(to, weighted=False, loops=None)
    degree = made.sum(made.values, None)
    made.values = to("Reciprocal", to("Gather", degree, made.target))
    return made


def _gin(to: Graph, part: Part, layer: int, rows: str, along: Edges) -> str:
    made = along.times(rows, part.widths[layer])
    for place in (0, 1):
        name = f"{layer}.mlp.{place}"
        made = to.linear(made, part.params[f"{name}.weight"], part.params[f"{name}.bias"])
        made = made if place else to("Relu", made)
    return made


def _gat(to: Graph, part: Part, layer: int, rows: str, along: Edges) -> str:
    heads, wide = part.params[f"{layer}.attention.source"].shape[1:]
    split = to(
        "Reshape", to.linear(rows, part.params[f"{layer}.weight"]), to.whole(-1, heads, wide)
    )
    said = []
    for end, ends in (("source", along.source), ("target", along.target)):
        vector = to.constant(part.params[f"{layer}.attention.{end}"])
        score = to("ReduceSum", to("Mul", split, vector), to.whole(2), keepdims=0)
        said.append(to("Gather", score, ends))
    scores = to("LeakyRelu", to("Add", *said), alpha=SLOPE)
    peaks = to("Gather", along.most(scores, heads), along.target)
    shares = to("Exp", to("Sub", scores, peaks))
    shares = to("Div", shares, to("Gather", along.sum(shares, heads), along.target))
    weighed = to("Mul", to("Unsqueeze", shares, to.whole(2)), to("Gather", split, along.source))
    summed = along.sum(to("Reshape", weighed, to.whole(-1, heads * wide)), heads * wide)
    if layer + 2 == len(part.widths):
        by_head = to("Reshape", summed, to.whole(-1, heads, wide))
        summed = to("ReduceMean", by_head, to.whole(1), keepdims=0)
    return to("Add", summed, to.constant(part.params[f"{layer}.bias"]))


def _sgc(to: Graph, part: Part, layer: int, rows: str, along: Edges) -> str:
    for _ in range(part.settings["hops"]):
        rows = along.times(rows, part.widths[0])
    return to.linear(rows, part.params["0.hops.weight"], part.params["0.hops.bias"])


def _mlp(to: Graph, part: Part, layer: int, rows: str, along: Edges) -> str:
    name = f"{layer}.{'predict' if part.kind == 'appnp' else 'linear'}"
    return to.linear(rows, part.params[f"{name}.weight"], part.params[f"{name}.bias"])


def _appnp(to: Graph, part: Part, layer: int, rows: str, along: Edges) -> str:
    walk = own = _mlp(to, part, layer, rows, along)
    if layer + 2 < len(part.widths):
        return walk
    back, on = (to.constant(share) for share in _shares(part.settings["teleport"]))
    for _ in range(part.settings["hops"]):
        walk = to("Add", to("Mul", on, along.times(walk, part.widths[-1])), to("Mul", back, own))
    return walk


def _shares(teleport: float) -> tuple[float, float]:
    return teleport, 1 - teleport


def _ridge(to: Graph, part: Part, layer: int, rows: str, along: Edges) -> str:
    rows = to("Mul", to("Sign", rows), to("Sqrt", to("Abs", rows)))
    for _ in range(part.settings["hop"]):
        rows = along.times(rows, part.widths[0])
    length = to("ReduceL2", rows, to.whole(1), keepdims=1)
    unit = to("Div", rows, to("Max", length, to.constant(SHORTEST)))
    return to("Mul", to.constant(part.settings["scale"]), to.linear(unit, part.params["0.weight"]))


Step = Callable[[Graph, Part, int, str, Edges], str]
STEPS: dict[str, Step] = {
    "gcn": _gcn,
    "headed": _gcn,
    "sage": _sage,
    "gin": _gin,
    "gat": _gat,
    "sgc": _sgc,
    "appnp": _appnp,
    "mlp": _mlp,
    "ridge": _ridge,
}


def _along(to: Graph, part: Part) -> Edges:
    """What the part multiplies by."""
    if part.kind == "sage":
        return _means(to)
    if part.kind == "gin":
        return edges(to, weighted=False, loops=1 + part.settings["epsilon"])
    return edges(to, weighted=False, loops=1.0) if part.kind == "gat" else propagation(to)


def _logits(to: Graph, part: Part) -> str:
    rows, along = "x", _along(to, part)
    for layer in range(len(part.widths) - 1):
        rows = STEPS[part.kind](to, part, layer, rows if layer == 0 else to("Relu", rows), along)
    return rows


def encode(parts: Sequence[Part], names: Mapping[str, Sequence[str]]) -> bytes:
    """The file's bytes, checked by ONNX itself; `names` are of classes and features, kept as JSON."""
    try:
        import onnx
        import onnx.checker
        import onnx.helper
        import onnx.numpy_helper
    except ImportError:
        raise SettingError("ONNX needs the package onnx: pip install 'pace-fgl[export]'") from None
    to = Graph(onnx)
    sets = [_logits(to, part) for part in parts]
    weighed = [
        to("Mul", to.constant(part.weight), each)
        for part, each in zip(parts, sets, strict=True)
        if part.weight
    ]
    to.nodes.append(onnx.helper.make_node("Sum", weighed, ["logits"]))
    to.nodes.append(onnx.helper.make_node("Identity", [sets[0]], ["local"]))
    number, place = onnx.TensorProto.FLOAT, onnx.TensorProto.INT64
    features, classes = parts[0].widths[0], parts[0].widths[-1]
    value = onnx.helper.make_tensor_value_info
    graph = onnx.helper.make_graph(
        to.nodes,
        "pace",
        [
            value("x", number, ["nodes", features]),
            value("edge_index", place, [2, "edges"]),
            value("edge_weight", number, ["edges"]),
        ],
        [value(name, number, ["nodes", classes]) for name in ("logits", "local")],
        to.constants,
    )
    opset = onnx.helper.make_opsetid("", OPSET)
    made = onnx.helper.make_model(graph, producer_name="pace", opset_imports=[opset])
    made.ir_version = IR
    onnx.helper.set_model_props(made, {key: json.dumps(value) for key, value in names.items()})
    onnx.checker.check_model(made, full_check=True)
    content: bytes = made.SerializeToString()
    return content
