"""README.md points at what exists, and its picture is one that anybody can read."""

import re
from pathlib import Path
from xml.etree import ElementTree

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
PICTURE = ROOT / "docs" / "assets" / "protocol.svg"
SVG = "{http://www.w3.org/2000/svg}"


def test_every_link_leads_to_a_file() -> None:
    targets = re.findall(r"\]\((?!https:)([^)#\s]+)[^)]*\)", README)
    assert len(targets) > 20
    assert [target for target in targets if not (ROOT / target).is_file()] == []


def test_every_page_can_be_found_from_here() -> None:
    pages = {path.name for path in (ROOT / "docs").glob("*.md")} - {"index.md"}
    assert pages - set(re.findall(r"\(docs/([\w-]+\.md)", README)) == set()


def test_the_picture_explains_itself_to_who_cannot_see_it() -> None:
    root = ElementTree.parse(PICTURE).getroot()
    assert root.get("role") == "img"
    named = [root.find(f"{SVG}title"), root.find(f"{SVG}desc")]
    assert root.get("aria-labelledby", "").split() == [
        each.get("id") for each in named if each is not None
    ]
    (alt,) = re.findall(r"!\[([^\]]+)\]\(docs/assets/protocol\.svg\)", README)
    for text in (alt, "".join(each.text or "" for each in named if each is not None)):
        for word in (
            "upload",
            "once",
            "rank-6",
            "moments",
            "RegMean",
            "correction",
            "External",
            "bit for bit",
        ):
            assert word.lower() in text.lower(), word


def test_the_picture_stands_alone_and_follows_the_reader() -> None:
    """Nothing is fetched; light and dark; fewer and larger words where it is narrow."""
    text = PICTURE.read_text()
    assert len(text.encode()) < 40_000
    assert set(re.findall(r"https?://[^\"\s]+", text)) == {"http://www.w3.org/2000/svg"}
    assert not re.search(r"@import|@font-face|url\(|<script|<image", text)
    assert "prefers-color-scheme: dark" in text
    assert "max-width" in text
    assert min(float(size) for size in re.findall(r"font-size: ([\d.]+)px", text)) >= 10
