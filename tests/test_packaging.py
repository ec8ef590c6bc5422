"""The package as it is built, installed and asked for more than is there."""

import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import venv
import zipfile
from email.message import Message
from email.parser import Parser
from pathlib import Path

import pytest
from packaging.version import Version

import pace
from pace.cli import main

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
OURS = {"dev", "docs", "fuzz"}  # for those who work on the package
EXTRAS = sorted(set(PROJECT["optional-dependencies"]) - OURS)
KINDS = {".py", ".json", ".css", ".js", ".toml", ".jinja"}  # what the package may be made of
SMALL = ["--dataset", "synthetic:nodes=300,features=50,communities=6"]
QUICK = ["run", *SMALL, "--clients", "3", "--epochs", "5", "--seeds", "1"]

# A command that needs each library, and the extra that has it.
NEEDS = [
    ("pymetis", "research", [*QUICK, "--partition", "metis"]),
    ("pymetis", "research", ["partition", *SMALL, "--partition", "metis"]),
    ("pyarrow", "report", ["graph", "import", "--nodes", "nodes.parquet"]),
    ("onnxscript", "export", ["export", "mine.model", "--to", "onnx", "--out", "mine_onnx"]),
    ("tensorboard", "tracking", [*QUICK, "--track", "tensorboard=runs"]),
    ("mlflow", "tracking", [*QUICK, "--track", "mlflow=runs"]),
    ("flwr", "flower", ["flower", "status"]),
]
IMPORT = ["--edges", "edges.parquet", "--label", "kind", "--out", "mine.graph"]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the sdist and the wheel, made without a network."""
    folder = tmp_path_factory.mktemp("dist")
    build(ROOT, folder)
    return folder


def build(tree: Path, folder: Path, *targets: str) -> None:
    command = [sys.executable, "-m", "hatchling", "build", "-d", str(folder), *targets]
    subprocess.run(command, cwd=tree, check=True, capture_output=True)


def content(wheel: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(wheel) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def the(folder: Path, pattern: str) -> Path:
    (found,) = folder.glob(pattern)
    return found


def metadata(built: Path) -> Message:
    files = content(the(built, "*.whl"))
    (name,) = (name for name in files if name.endswith(".dist-info/METADATA"))
    return Parser().parsestr(files[name].decode())


def test_the_wheel_is_the_package_its_licence_and_nothing_else(built: Path) -> None:
    files = content(the(built, "*.whl"))
    package = {name for name in files if name.startswith("pace/")}
    source = {
        str(path.relative_to(ROOT / "src"))
        for path in (ROOT / "src" / "pace").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert package == source
    assert {Path(name).suffix for name in package - {"pace/py.typed"}} <= KINDS
    about = {name.split("/", 1)[1] for name in files if name not in package}
    assert about == {"METADATA", "WHEEL", "RECORD", "entry_points.txt", "licenses/LICENSE"}
    assert files["pace/py.typed"] == b""
    assert sum(map(len, files.values())) < 2_000_000


def test_the_sdist_is_small_and_makes_the_same_wheel(built: Path, tmp_path: Path) -> None:
    sdist = the(built, "*.tar.gz")
    assert sdist.stat().st_size < 1_000_000
    with tarfile.open(sdist) as archive:
        names = {name.split("/", 1)[1] for name in archive.getnames()}
    # Not by `extractall`: its filter is not in 3.11.2, and without it 3.12 warns.
    subprocess.run(["tar", "-xzf", sdist, "-C", tmp_path], check=True)
    assert {name for name in names if not name.startswith("src/pace/")} == {
        ".gitignore",
        "CHANGELOG.md",
        "CITATION.cff",
        "CONTRIBUTING.md",
        "LICENSE",
        "PKG-INFO",
        "README.md",
        "constraints.txt",
        "pyproject.toml",
    }
    build(the(tmp_path, "pace_fgl-*"), tmp_path, "-t", "wheel")
    assert content(the(tmp_path, "*.whl")) == content(the(built, "*.whl"))


def test_the_version_is_written_once_and_said_everywhere(built: Path) -> None:
    assert metadata(built)["Version"] == pace.__version__
    citation = (ROOT / "CITATION.cff").read_text()
    assert re.findall(r"^version: (.+)$", citation, re.M) == [pace.__version__]
    newest, *_ = re.findall(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(), re.M)
    assert newest == pace.__version__
    elsewhere = [
        path
        for path in (ROOT / "src").rglob("*.py")
        if re.search(rf"""["']{re.escape(pace.__version__)}["']""", path.read_text())
    ]
    assert elsewhere == [ROOT / "src" / "pace" / "__init__.py"]


def test_the_metadata_says_what_is_true(built: Path) -> None:
    said = metadata(built)
    assert said["License-Expression"] == "Apache-2.0"
    assert said["Requires-Python"] == ">=3.11"
    assert set(said.get_all("Provides-Extra", [])) == set(EXTRAS) | OURS
    assert "Typing :: Typed" in said.get_all("Classifier", [])


def test_every_extra_is_in_the_readme_and_every_extra_named_exists() -> None:
    readme = (ROOT / "README.md").read_text()
    (sentence,) = re.findall(r"^\*\*Extras\*\*.*?\n\n", readme, re.M | re.S)
    assert set(re.findall(r"`([a-z]+)` \(", sentence)) == set(EXTRAS)
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md"), *(ROOT / "src").rglob("*.py")]
    for path in pages:
        for named in re.findall(r"pace-fgl\[([a-z,]+)\]", path.read_text()):
            assert set(named.split(",")) <= set(EXTRAS), path


def test_the_oldest_versions_that_are_tested_are_the_oldest_that_are_allowed() -> None:
    extras = ("research", "report", "notebook", "dev")
    lines = [line for extra in extras for line in PROJECT["optional-dependencies"][extra]]
    study = tomllib.loads((ROOT / "study" / "pyproject.toml").read_text())["project"]
    lines += study["optional-dependencies"]["tracking"]
    oldest = dict(
        re.findall(r"^([\w-]+)>=([\d.]+)", "\n".join(PROJECT["dependencies"] + lines), re.M)
    )
    pinned = dict(
        re.findall(r"^([\w-]+)==([\d.]+)$", (ROOT / "constraints-lowest.txt").read_text(), re.M)
    )
    assert {name: Version(version) for name, version in pinned.items()} == {
        name: Version(version) for name, version in oldest.items()
    }


def test_the_citation_is_of_the_paper() -> None:
    citation = (ROOT / "CITATION.cff").read_text()
    assert citation.startswith("cff-version: 1.2.0\n")
    assert f"license: {PROJECT['license']}\n" in citation
    assert "One-Shot Personalized Federated Graph Learning" in citation
    assert re.findall(r"family-names: (\w+)", citation) == ["Huang", "Li", "Shi"]


@pytest.mark.parametrize(("library", "extra", "words"), NEEDS)
def test_a_missing_extra_is_named_with_the_command_that_installs_it(
    library: str,
    extra: str,
    words: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    for table in ("nodes.parquet", "edges.parquet"):
        Path(table).write_bytes(b"PAR1")
    for module in [library, *(each for each in sys.modules if each.startswith(f"{library}."))]:
        monkeypatch.setitem(sys.modules, module, None)
    monkeypatch.setenv("PATH", str(tmp_path))  # where no flwr is,
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))  # nor beside Python
    tables = IMPORT if words[0] == "graph" else []
    monkeypatch.setattr(sys, "argv", ["pace", *words, *tables])
    with pytest.raises(SystemExit) as ended:
        main()
    printed = capsys.readouterr()
    assert ended.value.code == 2
    assert library in printed.err
    package = {"tracking": "pace-study", "flower": "pace-network"}.get(extra, "pace-fgl")
    assert f"pip install '{package}[{extra}]'" in printed.err
    assert "Traceback" not in printed.err
    assert printed.out == ""
    left = {"nodes.parquet", "edges.parquet", ".pace-flower"}  # the last: Flower's settings
    assert {path.name for path in tmp_path.iterdir()} <= left


@pytest.mark.skipif(shutil.which("make") is None, reason="no `make` on the PATH")
@pytest.mark.parametrize("old", [True, False])
def test_make_takes_no_old_python_and_mends_an_environment_without_pip(
    old: bool, tmp_path: Path
) -> None:
    for name in ("Makefile", "pyproject.toml", "constraints.txt"):
        shutil.copy(ROOT / name, tmp_path)
    version = "3.10.1" if old else "3.11.2"
    pretends = f"import sys; sys.version, sys.version_info = {version!r}, (3, {version[2:4]}); "
    python = tmp_path / "python"
    python.write_text(
        f"""#!/bin/sh
if [ "$1" = -c ]; then exec {sys.executable} -c "{pretends}$2"; fi
echo "asked: $*"; exit 1
"""
    )
    python.chmod(0o755)
    (tmp_path / ".venv" / "bin").mkdir(parents=True)  # as Debian leaves it without python3-venv
    (tmp_path / ".venv" / "bin" / "python").symlink_to(python)
    words = ["make", ".venv/core", f"PYTHON={python}"]
    # `make test` tells the makes below it who started them, and they say where they are.
    plain = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
    done = subprocess.run(words, cwd=tmp_path, env=plain, capture_output=True, text=True)
    assert done.returncode != 0
    assert ("PACE needs Python 3.11 or later" in done.stderr) == old
    assert done.stdout.splitlines() == ([] if old else ["asked: -m venv .venv"])


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("extra", ["", *EXTRAS])
def test_a_clean_environment_has_what_was_asked_for(
    extra: str, built: Path, tmp_path: Path
) -> None:
    """The wheel in an empty environment, from the index that pip knows: everything works or says why."""
    home = tmp_path / "env"
    venv.create(home, with_pip=True)
    asked = f"{the(built, '*.whl')}{f'[{extra}]' if extra else ''}"
    pip = [str(home / "bin" / "python"), "-m", "pip", "install", "--quiet"]
    subprocess.run([*pip, "-c", str(ROOT / "constraints.txt"), asked], check=True)

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        clean = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "PACE_"))}
        clean["PATH"] = f"{home / 'bin'}{os.pathsep}{os.defpath}"
        command = [str(home / "bin" / words[0]), *words[1:]]
        return subprocess.run(command, env=clean, cwd=tmp_path, capture_output=True, text=True)

    assert run("pace", "--version").stdout.strip() == pace.__version__
    for words in (["--help"], ["doctor"], ["run", "--seeds", "1", "--partition", "dirichlet"]):
        done = run("pace", *words)
        assert done.returncode == 0, f"pace {words}: {done.stderr}"
    there = {
        library: run("python", "-c", f"import {library}").returncode == 0 for library, _, _ in NEEDS
    }
    missing = {named for library, named, _ in NEEDS if not there[library]}
    assert extra not in missing, f"{extra} did not bring what it is for"
    for table in ("nodes.parquet", "edges.parquet"):
        (tmp_path / table).write_bytes(b"PAR1")
    for library, other, words in NEEDS:
        if other not in EXTRAS or (there[library] and words[0] in ("graph", "flower")):
            continue  # minutes, or data and a network that are not here
        done = run("pace", *words, *(IMPORT if words[0] == "graph" else []))
        assert "Traceback" not in done.stderr
        if there[library]:
            assert done.returncode == 0, f"pace {words}: {done.stderr}"
        else:
            assert done.returncode == 2
            (named,) = re.findall(r"pip install 'pace-fgl\[(\w+)\]'", done.stderr)
            assert named in missing
