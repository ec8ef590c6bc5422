"""The paper's baselines but FedAvg and FedProx, one file each, its ablations of PACE, and pace-duo."""

from pace.errors import SettingError
from pace.models import GCN, Model
from pace.protocol import Method


class OnGCN(Method):
    """A method whose clients train a GCN and nothing else."""

    def network(self, model: Model) -> GCN:
        return only_gcn(model, type(self).__name__)


def only_gcn(model: object, who: str) -> GCN:
    """The model as a GCN, for a method that is defined on nothing else."""
    if not isinstance(model, GCN):
        raise SettingError(
            f"{who} is defined on the GCN only, this federation's model is a "
            f"{type(model).__name__}: choose another method, or the model gcn"
        )
    return model
