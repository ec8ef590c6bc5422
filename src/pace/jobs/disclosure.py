"""What leaves a site: every tensor of an upload in plain words, with its bytes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch

from pace import params
from pace.graph import Graph
from pace.methods import Pace, PaceRidge, RidgeSums
from pace.protocol import number_formats, ring, steps, wire
from pace.protocol.federation import Federation
from pace.protocol.method import Message

NAMED = 12  # features listed by name
SMALL = 5  # training nodes of a class: with fewer, what is said of the class is said of persons

# What simple attacks learnt of a site, on the embedded graph and on Cora: docs/privacy.md.
MEASURED = {
    "PACE: an upload": {
        "word_occurs": (0.93, 0.96),
        "word_counts": (0.79, 0.81),
        "label_histogram": (0.97, 0.97),
        "membership": (0.75, 0.72),
        "whose_node": (0.84, 0.97),
    },
    "pace-ridge: an upload": {
        "word_occurs": (0.98, 0.97),
        "word_counts": (0.96, 0.96),
        "label_histogram": (1.00, 0.99),
        "membership_by_row": (0.89, 0.84),
        "whose_row": (0.93, 0.95),
    },
    "pace-ridge-sums: an upload": {
        "word_occurs": (1.00, 1.00),
        "word_counts": (0.99, 0.99),
        "label_histogram": (1.00, 1.00),
        "membership_by_row": (1.00, 1.00),
        "whose_row": (1.00, 1.00),
    },
    "pace-ridge-sums: the sums": {
        "membership_by_row": (0.99, 0.81),
    },
}


@dataclass(frozen=True)
class Item:
    """One tensor."""

    name: str
    shape: tuple[int, ...]
    bytes: int
    words: str


@dataclass(frozen=True)
class Disclosure:
    """A whole upload. `zeros` are the input columns of the first layer whose moment is exactly 0."""

    items: tuple[Item, ...]
    frame: int  # bytes, framing included
    signature: int  # bytes of security overhead
    dense: int  # bytes of the model sent whole
    zeros: tuple[int, ...]
    columns: int  # input columns of the first layer that have a moment
    rounded: bool = False  # whether a moment may be zero because it is too small to be written
    regression: tuple[str, ...] = ()  # what rows or sums of a regression tell, in sentences
    sealed: int = 0  # participants whose sum is all the server sees; 0: it sees this upload
    small_classes: tuple[int, ...] = ()  # those of one to four training nodes

    @property
    def share(self) -> float:
        return self.frame / self.dense


def disclosure(
    message: Message, federation: Federation, signature: int, graph: Graph | None = None
) -> Disclosure:
    """What this very message says; of `graph`, the site's own, it knows which classes are small."""
    if federation.sealed:
        return _sealed(federation, signature)
    update = isinstance(federation.method, Pace)  # others send the parameters themselves
    plain = {name for name in federation.model.averaged if not name.endswith("bias")}
    layout = wire.layout(message, federation.numbers)
    items = tuple(
        Item(
            name,
            shape,
            number_formats.size(shape, layout.numbers),
            words(name, update) + (AVERAGED if update and name in plain else ""),
        )
        for name, shape in layout.items()
    )
    moment = next((value for name, value in message.items() if name.endswith("/m")), None)
    return Disclosure(
        items,
        layout.size,
        signature,
        params.size(federation.start),
        () if moment is None else tuple((moment == 0).nonzero().flatten().tolist()),
        0 if moment is None else moment.numel(),
        layout.numbers != "float32",
        tuple(_regression(message, federation)),
        small_classes=() if graph is None else small_classes(graph),
    )


def _regression(message: Message, federation: Federation) -> Iterator[str]:
    """What pace-ridge's rows or pace-ridge-sums' sums tell of the training nodes."""
    method = federation.method
    if isinstance(method, PaceRidge):
        labels = message[f"hop{method.hops[0]}/labels"]
        classes = int(labels.any(0).sum())
        rows = int(labels.any(1).sum())
        yield (
            f"{rows} rows at each hop are weighted sums of your training nodes' features and of what "
            f"surrounds them, one row for every {method.nodes_per_row} nodes or more. Together with "
            "their labels they tell the server, nearly exactly, the sum of these features over each "
            f"class and how many training nodes it has: of {classes} classes here. Classes with "
            f"fewer than {method.smallest_class} training nodes are not in it."
        )
        yield measured("pace-ridge: an upload")
    if isinstance(method, RidgeSums):
        sums = message[f"hop{method.hops[0]}/class sums"]
        single = int(((sums.norm(dim=0) - 1).abs() < SINGLE).sum())
        yield (
            "The class sums are the sum of your training nodes' features, scaled to length one, over "
            "each class. A class with one training node sends that node's features: here "
            f"{single} of {sums.shape[1]} classes look like that. Meant for jobs whose sums are sealed."
        )
        yield measured("pace-ridge-sums: an upload")


def _sealed(federation: Federation, signature: int) -> Disclosure:
    """Of a sealed upload only the table can be read."""
    layout, update = steps.upload_layout(federation), isinstance(federation.method, Pace)
    items = tuple(
        Item(name, shape, ring.NUMBER * volume, f"sealed: {words(name, update)}")
        for (name, shape), volume in zip(layout.items(), layout.volumes, strict=True)
    )
    dense = params.size(federation.start)
    told = (testable(),) if isinstance(federation.method, RidgeSums) else ()
    return Disclosure(
        items, layout.size, signature, dense, (), 0, regression=told, sealed=federation.clients
    )


def small_classes(graph: Graph) -> tuple[int, ...]:
    """Classes with at least one and fewer than five training nodes."""
    counts = torch.bincount(graph.training_labels)
    return tuple(((counts > 0) & (counts < SMALL)).nonzero().flatten().tolist())


KNOWN = {
    "one": "a one, by which the server finds that all masks have cancelled",
    "clients": "a one, to count by",
    "nodes": "how many nodes your graph has",
    "amount": "how much your client trained",
    "reliability": "how reliable each class is (from training labels)",
    "moments": "statistics of propagated labels (from training labels)",
    "confidence": "how sure the propagated labels are",
    "embedding": "mean activation of your nodes",
}
AVERAGED = "; it multiplies no rows, so the plain mean is taken"
PARTS = {
    "/L": "update of {}, left factor",
    "/R": "update of {}, right factor",
    "/m": "mean square of what {} reads",
}
REGRESSED = {
    "rows": "rows that stand for your training nodes' features after {} hops",
    "labels": "how these rows are spread over the classes",
    "class sums": "sum of your training nodes' features after {} hops, by class",
    "gram": "products of every two features after {} hops, summed over training nodes",
    "sketch": "random sums of these products after {} hops",
    "nodes": "how many training nodes you have",
    "basis": "everybody's regressions after {} hops: the directions they read",
    "mixing": "everybody's regressions after {} hops: how directions make classes",
}
UNKNOWN = "of the method; see its documentation"
SINGLE = 1e-3  # from one, the length of one node's row


def words(name: str, update: bool = False) -> str:
    """What a tensor is, for people."""
    if regressed := re.fullmatch(r"hop(\d+)/(.+)", name):
        return REGRESSED.get(regressed[2], UNKNOWN).format(regressed[1])
    found = re.fullmatch(r"(\d+)\.(?:(.+)\.)?(\w+)(/[LRm])?", name)
    if found is None:
        return KNOWN.get(name, UNKNOWN)
    layer, inner, kind, part = int(found[1]) + 1, found[2], found[3], found[4]
    where = f"layer {layer}" + (f" ({inner})" if inner else "")
    if part:
        return PARTS[part].format(where)
    return f"{'update of ' if update else ''}{where}, {kind}"


WITHOUT_PROMISE = (
    "It is computed from them, and no formal privacy is promised: whoever gets it may infer "
    "something about your data."
)


def revealed(found: Disclosure, features: Sequence[str], classes: Sequence[str] = ()) -> list[str]:
    """What the server can read out of the upload, in sentences."""
    if not found.items:
        return ["It is empty: nothing about your data leaves the site."]
    if found.sealed:
        return [*_seen_of_sums(found.sealed), *found.regression]
    sentences = ["It holds no node, edge, feature value or label. " + WITHOUT_PROMISE]
    if found.small_classes:
        listed = [classes[label] if classes else str(label) for label in found.small_classes]
        sentences.append(
            f"Fewer than {SMALL} of your training nodes are of class {', '.join(listed)}: what the "
            "upload tells about such a class, it tells about these few."
        )
    if found.regression:
        return [
            "It holds no edge, and no feature value or label of a node as it is. "
            + WITHOUT_PROMISE,
            *sentences[1:],
            *found.regression,
        ]
    if not found.columns:
        return sentences
    sentences += [
        "The moments of layer 1 tell, for each feature, how strongly it occurs around your "
        "training nodes.",
        measured("PACE: an upload"),
    ]
    count = len(found.zeros)
    if not count:
        return [*sentences, "None of them is zero: every feature occurs there."]
    named = [features[place] if features else f"number {place}" for place in found.zeros[:NAMED]]
    where = "nowhere, or next to nowhere," if found.rounded else "nowhere"
    more = f" and {count - NAMED:,} more" if count > NAMED else ""
    return [
        *sentences,
        f"{count:,} of {found.columns:,} are exactly zero: the server learns that these features "
        f"occur {where} in your training neighbourhoods: {', '.join(named)}{more}.",
    ]


def _seen_of_sums(clients: int) -> list[str]:
    return [
        f"It is sealed: to whoever holds fewer than all {clients} uploads it is noise. Of all of them "
        "together the server reads the sums, and nothing of one site.",
        "If the server and others work together, they take their own parts out of the sum: with "
        f"{clients - 2} of the others it sees the sum of you and one more site, with all "
        f"{clients - 1} others your part alone.",
        "No formal privacy is promised: sums over all sites may tell something about the data of all.",
    ]


def measured(view: str) -> str:
    """What attacks on such uploads achieved, in a sentence."""
    occurs, counts, histogram, member, whose = map(_both, MEASURED[view].values())
    return (
        "Measured on the embedded graph and on Cora, ten sites each: from such an upload a curious "
        f"server tells which features occur at a site (AUC {occurs}), how often (rank correlation "
        f"{counts}), how many training nodes each class has (correlation {histogram}), whether a node "
        f"it holds was trained on (AUC {member}) and whose it is (AUC {whose}). 0.5 for an AUC and 0 "
        "for a correlation would be nothing."
    )


def testable() -> str:
    """What the sums of a regression tell even where they are sealed."""
    (figures,) = MEASURED["pace-ridge-sums: the sums"].values()
    return (
        "Whoever reads the sums and holds a node, its features and its edges, can test whether some "
        f"site trained on it (AUC {_both(figures)} on the embedded graph and on Cora), but not which."
    )


def _both(figures: tuple[float, float]) -> str:
    return f"{figures[0]:.2f} and {figures[1]:.2f}"
