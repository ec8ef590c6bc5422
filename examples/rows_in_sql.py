"""The SQL that computes a job's rows where the tables are: for DuckDB, or for Spark.

    python rows_in_sql.py duckdb job.pace nodes.parquet edges.parquet mine.rows > rows.sql

Nodes have the columns of the job's codebook and `split`, edges have `source` and `target`.
The job's method is pace-ridge; edges go both ways and weigh the same.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from pace.jobs import Job, read_job
from pace.tables.codebook import Column

QUOTE = {"duckdb": '"', "spark": "`"}
LIST = {"duckdb": "list_value", "spark": "array"}
READ = {
    "duckdb": "CREATE TEMP VIEW {name} AS SELECT * FROM '{path}'",
    "spark": "CREATE TEMPORARY VIEW {name} USING parquet OPTIONS (path '{path}')",
}
WRITE = {
    "duckdb": "COPY ({rows}) TO '{path}' (FORMAT parquet, PER_THREAD_OUTPUT, ROW_GROUP_SIZE 8192)",
    "spark": "INSERT OVERWRITE DIRECTORY '{path}' USING parquet {rows}",
}
DAYS = {
    "duckdb": "date_diff('day', DATE '2000-01-01', CAST({} AS DATE))",
    "spark": "datediff(CAST({} AS DATE), DATE '2000-01-01')",
}


def statements(engine: str, job: Job, nodes: str, edges: str, out: str) -> list[str]:
    """From the two tables to the rows, one statement after the other."""
    quote, book = QUOTE[engine], job.codebook
    if book is None or book.weight or book.directions != "both":
        raise SystemExit("this recipe needs a codebook whose edges go both ways and weigh the same")

    def name(column: str) -> str:
        return quote + column.replace(quote, 2 * quote) + quote

    features = [text for column in book.columns for text in encoded(engine, column, name)]
    roots = (f"sign({text}) * sqrt(abs({text})) AS x{i}" for i, text in enumerate(features))
    x = [f"x{i}" for i in range(len(features))]
    node, label = name(book.id), name(book.label)

    def hop(source: str) -> str:
        """P times the rows of a table, P = D^-1/2 (A + I) D^-1/2."""
        sums = (f"sum({each} / sqrt(a.degree * b.degree)) AS {each}" for each in x)
        return (
            f"SELECT l.target AS id, {', '.join(sums)} FROM links l JOIN {source} r ON r.id = l.source "
            "JOIN degrees a ON a.id = l.source JOIN degrees b ON b.id = l.target GROUP BY l.target"
        )

    def listed(table: str) -> str:
        return f"{LIST[engine]}({', '.join(f'CAST({table}.{each} AS FLOAT)' for each in x)})"

    rows = (
        f"SELECT CAST(n.{node} AS VARCHAR(100)) AS id, n.split AS split, n.{label} AS label, "
        f"{listed('h')} AS hop0, {listed('f')} AS hop2 "
        f"FROM nodes n JOIN hop0 h ON h.id = n.{node} JOIN hop2 f ON f.id = n.{node}"
    )
    either = "SELECT source, target FROM edges UNION SELECT target, source FROM edges"
    loops = f"SELECT {node} AS source, {node} AS target FROM nodes"
    keep = "TABLE" if engine == "duckdb" else "VIEW"
    views = {
        "links": f"SELECT * FROM ({either}) e WHERE source <> target UNION ALL {loops}",
        "degrees": "SELECT target AS id, CAST(count(*) AS DOUBLE) AS degree FROM links GROUP BY target",
        "hop0": f"SELECT {node} AS id, {', '.join(roots)} FROM nodes",
        "hop1": hop("hop0"),
        "hop2": hop("hop1"),
    }
    made = [f"CREATE TEMPORARY {keep} {view} AS {text}" for view, text in views.items()]
    read = [READ[engine].format(name=n, path=p) for n, p in (("nodes", nodes), ("edges", edges))]
    return [*read, *made, WRITE[engine].format(rows=rows, path=out)]


def encoded(engine: str, column: Column, name: object) -> Sequence[str]:
    """A column's features, as the codebook says; what it would refuse becomes a missing number."""
    cell = name(column.name)  # type: ignore[operator]
    if column.kind == "category":
        known = ", ".join(map(word, column.values))
        other = f"CASE WHEN {cell} IS NOT NULL AND {cell} NOT IN ({known}) THEN 1.0 ELSE 0.0 END"
        if not column.indicator:
            other = f"CASE WHEN {cell} IS NULL OR {cell} NOT IN ({known}) THEN 1.0 ELSE 0.0 END"
        features = [f"CASE WHEN {cell} = {word(w)} THEN 1.0 ELSE 0.0 END" for w in column.values]
        features += [other] * column.other
    else:
        value = DAYS[engine].format(cell) if column.kind == "date" else f"CAST({cell} AS DOUBLE)"
        filled = value if column.fill is None else f"coalesce({value}, {column.fill!r})"
        features = [f"(({filled} - {column.centre!r}) / {column.scale!r})"]
    absent = f"CASE WHEN {cell} IS NULL THEN 1.0 ELSE 0.0 END"
    return [*features, absent] if column.indicator else features


def word(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


if __name__ == "__main__":
    if len(sys.argv) != 6 or sys.argv[1] not in QUOTE:
        sys.exit("usage: rows_in_sql.py duckdb|spark JOB NODES EDGES OUT")
    engine, job_file, *tables = sys.argv[1:]
    print(";\n".join(statements(engine, read_job(Path(job_file)), *tables)) + ";")
