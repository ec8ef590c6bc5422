"""Chromium as the tests of pages use it."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser

CHROMIUM = shutil.which("chromium")
QUIET = [  # a browser that does nothing of its own accord
    "--no-sandbox",
    "--no-first-run",
    "--disable-gpu",
    "--disable-quic",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]

needs_chromium = pytest.mark.skipif(
    CHROMIUM is None, reason="no `chromium` on the PATH (Debian: apt-get install chromium)"
)


@contextmanager
def chromium() -> "Iterator[Browser]":
    """One browser, closed at the end."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as engine:
        running = engine.chromium.launch(executable_path=CHROMIUM, args=QUIET)
        yield running
        running.close()
