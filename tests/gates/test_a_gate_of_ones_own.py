"""A gate is a function: one from a file outside the library chooses what a receiver adopts."""

import importlib.util
from pathlib import Path

from pace import Federation, Pace, adopt, fit, merge
from pace.models.networks import GCN
from pace.task import nll
from tests.graphs import CLASSES, FEATURES, clients

GATE = '''
"""External where it has more validation nodes right than Local."""

def majority(sets, labels):
    ours, theirs = ((logits.argmax(1) == labels).sum() for logits in sets)
    return (0.0, 1.0) if theirs > ours else (0.875, 0.125)
'''


def test_a_gate_from_a_folder_is_used_and_kept_from_harm(tmp_path: Path) -> None:
    (tmp_path / "own_gate.py").write_text(GATE)
    spec = importlib.util.spec_from_file_location("own_gate", tmp_path / "own_gate.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    graphs, gcn = clients(3), GCN((FEATURES, 16, CLASSES))
    federation = Federation(gcn, Pace(gate=module.majority), 3, epochs=30)
    assert federation.digest != Federation(gcn, Pace(), 3, epochs=30).digest
    kept, uploads = zip(*(fit(graph, federation) for graph in graphs), strict=True)
    alphas = []
    for graph, own, returned in zip(graphs, kept, merge(uploads, federation), strict=True):
        adopted = adopt(graph, own, returned, federation)
        local, external, labels = (
            part[graph.val] for part in (adopted.local, adopted.external, graph.y)
        )
        alpha = module.majority((local, external), labels)[1]
        harms = nll((1 - alpha) * local + alpha * external, labels) > nll(local, labels)
        assert adopted.alpha == (0.0 if harms else alpha)  # Local, where the choice would harm
        alphas.append(adopted.alpha)
    assert any(alphas)
