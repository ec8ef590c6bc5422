"""Every `--help`: its layout, its examples, its words from one command to the next; completion."""

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, get_args

import pytest
from typer.testing import CliRunner

from pace.cli import app, commands, given, manual
from pace.errors import SettingError
from pace.registry import DATASETS, METHODS, PARTITIONS
from tests import command_page
from tests.preloaded import Preloaded

PAGES = {page.command: (page, command) for page, command in command_page.pages()}
LEAVES = {name: each for name, each in PAGES.items() if not hasattr(each[1], "commands")}
EXAMPLES = sorted({example for page, _ in PAGES.values() for example in page.examples})
MAIN = "from pace.cli import main; main()"

# Run in this order, each in the folder that the others left.
QUICK = (
    "pace graph import --nodes nodes.csv --edges edges.csv --label kind --out mine.graph",
    "pace new job.pace --like mine.graph --participant north,south,west",
    "pace show job.pace",
    "pace show job.pace --json",
    "pace keys new north",
    "pace doctor",
    "pace doctor --json",
)


def test_the_list_of_commands_says_what_their_docstrings_say() -> None:
    for name, about in commands.OURS.items():
        assert PAGES[f"pace {name}"][0].about[0] == about


@pytest.mark.parametrize(("name", "package"), commands.PACKAGES.items())
def test_a_command_of_a_package_that_is_not_installed_says_how_to_get_it(
    name: str, package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(commands, "added_commands", dict)
    says = f"comes with the package {package}: pip install {package}, or pip install ./"
    with pytest.raises(SettingError, match=says):
        CliRunner().invoke(app, [name], catch_exceptions=False)
    listed = CliRunner().invoke(app, ["--help"]).output
    assert f"  {name} " not in listed
    assert "  client " in listed


def test_all_commands_are_here() -> None:
    assert len(LEAVES) >= 20
    assert {"pace run", "pace client fit", "pace doctor", "pace flower register"} <= set(LEAVES)


@pytest.mark.parametrize("name", PAGES)
def test_a_page_fits_and_has_examples(name: str) -> None:
    page, _ = PAGES[name]
    shown = CliRunner().invoke(app, [*name.split()[1:], "--help"], env={"COLUMNS": "80"}).stdout
    assert max(map(len, shown.splitlines())) <= 80
    assert page.examples
    for rows in page.sections.values():
        for what, words in rows:
            assert words, f"{name}: {what} is not explained"
            assert words[0].isupper() or words.startswith(("louvain", ".")), words
            assert words.endswith((".", "?", "]", ")")), words


@pytest.mark.parametrize("columns", [1, 30, 200])
def test_a_page_comes_whatever_the_width(columns: int) -> None:
    asked = ["client", "adopt", "--help"]
    text = CliRunner().invoke(app, asked, env={"COLUMNS": str(columns)}).stdout
    assert "--return FILE" in text
    assert max(map(len, text.splitlines())) <= 100


@pytest.mark.parametrize("example", EXAMPLES)
def test_an_example_is_a_command_that_is_understood(example: str) -> None:
    """Its command exists, its options do, their values are of the right kind, nothing is missing."""
    words = shlex.split(example)
    depth = max(count for count in range(len(words)) if " ".join(words[: count + 1]) in PAGES)
    name = " ".join(words[: depth + 1])
    assert name in LEAVES, f"{example}: {name} is a group"
    LEAVES[name][1].make_context(name, words[depth + 1 :])  # parses, and runs nothing


def test_an_untrue_example_is_noticed() -> None:
    for untrue in (["--sedes", "3"], ["--clients", "many"], ["stray"]):
        with pytest.raises(Exception, match=r"No such option|valid integer|unexpected extra"):
            LEAVES["pace run"][1].make_context("pace run", untrue)


RAN: set[str] = set()  # examples that this process has run in its folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("examples")
    nodes = "".join(f"{node},{'ab'[node % 2]},{node % 3},{node % 5}\n" for node in range(40))
    (made / "nodes.csv").write_text(f"id,kind,width,height\n{nodes}")
    edges = "".join(f"{node},{(node * 7 + 1) % 40}\n" for node in range(40))
    (made / "edges.csv").write_text(f"source,target\n{edges}")
    return made


@pytest.mark.parametrize("example", QUICK)
def test_a_quick_example_runs(example: str, folder: Path, pace: Preloaded) -> None:
    assert example in EXAMPLES
    for earlier in QUICK[: QUICK.index(example)]:  # another process may have run them elsewhere
        if earlier not in RAN:
            pace(*shlex.split(earlier)[1:], cwd=folder)
            RAN.add(earlier)
    done = pace(*shlex.split(example)[1:], cwd=folder)
    RAN.add(example)
    assert done.code == 0, done.err
    assert done.out
    if example.endswith("--json"):
        assert done.json
    else:
        lines = done.out.splitlines()
        assert max(map(len, lines)) <= 80
        assert not re.search("[\u2500-\u257f\x1b]", done.out)


def test_long_examples_can_be_pasted() -> None:
    for example in EXAMPLES:
        pasted = "\n".join(manual.broken(example, 80)).replace("\\\n", " ")
        assert shlex.split(pasted) == shlex.split(example)


def options(command: Any) -> dict[str, Any]:
    return {each.opts[0]: each for each in command.params if each.param_type_name == "option"}


def test_every_command_speaks_json() -> None:
    silent = [name for name, (_, command) in LEAVES.items() if "--json" not in options(command)]
    assert silent == ["pace flower superlink"]  # which runs until it is ended


def test_an_option_means_the_same_everywhere() -> None:
    """Options of one name have one explanation; those below are the command's own business."""
    own = {"--out", "--key", "--features", "--classes", "--clients", "--methods", "--datasets"}
    own |= {
        "--nodes",
        "--edges",
        "--hidden",
        "--label",
        "--id",
        "--codebook",
        "--job",
        "--like",
        "--mapping",
        "--from",
        "--add",
    }
    said: dict[str, set[tuple[str, str]]] = {}
    for _, command in LEAVES.values():
        for name, option in options(command).items():
            said.setdefault(name, set()).add((option.help, option.metavar or ""))
    assert {name: words for name, words in said.items() if len(words) > 1 and name not in own} == {}


def test_options_have_no_short_or_negative_twins() -> None:
    for name, (_, command) in PAGES.items():
        for option in options(command).values():
            assert all(each.startswith("--") for each in option.opts), name
            assert not option.secondary_opts, name


def test_the_page_of_commands_is_what_help_says() -> None:
    made = command_page.PAGE.read_text().partition(command_page.START)[2]
    assert made == "\n" + command_page.render(), "run `python -m tests.command_page`"


def test_completed_names_exist() -> None:
    from pace.protocol.number_formats import KINDS
    from pace_study import command, study

    words = options(LEAVES["pace run"][1])["--methods"].help
    assert all(name in words for name in METHODS.groups)
    accepted, _ = get_args(get_args(given.Numbers)[0])
    assert set(get_args(accepted)) == set(KINDS)
    assert all(kind in given.NUMBERS for kind in KINDS)
    assert set(command.PARTS) == {*study.PARTS, "all"}


def complete(line: str, cwd: Path) -> list[str]:
    """What bash is told when somebody presses Tab at the end of the line."""
    words = line.split(" ")
    asks = {
        "_PACE_COMPLETE": "complete_bash",
        "COMP_WORDS": line,
        "COMP_CWORD": f"{len(words) - 1}",
    }
    code = f"import sys\ntry: {MAIN}\nfinally: assert 'torch' not in sys.modules"
    done = subprocess.run(
        [sys.executable, "-c", code], env=os.environ | asks, cwd=cwd, capture_output=True, text=True
    )
    assert not done.stderr
    return done.stdout.split()


def test_commands_options_and_values_are_completed(tmp_path: Path) -> None:
    """Without waiting for torch."""
    assert complete("pace cl", tmp_path) == ["client"]
    assert complete("pace run --dataset pub", tmp_path) == ["pubmed"]
    assert complete("pace run --methods local,fedp", tmp_path) == ["local,fedprox", "local,fedpub"]


def test_values_that_are_completed() -> None:
    assert given.one_of(*PARTITIONS)("m") == ["metis"]
    assert given.one_of("local", "pace")("local,") == ["local,pace"]
    assert given.one_of(*DATASETS)("c")[:2] == ["cora", "citeseer"]


SCRIPT = {
    "bash": ("complete -o default -F", ["bash", "-n"]),
    "zsh": ("compdef", ["zsh", "-n"]),
    "fish": ("complete --command pace", ["fish", "--no-execute"]),
}


@pytest.mark.parametrize("shell", SCRIPT)
def test_a_shell_gets_its_script(shell: str, tmp_path: Path) -> None:
    asks = {"_PACE_COMPLETE": f"source_{shell}"}
    done = subprocess.run(
        [sys.executable, "-c", MAIN], env=os.environ | asks, capture_output=True, text=True
    )
    registers, checks = SCRIPT[shell]
    assert registers in done.stdout, done.stderr
    if shutil.which(shell):
        (tmp_path / "script").write_text(done.stdout)
        subprocess.run([*checks, str(tmp_path / "script")], check=True)
