"""What can go wrong, by kind. Each message says what was found, what was expected and what to do."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from difflib import get_close_matches


class PaceError(ValueError):
    """A mistake in what was handed to PACE; the command line shows it as one sentence, exit code 2."""

    code = "pace"

    def __init_subclass__(cls, code: str | None = None) -> None:
        cls.code = code or cls.code


class GraphError(PaceError, code="graph"):
    """A graph that cannot be used: its shapes, labels, edges or features."""


class ProblemsError(GraphError, code="problems"):
    """Everything that is wrong with somebody's tables, a line for each problem."""

    def __init__(self, head: str, lines: Sequence[str]) -> None:
        super().__init__("\n  ".join([head, *lines]))
        self.head, self.lines = head, tuple(lines)


class SettingError(PaceError, code="setting"):
    """A setting that is unknown or out of range."""


class OverlapError(SettingError, code="overlap"):
    """A sealed job that shares others with an earlier one, to which the site has not agreed."""


class PolicyError(SettingError, code="policy"):
    """An upload that the site's own policy does not let go."""


class NotAllowedError(SettingError, code="not-allowed"):
    """Code that a job names, that PACE does not ship and that is not allowed here."""


class WireError(PaceError, code="wire"):
    """Bytes that are not the message they should be."""


class FormatError(WireError, code="format"):
    """Bytes that are no frame of ours."""


class VersionError(WireError, code="version"):
    """A frame of another version of the wire."""


class DamageError(WireError, code="damaged"):
    """A frame whose checksum does not fit."""


class SizeError(WireError, code="size"):
    """A message that is longer or shorter than the federation's messages are."""


class LayoutError(WireError, code="layout"):
    """A frame with other tensors, or tensors of other shapes, than were agreed on."""


class NumberError(WireError, code="not-finite"):
    """A tensor with a number that is not finite, or too large to compute with."""


class MomentError(WireError, code="moment"):
    """Moments that are negative or not normalised: they would outweigh everybody else's."""


class WeightError(WireError, code="weight"):
    """A weight in an average, such as a number of nodes, that no client can have."""


class OtherJobError(WireError, code="other-job"):
    """A message, or a file, of another federation."""


class ReceiverError(WireError, code="other-receiver"):
    """A return to somebody else's upload."""


class SignatureError(WireError, code="signature"):
    """A message whose signature is missing, unknown or wrong."""


class EditionError(SignatureError, code="other-edition"):
    """A message of this job that was signed for another of its editions, and not tampered with."""


class WithdrawnError(WireError, code="withdrawn"):
    """An upload of a site that has left the job, or a server that merged one."""


class ParticipantError(WireError, code="unknown-participant"):
    """A sender whom the job does not list."""


class RollError(WireError, code="roll"):
    """A roll of who was in that is missing, damaged or of another return."""


class SealError(WireError, code="sealed"):
    """Sealed uploads that do not open: their masks do not cancel, or their sum is no sum of ours."""


class SecondUploadError(WireError, code="second-upload"):
    """Another upload under the name of one that was accepted."""


class LateError(WireError, code="closed"):
    """An upload that came after the job was closed."""


class FileError(PaceError, code="file"):
    """A file that is missing, damaged, in the way or cannot be written."""


class TooFewError(PaceError, code="too-few"):
    """Fewer uploads than the job asks for."""


class SetAsideError(TooFewError, code="set-aside"):
    """An accepted upload that was damaged on the server's disk before it was merged."""


class BusyError(PaceError, code="busy"):
    """Another process is at work on the same files."""


@contextmanager
def needs_extra(who_needs_what: str, extra: str, otherwise: str = "") -> Iterator[None]:
    """A library that is not installed, imported inside the block, is answered with its extra."""
    try:
        yield
    except ImportError:
        install = f"pip install 'pace-fgl[{extra}]'{otherwise}"
        raise SettingError(f"{who_needs_what}: {install}") from None


def did_you_mean(name: str, names: Iterable[str]) -> str:
    """`did you mean 'cora'? `, or nothing where no name is near."""
    close = get_close_matches(name, list(names), n=1)
    return f"did you mean {close[0]!r}? " if close else ""
