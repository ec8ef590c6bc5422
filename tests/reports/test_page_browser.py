"""The study's page in a real browser, opened from disk."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import pytest
from playwright.sync_api import Browser, Page

from pace.methods import make
from pace.reports import Document, Figure, Section
from pace.reports import render_page as render
from pace.reports.run_result import run_document
from pace.runtimes.simulation import simulate
from pace_study.page import write_study_page
from tests.browser import needs_chromium
from tests.graphs import clients
from tests.studies import SEEDS, png, write_study

pytestmark = needs_chromium


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("study")
    write_study(folder)
    write_study_page(folder, SEEDS)
    return folder


@pytest.fixture
def view(browser: Browser, made: Path) -> Iterator[Page]:
    context = browser.new_context(viewport={"width": 1200, "height": 900})
    page = context.new_page()
    page.goto((made / "index.html").as_uri())
    yield page
    context.close()


def test_it_opens_from_disk_in_silence_and_asks_for_nothing(browser: Browser, made: Path) -> None:
    said: list[str] = []
    asked: list[str] = []
    page = browser.new_page()
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("request", lambda request: asked.append(request.url))
    address = (made / "index.html").as_uri()
    page.goto(address)
    page.wait_for_load_state("networkidle")
    assert said == []
    assert [url for url in asked if not url.startswith("data:")] == [address]
    assert page.title() == "PACE: the study, reproduced"
    page.close()


def test_it_reads_without_its_script(browser: Browser, made: Path) -> None:
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto((made / "index.html").as_uri())
    assert page.locator(".choice").count() == 3
    assert all(choice.is_visible() for choice in page.locator(".choice").all())
    assert page.locator(".picture img").is_visible()
    assert page.locator("button").count() == 0
    context.close()


def column(page: Page, caption: str, place: int) -> list[str]:
    """What stands in a table's column, from top to bottom."""
    box = page.get_by_role("region", name=caption, exact=True)
    return box.locator(f"tbody tr > :nth-child({place})").all_inner_texts()


def test_a_column_sorts_by_number_both_ways_and_back(view: Page) -> None:
    caption = "Ten clients, Louvain: measured here"
    head = view.get_by_role("region", name=caption, exact=True).locator("thead th[data-column='1']")
    as_it_was = column(view, caption, 2)
    numbers = sorted(float(text.split()[0]) for text in as_it_was if text != "not run")
    for order, wanted in (("descending", numbers[::-1]), ("ascending", numbers)):
        head.get_by_role("button").click()
        assert head.get_attribute("aria-sort") == order
        texts = column(view, caption, 2)[: len(numbers)]
        assert [float(text.split()[0]) for text in texts] == wanted
    head.get_by_role("button").press("Enter")
    assert head.get_attribute("aria-sort") is None
    assert column(view, caption, 2) == as_it_was


def test_ten_is_more_than_nine(view: Page) -> None:
    caption = "Our scores against the published ones, in points"
    region = view.get_by_role("region", name=caption, exact=True)
    for _ in range(2):
        region.locator("thead th[data-column='1'] button").click()
    counts = [int(text) for text in column(view, caption, 2)]
    assert counts == sorted(counts)
    assert len({len(str(count)) for count in counts}) > 1  # or the order of words would do


def test_what_was_not_run_comes_last_either_way(view: Page) -> None:
    caption = "Twenty clients, Louvain: measured here"
    region = view.get_by_role("region", name=caption, exact=True)
    for _ in range(2):
        region.locator("thead th[data-column='1'] button").click()
        assert column(view, caption, 2)[-1] == "not run"


def test_names_sort_from_a_to_z(view: Page) -> None:
    caption = "Ten clients, Louvain: measured here"
    view.get_by_role("region", name=caption, exact=True).locator("thead button").first.click()
    names = column(view, caption, 1)
    assert names == sorted(names)
    assert {"FedAvg", "Local", "PACE"} < set(names)


def test_drilling_down_shows_the_chosen_setting(view: Page) -> None:
    view.get_by_role("combobox", name="Dataset").select_option("Cora")
    view.get_by_role("combobox", name="Clients (C)").select_option("20")
    (shown,) = [choice for choice in view.locator(".choice").all() if choice.is_visible()]
    assert json.loads(shown.get_attribute("data-keys") or "") == ["Cora", "louvain", "20"]


def test_a_dataset_offers_only_the_settings_it_was_run_in(view: Page) -> None:
    view.get_by_role("combobox", name="Clients (C)").select_option("20")
    view.get_by_role("combobox", name="Dataset").select_option("CiteSeer")
    assert view.get_by_role("combobox", name="Clients (C)").locator("option").all_inner_texts() == [
        "10"
    ]
    assert view.locator(".choice:visible figcaption").first.inner_text().startswith("CiteSeer")


def test_a_figure_enlarges_and_esc_closes_it(view: Page) -> None:
    picture = view.get_by_role("button", name="Enlarge")
    picture.focus()
    view.keyboard.press("Enter")
    dialog = view.get_by_role("dialog")
    small, large = picture.bounding_box(), dialog.locator("img").bounding_box()
    assert small
    assert large
    assert large["height"] > small["height"]
    view.keyboard.press("Escape")
    assert not dialog.is_visible()
    assert picture.evaluate("node => node === document.activeElement")


@pytest.mark.parametrize("width", [360, 768])
def test_the_page_never_scrolls_sideways(browser: Browser, made: Path, width: int) -> None:
    page = browser.new_page(viewport={"width": width, "height": 740})
    page.goto((made / "index.html").as_uri())
    page.evaluate("document.querySelectorAll('details').forEach(fold => (fold.open = true))")
    long = "option => (option.textContent = 'synthetic:nodes=200,features=20,communities=4')"
    page.evaluate(f"document.querySelectorAll('option').forEach({long})")
    assert page.evaluate("document.documentElement.scrollWidth") == width
    box = page.get_by_role("region", name="Ten clients, Louvain: measured here", exact=True)
    if width == 360:
        assert box.evaluate("node => node.scrollWidth > node.clientWidth")
    page.close()


def test_a_wide_figure_scrolls_before_its_letters_become_small(
    browser: Browser, tmp_path: Path
) -> None:
    """Drawn 10 inches wide, which are 960 pixels of CSS, it is never shown below 0.85 of that."""
    figure = Figure("c", "a", png(2000, 400, dpi=200))
    document = Document("t", "l", (), (Section("s", (figure,)),))
    (tmp_path / "index.html").write_text(render(document))
    page = browser.new_page(viewport={"width": 390, "height": 740})
    page.goto((tmp_path / "index.html").as_uri())
    box = page.locator(".picture img").bounding_box()
    assert box
    assert box["width"] == pytest.approx(816, abs=1)
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    cue = page.locator(".cue")
    cue.wait_for(state="visible")
    page.locator(".picture").evaluate("box => (box.scrollLeft = 2000)")
    page.locator(".picture:not(.more)").wait_for()
    page.set_viewport_size({"width": 1280, "height": 740})
    cue.wait_for(state="hidden")
    page.close()


@pytest.mark.parametrize(("scheme", "back", "text"), [("light", 253, 29), ("dark", 20, 230)])
def test_light_and_dark_have_colours_of_their_own(
    browser: Browser, made: Path, scheme: Literal["light", "dark"], back: int, text: int
) -> None:
    page = browser.new_page(color_scheme=scheme)
    page.goto((made / "index.html").as_uri())
    style = "getComputedStyle(document.documentElement)"
    assert page.evaluate(f"{style}.backgroundColor").startswith(f"rgb({back}, ")
    assert page.evaluate(f"{style}.color").startswith(f"rgb({text}, ")
    page.close()


def test_print_shows_everything_and_no_buttons(view: Page) -> None:
    folded = view.locator("details table").first
    assert not folded.is_visible()
    view.emulate_media(media="print")
    assert folded.is_visible()
    assert all(choice.is_visible() for choice in view.locator(".choice").all())
    assert not view.get_by_role("combobox", name="Dataset").is_visible()
    assert not view.locator("nav").is_visible()
    arrow = "getComputedStyle(document.querySelector('thead button'), '::after').content"
    assert view.evaluate(arrow) == "none"


@pytest.mark.parametrize("width", [1280, 390])
def test_a_runs_page_holds_long_names_of_methods(browser: Browser, width: int) -> None:
    """Cards, captions and first columns break a name that has no spaces."""
    long = "my_methods.trimmed_and_signed:TrimmedSigned:density=0.3,rank=6"
    methods = {long: make("pace"), "local": make("local")}
    found = simulate(clients(2), methods, seeds=[1], epochs=2)
    page = browser.new_page(viewport={"width": width, "height": 900})
    page.set_content(render(run_document(found)))
    assert long in page.inner_text(".headline")
    assert page.evaluate("document.documentElement.scrollWidth") == width
    parts = (
        "[...document.querySelectorAll('.headline dt, tbody th, figcaption, h1, .lede, summary')]"
    )
    over = "e => e.scrollWidth > e.clientWidth + 1 && e.clientWidth"
    assert page.evaluate(f"{parts}.filter({over}).map(e => e.textContent)") == []
    page.close()
