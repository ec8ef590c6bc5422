"""Sealed uploads: statistics in a ring, under masks that cancel in the sum over all clients.

`jobs.signatures` draws the masks from the secrets that clients share in pairs. To a server that holds
fewer than all uploads they are noise; all of them add up to the sum of the statistics. The answer is
the same for every client, and a receiver makes its own return of it.
"""

from collections.abc import Callable

import torch

from pace.errors import NumberError, SealError, SettingError, TooFewError
from pace.protocol import ring
from pace.protocol.method import Message, Method, Summable, Uploads
from pace.protocol.ring import Ring

Seal = Callable[[Ring], Ring]  # adds this client's masks

ONE = "one"  # of each client: their sum tells whether all masks have cancelled
LEAST = 3  # clients; of the sum of two, each knows the other's part


def check_sealable(method: Method, name: str, clients: int = LEAST) -> None:
    """Refuse a method that needs more than a sum, and too few clients to hide one's part of it."""
    if not isinstance(method, Summable) or method.needs:
        raise SettingError(
            f"{name} cannot be sealed: {method.needs}, and a sealed server sees sums only; choose a "
            "method such as pace or fedavg, or do not seal"
        )
    if clients < LEAST:
        raise SettingError(
            f"{clients} participants cannot be sealed, expected {LEAST} or more: each of two knows "
            "its own part of their sum, so also the other's"
        )


def counted(statistic: Message) -> Message:
    """The statistic of one client with a one beside it, which tells when all masks have cancelled."""
    return {**statistic, ONE: torch.ones(1, dtype=torch.float64)}


def in_ring(statistic: Message, clients: int) -> Ring:
    """A statistic as elements of the ring, if the sum of so many will fit."""
    for name, value in statistic.items():
        if (highest := float(value.abs().max())) * clients >= ring.LIMIT:
            raise NumberError(
                f"{name!r} goes up to {highest:.3g}: the sum of {clients} such numbers "
                f"may exceed {ring.LIMIT:.3g} and cannot be sealed"
            )
    return ring.from_numbers(statistic)


def opened_sum(uploads: Uploads, clients: int) -> Message:
    """The sum of all clients' statistics; memory for one batch of uploads."""
    if len(uploads) != clients:
        raise TooFewError(
            f"{len(uploads)} of {clients} sealed uploads are here: they can be opened all "
            "together or not at all"
        )
    sums: dict[str, Ring] = {}
    for batch in uploads.batches():
        for name, words in batch.items():
            part = ring.from_words(words).total()
            sums[name] = sums[name] + part if name in sums else part
    total = {name: value.numbers() for name, value in sums.items()}
    if float(total.pop(ONE)) != clients:
        raise SealError(
            "the masks of the sealed uploads do not cancel, so nothing can be read: a client "
            "sealed with another key or for another job; make a new job"
        )
    return total


def sealed_sentences(clients: int, method: Summable) -> tuple[str, ...]:
    """What a server that sees sums only can read, in words."""
    sentences = (
        f"It is sealed: with fewer than all {clients} uploads it is noise. Of all of them together "
        "the server reads the sums, and nothing of one site.",
        "If the server and others work together, they take their own parts out of the sum: with "
        f"{clients - 2} of the others it sees the sum of you and one more site, with all "
        f"{clients - 1} others your part alone.",
        "No formal privacy is promised: sums over all sites may tell something about the data of all.",
    )
    return (*sentences, method.sums_reveal) if method.sums_reveal else sentences
