"""Links that leave docs/ work on a forge; in the site they become links into the site.

A Python module of ours, with or without a name in it (`../src/pace/graph.py#Graph.from_pyg`),
becomes a link into the API reference. Any other file becomes a page of the site, or is copied if
it is a picture. A folder becomes plain text.
"""

import posixpath
import re
from collections.abc import Iterator
from logging import getLogger
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files, InclusionLevel
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[2]
SITE = "files/"  # where files of the repository stand in the site

FENCE = re.compile(r"^(```+).*?^\1 *$", re.MULTILINE | re.DOTALL)
LINK = re.compile(
    r"(?P<start>\[(?P<text>(?:`[^`]*`|[^\[\]`])*)\]\()(?P<target>[^)#:\s]+)(?P<name>#[^)\s]*)?\)"
    r'|(?P<attribute>\b(?:src|srcset|href)=")(?P<value>[^"#:]+)"'
)
PICTURES = {".svg", ".png", ".jpg", ".gif"}
LANGUAGES = {".py": "python", ".sh": "sh", ".toml": "toml", ".json": "json", ".yml": "yaml"}

log = getLogger("mkdocs.hooks.repository")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Every file of the repository that a page links to joins the site; their links count too."""
    waiting = [file for file in files.documentation_pages() if file.inclusion.is_included()]
    waiting += added(files, config, {path for path in nav(config.nav) if path.startswith(SITE)})
    while waiting:
        file = waiting.pop()
        wanted = {in_site(path) for path in outward(file.content_string, origin(file.src_uri))}
        waiting += added(files, config, wanted)
    return files


def nav(entry: Any) -> Iterator[str]:
    if isinstance(entry, str):
        yield entry
    for each in entry.values() if isinstance(entry, dict) else entry or ():
        if not isinstance(entry, str):
            yield from nav(each)


def added(files: Files, config: MkDocsConfig, wanted: set[str]) -> list[File]:
    """The pages among the wanted files that were not there yet."""
    pages = []
    for uri in sorted(wanted):
        if files.get_file_from_path(uri) is not None:
            continue
        path = ROOT / origin(uri)
        if path.suffix in PICTURES:
            new = File.generated(config, uri, abs_src_path=str(path))
        else:
            new = File.generated(
                config, uri, content=page_of(path), inclusion=InclusionLevel.NOT_IN_NAV
            )
            pages.append(new)
        files.append(new)
    return pages


def page_of(path: Path) -> str:
    """A Markdown file as it is, any other text as a page that shows it."""
    text = path.read_text()
    if path.suffix == ".md":
        return text
    language = LANGUAGES.get(path.suffix, "text")
    name = path.relative_to(ROOT).as_posix()
    return (
        f"---\nsearch: {{exclude: true}}\n---\n# `{name}`\n\n````````{language}\n{text}\n````````\n"
    )


def origin(uri: str) -> str:
    """Where in the repository a page of the site comes from."""
    if not uri.startswith(SITE):
        return f"docs/{uri}"
    path = uri.removeprefix(SITE)
    return path if (ROOT / path).exists() else path.removesuffix(".md")


def in_site(path: str) -> str:
    """Where in the site a path of the repository stands."""
    if path.startswith("docs/"):
        return path.removeprefix("docs/")
    return SITE + (path if Path(path).suffix in PICTURES | {".md"} else f"{path}.md")


def outward(markdown: str, source: str) -> set[str]:
    """The files outside docs/ that a page shows or links to, modules of ours apart."""
    found = set()
    for link in LINK.finditer(FENCE.sub("", markdown)):
        path = resolved(link["target"] or link["value"], source)
        if not path.startswith("docs/") and (ROOT / path).is_file() and not module(path):
            found.add(path)
    return found


def resolved(target: str, source: str) -> str:
    return posixpath.normpath(posixpath.join(posixpath.dirname(source), target))


def module(path: str) -> str | None:
    """`src/pace/datasets/file.py` as `pace.datasets.file`; commands are not in the API reference."""
    packages = ("src/pace/", "network/pace_network/")
    if not path.startswith(packages) or not path.endswith(".py") or "/cli/" in path:
        return None
    name = path.partition("/")[2].removesuffix(".py").replace("/", ".")
    return name.removesuffix(".__init__")


def on_page_markdown(markdown: str, page: Page, **_: Any) -> str:
    uri = page.file.src_uri
    source = origin(uri)

    def rewritten(link: re.Match[str]) -> str:
        target = link["target"] or link["value"]
        path = resolved(target, source)
        if path.startswith("docs/") and not uri.startswith(SITE):
            return link[0]
        if not (ROOT / path).exists():
            log.warning(f"{source}: no file '{target}' in the repository")
            return link[0]
        if link["target"] and (name := module(path)):
            inside = (link["name"] or "").replace("#", ".")
            return f"[{link['text']}][{name}{inside}]"
        if (ROOT / path).is_dir():
            return link["text"] or ""
        place = posixpath.relpath(in_site(path), posixpath.dirname(uri) or ".")
        if link["attribute"]:
            return f'{link["attribute"]}{place}"'
        return f"{link['start']}{place}{link['name'] or ''})"

    parts, end = [], 0
    for fence in FENCE.finditer(markdown):
        parts += [LINK.sub(rewritten, markdown[end : fence.start()]), fence[0]]
        end = fence.end()
    return "".join([*parts, LINK.sub(rewritten, markdown[end:])])
