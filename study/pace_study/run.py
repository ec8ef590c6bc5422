"""Compute the cells that are missing, each stored as it finishes."""

import os
import signal
import threading
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from multiprocessing import active_children, get_context, parent_process
from pathlib import Path

import torch

from pace.datasets import divide, load
from pace.errors import PaceError, SettingError
from pace.graph import Graph
from pace.models import sized
from pace.protocol import Federation
from pace.runtimes.simulation import run_trials
from pace_study.cell import HIDDEN, LAYERS, Cell, Store
from pace_study.controls import study_method
from pace_study.rounds import Played
from pace_study.study import Part


@dataclass(frozen=True)
class How:
    """What computes cells, and for how long clients train."""

    device: str = "cpu"
    epochs: int | None = None


def plan(
    parts: Iterable[Part], seeds: Sequence[int], store: Store, how: How
) -> tuple[list[Cell], int, dict[str, str]]:
    """The cells to compute, how many are stored already, and for each absent dataset the reason.

    Cells that are stored with other settings are computed again.

    Raises:
        SettingError: there is no such cell.
    """
    cells = list(dict.fromkeys(cell for part in parts for cell in part.cells(seeds)))
    if not cells:
        raise SettingError("--datasets and --methods leave nothing of the study to run")
    store.fold()  # what an interrupted run left
    lacking = [cell for cell in cells if not store.has(cell, how.epochs)]
    absent = {}
    for dataset in dict.fromkeys(cell.dataset for cell in lacking):
        try:
            _dataset_shape(dataset)
        except PaceError as error:
            absent[dataset] = str(error)
    todo = [cell for cell in lacking if cell.dataset not in absent]
    return todo, len(cells) - len(lacking), absent


class UndividedError(Exception):
    """A graph that cannot be divided as a part of the study asks: the other parts go on."""


def compute(
    cells: Sequence[Cell],
    store: Store,
    how: How,
    *,
    jobs: int = 1,
    done: Callable[[Cell], None] = lambda cell: None,
) -> dict[str, str]:
    """Compute and store every cell; `done` is told of each. Cells of a place are computed together.

    So are the seeds of a place, whose clients then train as one batch, unless processes share them.

    Returns:
        Settings whose graph cannot be divided so, with the reason; they are left out.
    """
    undivided = {}

    def take(computed: Callable[[], object]) -> None:
        try:
            computed()
        except UndividedError as error:
            setting, _, reason = str(error).partition(": ")
            undivided[setting] = reason

    groups = by_place(cells)
    if jobs == 1 or how.device != "cpu":
        groups = with_seeds(groups)
    if jobs == 1:
        for group in groups:
            take(partial(_group, group, store, how, done))
    else:
        stored = get_context("spawn").SimpleQueue()
        with workers(jobs, stored.put) as pool:
            with _deaf():
                running = {pool.submit(_whole_group, group, store.folder, how) for group in groups}
            try:
                while running:
                    finished, running = wait(running, 0.5, FIRST_COMPLETED)
                    while not stored.empty():
                        done(stored.get())
                    for ended in finished:
                        take(ended.result)
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                for worker in active_children():
                    worker.terminate()
                raise
    store.fold()
    return undivided


def workers(jobs: int, done: Callable[[Cell], None]) -> ProcessPoolExecutor:
    """Fresh interpreters: a fork would share torch's threads and, on a GPU, its context."""
    return ProcessPoolExecutor(jobs, get_context("spawn"), _begin, (done,))


_told: list[Callable[[Cell], None]] = []  # in a worker: by what it tells its parent of a cell


def _begin(done: Callable[[Cell], None]) -> None:
    """A worker whose parent was killed would wait for work, and hold its memory, for ever."""
    parent = parent_process()
    _told.append(done)

    def end_with_it() -> None:
        if parent:
            parent.join()
            os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=end_with_it, daemon=True).start()


def by_place(cells: Iterable[Cell]) -> list[list[Cell]]:
    places: defaultdict[object, list[Cell]] = defaultdict(list)
    for cell in cells:
        places[cell.place].append(cell)
    return list(places.values())


def with_seeds(groups: Iterable[list[Cell]]) -> list[list[Cell]]:
    """Groups that differ in nothing but the seed, as one."""
    alike: defaultdict[frozenset[Cell], list[Cell]] = defaultdict(list)
    for group in groups:
        alike[frozenset(replace(cell, seed=0) for cell in group)] += group
    return list(alike.values())


@contextmanager
def _deaf() -> Iterator[None]:
    """Processes started in here do not hear Ctrl-C, from their first moment on: it is for the parent."""
    if threading.current_thread() is not threading.main_thread():  # only that one may say so
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _whole_group(cells: Sequence[Cell], folder: Path, how: How) -> None:
    """In a process of its own. Told to end, it cleans up behind its writes and begins nothing more."""

    def end(*_: object) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, end)
    try:
        _group(cells, Store(folder), how, *_told)
    except KeyboardInterrupt:
        os._exit(1)
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _group(cells: Sequence[Cell], store: Store, how: How, done: Callable[[Cell], None]) -> None:
    """One place, every method on every seed: those that train alike are trained once."""
    torch.set_num_threads(1)
    first = cells[0]
    try:
        graphs = _graphs(first.dataset, first.partition, first.clients, first.data_seed)
    except SettingError as error:
        setting = f"{first.dataset}, {first.partition}, {first.clients} clients"
        raise UndividedError(f"{setting}: {error}") from error
    features, classes = _dataset_shape(first.dataset)
    model = sized(first.model, features, HIDDEN, LAYERS, classes)
    wanted = {(f"{cell.method} {cell.rank}", cell.seed): cell for cell in cells}
    methods = {
        name: study_method(cell.method, cell.rank, graphs, how.device)
        for (name, _), cell in wanted.items()
    }
    seeds = list(dict.fromkeys(cell.seed for cell in cells))
    federations = {
        name: [Federation(model, method, seed, how.epochs) for seed in seeds]
        for name, method in methods.items()
    }
    for trial in run_trials(graphs, federations, device=how.device):
        cell, method = wanted[trial.method, trial.seed], methods[trial.method]
        if isinstance(method, Played):
            trial = method.finish(trial, Federation(model, method, trial.seed))
        store.write(cell, trial, epochs=how.epochs, device=how.device)
        done(cell)


@lru_cache(maxsize=1)
def _graphs(dataset: str, partition: str, clients: int, data_seed: int) -> list[Graph]:
    """The client graphs of the place last worked on; seeds of a place come one after another."""
    return divide(load(dataset), partition, clients, data_seed)


@lru_cache(maxsize=16)
def _dataset_shape(dataset: str) -> tuple[int, int]:
    loaded = load(dataset)
    return loaded.graph.features, loaded.classes
