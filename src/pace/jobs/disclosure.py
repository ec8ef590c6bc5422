"""What messages tell: an upload about a site, each upload to the server, a return to its receiver."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

from pace import params
from pace.graph import Graph
from pace.io import optional
from pace.merging import Contributions, left_out_loss, weigh_sites
from pace.params import Params, norm, subtract
from pace.protocol import KINDS, External, Federation, Message, Messages, Uploads, Weight, layouts
from pace.tables import listed

SMALL = 5  # training nodes of a class: with fewer, a statement about the class is one about persons
FAR = 3.0  # times the median norm, or the receiver's own update: worth a look
LARGE = 3.0  # times an equal share
LONG = 10.0  # times the median column; honest corrections stay below 6
NAMED = 12  # columns listed
MOST_SITES = 32  # whose contributions are computed
NOTHING = 1.0  # squared loss a label of an answer that is zero everywhere
MISSED = 0.05  # times what the median site gives the others


@dataclass(frozen=True)
class Item:
    """One tensor of a message or file."""

    name: str
    shape: tuple[int, ...]
    bytes: int
    words: str = optional("")  # what it is


@dataclass(frozen=True)
class Disclosure:
    items: tuple[Item, ...]
    frame: int  # bytes, framing included
    signature: int  # bytes of security overhead
    dense: int  # bytes of the model sent whole
    sentences: tuple[str, ...]  # what the server can read out of it

    @property
    def share(self) -> float:
        return self.frame / self.dense


def disclosure(
    message: Message,
    federation: Federation,
    *,
    signature: int = 0,
    graph: Graph | None = None,
    features: Sequence[str] = (),
    classes: Sequence[str] = (),
) -> Disclosure:
    """What this very message tells; of a sealed one only the tensors' names and shapes are known."""
    layout = layouts.upload_layout(federation)
    explanation = layouts.explain_uploads(Messages([message]), federation)
    meanings = (explanation.tensors[name] for name in layout)
    items = tuple(map(Item, layout, layout.values(), layout.lengths, meanings))
    empty = "It is empty: nothing about your data leaves the site."
    sentences = list(explanation.sentences) if items else [empty]
    if items and graph is not None and not federation.sealed:
        counts = graph.training_counts(0)
        few = ((counts > 0) & (counts < SMALL)).nonzero().flatten().tolist()
        names = ", ".join(classes[label] if classes else str(label) for label in few)
        about = (
            f"Fewer than {SMALL} of your training nodes are of class {names}: what the upload tells "
            "about such a class, it tells about these few."
        )
        sentences[1:1] = [about] if few else []
    if explanation.unused is not None:
        zeros = explanation.unused.nonzero().flatten().tolist()
        rounded = federation.numbers != KINDS[0]  # perhaps to zero
        where = "nowhere, or next to nowhere," if rounded else "nowhere"
        absent = (
            f"{len(zeros):,} of {len(explanation.unused):,} are exactly zero: the server learns that "
            f"these features occur {where} in your training neighbourhoods: "
            f"{listed(named(zeros, features), NAMED)}."
        )
        sentences.append(absent if zeros else "None of them is zero: every feature occurs there.")
    dense = params.size(federation.start)
    return Disclosure(items, layout.size, signature, dense, tuple(sentences))


def named(columns: Sequence[int], features: Sequence[str]) -> list[str]:
    """Columns by their names, if they have any."""
    return [features[column] if features else f"number {column}" for column in columns]


@dataclass(frozen=True)
class Influence(Weight):
    """The same for the server's report, with the norm against the median client's."""

    flags: tuple[str, ...] = ()  # what is worth a look, in words


def influence(uploads: Uploads, federation: Federation) -> list[Influence]:
    """What the method says of each upload, with what is worth a look."""
    weights = layouts.explain_uploads(uploads, federation).weights()
    norms = [weight.norm for weight in weights if weight.norm is not None]
    median = statistics.median(norms) if norms else 0.0
    clients, influences = len(weights), []
    for weight in weights:
        flags = []
        ratio = weight.norm / median if weight.norm is not None and median > 0 else None
        if ratio is not None and not 1 / FAR <= ratio <= FAR:
            flags.append(f"update is {ratio:.3g} times the median")
        if clients > LARGE and (times := (weight.share or 0.0) * clients) > LARGE:
            flags.append(f"weighs {times:.1f} times an equal share")
        influences.append(Influence(weight.share, ratio, tuple(flags)))
    return influences


@dataclass(frozen=True)
class Brought(Contributions):
    """What each site brought to a regression, from open uploads alone; in the order of names."""

    names: tuple[str, ...]
    regression: str  # the map and λ, those with the lowest loss on sites that are left out

    def given(self, name: str) -> float:
        """How much the others' loss a label rises without a site, on average over them."""
        rises = zip(self.names, self.helps[self.names.index(name)], strict=True)
        return statistics.fmean(rise for other, rise in rises if other != name)

    def to_receiver(self, name: str) -> dict[str, float]:
        """How much each other site lowers this one's loss."""
        column = self.names.index(name)
        return {
            other: self.helps[row][column] for row, other in enumerate(self.names) if other != name
        }

    def flags(self, name: str) -> list[str]:
        flags, typical = [], statistics.median(map(self.given, self.names))
        if self.alone[self.names.index(name)] > NOTHING:
            flags.append("what the others learn is worse than nothing on it")
        if self.given(name) < MISSED * typical:
            flags.append("nobody else would miss it")
        return flags


def brought(uploads: Uploads, federation: Federation, names: Sequence[str]) -> Brought | None:
    """From the uploads of these sites; None where a method solves no regression, or for many sites."""
    form = None if federation.sealed else federation.closed_form
    if form is None or not 2 <= len(names) <= MOST_SITES:
        return None
    sums, losses = form.site_sums(uploads, federation), {}
    for name, strength in product(sums, form.strengths):
        nodes = sums[name].nodes
        loss = left_out_loss(sums[name], strength) * nodes
        losses[name, strength] = float(loss.sum() / nodes.sum())
    if not losses:
        return None
    best, strength = min(losses, key=losses.__getitem__)
    parts = weigh_sites(sums[best], strength, federation.seed)
    return Brought(**vars(parts), names=tuple(names), regression=f"{best}, λ = {strength:g}")


def noticed(external: External, local: Params, start: Params, features: Sequence[str]) -> list[str]:
    """What is worth a look about an External against Local, and what its receiver left out of it."""
    used = external.params
    returned = used if external.returned is None else external.returned
    correction, removed = subtract(returned, local), subtract(returned, used)
    whole, own = norm(correction), norm(subtract(local, start))
    first = next(name for name, value in local.items() if value.ndim == 2)
    lengths = correction[first].double().norm(dim=0)
    order, moved = lengths.argsort(descending=True), lengths[lengths > 0]
    long = order[lengths[order] > LONG * moved.median()].tolist() if len(moved) else []
    sentences = []
    if own > 0 and whole / own > FAR:
        sentences.append(
            "Worth a look: what came back changes the model "
            f"{whole / own:.3g} times as much as training did."
        )
    if long:
        sentences.append(
            f"Worth a look: {len(long):,} features change more than {LONG:g} times the median one, "
            f"most of all {', '.join(named(long[:NAMED], features))}."
        )
    if shortened := int((removed[first] != 0).any(0).sum()):
        sentences.append(
            "Left out for lack of evidence on the validation nodes: "
            f"{100 * (norm(removed) / whole) ** 2:.1f}% of the correction, in {shortened:,} features."
        )
    return sentences
