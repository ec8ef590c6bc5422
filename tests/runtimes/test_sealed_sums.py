"""Regressions from sums, sealed and open: the same models, in one process and by files."""

from pathlib import Path

import pytest
import torch

from pace.jobs import signatures
from pace.jobs.job import SERVER, Job
from pace.methods import make
from pace.methods.beyond import ridge
from pace.models.networks import GCN
from pace.runtimes.files import merge, model
from pace.runtimes.simulation import simulate
from tests.graphs import CLASSES, FEATURES, clients
from tests.sealed import key_of, sealed_job, write_key
from tests.sites import NAMES, adopt_at, fit_at, job, write_graph

METHODS = ("pace-ridge-sums", "pace-full-sums")
CLOSE = 1e-6


@pytest.fixture(params=["the Gram matrix", "its sketch"])
def seed(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """What is summed: with few features HᵀH itself, with many a sketch. Each has its seed."""
    if request.param == "its sketch":
        monkeypatch.setattr(ridge, "EXACT", 0)
        return 17
    return 0


@pytest.mark.parametrize("name", METHODS)
def test_in_one_process(seed: int, name: str) -> None:
    gcn, methods = GCN((FEATURES, 16, CLASSES)), {name: make(name)}
    (plain,), (sealed,) = (
        simulate(clients(3), methods, model=gcn, seeds=[seed], epochs=5, sealed=hidden).trials
        for hidden in (False, True)
    )
    assert sealed.alphas == pytest.approx(plain.alphas, abs=CLOSE)
    assert any(alpha > 0 for alpha in plain.alphas)
    for one, other in zip(plain.counts["adopted"], sealed.counts["adopted"], strict=True):
        assert torch.equal(one, other)


def by_files(root: Path, made: Job) -> dict[str, model.SiteModel]:
    """The adopted models of a job's sites."""
    for place, graph in zip((*NAMES, SERVER), (*clients(3), None), strict=True):
        (root / place).mkdir(parents=True)
        write_key(root / place, place)
        if graph is not None:
            write_graph(root / place / "mine.graph", graph)
            fit_at(
                made,
                root / place,
                root / "inbox" / f"{place}.up",
                root / place / f"{place}.key",
            )
    key = root / SERVER / f"{SERVER}.key"
    merge.merge_files(made, [root / "inbox"], journal=root / "journal", out=root / "out", key=key)
    for name in NAMES:
        adopt_at(made, root / name, root / "out")
    return {name: model.read_model(root / name / "mine.model") for name in NAMES}


@pytest.mark.parametrize("method", METHODS)
def test_by_files(tmp_path: Path, seed: int, method: str) -> None:
    keys = {name: signatures.public_key(key_of(name)) for name in (*NAMES, SERVER)}
    plain = by_files(tmp_path / "plain", job(method=method, keys=keys, seed=seed))
    sealed = by_files(tmp_path / "sealed", sealed_job(method=method, seed=seed))
    for name, graph in zip(NAMES, clients(3), strict=True):
        assert sealed[name].outcome.weights == pytest.approx(plain[name].outcome.weights, abs=CLOSE)
        one, other = plain[name](graph), sealed[name](graph)
        assert torch.equal(one.logits.argmax(1), other.logits.argmax(1))
    assert any(each.outcome.alpha > 0 for each in plain.values())
