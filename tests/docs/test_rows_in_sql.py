"""The recipes of docs/rows.md: an engine computes the rows, and the upload is the graph's."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

from pace.jobs import Job, read_job
from pace.protocol import steps
from pace.runtimes.files import fit_files, load_rows, load_site

EXAMPLE = Path(__file__).parents[2] / "examples" / "rows_in_sql.py"
BOOK = """
format = "pace-codebook-1"
label = "kind"
classes = ["red", "green", "blue"]
id = "case"
columns = [
    {name = "age", kind = "number", centre = 60.0, scale = 17.5, fill = 61.25, indicator = true},
    {name = "O'Brien", kind = "flag"},
    {name = "ward", kind = "category", values = ["day", "icu"], other = true},
    {name = "seen", kind = "date", centre = 9000.0, scale = 300.0},
]
"""
NODES = 240


def pace(*words: object, cwd: Path) -> None:
    program = [sys.executable, "-c", "from pace.cli import program; program()"]
    done = subprocess.run([*program, *map(str, words)], cwd=cwd, capture_output=True, text=True)
    assert not done.returncode, done.stderr


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """Tables with missing cells and unknown words, an edge twice and a loop, and the graph of them."""
    random = np.random.RandomState(3)
    kinds = random.randint(0, 3, NODES)
    table = pd.DataFrame(
        {
            "case": [f"c{i}" for i in range(NODES)],
            "age": np.where(
                random.rand(NODES) < 0.1, np.nan, 40 + 12 * kinds + random.randn(NODES)
            ),
            "O'Brien": random.randint(0, 2, NODES),
            "ward": random.choice(["day", "icu", "home"], NODES),
            "seen": [f"202{kind}-03-1{kind}" for kind in kinds],
            "kind": np.array(["red", "green", "blue"])[kinds],
            "split": random.choice(["train", "val", "test"], NODES, p=[0.5, 0.25, 0.25]),
        }
    )
    ends = random.randint(0, NODES, (2, 700))
    ends[:, 0], ends[:, 1], ends[:, 2] = (5, 9), (9, 5), (7, 7)
    cases = table["case"].to_numpy()
    edges = pd.DataFrame({"source": cases[ends[0]], "target": cases[ends[1]]})
    for name, made in {"nodes": table, "edges": edges}.items():
        made.to_csv(tmp_path / f"{name}.csv", index=False)
        made.to_parquet(tmp_path / f"{name}.parquet", index=False)
    (tmp_path / "codebook.toml").write_text(BOOK)
    words = "--method pace-ridge --numbers float32 --codebook codebook.toml --participant mine"
    pace("new", "job.pace", *words.split(), "--minimum", 1, "--epochs", 2, cwd=tmp_path)
    words = "--job job.pace --nodes nodes.csv --edges edges.csv --split split --out mine.graph"
    pace("graph", "import", *words.split(), cwd=tmp_path)
    return tmp_path


def sql(engine: str, folder: Path) -> list[str]:
    words = [engine, "job.pace", "nodes.parquet", "edges.parquet", "mine.rows"]
    command = [sys.executable, str(EXAMPLE), *words]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
    return [text for text in done.stdout.split(";\n") if text.strip()]


def uploads(made: Job, folder: Path) -> None:
    sites = {"graph": load_site(folder / "mine.graph", made)}
    sites["rows"] = load_rows(folder / "mine.rows", made)
    sent = []
    for name, each in sites.items():
        (folder / name).mkdir()
        files = (folder / name / file for file in ("local", "mine.up"))
        fit_files(made, each, *files)
        frame = (folder / name / "mine.up").read_bytes()
        sent.append(steps.check_upload(frame, made.federation))
    for name, value in sent[0].items():
        torch.testing.assert_close(sent[1][name], value, atol=1e-6, rtol=1e-5)
        assert float(value.abs().max()) > 0.1


def test_duckdb_computes_the_rows(site: Path) -> None:
    duckdb = pytest.importorskip("duckdb")
    here = Path.cwd()
    os.chdir(site)
    try:
        with duckdb.connect() as database:
            for statement in sql("duckdb", site):
                database.execute(statement)
    finally:
        os.chdir(here)
    uploads(read_job(site / "job.pace"), site)


SPARK = """
import sys
from pyspark.sql import SparkSession
settings = {"spark.ui.enabled": "false", "spark.sql.shuffle.partitions": "2"}
session = SparkSession.builder.master("local[1]").config(map=settings).getOrCreate()
for statement in sys.stdin.read().split(";\\n"):
    if statement.strip():
        session.sql(statement)
"""


@pytest.mark.slow
def test_spark_computes_the_rows(site: Path) -> None:
    """In local mode, by the Python that PACE_SPARK_PYTHON names, else by this one."""
    python = os.environ.get("PACE_SPARK_PYTHON", sys.executable)
    if subprocess.run([python, "-c", "import pyspark"], capture_output=True).returncode:
        pytest.skip("needs pyspark")
    if shutil.which("java") is None:
        pytest.skip("needs Java")
    text = ";\n".join(sql("spark", site))
    clean = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        [python, "-c", SPARK], input=text, cwd=site, env=clean, capture_output=True, text=True
    )
    assert not done.returncode, done.stderr[-3000:]
    uploads(read_job(site / "job.pace"), site)
