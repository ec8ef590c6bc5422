"""One thread: on small products two are slower than one, and many times slower on a busy machine."""

from __future__ import annotations

import os
import signal
import sys
from collections import defaultdict
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from tempfile import mkdtemp
from typing import TYPE_CHECKING, Any

import pytest
import torch
from hypothesis import HealthCheck, settings

from tests import faults
from tests.browser import chromium
from tests.preloaded import Preloaded

if TYPE_CHECKING:
    from playwright.sync_api import Browser

torch.set_num_threads(1)
COUNT = count()
# Where Ctrl-C is ignored (`make test &`, nohup), the commands that are tested must hear it all the same.
signal.signal(signal.SIGINT, signal.default_int_handler)
if "PACE_DATA" in os.environ:  # some tests run commands elsewhere
    os.environ["PACE_DATA"] = str(Path(os.environ["PACE_DATA"]).resolve())
for name in ("COLUMNS", "FORCE_COLOR", "NO_COLOR", "TTY_COMPATIBLE"):
    os.environ.pop(name, None)  # whoever runs the tests may have any terminal, a test sets its own

# The same examples in every run, however busy the machine. Others: `pytest --hypothesis-profile=new`.
calm = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("same", calm, derandomize=True)
settings.register_profile("new", calm)
settings.load_profile("same")


os.environ["PACE_STATE"] = mkdtemp(prefix="pace-state-")  # never the user's own


@pytest.fixture(autouse=True)
def state(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What commands remember from job to job: of each test its own."""
    folder = tmp_path_factory.getbasetemp() / f"state-{next(COUNT)}"
    monkeypatch.setenv("PACE_STATE", str(folder))
    return folder


@pytest.fixture(scope="session")
def pace() -> Iterator[Preloaded]:
    """The `pace` command, each call a process of its own."""
    server = Preloaded()
    yield server
    server.close()


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as running:
        yield running


@pytest.fixture
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """On the path, for `tests.own_methods`; what it holds is neither allowed nor remembered."""
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "own_scaled", raising=False)
    monkeypatch.setenv("PACE_ALLOW", "")
    return tmp_path


# `--faults=PAGE`: the table of faults, from what this run showed (see tests/faults.py).


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--faults", type=Path, help="write the table of faults to this file")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "fault(*rows): the rows of the table of faults it shows")


# The longest tests: begun last, they would keep one worker busy long after the others have ended.
FIRST = {"test_kernels.py", "test_sites.py"}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: item.path.name not in FIRST)
    for item in items:
        for mark in item.iter_markers("fault"):
            item.user_properties.append(("fault", mark.args))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    path: Path | None = terminalreporter.config.getoption("--faults")
    if path is None:
        return
    outcomes: dict[int, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for reports in terminalreporter.stats.values():
        for report in reports:
            if not isinstance(report, pytest.TestReport) or (
                report.passed and report.when != "call"
            ):
                continue
            test = report.nodeid.partition("[")[0].replace(".py::", "::").removeprefix("tests/")
            found: list[tuple[str, Any]] = report.user_properties
            for row in (row for name, rows in found if name == "fault" for row in rows):
                outcomes[row][test].append(report.outcome)
    path.write_text(faults.render(outcomes))
