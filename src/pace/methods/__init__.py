"""The methods by name: built in (a line of `pace.registry`), of a package, or by their code's path."""

from pace.gates import Fixed
from pace.merging import RANK
from pace.methods.about import about_method, every_method, make, proposal
from pace.methods.baselines import FedAvg, FedProx, Local, at_least
from pace.methods.beyond.ridge import PaceFull, PaceRidge, Regressed, Regression
from pace.methods.beyond.ridge_sums import FullSums, RidgeSums
from pace.methods.pace import Limited, Pace, pairs, read
from pace.registry import METHODS
