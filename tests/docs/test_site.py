"""The documentation site: it builds without a warning, is whole, and asks nobody for anything."""

import fcntl
import importlib.util
import os
import re
import subprocess
import sys
from functools import cache
from html import unescape
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import unquote, urldefrag, urlsplit

import pytest

import pace
from tests.browser import chromium, needs_chromium

ROOT = Path(__file__).parents[2]
SOURCE = Path(pace.__file__).parent
NO_DOCS = importlib.util.find_spec("material") is None or not importlib.util.find_spec(
    "mkdocstrings"
)

needs_docs = pytest.mark.skipif(NO_DOCS, reason="needs the extra `docs` (make docs installs it)")


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The built site, made once for all the processes that run tests."""
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "site"
    with open(f"{folder}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.exists():
            command = [
                sys.executable,
                "-m",
                "mkdocs",
                "build",
                "--strict",
                "--site-dir",
                str(folder),
            ]
            environment = os.environ | {"NO_MKDOCS_2_WARNING": "1"}
            done = subprocess.run(
                command, cwd=ROOT, env=environment, capture_output=True, text=True
            )
            Path(f"{folder}.said").write_text(f"{done.returncode}\n{done.stdout}{done.stderr}")
    code, _, said = Path(f"{folder}.said").read_text().partition("\n")
    assert code == "0", said
    return folder


LINK = re.compile(r'<a\b[^>]*?\bhref="([^"]*)"')
LOAD = re.compile(r'<(?:link\b[^>]*?\bhref|\w+\b[^>]*?\b(?:src|srcset))="([^"]*)"')
ANCHOR = re.compile(r'<[^>]*?\b(?:id|name)="([^"]*)"')


class Found:
    """What a page links to, what it loads, and the anchors it has."""

    def __init__(self, text: str) -> None:
        self.links: list[str] = list(map(unescape, LINK.findall(text)))
        self.loads: list[str] = list(map(unescape, LOAD.findall(text)))
        self.anchors: set[str] = set(map(unescape, ANCHOR.findall(text)))


@cache
def pages(site: Path) -> dict[Path, Found]:
    paths = [path for path in site.rglob("*.html") if path.name != "404.html"]
    return {path: Found(path.read_text()) for path in paths}


@needs_docs
def test_nothing_is_loaded_from_elsewhere(site: Path) -> None:
    for path, page in pages(site).items():
        for address in page.loads:
            assert urlsplit(address).scheme in ("", "data"), path
    for path in site.rglob("*.css"):
        assert not re.search(r"url\([\"']?https?:|@import", path.read_text()), path


@needs_docs
def test_every_link_and_picture_leads_somewhere(site: Path) -> None:
    found = pages(site)
    anchors = {str(path): page.anchors for path, page in found.items()}
    files = {str(path) for path in (site, *site.rglob("*"))}
    wrong = []
    for path, page in found.items():
        for address in {*page.links, *page.loads}:
            place, anchor = urldefrag(address)
            if urlsplit(address).scheme:
                continue
            target = os.path.normpath(path.parent / unquote(place)) if place else str(path)
            known = anchors.get(target, {unquote(anchor)})
            if target not in files or (anchor and unquote(anchor) not in known):
                wrong.append(f"{path.relative_to(site)}: {address}")
    assert not wrong


@needs_docs
def test_links_to_source_lead_into_the_reference(site: Path) -> None:
    """On a forge `../src/pace/gates/cnll.py#calibrate` opens the file."""
    linked = re.findall(
        r"\]\(\.\./src/pace/[\w/]+\.py#\w+\)", (ROOT / "docs/mathematics.md").read_text()
    )
    assert len(linked) > 10
    page = Found((site / "mathematics.html").read_text())
    into = [link for link in page.links if re.match(r"api/[\w-]+\.html#pace\.", link)]
    assert len(into) >= len(linked)


LINKS = [
    ("page.md", "[`f`](../src/pace/graph.py#Graph.from_pyg)", "[`f`][pace.graph.Graph.from_pyg]"),
    ("page.md", "[data](../src/pace/datasets/__init__.py)", "[data][pace.datasets]"),
    ("page.md", "[`run`](../src/pace/cli/run.py)", "[`run`](files/src/pace/cli/run.py.md)"),
    ("api/page.md", "[read](../../README.md#in-python)", "[read](../files/README.md#in-python)"),
    ("page.md", "![rank](../results/figures/rank.png)", "![rank](files/results/figures/rank.png)"),
    ("page.md", "all [`cells`](../results/cells) here", "all `cells` here"),
    ("files/README.md", "[a](docs/researcher.md#partitions)", "[a](../researcher.md#partitions)"),
    (
        "files/README.md",
        '<img src="docs/assets/protocol.svg">',
        '<img src="../assets/protocol.svg">',
    ),
    ("page.md", "[a](researcher.md#partitions)", "[a](researcher.md#partitions)"),
    ("page.md", "[Flower](https://flower.ai)", "[Flower](https://flower.ai)"),
    ("page.md", "```text\n[a](../README.md)\n```", "```text\n[a](../README.md)\n```"),
]


@needs_docs
def test_links_out_of_docs_stay_in_the_site(caplog: pytest.LogCaptureFixture) -> None:
    hook = loaded("repository")
    for page, written, expected in LINKS:
        file = SimpleNamespace(file=SimpleNamespace(src_uri=page))
        assert hook.on_page_markdown(written, page=file) == expected
    assert not caplog.records
    file = SimpleNamespace(file=SimpleNamespace(src_uri="page.md"))
    hook.on_page_markdown("[gone](../examples/gone.py)", page=file)
    assert "no file '../examples/gone.py'" in caplog.text  # a warning fails the build


@needs_docs
def test_comments_are_not_published_but_shown_in_code() -> None:
    hook = loaded("comments")
    text = "a\n<!-- hidden sh\nrm x\n-->\n```html\n<!-- b -->\n```\n<!-- c -->\nd\n"
    assert hook.on_page_markdown(text) == "a\n```html\n<!-- b -->\n```\nd\n"


def loaded(hook: str) -> Any:
    """A hook as mkdocs loads it: from its file."""
    spec = importlib.util.spec_from_file_location(hook, ROOT / "docs" / "hooks" / f"{hook}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@needs_docs
def test_formulas_of_docstrings_keep_their_lines(site: Path) -> None:
    text = (site / "api" / "section-4.html").read_text()
    formula = "R'(α) = mean_v ( E_{c ~ p_α}[d_vc] - d_{v,y_v} ),   d = z_E - z_L"
    blocks = re.findall(r"<code>(.*?)</code></pre>", text, re.S)
    plain = [re.sub(r"<[^>]*>", "", block).replace("&#39;", "'") for block in blocks]
    assert any(formula in block for block in plain)


def test_every_module_stands_in_the_reference_once() -> None:
    parts = [path.relative_to(SOURCE.parent).with_suffix("") for path in SOURCE.rglob("*.py")]
    beside = {"study": "baselines/*.py", "network": "*.py", "gpu": "*.py"}
    for package, files in beside.items():
        root = ROOT / package
        parts += [path.relative_to(root).with_suffix("") for path in root.rglob(files)]
    modules = {".".join(part.parts).removesuffix(".__init__") for part in parts}
    commands = {name for name in modules if name.startswith(("pace.cli", "pace_network.commands"))}
    told = [
        name
        for page in (ROOT / "docs" / "api").glob("*.md")
        for name in re.findall(r"^::: (\S+)$", page.read_text(), re.M)
    ]
    missing = modules - commands - {"pace", "pace.__main__", *told}
    assert not missing, f"add `::: {min(missing)}` to the page of docs/api where it belongs"
    assert not set(told) - modules
    assert len(told) == len(set(told))


def test_the_reference_shows_the_public_names() -> None:
    page = (ROOT / "docs" / "api" / "index.md").read_text()
    shown = {
        name
        for line in re.findall(r"^from pace import (.*)$", page, re.M)
        for name in line.split(", ")
    }
    assert shown == set(pace.__all__) - {"__version__"}


@needs_docs
@needs_chromium
def test_in_a_browser_formulas_are_drawn_and_search_finds(site: Path) -> None:
    with_formulas = [path for path in pages(site) if 'class="arithmatex"' in path.read_text()]
    said: list[str] = []
    asked: list[str] = []
    with chromium() as browser:
        page = browser.new_page()
        page.on("console", lambda message: said.append(message.text))
        page.on("pageerror", lambda error: said.append(str(error)))
        page.on("request", lambda request: asked.append(request.url))
        for path in with_formulas:
            page.goto(path.as_uri())
            assert page.locator(".katex").count() > 0, path
            assert page.locator(".katex-error").all_text_contents() == [], path
        page.goto((site / "index.html").as_uri())
        page.get_by_placeholder("Search").first.fill("calibrate")
        page.locator(".md-search-result__item").first.wait_for(timeout=20_000)
    assert said == []
    assert [url for url in asked if not url.startswith(("file:", "data:", "blob:", "about:"))] == []


# Short words of code in tables that stand on more than one line.
BROKEN = r"""() => [...document.querySelectorAll("table code")].filter(code => {
    const range = document.createRange();
    range.selectNodeContents(code);
    const lines = new Set([...range.getClientRects()].map(each => Math.round(each.top)));
    return /^\w{1,20}$/.test(code.textContent) && lines.size > 1;
}).map(code => code.textContent)"""


@needs_docs
@needs_chromium
def test_on_a_phone_no_word_of_code_is_broken_in_a_table(site: Path) -> None:
    with chromium() as browser:
        page = browser.new_page(viewport={"width": 390, "height": 800})
        for name in ("wire-format", "researcher", "mathematics"):
            page.goto((site / f"{name}.html").as_uri())
            assert page.locator("table code").count() > 5
            assert page.evaluate(BROKEN) == [], name


@needs_docs
@needs_chromium
def test_groups_of_the_menu_fold_and_wide_tables_say_that_they_scroll(site: Path) -> None:
    with chromium() as browser:
        page = browser.new_page(viewport={"width": 1280, "height": 900})
        page.goto((site / "models.html").as_uri())
        inside = page.locator(".md-sidebar--primary").get_by_role("link", name="Add a method")
        assert page.locator(".md-sidebar--primary .md-nav__link--active").last.is_visible()
        assert not inside.is_visible()
        page.locator(".md-sidebar--primary label.md-nav__link", has_text="Extend").first.click()
        inside.wait_for(state="visible")
        page.set_viewport_size({"width": 390, "height": 800})
        page.wait_for_function(
            "document.querySelectorAll('.md-typeset__scrollwrap.more').length > 0"
        )
        assert page.locator(".cue:visible").count() > 0
        assert page.evaluate("document.documentElement.scrollWidth") == 390
