"""What people watch: the page that refreshes itself, and the lines on a real terminal."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from pace_network import status
from pace_network.progress import Event, Progress
from pace_network.status import StatusPage
from tests.browser import chromium, needs_chromium
from tests.networked import connected, run, site_nodes, stopped
from tests.sites import NAMES, job, write_sites

REFRESH = '<meta http-equiv="refresh"'


def test_the_page_says_who_is_in_and_what_is_awaited_and_no_secret(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(status, "EVERY", 0.0)
    made = job()
    page, progress = StatusPage(tmp_path / "status.html", made), Progress()
    for event in (
        Event("missing", "", "west"),
        Event("asked", "10.0.0.7:9094", "south"),
        Event("refused", "10.0.0.7:9094", "south", "graph"),
        Event("uploaded", "123456789", "north", bytes=20_544),
        Event("failing", "", "the engine", "/mnt/secret: Permission denied"),
        Event("asked", "987654321"),
    ):
        progress.add(event)
        page.update(progress)
    text = page.path.read_text()
    assert REFRESH in text
    for word in (
        "west",
        "its node",
        "a correction at the site",
        "the other uploads",
        "uploads here",
    ):
        assert word in text
    for secret in ("10.0.0.7", "123456789", "20,544", "/mnt/secret", made.digest, "987654321"):
        assert secret not in text
    page.write("The round has ended.")
    assert REFRESH not in page.path.read_text()


def test_a_round_leaves_a_page_of_its_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stopped(monkeypatch)
    write_sites(tmp_path, job())
    run(tmp_path, connected(site_nodes(tmp_path, NAMES)))
    text = (tmp_path / "server/job.report/status.html").read_text()
    assert "The round has ended. The returns are made." in text
    assert text.count("adopted") >= 3


@needs_chromium
def test_a_browser_shows_the_change_without_being_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(status, "EVERY", 0.0)
    monkeypatch.setattr(status, "REFRESH", 1)
    shown, progress = StatusPage(tmp_path / "status.html", job()), Progress()
    progress.add(Event("asked", "1", "north"))
    shown.update(progress)
    with chromium() as browser:
        page = browser.new_page()
        page.goto(shown.path.as_uri())
        assert "its upload" in page.inner_text("body")
        progress.add(Event("uploaded", "1", "north"))
        shown.update(progress)
        page.get_by_text("the other uploads").wait_for(timeout=60_000)


@pytest.mark.skipif(not shutil.which("tmux"), reason="needs tmux")
def test_the_lines_on_a_real_terminal(tmp_path: Path) -> None:
    """North's folder is in the share and nobody answers; then it is interrupted, as by Ctrl-C."""
    write_sites(tmp_path, job())
    (tmp_path / "share/north").mkdir(parents=True)
    tmux = ["tmux", "-S", str(tmp_path / "tmux"), "-f", "/dev/null"]
    pace = [sys.executable, "-m", "pace", "folder", "run", "job.pace", str(tmp_path / "share")]
    words = shlex.join(["env", f"PYTHONPATH={os.environ.get('PYTHONPATH', '')}", *pace])
    new = [*tmux, "new-session", "-d", "-x", "100", "-y", "30", "-c", str(tmp_path / "server")]
    subprocess.run([*new, f"{words}; echo code $?; sleep 600"], check=True)

    def screen() -> str:
        shown = subprocess.run([*tmux, "capture-pane", "-p"], capture_output=True, text=True)
        return shown.stdout

    try:
        until(lambda: "north: asked" in screen())
        subprocess.run([*tmux, "send-keys", "C-c"], check=True)
        until(lambda: "code 130" in screen())
        assert "can be run again" in screen()
    finally:
        subprocess.run([*tmux, "kill-server"], check=False)


def until(condition: object) -> None:
    assert callable(condition)
    end = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.2)
