"""A `torch.nn.Module` of one's own as a model: PyG's calls, PACE's moments.

What each `Linear` effectively multiplies is watched by hooks. Where a PyG convolution multiplies
before it propagates (GCNConv, GATConv), the rows are propagated as the layer does it. A parameter
without such rows (biases, norms, attention, embeddings) takes the plain mean, and `averaged` names it.

BatchNorm normalises by the graph it is given, in training and after: its weights are averaged, and
running statistics are neither kept nor sent. LayerNorm has none; its weights are averaged too.
"""

import copy
import hashlib
import inspect
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from pace.errors import SettingError
from pace.graph import Graph
from pace.models.base import Drop, Field, Later, Model, Pass, Rows, identity
from pace.params import Params

NODES = 3  # of the graph on which a module is tried: unlike its number of edges


def from_torch(
    module: nn.Module | Callable[[int, int], nn.Module],
    features: int,
    classes: int,
    *,
    name: str = "",
) -> "TorchModel":
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
        >>> import torch_geometric.nn
        >>> from pace import from_torch
        >>> from_torch(torch_geometric.nn.GCN(5, 8, num_layers=2, out_channels=3), 5, 3).averaged
        ('convs.0.bias', 'convs.1.bias')
    """
    make = partial(_reset, copy.deepcopy(module)) if isinstance(module, nn.Module) else module
    with _seeded(0):
        template: Any = make(features, classes)
    if not isinstance(template, nn.Module):
        kind = type(template).__name__
        raise SettingError(f"the factory made a {kind}, expected a torch.nn.Module")
    for parent in template.modules():
        for child_name, child in parent.named_children():
            if isinstance(child, nn.modules.batchnorm._BatchNorm):
                setattr(parent, child_name, _Standardise(child))
    shapes = [(path, tuple(value.shape)) for path, value in template.named_parameters()]
    if not shapes:
        raise SettingError("the module has no parameters: nothing of it can be trained")
    structure = hashlib.sha256(f"{template!r} {shapes}".encode()).hexdigest()
    model = TorchModel((features, classes), name=name, structure=structure)
    object.__setattr__(model, "module", template)
    object.__setattr__(model, "factory", make)
    logits = model.probe().logits
    if logits.shape != (NODES, classes):
        raise SettingError(
            f"the module returned {tuple(logits.shape)} for {NODES} nodes, expected "
            f"({NODES}, {classes}): a row of logits a node"
        )
    return model


@dataclass(frozen=True)
class TorchModel(Model):
    """What `from_torch` makes. Equal names, sizes and structures are one model in a digest."""

    title: ClassVar[str] = "network of one's own"
    dropout: ClassVar[float] = 0.5  # how its stream is drawn; the module's own rates apply
    module: ClassVar[nn.Module]  # a model has its own; no field, since it is no setting
    factory: ClassVar[Any]

    widths: tuple[int, ...]
    name: str = ""
    structure: str = ""
    """SHA-256 of the module's layers, parameters and shapes."""

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        return {name: tuple(value.shape) for name, value in self.module.named_parameters()}

    @cached_property
    def reads_weights(self) -> bool:
        return len(inspect.signature(self.module.forward).parameters) > 2

    @cached_property
    def averaged(self) -> tuple[str, ...]:
        """Parameters that multiply no rows of nodes."""
        multiplying = self.probe().inputs
        return tuple(name for name in self.shapes if name not in multiplying)

    def probe(self) -> Pass:
        """A pass over a small graph."""
        edges, labels = torch.tensor([[0], [1]]), torch.zeros(NODES, dtype=torch.int64)
        return self(self.start(0), Graph.build(torch.ones(NODES, self.features), edges, labels))

    def start(self, seed: int) -> dict[str, Tensor]:
        """W_0: the module made, or reset, under this seed."""
        with _seeded(seed):
            fresh = self.factory(self.features, self.classes)
        return {
            name: value.detach().float().clone(memory_format=torch.contiguous_format)
            for name, value in fresh.named_parameters()
        }

    def field(self, graph: Graph, centers: Tensor | None = None) -> Field:
        """The graph, and the nodes that are asked about, in place of operators."""
        count = graph.nodes if centers is None else int(centers.sum())
        goal = None if centers is None else centers.nonzero().flatten()
        return Field((torch.arange(count, device=graph.x.device),), (graph, goal))

    def forward(self, params: Params, field: Field, drop: Drop = identity) -> Pass:
        """One pass; in training the module's dropout is seeded anew from the client's stream."""
        (graph, goal), training = field.operators, drop is not identity
        module = self.module.to(graph.x.device).train(training)
        weights = (graph.weights,) if graph.weights is not None and self.reads_weights else ()
        given = (module, dict(params), (graph.x, graph.edges, *weights))
        inputs, unpropagated = dict[str, Rows](), dict[str, Rows]()
        if training:
            bits = (drop(torch.ones(63)) > 0).tolist()
            with _seeded(sum(1 << index for index, bit in enumerate(bits) if bit)):
                logits = torch.func.functional_call(*given)
        else:
            with _watched(module, params) as (calls_by_name, spreads):
                logits = torch.func.functional_call(*given)
            for name, calls in calls_by_name.items():
                if any(rows.ndim != 2 or rows.shape[0] != graph.nodes for rows in calls):
                    continue  # rows of something else than nodes
                read = calls[0] if len(calls) == 1 else torch.stack(calls, 1)
                spread = spreads.get(name) if len(calls) == 1 else None
                unpropagated[name] = read
                inputs[name] = read if spread is None else Later(partial(spread, read))
        if goal is not None:
            logits = logits.index_select(0, goal)
        return Pass(inputs, unpropagated, (logits,))


def _reset(module: nn.Module, features: int, classes: int) -> nn.Module:
    """A copy of a module whose parts drew their parameters anew."""
    fresh = copy.deepcopy(module)
    for part in fresh.modules():
        if callable(reset := getattr(part, "reset_parameters", None)):
            reset()
    return fresh


Spread = Callable[[Tensor, Tensor], Tensor]  # (rows of all nodes, nodes) -> their propagated rows


@contextmanager
def _watched(
    module: nn.Module, params: Params
) -> Iterator[tuple[dict[str, list[Tensor]], dict[str, Spread]]]:
    """What every linear layer is given while the module runs, and how its convolution propagates it."""
    linears: tuple[Any, ...] = (nn.Linear,)
    rules: dict[Any, Callable[..., Tensor]] = {}
    if "torch_geometric" in sys.modules:  # else the module has nothing of it
        from torch_geometric.nn import GATConv, GCNConv
        from torch_geometric.nn.dense.linear import Linear

        linears, rules = (nn.Linear, Linear), {GCNConv: _gcn, GATConv: _gat}
    given: dict[str, list[Tensor]] = {}
    spreads: dict[str, Spread] = {}

    def note(name: str, _: nn.Module, arguments: Any) -> None:
        given.setdefault(name, []).append(arguments[0])

    def arrive(prefix: str, rule: Any, conv: nn.Module, arguments: Any, named: Any) -> None:
        own = {key[len(prefix) :]: params[key] for key in params if key.startswith(prefix)}
        edges = list(arguments[1:3])
        edges += [named.get(key) for key in ("edge_index", "edge_weight")[len(edges) :]]
        spreads[f"{prefix}lin.weight"] = lambda rows, nodes: rule(conv, own, rows, *edges)[nodes]

    with ExitStack() as hooks:
        for path, part in module.named_modules():
            prefix = f"{path}." if path else ""
            if isinstance(part, linears) and f"{prefix}weight" in params:
                watch = partial(note, f"{prefix}weight")
                hooks.enter_context(part.register_forward_pre_hook(watch))
            rule = next((rule for kind, rule in rules.items() if isinstance(part, kind)), None)
            if rule is not None and f"{prefix}lin.weight" in params:
                watch = partial(arrive, prefix, rule)
                hooks.enter_context(part.register_forward_pre_hook(watch, with_kwargs=True))
        yield given, spreads


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

    def forward(self, rows: Tensor) -> Tensor:
        others = [axis for axis in range(rows.ndim) if axis != 1]
        centred = rows - rows.mean(others, keepdim=True)
        variance = centred.square().mean(others, keepdim=True)
        scaled = centred / (variance + self.eps).sqrt()
        if self.weight is None:
            return scaled
        shape = [1, -1] + [1] * (rows.ndim - 2)
        return scaled * self.weight.view(shape) + self.bias.view(shape)


@contextmanager
def _seeded(seed: int) -> Iterator[None]:
    """torch's generators at a seed, and afterwards as they were."""
    with torch.random.fork_rng(range(torch.cuda.device_count())):
        torch.manual_seed(seed)
        yield
