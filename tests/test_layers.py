"""The direction of dependence: a room imports from its own row or from above, never from below."""

import ast
from pathlib import Path

import pace
import pace_network
from pace.methods import METHODS, make
from pace_study.baselines import fedtad

SOURCE = Path(pace.__file__).parent
NETWORK = Path(pace_network.__file__).parent

ROWS = [
    {"errors", "io", "registry"},
    {"params", "task", "graph"},
    {"models", "datasets", "tables"},
    {"training", "merging", "gates"},
    {"protocol"},
    {"methods"},
    {"jobs"},
    {"reports"},
    {"runtimes"},
    {"export"},
    {"cli"},
]
ROW = {module: row for row, modules in enumerate(ROWS) for module in modules}

# How many lines a room may have. Mass is a defect: what a feature adds, a second way of doing something
# gives back. Raising a number takes a reason that the room's owner would say aloud.
MOST_LINES = {
    "cli": 2_140,
    "datasets": 1_278,
    "export": 131,
    "gates": 443,
    "io": 1_106,
    "jobs": 1_822,
    "merging": 906,
    "methods": 1_056,
    "models": 2_193,
    "protocol": 1_615,
    "reports": 994,
    "runtimes": 3_171,
    "tables": 2_679,
    "training": 709,
}

# A heavy or optional library, and the only files that may import it.
ONLY_IN = {
    "sknetwork": {"datasets/partition.py"},
    "pymetis": {"datasets/partition.py"},
    "matplotlib": {"reports/run_result.py"},
    "pyarrow": {"tables/table.py"},
    "cryptography": {"jobs/signatures.py"},
    "pandas": {"reports/trial.py", "reports/run_result.py", "tables/streamed.py"},
    "jinja2": {"reports/document.py"},
    "triton": set(),
    "pace_gpu": set(),
    "pace_network": set(),
    "pace_study": set(),
}
ONLY_IN_NETWORK = {
    "cryptography": {"flower/kits.py"},
    "nvflare": {"nvflare/components.py"},
    "flwr": {f"flower/{name}.py" for name in ("control", "server", "superlink", "tasks")},
    "pace_study": set(),
}


def imports(path: Path) -> set[str]:
    """Every module a file imports, wherever in the file it does so."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module)
            if node.module == "pace":
                found |= {f"pace.{alias.name}" for alias in node.names}
    return found


def part(path: Path) -> str:
    """The module or package of ours that a file belongs to."""
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def test_every_module_has_a_row() -> None:
    parts = {part(path) for path in SOURCE.rglob("*.py")} - {"__init__", "__main__"}
    assert parts == set(ROW)


def test_no_module_imports_from_below() -> None:
    wrong = []
    for path in SOURCE.rglob("*.py"):
        if path.parent == SOURCE and path.stem in ("__init__", "__main__"):
            continue
        for name in imports(path):
            other = name.removeprefix("pace.").split(".")[0]
            if name.startswith("pace.") and other in ROW and ROW[other] > ROW[part(path)]:
                wrong.append(f"{path.relative_to(SOURCE)} imports {name}")
    assert not wrong


def test_optional_libraries_are_imported_in_few_files() -> None:
    for source, only_in in ((SOURCE, ONLY_IN), (NETWORK, ONLY_IN_NETWORK)):
        for library, homes in only_in.items():
            users = {
                str(path.relative_to(source))
                for path in source.rglob("*.py")
                if any(name.split(".")[0] == library for name in imports(path))
            }
            assert users <= homes, f"{library} is imported in {users}"


def readers(attribute: str, folder: Path = SOURCE) -> set[str]:
    """The files that read an attribute of this name."""
    return {
        str(path.relative_to(folder))
        for path in folder.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Attribute) and node.attr == attribute
    }


def test_labels_are_read_in_three_places() -> None:
    """Training reads y[train], adopt y[val], a runtime that evaluates y[test]; loaders make y."""
    makers = {"graph.py", "datasets", "tables"}
    assert {file for file in readers("y") if file.split("/")[0] not in makers} == {
        "protocol/adoption.py",
        "protocol/layouts.py",  # a graph's largest label must be one of the federation's
        "runtimes/simulation.py",
        "runtimes/files/outcome.py",
        "runtimes/files/attacks.py",  # a site attacks its own upload
        "models/refitted.py",  # pace-full fits on validation labels too
        "models/unit_rows.py",  # and reads the known labels of a node's neighbours
        "runtimes/files/rows.py",  # a sample of which becomes a graph
    }
    # y[train] goes by a name of its own. Besides training, some baselines read it, since FedTAD, FedGTA
    # and the rivals are published to upload statistics of their training labels; the ridge too.
    assert readers("training_labels") == {"graph.py", "training/train.py"}
    # Before an upload the site itself is told which of its classes are small.
    assert readers("training_counts") == {
        "jobs/disclosure.py",
        "models/refitted.py",  # are they very many?
        "models/mapped.py",  # a table of rows, which is a graph without edges
        "runtimes/files/attacks.py",
        "runtimes/files/egress.py",
        "runtimes/files/rows.py",  # counts them by class for that same sentence
    }
    baselines = Path(fedtad.__file__).parent
    assert readers("training_labels", baselines) == {
        "fedtad.py", "fedgta.py", "rivals.py", "generative.py",
    }  # fmt: skip
    assert readers("y", baselines) == set()


def test_a_method_is_asked_by_its_hooks_and_not_by_its_kind() -> None:
    """Outside its own rooms no code asks which method it has before it."""
    kinds = {
        kind.__name__ for name in METHODS for kind in type(make(name)).__mro__ if kind is not object
    }
    asked = []
    for path in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and ast.unparse(node.func) in (
                "isinstance",
                "issubclass",
            ):
                asked_for = {
                    each.id for each in ast.walk(node.args[1]) if isinstance(each, ast.Name)
                }
                if kinds & asked_for and part(path) not in ("methods", "protocol"):
                    asked.append(f"{path.relative_to(SOURCE)}:{node.lineno}")
    assert not asked


def test_the_architecture_page_names_every_module() -> None:
    page = (Path(__file__).parent.parent / "docs" / "architecture.md").read_text()
    for module in ROW:
        assert f"\n  {module}.py " in page or f"\n  {module}/ " in page, module


def room(place: tuple[str, ...]) -> tuple[str, ...]:
    """The room of a file or module: a package of `pace`, or one of the runtimes."""
    deep = 2 if place[0] == "runtimes" and SOURCE.joinpath(*place[:2]).is_dir() else 1
    return place[:deep]


def modules(path: Path) -> set[tuple[str, ...]]:
    """Modules of ours that a file imports, `from pace.io import atomic` being `io.atomic`."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("pace."):
            parent = tuple(str(node.module).split(".")[1:])
            for alias in node.names:
                child = SOURCE.joinpath(*parent, alias.name)
                whole = child.is_dir() or child.with_suffix(".py").is_file()
                found.add((*parent, alias.name) if whole else parent)
        elif isinstance(node, ast.Attribute) and ast.unparse(node).startswith("pace."):
            _, *names = ast.unparse(node).split(".")  # `pace.jobs.explain`, loaded when asked for
            names = ["runtimes", *names] if names[0] in ("files", "simulation") else names
            if SOURCE.joinpath(*names[:-1]).is_dir() and all(map(str.isidentifier, names)):
                inner = SOURCE.joinpath(*names).with_suffix(".py").is_file()
                found |= {tuple(names)} if inner else set()
    return found


def given(place: tuple[str, ...]) -> set[str]:
    """The names that a room's `__init__.py` imports for others."""
    tree = ast.parse(SOURCE.joinpath(*place, "__init__.py").read_text())
    lines = (node for node in tree.body if isinstance(node, ast.ImportFrom))
    return {alias.name for node in lines for alias in node.names}


WITHOUT_A_DOOR = {("runtimes",)}


def test_rooms_are_entered_by_the_front_door() -> None:
    """Another room imports `pace.protocol`, never `pace.protocol.wire`; a module by its `__init__`.

    `pace.runtimes` has none, nor has the network: a node's process waits neither for torch nor Flower.
    """
    wrong = []
    for path in [*SOURCE.rglob("*.py"), *NETWORK.rglob("*.py")]:
        ours = path.is_relative_to(SOURCE)
        home = room(path.relative_to(SOURCE).with_suffix("").parts) if ours else ("network",)
        for module in modules(path):
            other = room(module)
            if other in (home, ("cli",)) or module == other or other in WITHOUT_A_DOOR:
                continue
            inner = f"from pace.{'.'.join(module)} import" in path.read_text()
            if inner or module[len(other)] not in given(other):
                wrong.append(f"{path} imports {'.'.join(module)}")
    assert not wrong


def test_no_call_has_more_than_five_positional_arguments() -> None:
    """`partial` is counted without its function."""
    long = []
    for path in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and ast.unparse(node.func) != "partial":
                plain = [each for each in node.args if not isinstance(each, ast.Starred)]
                if len(plain) > 5:
                    long.append(f"{path.relative_to(SOURCE)}:{node.lineno}")
    assert not long


def test_no_function_is_longer_than_sixty_lines() -> None:
    """The options of a command are not counted, nor is a docstring."""
    long = []
    for path in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef):
                told = ast.get_docstring(node) is not None
                body = node.body[1:] if told and len(node.body) > 1 else node.body
                lines = (node.end_lineno or 0) - body[0].lineno + 1
                if lines > 60:
                    long.append(f"{path.relative_to(SOURCE)}: {node.name} has {lines}")
    assert not long


def test_no_room_outgrows_its_lines() -> None:
    lines = {
        name: sum(len(path.read_text().splitlines()) for path in (SOURCE / name).rglob("*.py"))
        for name in MOST_LINES
    }
    over = {name: count - MOST_LINES[name] for name, count in lines.items()}
    assert {name: extra for name, extra in over.items() if extra > 0} == {}, "lines to be removed"


def test_a_label_is_known_in_few_files() -> None:
    """What a class is: `task` has loss, prediction and scores; these others keep or draw its counts."""
    words = ("argmax", "cross_entropy", "confusion")
    assert {
        str(path.relative_to(SOURCE))
        for path in SOURCE.rglob("*.py")
        if any(word in path.read_text().lower() for word in words)
    } == {
        "task.py",
        "reports/__init__.py",  # the names of what pages are made of
        "reports/document.py",
        "reports/trial.py",
        "runtimes/files/outcome.py",
        "runtimes/files/model_page.py",
    }
