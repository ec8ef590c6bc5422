"""SPEAR, GH-OFL's LDA and O-pFGL, and the controls: against scikit-learn and by hand."""

import numpy as np
import pytest
import torch
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.linear_model import LogisticRegression

from pace.graph import Graph
from pace.models import GCN, fitted_labels, unit_rows
from pace.protocol import Federation, Messages
from pace.runtimes.simulation import simulate
from pace.task import accuracy, pooled
from pace_study.baselines.rivals import GaussianHead, OpFGL, Spear
from pace_study.controls import Alone, Logistic, logistic
from tests.graphs import CLASSES, FEATURES, clients

MODEL = GCN((FEATURES, 8, CLASSES))


def pooled_rows() -> tuple[list[Graph], torch.Tensor, torch.Tensor]:
    graphs = clients(3)
    rows = torch.cat([unit_rows(graph, 2)[graph.train] for graph in graphs])
    return graphs, rows, torch.cat([graph.training_labels for graph in graphs])


def returned(method: Spear | GaussianHead) -> tuple[dict[str, torch.Tensor], list[Graph]]:
    graphs, *_ = pooled_rows()
    federation = Federation(MODEL, method, 7)
    uploads = Messages([dict(method.share({}, graph, federation)) for graph in graphs])
    return dict(next(iter(method.merge(uploads, federation)))), graphs


def test_ldas_of_the_clients_sums_are_scikit_learns_of_all_rows() -> None:
    """scikit-learn divides the scatter by n, GH-OFL by n - C: directions differ by that factor."""
    _, rows, labels = pooled_rows()
    method = GaussianHead(shrinkage=0.2)
    found, _ = returned(method)
    oracle = LinearDiscriminantAnalysis(solver="lsqr", shrinkage=0.2)
    oracle.fit(rows.double().numpy(), labels.numpy())
    nodes = len(rows)
    ratio = nodes / (nodes - CLASSES)
    ours, theirs = found["weight"].T.numpy() * ratio, oracle.coef_
    centred = theirs - theirs.mean(0)  # what all classes share changes no prediction
    np.testing.assert_allclose(ours - ours.mean(0), centred, rtol=5e-3, atol=5e-2)


def test_prototypes_are_shrunk_to_the_mean_by_sample_size() -> None:
    _, rows, labels = pooled_rows()
    found, graphs = returned(Spear(shrinkage=4.0))
    mean = rows.mean(0)
    for label in range(CLASSES):
        own = rows[labels == label]
        expected = (own.sum(0) + 4.0 * mean) / (len(own) + 4.0)
        torch.testing.assert_close(found["weight"][:, label] / 10, expected, atol=1e-4, rtol=1e-3)
    graph = graphs[0]
    (external,) = Spear().adopt({}, found, graph, Federation(MODEL, Spear(), 7))
    assert external.predict is not None
    nearest = torch.cdist(unit_rows(graph, 2)[graph.test], found["weight"].T / 10).argmin(1)
    assert external.predict(external.params, graph).argmax(1)[graph.test].equal(nearest)


def test_a_surrogate_and_fine_tuning_learn_more_than_the_start() -> None:
    graphs = clients(3)
    (trial,) = simulate(
        graphs, {"o-pfgl": OpFGL(rate=0.01)}, model=MODEL, seeds=[7], epochs=20
    ).trials
    assert accuracy(pooled(trial.counts["external"])) > 0.5
    near = OpFGL().coefficients(graphs[0], CLASSES)
    assert near.shape == (graphs[0].nodes,)
    assert 0 < float(near.min()) <= float(near.max()) <= 0.1501


@pytest.mark.parametrize("rate", [0.1, 0.3, 1.0])
def test_fine_tuning_keeps_the_checkpoint_that_validation_nodes_saw(rate: float) -> None:
    """At these rates a step changes much: the parameters one step later would often be worse."""
    method = OpFGL(rate=rate, epochs=30)
    federation = Federation(MODEL, method, 7)
    graphs = clients(3)
    uploads = Messages([dict(method.share({}, graph, federation)) for graph in graphs])
    for graph, returned in zip(graphs, method.merge(uploads, federation), strict=True):
        (external,) = method.adopt({}, returned, graph, federation)
        kept, before = (
            (MODEL(params, graph).logits.argmax(1) == graph.y)[graph.val].sum()
            for params in (external.params, returned)
        )
        assert kept >= before


@pytest.mark.parametrize(("inverse", "nodes"), [(0.5, 100), (10.0, 100), (10.0, 25)])
def test_the_logistic_regression_is_scikit_learns(inverse: float, nodes: int) -> None:
    """With more rows than columns and with fewer."""
    _, rows, labels = pooled_rows()
    rows, labels = rows[:nodes], labels[:nodes]
    assert len(labels.unique()) == CLASSES
    hot = torch.eye(CLASSES)[labels]
    ((weight, bias),) = logistic(rows, hot, [inverse])
    oracle = LogisticRegression(C=inverse, tol=1e-10, max_iter=5000)
    oracle.fit(rows.double().numpy(), labels.numpy())
    ours = (rows @ weight + bias).softmax(1).numpy()
    np.testing.assert_allclose(ours, oracle.predict_proba(rows.double().numpy()), atol=2e-4)


def test_controls_send_nothing_and_read_every_label() -> None:
    graphs = clients(2)
    for method in (Alone(), Logistic()):
        federation = Federation(MODEL, method, 7)
        assert method.share(federation.start, graphs[0], federation) == {}
    (external,) = Logistic().externals({}, graphs[0], "all", Federation(MODEL, Logistic(), 7))
    assert external.predict is not None
    called = external.predict(external.params, graphs[0]).argmax(1)
    assert float((called[graphs[0].val] == fitted_labels(graphs[0], "val")).float().mean()) > 0.5


def test_a_site_alone_has_its_targets_centred_as_the_library_does() -> None:
    """Centred or not, the probabilities are the same: a constant over the classes is no evidence."""
    (graph,) = clients(1)
    method = Alone()
    federation = Federation(MODEL, method, 7)
    external = method.externals({}, graph, "all", federation)[2]
    (answer,) = external.params.values()
    torch.testing.assert_close(answer.sum(1), torch.zeros(len(answer)), atol=1e-5, rtol=0)
    rows = unit_rows(graph, 0)[graph.train | graph.val].double()
    hot = torch.eye(CLASSES, dtype=torch.float64)[fitted_labels(graph, "all")]
    plain = torch.linalg.solve(rows.T @ rows + 0.3 * torch.eye(FEATURES).double(), rows.T @ hot)
    ours, theirs = (10 * rows @ each for each in (answer.double(), plain))
    torch.testing.assert_close(ours.softmax(1), theirs.softmax(1), atol=1e-4, rtol=1e-3)
