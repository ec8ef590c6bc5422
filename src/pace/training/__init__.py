"""How a client trains: a fixed budget from the public start, on a CPU or for whole cohorts on a GPU."""

from pace.training.cohorts import Checkpoints, Forward, gpu_cohort
from pace.training.logistic import affine, logistic_regression
from pace.training.optimiser import Optimiser, Proximal, Recipe
from pace.training.train import learner, train, train_cohort, train_through
