"""The commands of docs/your-own-graph.md, run as they stand there."""

import re
import shlex
import sys
from pathlib import Path

import pytest

from pace.cli import main

PAGE = Path(__file__).parent.parent / "docs" / "your-own-graph.md"


def test_the_page_on_your_own_graph_works(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    page = PAGE.read_text()
    for name, content in re.findall(r"cat > (\S+) <<'END'\n(.*?)END\n", page, re.DOTALL):
        Path(name).write_text(content)
    commands = re.findall(r"^pace (?:graph|partition|run).*$", page, re.MULTILINE)
    assert len(commands) == 4
    for command in commands:
        monkeypatch.setattr(sys, "argv", shlex.split(command))
        with pytest.raises(SystemExit) as ended:
            main()
        assert not ended.value.code, capsys.readouterr().err
    assert Path("mine.graph").exists()
    assert Path("mine.json").exists()
