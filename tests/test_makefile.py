"""Every target of the Makefile can work, and a small form of it is tested; CI calls what people call."""

import os
import re
import shlex
import shutil
import subprocess
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests import command_page

ROOT = Path(__file__).parent.parent
MAKEFILE = (ROOT / "Makefile").read_text()
TARGETS = re.search(r"(?m)^\.PHONY: (.*)$", MAKEFILE)[1].split()  # type: ignore[index]
ENVIRONMENTS = re.findall(r"(?m)^(\.venv[\w-]*/\w+):", MAKEFILE)
CI = (ROOT / ".ci" / "run").read_text()

# Where a small form of each target runs; those that run tests are run by CI or, too large, by people.
SMALL = {
    "demo": "tests/docs/test_code.py",  # README's block
    "notebook": "tests/docs/test_walkthrough.py",
    "docs": "tests/docs/test_site.py",
    "dependencies": "tests/test_dependencies.py",
    "bench": "tests/bench/test_bench.py",
    "faults": "tests/runtimes/test_faults_page.py",
    "attacks": "tests/bench/test_attacks.py",
    "privacy": "tests/bench/test_privacy.py",
    "load": "tests/bench/test_load.py",
    "fuzz": "tests/protocol/test_mutations.py",
    "dist": "tests/test_packaging.py",
    **dict.fromkeys(("test", "test-flower", "lint"), ".ci/run"),
    **dict.fromkeys(("test-slow", "test-nvflare", "test-lowest", "test-latest"), "CONTRIBUTING.md"),
    **dict.fromkeys(("format", "clean"), "Makefile"),
}


def test_every_target_has_a_small_form_that_runs() -> None:
    assert set(SMALL) == set(TARGETS)
    for target, place in SMALL.items():
        assert (ROOT / place).is_file(), target
        if place.startswith("tests/"):
            assert re.search(r"(?m)^def test_", (ROOT / place).read_text())
    page = (ROOT / "CONTRIBUTING.md").read_text()
    assert all(target in page for target in TARGETS if target.startswith("test"))


def commands(target: str) -> list[list[str]]:
    """What `make TARGET` would do in environments that are there."""
    given = [word for name in ENVIRONMENTS for word in ("-o", name)]
    plain = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
    words = ["make", "--no-print-directory", "-n", *given, target]
    done = subprocess.run(words, cwd=ROOT, env=plain, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.replace("\\\n", " ").splitlines()
    return [shlex.split(line.partition("&&")[0]) for line in lines]


@pytest.mark.skipif(shutil.which("make") is None, reason="no `make` on the PATH")
@pytest.mark.parametrize("target", TARGETS)
def test_what_a_target_calls_exists(target: str) -> None:
    leaves = {page.command for page, _ in command_page.pages()}
    found = commands(target)
    assert found
    for words in found:
        program, *rest = (word for word in words if not re.match(r"\w+=|nice$", word))
        if program.endswith("/python") and rest[0] == "-m":
            assert rest[1] == "pip" or find_spec(rest[1]) is not None, rest[1]
        elif program.endswith("/python"):
            assert (ROOT / rest[0]).is_file()
        elif program.endswith("/pace"):
            assert f"pace {rest[0]}" in leaves
        for path in (word for word in rest if re.match(r"(tests|examples|docs|fuzz)/", word)):
            assert (ROOT / path).exists(), path


def test_ci_calls_the_targets_that_people_call() -> None:
    called = re.findall(r"(?m)^make (\S+)", CI)
    assert called == [".venv/dev", "test", "test-flower"]
    workflow = (ROOT / ".github" / "workflows" / "ci.yml").read_text()
    assert re.findall(r"(?m)^ +- run: (.*)$", workflow) == [".ci/run"]
    assert re.search(r"(?m)^test: .*\blint\b", MAKEFILE)


def test_the_hooks_before_a_commit_are_the_checks_of_lint() -> None:
    text = (ROOT / ".pre-commit-config.yaml").read_text()
    hooks = re.findall(r"(?m)^ +entry: (.*)$", text)
    lint = re.search(r"(?m)^lint:.*\n((?:\t.*\n)+)", MAKEFILE)
    assert lint is not None
    plain = [hook.replace(" --force-exclude", "") for hook in hooks]
    wanted = [line.strip().replace("$(BIN)", ".venv/bin") for line in lint[1].splitlines()]
    assert plain == [line.removesuffix(" .") for line in wanted]
