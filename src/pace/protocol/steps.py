"""fit, merge, adopt over bytes: the three pure steps, and all that a runtime calls.

graph ─fit→ (kept, upload) ══▶ merge ══▶ returned ─adopt→ Adoption
"""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import repeat

import torch

from pace.errors import GraphError, LayoutError, NumberError, SettingError, TooFewError
from pace.graph import Graph
from pace.params import Params
from pace.protocol import ring, wire
from pace.protocol.adoption import Adoption, Kept, Receiver, adopt_all
from pace.protocol.federation import Federation
from pace.protocol.layouts import check, statement, summable, upload_layout
from pace.protocol.ring import Seal
from pace.protocol.uploads import Message, Received
from pace.training import train


def fit(
    graph: Graph,
    federation: Federation,
    seed: int | None = None,
    *,
    device: torch.device | str = "cpu",
    progress: Callable[[int], None] | None = None,
    seal: Seal | None = None,
) -> tuple[Kept, bytes]:
    """Train a Local model on one's own graph and make the upload: a client's first step.

    Args:
        graph: the client's graph, with the federation's features and classes; of a closed form's method
            also a table of rows, which is read in one pass. Where that brings Local's logits there is no
            Local to keep.
        federation: what all parties agreed on.
        seed: of the dropout masks; the federation's own by default.
        seal: the client's keys, where the federation's uploads are sealed.
        device: where to train, `"cpu"` or `"cuda"`.
        progress: is told each epoch that is done.

    Returns:
        What to keep for `adopt`, and the upload's bytes, to be sent once.

    Raises:
        GraphError: the graph has other features or classes than the federation, or no training
            nodes.
        NumberError: training diverged, as happens with unscaled features.

    Example:
        >>> import pace
        >>> graphs = pace.divide(pace.load("synthetic"), "dirichlet", clients=3)
        >>> federation = pace.agree(graphs, "pace:rank=2", hidden=8, epochs=5)
        >>> kept, upload = pace.fit(graphs[0], federation)
        >>> upload[:4]
        b'PACE'
    """
    if (form := federation.closed_form) is not None and not graph.has_edges:
        return share(form.fit_rows(graph, federation), graph, federation, seal)
    check(graph, federation)
    if not (graph.train | graph.val | graph.test).any():
        raise GraphError("the graph has no masks: mark training nodes, or divide a dataset")
    local = train(
        graph.to(device),
        federation.network,
        federation.start,
        recipe=federation.recipe,
        seed=federation.seed if seed is None else seed,
        progress=progress,
    )
    return share({name: value.cpu() for name, value in local.items()}, graph, federation, seal)


def share(
    local: Params, graph: Graph, federation: Federation, seal: Seal | None = None
) -> tuple[Kept, bytes]:
    """The second half of `fit`, for a model that is already trained."""
    _check_finite(local, graph)
    message = statement(local, graph, federation)
    _check_finite(message, graph)
    if federation.sealed:
        if seal is None:
            raise SettingError("a sealed upload needs every client's keys: give `fit` its `seal`")
        masked = seal(ring.in_ring(message, federation.clients))
        upload = wire.framed(upload_layout(federation), masked.to_bytes(), federation.digest)
    else:
        upload = wire.encode(message, federation.digest, numbers=federation.numbers)
    return Kept(local, wire.checksum(upload)), upload


def _check_finite(learnt: Message, graph: Graph) -> None:
    """Refuse what no server could use, while the client can still do something about it."""
    for name, value in learnt.items():
        # The least and the largest are read in one pass, and are nan where any number is.
        if value.numel() and not all(map(math.isfinite, map(float, torch.aminmax(value)))):
            raise NumberError(
                f"after training {name!r} is not finite, as happens when features are large (here "
                f"up to {float(graph.x.abs().max()):.3g}): bring them to about 1, everywhere alike"
            )


def merge(uploads: Sequence[bytes], federation: Federation) -> list[bytes]:
    """Merge all uploads: the server's one step.

    Args:
        uploads: the bytes of `fit`, one for each client.
        federation: what all parties agreed on.

    Returns:
        One return for each upload, in the same order; each is for the sender of its upload alone.

    Raises:
        TooFewError: there are no uploads.
        WireError: an upload is damaged, of another federation or not an upload.

    Example:
        >>> import pace
        >>> graphs = pace.divide(pace.load("synthetic"), "dirichlet", clients=3)
        >>> federation = pace.agree(graphs, "pace:rank=2", hidden=8, epochs=5)
        >>> len(pace.merge([pace.fit(graph, federation)[1] for graph in graphs], federation))
        3
    """
    return list(returns(received(uploads, federation), federation))


def received(uploads: Sequence[bytes], federation: Federation) -> Received:
    """Uploads as the server reads them; one that is not of this federation is refused when read."""
    return Received(uploads, upload_layout(federation), federation.digest)


def returns(uploads: Received, federation: Federation) -> Iterator[bytes]:
    """The frame of each return, one at a time; what is the same for all is written once."""
    if not len(uploads):
        raise TooFewError("there are no uploads, expected one or more to merge")
    if federation.sealed:
        method, clients = summable(federation), federation.clients
        total = ring.opened_sum(uploads, clients)
        method.check_total(total, clients, federation)
        messages: Iterable[Message] = repeat(method.answer(total, federation), clients)
    else:
        messages = federation.method.merge(uploads, federation)
    last = None
    for client, message in enumerate(messages):
        if message is not last:
            last, content = message, wire.written(message, federation.numbers)
            layout = wire.layout(message, federation.numbers)
        yield wire.framed(layout, content, federation.digest, uploads.checksums[client])


def adopt(graph: Graph, kept: Kept, returned: bytes, federation: Federation) -> Adoption:
    """Make the External model of a return and choose α on one's own validation nodes.

    The logits that are used never have a higher negative log-likelihood there than Local's.

    Args:
        graph: the client's graph, as it was for `fit`.
        kept: what `fit` gave beside the upload.
        returned: the server's return to that upload.
        federation: what all parties agreed on.

    Returns:
        The logits of Local and External, and their weights.

    Raises:
        ReceiverError: the return answers another client's upload.
        WireError: the return is damaged or of another federation.

    Example:
        >>> import pace
        >>> dataset = pace.load("synthetic:nodes=90,features=12,communities=3,classes=3")
        >>> graphs = pace.divide(dataset, "dirichlet", clients=3)
        >>> federation = pace.agree(graphs, "pace:rank=2", hidden=8, epochs=5)
        >>> kept, uploads = zip(*(pace.fit(graph, federation) for graph in graphs))
        >>> returns = pace.merge(uploads, federation)
        >>> adoption = pace.adopt(graphs[0], kept[0], returns[0], federation)
        >>> 0 <= adoption.alpha <= 1
        True
        >>> adoption.model(dataset.graph).shape  # any graph with these features
        torch.Size([90, 3])
    """
    return adopt_all([Receiver(graph, kept, returned, federation)])[0]


def check_upload(upload: bytes, federation: Federation) -> Message:
    """The message of an upload that may count; anything else is refused, each kind by its error."""
    frame = wire.decode(upload, upload_layout(federation), federation.digest)
    if frame.answers != wire.NOBODY:
        raise LayoutError(f"this is the return to upload {frame.answers.hex()}, expected an upload")
    if not federation.sealed:  # under its masks it is noise: what can be checked is their sum
        federation.method.check(frame.message, federation)
    return frame.message
