"""A method of somebody's own in one file outside the package, for the tests of what runs it where."""

from pathlib import Path

SOURCE = '''
"""Half of FedAvg, for tests."""

from dataclasses import dataclass
from pathlib import Path

from pace.graph import Graph
from pace.params import Params
from pace.protocol.federation import Federation
from pace.protocol.method import External, Message, Method, Uploads

Path(__file__).with_suffix(".imported").touch()


@dataclass(frozen=True)
class Scaled(Method):
    """A part of the plain mean. It is of no use."""

    part: float = 0.5
    rounds_off: bool = False
    levels: tuple[int, ...] = ()

    def share(self, local: Params, graph: Graph, federation: Federation) -> Message:
        return local

    def merge(self, uploads: Uploads, federation: Federation):
        models = list(uploads)
        mean = {
            name: self.part * sum(model[name] for model in models) / len(models)
            for name in federation.start
        }
        return (mean for _ in models)

    def adopt(self, local: Params, returned: Message, graph: Graph, federation: Federation):
        return [External(returned)]


@dataclass(frozen=True)
class Told(Scaled):
    reason: str = ""

    def __post_init__(self) -> None:
        if self.part < 0:
            raise ValueError("a part is 0 or more")


@dataclass(frozen=True)
class Asking(Method):
    """It must be told how much."""

    part: float
    amount: int


NOTHING = 3


class Unlike:
    """No method."""
'''


def write(folder: Path, module: str = "own_scaled") -> str:
    """The file in a folder; the method's name for a job."""
    (folder / f"{module}.py").write_text(SOURCE)
    return f"{module}:Scaled"


def imported(folder: Path, module: str = "own_scaled") -> bool:
    """Whether anybody has imported it: the file leaves a trace when it runs."""
    return (folder / f"{module}.imported").exists()


def install(folder: Path, module: str = "own_scaled", version: str = "1.2", **points: str) -> None:
    """A package's metadata on the path, as pip leaves it: its name, version and entry points."""
    place = folder / f"{module}-{version}.dist-info"
    place.mkdir()
    (place / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {module}\nVersion: {version}\n")
    listed = "".join(f"{name} = {code}\n" for name, code in points.items())
    (place / "entry_points.txt").write_text(f"[pace.methods]\n{listed}")
