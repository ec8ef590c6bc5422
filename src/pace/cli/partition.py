"""`pace partition`: divide a graph among clients, look at it, keep it."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from pace.cli import console, given
from pace.cli.given import option
from pace.errors import SettingError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pace.datasets.partition.file import ClientFacts
    from pace.reports.table import Table

BARS = "▁▂▃▄▅▆▇█"


def partition(
    dataset: given.Dataset = "synthetic",
    partition: given.Partition = None,
    clients: Annotated[
        int | None, option("How many clients (default: 10, or as the column says).", "N")
    ] = None,
    data_seed: given.Data_seed = 2024,
    data_root: given.Data_root = None,
    out: Annotated[
        Path | None, option("Write the partition here, for `pace run --partition-file`.", "FILE")
    ] = None,
    graphs: Annotated[
        Path | None, option("Write each client's .graph file into this folder.", "FOLDER")
    ] = None,
    as_json: given.As_json = False,
) -> None:
    """Divide a graph among clients: show what each one gets, write it to a file.

    Examples:
        pace partition --dataset cora --partition louvain --clients 10 --out cora.json
        pace partition --dataset cora --clients 5 --graphs sites
        pace partition --dataset mine.graph --partition column
        pace run --dataset cora --partition-file cora.json
    """
    from pace.datasets import load
    from pace.datasets.partition import divide
    from pace.datasets.partition.file import describe_clients, write_graphs, write_partition

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
    title = f"{loaded.title or loaded.name}, {partition}, {console.many(len(described), 'client')}"
    to = console.console()
    client_table(described, title, edges).show(to)
    for path in filter(None, (out, graphs)):
        to.print(f"Written: {path}", soft_wrap=True)


def client_table(clients: Sequence[ClientFacts], title: str, edges: int) -> Table:
    """One row a client. Bars are the classes in order, each against the client's largest."""
    from pace.reports.table import Table

    numbers = [(c.nodes, c.edges, c.lost, c.train, c.val, c.test) for c in clients]
    rows = [
        [client.name, *map(str, row), bars(client.labels)]
        for client, row in zip(clients, numbers, strict=True)
    ]
    nodes, kept, _, *masks = map(sum, zip(*numbers, strict=True))
    labels = list(map(sum, zip(*(client.labels for client in clients), strict=True)))
    rows.append(["all", *map(str, (nodes, kept, edges - kept, *masks)), bars(labels)])
    heads = ["Client", "Nodes", "Edges", "Lost", "Train", "Val", "Test", "Labels"]
    return Table.of(title, heads, rows, sums=1)


def bars(counts: Sequence[int]) -> str:
    """A histogram in a line, `·` where a class is absent."""
    most, top = max([1, *counts]), len(BARS) - 1
    return "".join("·" if not count else BARS[round(count / most * top)] for count in counts)
