"""Text, tables and codebooks from outside."""

from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, get_args

from fuzz.scratch import FOLDER, placed, quiet, written

from pace.io import FORMULA, NUMBER, Medium, shown, untrusted
from pace.tables import (
    Codebook,
    Columns,
    Problems,
    Proposal,
    data_columns,
    import_graph,
    merge_proposals,
    open_table,
    propose_columns,
    read_columns,
    read_table,
    write_columns,
)

TABLE = (
    b"id;age;kind;seen;site\n1;3,5;a;2024-01-02;x\n2;;b;2024-02-03;y\n3;1.234,5;a;;x\n"
    b"4;7;c;2024-05-06;y\n5;8;a;2024-05-07;x\n6;9;b;2024-05-08;y\n"
)
EDGES = b"source;target;since\n1;2;3\n2;3;0,5\n6;1;1\n"


def text(data: bytes) -> None:
    """Whatever the bytes, what is shown is one inert line."""
    outside = data.decode(errors="surrogateescape")
    for medium in get_args(Medium):
        line = shown(outside, medium)
        line.encode()
        assert line.isprintable()
        if medium == "csv":
            assert not line.startswith(FORMULA) or NUMBER.fullmatch(line)
        if medium in ("html", "markdown"):
            assert "<" not in line


def parsed(data: bytes) -> None:
    """JSON and TOML, with the limits of their shapes: a value, or a `ValueError` soon."""
    for parse in (untrusted.json, untrusted.toml):
        with suppress(ValueError):
            parse(data)


def table(data: bytes) -> None:
    """The first byte says whether the rest is CSV or Parquet."""
    suffix = ".parquet" if data[:1] == b"\1" else ".csv"
    quiet(_table, placed(data[1:], f"a{suffix}"))


def _table(path: Path) -> None:
    file, problems = open_table(path), Problems()
    names = data_columns(file, Problems())
    read_table(file, problems, text=names[:1], numbers=names[1:])
    problems.stop()


def codebooks(data: bytes) -> None:
    """The first byte says whether the rest is a codebook, which is applied, or a proposal, merged."""
    path = placed(data[1:], "a.toml")
    quiet(_applied if data[:1] == b"\1" else _merged, path)


def _applied(path: Path) -> None:
    import_graph(nodes(), edges(), Columns(), codebook=read_columns(path, Codebook))


def _merged(path: Path) -> None:
    sites = {"north": read_columns(path, Proposal), "south": honest_proposal()}
    book = merge_proposals(sites)[0]
    book.as_table()


def nodes() -> Path:
    path = FOLDER / "nodes.csv"
    if not path.exists():
        path.write_bytes(TABLE)
    return path


def edges() -> Path:
    path = FOLDER / "edges.csv"
    if not path.exists():
        path.write_bytes(EDGES)
    return path


@cache
def honest_proposal() -> Proposal:
    return propose_columns(nodes(), label="site", least=1)[0]


def seeds() -> Mapping[str, list[bytes]]:
    import pyarrow
    from pyarrow import parquet

    offered = honest_proposal()
    rows: dict[str, Any] = {"id": ["a", "b"], "x": [1.5, None], "y": ["7", "z"]}
    packed = written(lambda path: parquet.write_table(pyarrow.table(rows), path))
    book = merge_proposals({"north": offered, "south": offered})[0]
    return {
        "text": ["=a\x1b[2J\u202e<b>\n".encode(), b"not \xff UTF-8", b"[x](javascript:y) `|`"],
        "parsed": [b'{"a": [1, {"b": null}]}', b'[a]\nb.c = [1, 2.5, "x"]\n\'d\' = """e"""\n'],
        "table": [b"\0" + TABLE, b"\1" + packed],
        "codebook": [
            b"\0" + written(lambda path: write_columns(path, offered)),
            b"\1" + written(lambda path: write_columns(path, book)),
        ],
    }


TARGETS: dict[str, Callable[[bytes], None]] = {
    "text": text,
    "parsed": parsed,
    "table": table,
    "codebook": codebooks,
}
