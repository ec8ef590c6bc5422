"""A site's nodes as rows in Parquet files, written here or by another engine: read a block at a time.

A file has the columns id, split (train, val, test or nothing), label (nothing where it is unknown), a
list of numbers for each map of the job's method, such as hop0 and hop2, and perhaps Local's logits.
"""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor

from pace.datasets import is_folder, read_folder
from pace.errors import FileError, GraphError, SettingError
from pace.graph import MASKS, UNKNOWN
from pace.io import atomic
from pace.jobs import Job
from pace.models import Excerpt, Layered, MappedGraph, RowTable, forget_logits, regrouped
from pace.params import Params
from pace.runtimes.files.outcome import known_labels
from pace.runtimes.files.site import Site, class_names, load_site, site_of_dataset
from pace.tables import arrow

SAMPLE = 50_000  # rows of each split on which weights are chosen and scores are made
BATCH = 8192  # rows that are read together
MAPPED = 2**15  # rows of a mapped graph that are read together
PART = 2**17  # rows of a file that is written
ABOUT = ("id", "split", "label")


def load_rows(folder: Path, job: Job, *, sample: bool = False) -> Site:
    """The rows of a folder, streamed where they are summed; with `sample`, some of each split."""
    files, classes = RowFiles.found(folder, job), job.model.classes
    counts, none = torch.zeros(classes, dtype=torch.int64), torch.zeros(0, dtype=torch.int64)
    drawn = {name: torch.zeros(0, width) for name, width in files.columns.items()}
    drawn |= {"key": none.double(), "y": none, "split": none}
    seed = torch.Generator().manual_seed(0)
    for table in files.blocks(maps=sample):
        counts += table.training_counts(classes)
        if sample:
            keys = torch.rand(table.nodes, generator=seed, dtype=torch.float64)
            more = {"key": keys, "y": table.y, "split": table.split, **table.maps}
            both = {name: torch.cat([rows, more[name]]) for name, rows in drawn.items()}
            lowest = torch.cat(_lowest(both["key"], both["split"]))
            drawn = {name: rows[lowest] for name, rows in both.items()}
    if not counts.sum():
        raise GraphError(f"no row of {folder} is for training: its column split says `train`")
    y, split, maps = drawn["y"], drawn["split"], {name: drawn[name] for name in files.columns}
    whole = {"stream": files.blocks, "counts": counts, "identity": files.identity}
    return Site(RowTable.of(y, split, maps, job.model.features, **whole), (), None)


def load_any(path: Path, job: Job) -> Site:
    """The graph of a file, or of a folder: there, a sample of it, and a stream of all its rows.

    A network is trained on the sample's training nodes, each with all its neighbours; closed forms read
    every row. A split of at most `SAMPLE` nodes is taken whole, if its neighbours fit in memory.
    """
    if not is_folder(path):
        return load_site(path, job)
    dataset, about = read_folder(path)
    model = job.model
    if not isinstance(model, Layered) or not model.layer_by_layer:
        raise SettingError(
            f"a {model.title} reads a graph as a whole, and {path} is larger than memory: agree on "
            "another model, such as gcn"
        )
    whole = (site := site_of_dataset(dataset, job, path)).graph
    assert isinstance(whole, MappedGraph)
    nodes = _sampled(whole, model, about.memory)
    counts, stream = whole.training_counts(model.classes), partial(_row_blocks, whole, job)
    sample = replace(_excerpt(whole, job, nodes), x=whole.stored[nodes], identity=whole.identity)
    return replace(site, graph=replace(sample, counts=counts, stream=stream))


def mapped_sites(path: Path, job: Job) -> Iterator[Site]:
    """The graph of a folder in blocks of nodes, each a site with its ids."""
    sample = load_any(path, job).graph
    assert isinstance(sample, Excerpt)
    ids = arrow().parquet.ParquetFile(path / "ids.parquet").iter_batches(MAPPED)
    for table, batch in zip(_row_blocks(sample.whole, job), ids, strict=True):
        yield Site(table, tuple(map(str, batch.column(0).to_pylist())), None)
    forget_logits(sample.whole)


def _row_blocks(whole: MappedGraph, job: Job) -> Iterator[Excerpt]:
    for nodes in torch.arange(whole.nodes).split(MAPPED):
        yield replace(_excerpt(whole, job, nodes), in_stream=True)


def _excerpt(whole: MappedGraph, job: Job, nodes: Tensor) -> Excerpt:
    """Some nodes with the rows that the job's method reads of them."""
    form = job.federation.closed_form
    maps = {} if form is None else form.rows_of(whole, nodes, job.federation)
    about = {"whole": whole, "places": nodes}
    return Excerpt.of(whole.y[nodes], whole.split[nodes], maps, whole.features, **about)


def _sampled(whole: MappedGraph, model: Layered, memory: int) -> Tensor:
    """Nodes of each split by a fixed seed, as many as fit with their neighbours; in order."""
    keys = torch.rand(whole.nodes, generator=torch.Generator().manual_seed(0))
    reached = torch.ones(whole.nodes)
    if hops := sum(layer.travels for layer in model.layout[1:]):
        reached = (whole.degrees[:, 0] + 1) * float(whole.degrees.mean() + 1) ** (hops - 1)
    rows = memory // (16 * (model.widths[0] + 3 * sum(model.widths[1:])))
    chosen = []
    for name, nodes in zip(MASKS, _lowest(keys, whole.split), strict=True):
        chosen.append(nodes[reached[nodes].double().cumsum(0) <= rows])
        if len(nodes) and not len(chosen[-1]):
            raise SettingError(f"{name} nodes do not fit: import the graph with more --memory")
    return torch.cat(chosen).sort().values


def _lowest(keys: Tensor, split: Tensor) -> list[Tensor]:
    """Of each split, the nodes with the lowest keys."""
    nodes = ((split == number).nonzero().flatten() for number in range(len(MASKS)))
    return [some[keys[some].argsort()[:SAMPLE]] for some in nodes]


@dataclass(frozen=True)
class RowFiles:
    """The files of a folder, checked against a job by their columns' names."""

    files: tuple[Path, ...]
    columns: dict[str, int]  # of each map, and of Local's logits where they are there
    job: Job

    @classmethod
    def found(cls, folder: Path, job: Job) -> Self:
        form = job.federation.closed_form
        if form is None:
            raise SettingError("the job's method reads edges, rows are not enough: give the graph")
        columns = dict(form.row_columns(job.federation))
        files = tuple(sorted(folder.rglob("*.parquet")))
        if not files:
            raise FileError(f"{folder} holds no .parquet file, such as `pace rows` makes")
        logits = form.local_columns().values()
        with _opened(files[0]) as file:
            if set(logits) <= set(file.schema_arrow.names):
                columns |= dict.fromkeys(logits, job.model.classes)
        return cls(files, columns, job)

    @property
    def identity(self) -> str:
        """The SHA-256 of all files' names and footers, which hold sizes and statistics of columns."""
        sha = hashlib.sha256()
        for path in self.files:
            with path.open("rb") as file:
                file.seek(-8, 2)
                length = int.from_bytes(file.read(4), "little")
                file.seek(-8 - length, 2)
                sha.update(f"{path.name} {path.stat().st_size}".encode() + file.read(length))
        return sha.hexdigest()

    def sites(self) -> Iterator[Site]:
        """Blocks of rows, each a site of its own with its ids."""
        for batch, table in self._tables(ABOUT, self.columns):
            yield Site(table, tuple(map(str, batch.column("id").to_pylist())), None)

    def blocks(self, *, maps: bool = True) -> Iterator[RowTable]:
        """Blocks of rows, or of their labels and splits alone."""
        return (table for _, table in self._tables(ABOUT[1:], self.columns if maps else {}))

    def _tables(
        self, about: Sequence[str], maps: Mapping[str, int]
    ) -> Iterator[tuple[Any, RowTable]]:
        """Batches of these columns as they are in the files, and what they say."""
        for path in self.files:
            with _opened(path) as file:
                names, first = file.schema_arrow.names, 0
                if absent := [name for name in (*ABOUT, *self.columns) if name not in names]:
                    has = f"it has {', '.join(names[:12])}"
                    raise GraphError(f"{path} has no column {absent[0]!r}; {has}")
                for batch in file.iter_batches(BATCH, columns=[*about, *maps], use_threads=False):
                    yield batch, self._table(batch, f"{path}, rows from {first:,}", maps)
                    first += len(batch)

    def _table(self, batch: Any, where: str, columns: Mapping[str, int]) -> RowTable:
        split = _numbered(batch.column("split"), MASKS, f"{where}: split")
        labels = _numbered(batch.column("label"), class_names(self.job), f"{where}: label")
        if bool(((split != UNKNOWN) & (labels == UNKNOWN)).any()):
            raise GraphError(f"{where}: a row is in a split and has no label")
        maps = {
            name: _numbers(batch.column(name), width, f"{where}: {name}")
            for name, width in columns.items()
        }
        return RowTable.of(labels, split, maps, self.job.model.features)


@contextmanager
def _opened(path: Path) -> Iterator[Any]:
    """The open file; damage may show only when it is read."""
    try:
        with arrow().parquet.ParquetFile(path, buffer_size=2**20, pre_buffer=False) as file:
            yield file
    except (arrow().ArrowInvalid, OSError) as error:
        raise GraphError(f"{path} is damaged, or not Parquet ({error}): write it again") from error


def _numbered(column: Any, names: Sequence[str], what: str) -> Tensor:
    """The index of each word among the names, UNKNOWN where there is none."""
    pyarrow, compute = arrow(), arrow().compute
    words = compute.fill_null(column.cast(pyarrow.string()), "")
    indices = compute.index_in(words, value_set=pyarrow.array(names))
    wrong = compute.and_(compute.is_null(indices), compute.not_equal(words, ""))
    if compute.any(wrong).as_py():
        word = compute.filter(words, wrong)[0].as_py()
        raise GraphError(f"{what} is {word!r}, expected {', '.join(names[:12])} or nothing")
    return torch.from_numpy(np.array(compute.fill_null(indices, UNKNOWN))).long()


def _numbers(column: Any, width: int, what: str) -> Tensor:
    """A column of lists as a matrix, (rows, width)."""
    pyarrow, compute = arrow(), arrow().compute
    lists = pyarrow.types.is_list, pyarrow.types.is_large_list, pyarrow.types.is_fixed_size_list
    if not any(kind(column.type) for kind in lists):
        raise GraphError(f"{what} is of type {column.type}, expected lists of {width} numbers")
    lengths = compute.min_max(compute.list_value_length(column)).as_py()
    if column.null_count or set(lengths.values()) != {width}:
        span = f"{lengths['min']} to {lengths['max']}"
        raise GraphError(f"{what} has {span} numbers a row, some perhaps none: expected {width}")
    values = np.array(column.flatten().cast(pyarrow.float32()), dtype=np.float32)
    rows = torch.from_numpy(values).reshape(-1, width)
    if not torch.isfinite(rows.sum()):
        raise GraphError(f"{what} holds a number that is missing or not finite")
    return rows


def write_rows(
    folder: Path, site: Site, job: Job, local: Params | None = None
) -> tuple[list[str], int]:
    """Write a graph's rows, with Local's logits if it is given; the maps, and how many files."""
    pyarrow, graph, federation = arrow(), site.graph, job.federation
    form = federation.closed_form
    if form is None:
        raise SettingError("the job's method reads edges, so it has no rows to write")
    logits = {}
    if local is not None:
        with torch.no_grad():
            if federation.method.every_label:
                graph = regrouped(graph)  # as Local was fitted
            for fit, name in form.local_columns().items():
                logits[name] = form.local_logits(local, graph, fit, federation)
    labels = known_labels(graph, class_names(job))
    split = [(*MASKS, "")[number] for number in graph.split.tolist()]
    parts = torch.arange(graph.nodes).split(PART)
    with atomic.new_folder(folder, private=True) as staged:
        for number, nodes in enumerate(parts):
            maps = dict(form.rows_of(graph, nodes, federation))
            maps |= {name: rows[nodes] for name, rows in logits.items()}
            texts = {"id": site.nodes, "split": split, "label": labels}
            part = slice(int(nodes[0]), int(nodes[-1]) + 1)
            table = {name: list(values[part]) for name, values in texts.items()}
            for name, rows in maps.items():
                flat = pyarrow.array(rows.float().contiguous().numpy().reshape(-1))
                table[name] = pyarrow.FixedSizeListArray.from_arrays(flat, rows.shape[1])
            path = staged / f"part-{number:05}.parquet"
            pyarrow.parquet.write_table(pyarrow.table(table), path, row_group_size=BATCH)
    return list(form.row_columns(federation)), len(parts)
