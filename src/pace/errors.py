"""What can go wrong, by kind. Each message says what was found, what was expected and what to do."""

from collections.abc import Iterable, Sequence
from difflib import get_close_matches


class PaceError(ValueError):
    """A mistake in what was handed to PACE; the command line shows it as one sentence, exit code 2."""

    code = "pace"


class GraphError(PaceError):
    """A graph that cannot be used: its shapes, labels, edges or features."""

    code = "graph"


class ProblemsError(GraphError):
    """Everything that is wrong with somebody's tables, a line for each problem."""

    code = "problems"

    def __init__(self, head: str, lines: Sequence[str]) -> None:
        super().__init__("\n  ".join([head, *lines]))
        self.head, self.lines = head, tuple(lines)


class SettingError(PaceError):
    """A setting that is unknown or out of range."""

    code = "setting"


class OverlapError(SettingError):
    """A sealed job that shares others with an earlier one, to which the site has not agreed."""

    code = "overlap"


class NotAllowedError(SettingError):
    """Code of somebody's own that a job names and that nobody here has allowed."""

    code = "not-allowed"


class WireError(PaceError):
    """Bytes that are not the message they should be."""

    code = "wire"


class FormatError(WireError):
    """Bytes that are no frame of ours."""

    code = "format"


class VersionError(WireError):
    """A frame of another version of the wire."""

    code = "version"


class DamageError(WireError):
    """A frame whose checksum does not fit."""

    code = "damaged"


class SizeError(WireError):
    """A message that is longer or shorter than the federation's messages are."""

    code = "size"


class LayoutError(WireError):
    """A frame with other tensors, or tensors of other shapes, than were agreed on."""

    code = "layout"


class NumberError(WireError):
    """A tensor with a number that is not finite, or too large to compute with."""

    code = "not-finite"


class MomentError(WireError):
    """Moments that are negative or not normalised: they would outweigh everybody else's."""

    code = "moment"


class WeightError(WireError):
    """A weight in an average, such as a number of nodes, that no client can have."""

    code = "weight"


class OtherJobError(WireError):
    """A message, or a file, of another federation."""

    code = "other-job"


class ReceiverError(WireError):
    """A return to somebody else's upload."""

    code = "other-receiver"


class SignatureError(WireError):
    """A message whose signature is missing, unknown or wrong."""

    code = "signature"


class ParticipantError(WireError):
    """A sender whom the job does not list."""

    code = "unknown-participant"


class RollError(WireError):
    """A roll of who was in that is missing, damaged or of another return."""

    code = "roll"


class SealError(WireError):
    """Sealed uploads that do not open: their masks do not cancel, or their sum is no sum of ours."""

    code = "sealed"


class SecondUploadError(WireError):
    """Another upload under the name of one that was accepted."""

    code = "second-upload"


class LateError(WireError):
    """An upload that came after the job was closed."""

    code = "closed"


class FileError(PaceError):
    """A file that is missing, damaged, in the way or cannot be written."""

    code = "file"


class TooFewError(PaceError):
    """Fewer uploads than the job asks for."""

    code = "too-few"


class SetAsideError(TooFewError):
    """An accepted upload that was damaged on the server's disk before it was merged."""

    code = "set-aside"


class BusyError(PaceError):
    """Another process is at work on the same files."""

    code = "busy"


class FlowerError(PaceError):
    """What Flower's command said when it could not do what it was asked for."""

    code = "flower"


def did_you_mean(name: str, names: Iterable[str]) -> str:
    """`did you mean 'cora'? `, or nothing where no name is near."""
    close = get_close_matches(name, list(names), n=1)
    return f"did you mean {close[0]!r}? " if close else ""
