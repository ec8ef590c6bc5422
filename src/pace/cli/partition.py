"""`pace partition`: divide a graph among clients, look at it, keep it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pace.cli.given import As_json, Data_root, Data_seed, Dataset, Partition

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console

    from pace.datasets.partition.file import ClientFacts

EXAMPLES = """
Examples:

  pace partition --dataset cora --partition louvain --clients 10 --out cora.json

  pace partition --dataset cora --clients 5 --graphs sites

  pace partition --dataset mine.graph --partition column

  pace run --dataset cora --partition-file cora.json
"""

BARS = "▁▂▃▄▅▆▇█"


def partition(
    dataset: Dataset = "synthetic",
    partition: Partition = None,
    clients: Annotated[
        int | None,
        typer.Option(help="How many clients (default: 10, or as the column says).", metavar="N"),
    ] = None,
    data_seed: Data_seed = 2024,
    data_root: Data_root = None,
    out: Annotated[
        Path | None,
        typer.Option(
            help="Write the partition here, for `pace run --partition-file`.", metavar="FILE"
        ),
    ] = None,
    graphs: Annotated[
        Path | None,
        typer.Option(help="Write each client's .graph file into this folder.", metavar="FOLDER"),
    ] = None,
    as_json: As_json = False,
) -> None:
    """Divide a graph among clients: show what each one gets, write it to a file."""
    from dataclasses import asdict

    from pace.cli import console
    from pace.datasets import load
    from pace.datasets.partition import divide
    from pace.datasets.partition.file import describe_clients, write_graphs, write_partition
    from pace.errors import SettingError

    loaded = load(dataset, data_root)
    partition = partition or loaded.partition
    own = len(loaded.names.clients)
    if partition == "column" and own and clients not in (None, own):
        raise SettingError(
            f"--clients is {clients}, but the column of {dataset} names {own} clients: "
            "leave --clients out"
        )
    division = divide(loaded, partition, 10 if clients is None else clients, data_seed)
    described = describe_clients(loaded, division)
    title = f"{loaded.title or loaded.name}, {partition}, {console.many(len(described), 'client')}"
    if out:
        write_partition(out, loaded, division)
    if graphs:
        write_graphs(graphs, loaded, division)
    edges = loaded.graph.edges.shape[1] // 2
    if as_json:
        facts = {
            "dataset": loaded.name,
            "partition": partition,
            "data_seed": data_seed,
            "nodes": loaded.graph.nodes,
            "edges": edges,
            "edges_kept": sum(client.edges for client in described),
            "clients": [asdict(client) for client in described],
        }
        console.one_object(facts)
        return
    to = console.console()
    show(described, title, edges, to)
    for path in filter(None, (out, graphs)):
        to.print(f"Written: {path}", soft_wrap=True)


def show(clients: Sequence[ClientFacts], title: str, edges: int, to: Console) -> None:
    """One row a client. Bars are the classes in order, each against the client's largest."""
    from pace.reports.table import Table

    rows = []
    for client in clients:
        numbers = (client.nodes, client.edges, client.lost, client.train, client.val, client.test)
        rows.append([client.name, *map(str, numbers), bars(client.labels)])
    kept = sum(client.edges for client in clients)
    counts = [sum(getattr(client, name) for client in clients) for name in ("train", "val", "test")]
    labels = [sum(each) for each in zip(*(client.labels for client in clients), strict=True)]
    nodes = sum(client.nodes for client in clients)
    rows.append(["all", *map(str, (nodes, kept, edges - kept, *counts)), bars(labels)])
    heads = ["Client", "Nodes", "Edges", "Lost", "Train", "Val", "Test", "Labels"]
    Table.of(title, heads, rows, sums=1).show(to)


def bars(counts: Sequence[int]) -> str:
    """A histogram in a line, `·` where a class is absent."""
    most = max([1, *counts])
    top = len(BARS) - 1
    return "".join("·" if not count else BARS[round(count / most * top)] for count in counts)
