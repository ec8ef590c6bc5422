"""What can go wrong, by kind. Each message says what was found, what was expected and what to do."""


class PaceError(ValueError):
    """A mistake in what was handed to PACE; the command line shows it as one sentence, exit code 2."""

    code = "pace"


class GraphError(PaceError):
    """A graph that cannot be used: its shapes, labels, edges or features."""

    code = "graph"


class SettingError(PaceError):
    """A setting that is unknown or out of range."""

    code = "setting"


class WireError(PaceError):
    """Bytes that are not the message they should be."""

    code = "wire"
