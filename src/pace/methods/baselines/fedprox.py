"""FedProx, one round: FedAvg whose clients are held near the public start (Li et al., 2020)."""

from dataclasses import dataclass, replace

from pace.errors import SettingError
from pace.methods.baselines.fedavg import FedAvg
from pace.training.optimiser import Proximal
from pace.training.recipe import Recipe


@dataclass(frozen=True)
class FedProx(FedAvg):
    """FedAvg of clients that are held near the common start (Li et al., 2020).

    FedAvg of clients trained on the cross-entropy plus (μ/2) ‖W - W_0‖².

    μ = 1e-3 is OpenFGL's, and the only one of 1e-3, 1e-2, 1e-1 that lifts the average on Cora as
    the paper's does. The term stands in the loss, before Adam rescales it.
    """

    mu: float = 1e-3

    def __post_init__(self) -> None:
        if self.mu < 0:
            raise SettingError(f"mu is {self.mu}, expected 0 or more")

    @property
    def recipe(self) -> Recipe:
        return replace(super().recipe, penalty=Proximal(self.mu))
