"""Seconds and memory by nodes and by rows, with fitted exponents.

    python -m benchmarks.picture larger.jsonl rows.jsonl size.png

draws what `benchmarks.larger` and `benchmarks.rows` printed of several sizes, and prints it.
"""

from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd
import typer
from matplotlib.figure import Figure


def main(larger: Path, rows: Path, out: Path) -> None:
    """Draw OUT of two files of JSON objects, one a line."""
    steps, fits = (pd.read_json(path, lines=True) for path in (larger, rows))
    steps = steps.query("site == 'large' and step in ['import', 'fit', 'adopt', 'predict']")
    figure = Figure(figsize=(11, 7.5), layout="tight")
    kinds = product(("cpu_seconds", "peak_mb"), ((steps, "nodes", "step"), (fits, "rows", "who")))
    for axis, (value, (frame, size, line)) in zip(figure.subplots(2, 2).flat, kinds, strict=True):
        table = frame.pivot(index=size, columns=line, values=value)
        for name, column in table.items():
            values = column.dropna()
            power = np.polyfit(np.log(values.index), np.log(values), 1)[0]
            table = table.rename(columns={name: f"{name} (exponent {power:.2f})"})
        table.plot(ax=axis, loglog=True, marker="o", title=f"{value} by {size}", grid=True)
        print(table.to_string(), end="\n\n")
    figure.savefig(out, dpi=70)


if __name__ == "__main__":
    typer.run(main)
