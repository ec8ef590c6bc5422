import csv
import io
import re
from pathlib import Path
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pace.io.text import Medium, shown
from pace.jobs.explain import MessageSizes
from pace.jobs.journal import Refusal
from pace.reports import Document, Facts, Section, render_page
from pace.runtimes.files import merge, model

ESCAPES = "\x1b]0;owned\x07\x1b[2J"
HOSTILE = (
    ESCAPES,
    "a\nb\r\nc\u2028d\x85e",
    "<script>alert(1)</script>&amp;",
    "\u202etxt.exe\u2066\u200b\ufeff",
    "=cmd|' /C calc'!A0",
    "+1+1",
    "-2+3",
    "@SUM(A1)",
    "\t=1",
    "＠SUM(A1)",
    "a;=cmd|' /C calc'!A0",
    "[x](javascript:alert(1)) ![y](z) `code` *a* _b_ | c https://d.e www.f.g",
    "not\udcff\udc80UTF-8",
    "half \ud800",
)


@pytest.mark.fault(41)
@pytest.mark.parametrize("medium", get_args(Medium))
@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_text_is_one_line_of_visible_characters(text: str, medium: Medium) -> None:
    line = shown(text, medium)
    assert line.isprintable()
    line.encode()
    assert "<" not in line or medium in ("terminal", "csv")


@given(st.text(st.characters()), st.sampled_from(get_args(Medium)))
def test_any_text_is_one_line_of_visible_characters(text: str, medium: Medium) -> None:
    line = shown(text, medium)
    assert line.isprintable()
    line.encode()


@given(st.text(st.characters(categories=["L", "N"])))
def test_plain_words_are_shown_as_they_are(text: str) -> None:
    assert {shown(text, medium) for medium in get_args(Medium) if medium != "latex"} == {text}
    greek = {"α": r"$\alpha$", "λ": r"$\lambda$"}  # which pdflatex does not know
    assert shown(text, "latex") == "".join(greek.get(letter, letter) for letter in text)
    assert shown("Größe α 1\u00a0000") == "Größe α 1 000"


def test_what_cannot_be_seen_is_written_out() -> None:
    assert shown("\x1b[2J\n\u202e\udcff\U000e0001") == r"\x1b[2J\x0a\u202e\xff\U000e0001"


@pytest.mark.parametrize("text", ["-1", "+2.5e-3", "-.5", "node-1", "a=b", ""])
def test_numbers_and_words_stay_as_they_are_in_csv(text: str) -> None:
    assert shown(text, "csv") == text


@pytest.mark.fault(41)
@pytest.mark.parametrize("text", HOSTILE)
def test_no_name_of_a_node_or_class_is_a_formula_or_a_line_in_a_table(
    tmp_path: Path, text: str
) -> None:
    table: model.Columns = {
        "node": [text, "b"],
        "class": ["c", text],
        "probability": [-0.5, 1.0],
        f"p_{text}": [0, 1],
    }
    model.write_predictions(tmp_path / "p.csv", [table])
    content = (tmp_path / "p.csv").read_bytes().decode()
    assert len(content.splitlines()) == 3
    for row in csv.reader(io.StringIO(content)):
        for cell in row:
            assert cell.isprintable()
            assert cell[:1] not in ("=", "+", "@", "＠")
            assert ";=" not in cell
            assert not cell.startswith("-") or float(cell) < 0


@pytest.mark.fault(41)
@pytest.mark.parametrize("text", HOSTILE)
def test_no_sender_or_reason_becomes_markup_in_a_report(text: str, tmp_path: Path) -> None:
    pages = []
    for said in (text, "a"):
        report = merge.MergeReport(
            job={"name": said, "digest": "ab"},
            merged=False,
            waiting=said,
            took_part=(),
            here=(),
            missing=(),
            refused=(Refusal("file", said, said),),
            bytes=MessageSizes(1, 1, 0, 10),
        )
        merge.write_report(tmp_path, report)
        pages.append((tmp_path / "report.md").read_bytes().decode())
    made, plain = pages
    assert len(made.splitlines()) == len(plain.splitlines())
    assert not re.search(r"<|(?<!\\)[`*_\[\]](?![^`]*`)|://", made.replace("`ab`", "")), made


@pytest.mark.fault(41)
@pytest.mark.parametrize("text", HOSTILE)
def test_no_text_becomes_markup_in_a_page(text: str) -> None:
    blocks = (Facts(((text, text),)),)
    made = render_page(Document(text, text, (), (Section("Facts", blocks),)))
    assert "<script>alert" not in made
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ufeff]", made)
    made.encode()
