"""A `torch.nn.Module` of one's own as a model: PyG's calls, PACE's moments.

What each `Linear` effectively multiplies is watched by hooks. Where a PyG convolution multiplies
before it propagates (GCNConv, GATConv), the rows are propagated as the layer does it. A parameter
without such rows (biases, norms, attention, embeddings) takes the plain mean, and `averaged` names it.

BatchNorm normalises by the graph it is given, in training and after: its weights are averaged, and
running statistics are neither kept nor sent. LayerNorm has none; its weights are averaged too.
"""

from __future__ import annotations

import copy
import hashlib
import inspect
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from pace.errors import SettingError
from pace.graph import Graph, expect_graph
from pace.models.base import Drop, Field, Later, Pass, Rows, Sized, identity
from pace.params import Params


def from_torch(
    module: nn.Module | Callable[[int, int], nn.Module],
    features: int,
    classes: int,
    *,
    name: str = "",
) -> TorchModel:
    """A module called with `(x, edge_index)` or `(x, edge_index, edge_weight)` as a model.

    W_0 is drawn from the federation's seed: a factory is called under it, a module's own
    `reset_parameters` are. The module itself is copied and never changed.

    Args:
        module: the module, or a function of features and classes that makes it.
        features: columns of x.
        classes: columns of what it returns, the logits.
        name: where a job can find the factory, as `package.module:factory`.
    Returns:
        The model, for `Federation(model, Pace())`.
    Raises:
        SettingError: what it returns has another shape, or nothing of it can be trained.

    Example:
        >>> import torch
        >>> from pace import from_torch
        >>> net = torch.nn.Linear(5, 3)
        >>> class Plain(torch.nn.Module):
        ...     def __init__(self):
        ...         super().__init__()
        ...         self.out = net
        ...     def forward(self, x, edge_index):
        ...         return self.out(x)
        >>> from_torch(Plain(), 5, 3).averaged
        ('out.bias',)
    """
    make = module if not isinstance(module, nn.Module) else None
    with _seeded(0):
        template = copy.deepcopy(module) if make is None else make(features, classes)
    if not isinstance(template, nn.Module):
        raise SettingError(
            f"the factory made a {type(template).__name__}, expected a torch.nn.Module"
        )
    ready = _by_batch(template)
    model = TorchModel((features, classes), name=name, structure=_structure(ready))
    object.__setattr__(model, "template", ready)
    object.__setattr__(model, "factory", make)
    model.check()
    return model


@dataclass(frozen=True, eq=False, kw_only=True)
class Whole(Field):
    """The graph, and which of its nodes are asked about."""

    graph: Graph
    goal: Tensor | None


@dataclass(frozen=True)
class TorchModel(Sized):
    """What `from_torch` makes. Equal names, sizes and structures are one model in a digest."""

    title: ClassVar[str] = "network of one's own"
    hidden_layers: ClassVar[bool] = False
    dropout: ClassVar[float] = 0.5  # how its stream is drawn; the module's own rates apply

    widths: tuple[int, ...]
    name: str = ""
    structure: str = ""
    """SHA-256 of the module's layers, parameters and shapes."""

    @property
    def module(self) -> nn.Module:
        module: nn.Module = self.__dict__["template"]
        return module

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        return {name: tuple(value.shape) for name, value in self.module.named_parameters()}

    @cached_property
    def reads_weights(self) -> bool:
        return len(inspect.signature(self.module.forward).parameters) > 2

    @cached_property
    def averaged(self) -> tuple[str, ...]:
        """Parameters that multiply no rows of nodes."""
        found = self(self.start(0), _probe(self.features)).inputs
        return tuple(name for name in self.shapes if name not in found)

    def check(self) -> None:
        """Refuse a module that cannot be a model, with the reason."""
        if not self.shapes:
            raise SettingError("the module has no parameters: nothing of it can be trained")
        logits = self(self.start(0), _probe(self.features)).logits
        if logits.shape != (NODES, self.classes):
            raise SettingError(
                f"the module returned {tuple(logits.shape)} for {NODES} nodes, expected "
                f"({NODES}, {self.classes}): a row of logits a node"
            )

    def start(self, seed: int) -> dict[str, Tensor]:
        """W_0: the module made, or reset, under this seed."""
        factory = self.__dict__["factory"]
        with _seeded(seed):
            if factory is not None:
                fresh = factory(self.features, self.classes)
            else:
                fresh = copy.deepcopy(self.module)
                for part in fresh.modules():
                    if callable(reset := getattr(part, "reset_parameters", None)):
                        reset()
        return {
            name: value.detach().float().clone(memory_format=torch.contiguous_format)
            for name, value in fresh.named_parameters()
        }

    def field(self, graph: Graph, centers: Tensor | None = None) -> Whole:
        count = graph.nodes if centers is None else int(centers.sum())
        goal = None if centers is None else centers.nonzero().flatten()
        return Whole((torch.arange(count, device=graph.x.device),), graph=graph, goal=goal)

    def forward(self, params: Params, field: Whole, drop: Drop = identity) -> Pass:
        """One pass; in training the module's dropout is seeded anew from the client's stream."""
        graph, training = field.graph, drop is not identity
        module = self.module.to(graph.x.device).train(training)
        given = (graph.x, graph.edges)
        if graph.weights is not None and self.reads_weights:
            given = (*given, graph.weights)  # type: ignore[assignment]
        if training:
            with _seeded(_seed_of(drop)):
                logits = torch.func.functional_call(module, dict(params), given)
            inputs: dict[str, Rows] = {}
            before: dict[str, Rows] = {}
        else:
            with _watched(module, params) as seen:
                logits = torch.func.functional_call(module, dict(params), given)
            inputs, before = seen.rows(graph.nodes)
        chosen = logits if field.goal is None else logits.index_select(0, field.goal)
        return Pass(inputs, before, (chosen,))

    def __call__(self, params: Params, graph: Graph) -> Pass:
        """A pass over the whole graph without dropout."""
        expect_graph(graph)
        return self.forward(params, self.field(graph))


class Watched:
    """What every linear layer of a module was given, and how its convolution propagates it."""

    def __init__(self) -> None:
        self.given: dict[str, list[Tensor]] = {}
        self.spread: dict[str, Callable[[Tensor], Tensor]] = {}

    def rows(self, nodes: int) -> tuple[dict[str, Rows], dict[str, Rows]]:
        """Rows as they are multiplied in effect, and before they travelled along edges."""
        inputs: dict[str, Rows] = {}
        before: dict[str, Rows] = {}
        for name, calls in self.given.items():
            if any(rows.ndim != 2 or rows.shape[0] != nodes for rows in calls):
                continue  # rows of something else than nodes
            raw = calls[0] if len(calls) == 1 else torch.stack(calls, 1)
            before[name] = raw
            spread = self.spread.get(name) if len(calls) == 1 else None
            inputs[name] = raw if spread is None else Later(_chosen(spread, raw))
        return inputs, before


def _chosen(spread: Callable[[Tensor], Tensor], rows: Tensor) -> Callable[[Tensor], Tensor]:
    return lambda nodes: spread(rows)[nodes]


def _layer_types() -> tuple[Any, Any, Any]:
    """Linear layers, GCN and GAT convolutions, of PyG too where the module may have some of them."""
    if "torch_geometric" not in sys.modules:
        return (nn.Linear,), (), ()
    from torch_geometric.nn import GATConv, GCNConv
    from torch_geometric.nn.dense.linear import Linear

    return (nn.Linear, Linear), (GCNConv,), (GATConv,)


@contextmanager
def _watched(module: nn.Module, params: Params) -> Iterator[Watched]:
    """Hooks on every linear layer and on the convolutions that multiply before they propagate."""
    linears, gcns, gats = _layer_types()
    seen = Watched()
    handles = []
    for path, part in module.named_modules():
        name = f"{path}.weight" if path else "weight"
        if isinstance(part, linears) and name in params:

            def note(_: nn.Module, given: Any, name: str = name) -> None:
                seen.given.setdefault(name, []).append(given[0])

            handles.append(part.register_forward_pre_hook(note))
        rule = _gcn if isinstance(part, gcns) else _gat if isinstance(part, gats) else None
        weight = f"{path}.lin.weight" if path else "lin.weight"
        if rule is not None and weight in params:

            def arrive(
                conv: nn.Module,
                given: Any,
                named: Any,
                weight: str = weight,
                rule: Callable[..., Tensor] = rule,
                path: str = path,
            ) -> None:
                own = {
                    key.removeprefix(f"{path}." if path else ""): value
                    for key, value in params.items()
                    if not path or key.startswith(f"{path}.")
                }
                edges = given[1:] if len(given) > 1 else (named.get("edge_index"),)
                edges = (*edges, named.get("edge_weight")) if len(edges) == 1 else edges
                seen.spread[weight] = lambda rows: rule(conv, own, rows, *edges[:2])

            handles.append(part.register_forward_pre_hook(arrive, with_kwargs=True))
    try:
        yield seen
    finally:
        for handle in handles:
            handle.remove()


def _gcn(conv: Any, own: Params, rows: Tensor, edges: Tensor, weights: Tensor | None) -> Tensor:
    """P H, with the P of this layer's settings."""
    from torch_geometric.nn.conv.gcn_conv import gcn_norm

    if conv.normalize:
        how = (conv.improved, conv.add_self_loops, conv.flow, rows.dtype)
        edges, weights = gcn_norm(edges, weights, len(rows), *how)
    spread: Tensor = conv.propagate(edges, x=rows, edge_weight=weights)
    return spread


def _gat(conv: Any, own: Params, rows: Tensor, edges: Tensor, weights: Tensor | None) -> Tensor:
    """Σ_j A_h[i, j] x_j of every head: (nodes, heads, columns)."""
    plain = copy.copy(conv)
    plain._forward_pre_hooks = type(conv._forward_pre_hooks)()
    _, (ends, shares) = torch.func.functional_call(
        plain, dict(own), (rows, edges), {"return_attention_weights": True}
    )
    source, target = ends
    sums = rows.new_zeros(len(rows), shares.shape[1], rows.shape[1])
    for head in range(shares.shape[1]):  # a head at a time: an edge has a whole row of columns
        sums[:, head].index_add_(0, target, shares[:, head, None] * rows[source])
    return sums


class _Standardise(nn.Module):
    """BatchNorm by the statistics of what it is given, with its weights and names."""

    def __init__(self, norm: Any) -> None:
        super().__init__()
        self.eps: float = norm.eps
        self.weight: nn.Parameter | None = norm.weight
        self.bias: nn.Parameter = norm.bias

    def reset_parameters(self) -> None:
        if self.weight is not None:
            nn.init.ones_(self.weight)
            nn.init.zeros_(self.bias)

    def forward(self, rows: Tensor) -> Tensor:
        others = [place for place in range(rows.ndim) if place != 1]
        centred = rows - rows.mean(others, keepdim=True)
        variance = centred.square().mean(others, keepdim=True)
        scaled = centred / (variance + self.eps).sqrt()
        shape = [1, -1] + [1] * (rows.ndim - 2)
        if self.weight is not None:
            scaled = scaled * self.weight.view(shape) + self.bias.view(shape)
        return scaled


def _by_batch(module: nn.Module) -> nn.Module:
    """The module with every BatchNorm normalising by what it is given."""
    kind = nn.modules.batchnorm._BatchNorm
    if isinstance(module, kind):
        return _Standardise(module)
    for parent in module.modules():
        for name, child in parent.named_children():
            if isinstance(child, kind):
                setattr(parent, name, _Standardise(child))
    return module


def _structure(module: nn.Module) -> str:
    """Changes with any layer, parameter or shape."""
    shapes = [(name, tuple(value.shape)) for name, value in module.named_parameters()]
    return hashlib.sha256(f"{module!r} {shapes}".encode()).hexdigest()


NODES = 3  # of the graph on which a module is tried: unlike its number of edges


def _probe(features: int) -> Graph:
    edges = torch.tensor([[0], [1]])
    return Graph.build(torch.ones(NODES, features), edges, torch.zeros(NODES, dtype=torch.int64))


def _seed_of(drop: Drop) -> int:
    """63 bits of a client's stream."""
    bits = (drop(torch.ones(63)) > 0).tolist()
    return sum(1 << place for place, bit in enumerate(bits) if bit)


@contextmanager
def _seeded(seed: int) -> Iterator[None]:
    """torch's generators at a seed, and afterwards as they were."""
    devices = list(range(torch.cuda.device_count())) if torch.cuda.is_available() else []
    with torch.random.fork_rng(devices):
        torch.manual_seed(seed)
        yield
