"""Every way to run a federation gives the same bytes and the same alphas."""

import shutil
from pathlib import Path

import pytest

from pace.methods import make
from pace.models import sized
from pace.protocol import layouts, steps, wire
from pace.protocol.number_formats import KINDS
from pace.runtimes.files import model
from pace.runtimes.simulation import simulate
from tests.graphs import CLASSES, FEATURES, clients
from tests.preloaded import Preloaded
from tests.sites import ADOPT, FIT, MERGE, NAMES, job, write_sites


@pytest.mark.parametrize(
    ("method", "numbers", "kind"),
    [
        *(("pace", numbers, "gcn") for numbers in KINDS),
        ("pace-duo:level=1.0", "int8", "gcn"),
        ("pace-ridge", "int8", "gcn"),
        ("pace-full", "int8", "gcn"),
        ("pace-full", "int8", "gin"),
        ("pace", "float32", "sage"),
        ("pace", "int8", "gat"),
        ("fedavg", "float32", "sgc"),
    ],
)
def test_files_and_simulation_give_equal_bytes_and_alphas(
    pace: Preloaded, tmp_path: Path, method: str, numbers: str, kind: str
) -> None:
    network = sized(kind, FEATURES, 16, 2, CLASSES)
    made = job(epochs=20, method=method, numbers=numbers, model=network)
    graphs = dict(zip(NAMES, clients(3), strict=True))
    server = tmp_path / "server"
    for site in write_sites(tmp_path, made):
        assert pace(*FIT, f"{site.name}.up", "--device", "cpu", cwd=site).code == 0
        shutil.copy(site / f"{site.name}.up", server / "inbox")
    assert pace(*MERGE, cwd=server).code == 0
    alphas = []
    for name in NAMES:
        returned = server / "outbox" / f"{name}.down"
        assert pace(*ADOPT, "--return", returned, cwd=tmp_path / name).code == 0
        found = model.read_model(tmp_path / name / "mine.model")
        alphas.append(found.outcome.alpha)
        assert len(found.externals) == len(layouts.blank_externals(made.federation))
        elsewhere = clients(1, seed=5)[0]  # a graph that nobody trained on
        assert found(elsewhere).logits.shape == (elsewhere.nodes, CLASSES)
        card = (tmp_path / name / "mine.model" / "README.md").read_text()
        weighed = zip(
            found.outcome.weights[1:], layouts.blank_externals(made.federation), strict=True
        )
        assert all(external.name in card for weight, external in weighed if weight)

    # The same steps in this process, with the job's federation: byte for byte.
    fitted = {name: steps.fit(graph, made.federation) for name, graph in graphs.items()}
    uploads = {name: upload for name, (_, upload) in fitted.items()}
    returns = dict(
        zip(
            sorted(NAMES),
            steps.merge([uploads[name] for name in sorted(NAMES)], made.federation),
            strict=True,
        )
    )
    for name in NAMES:
        assert (tmp_path / name / f"{name}.up").read_bytes() == uploads[name]
        assert (server / "outbox" / f"{name}.down").read_bytes() == returns[name]

    # `pace run` has no job: its frames have another digest, and everything else is the same.
    methods = {method: make(method, settings=made.settings)}
    here, seeds = list(graphs.values()), [made.seed]
    result = simulate(here, methods, model=made.model, seeds=seeds, epochs=20, numbers=numbers)
    (trial,) = result.trials
    assert trial.alphas == alphas
    assert any(alpha > 0 for alpha in alphas) or kind == "gat"
    assert trial.upload == [len(uploads[name]) for name in NAMES]
    assert trial.returned == [len(returns[name]) for name in NAMES]
    bare = type(made.federation)(made.model, methods[method], made.seed, 20, numbers=numbers)
    for name, graph in graphs.items():
        alike = steps.fit(graph, bare)[1]
        head = wire.HEAD.size
        assert alike[head : -wire.CHECKSUM] == uploads[name][head : -wire.CHECKSUM]
