"""Scores from confusion matrices, pooled over clients."""

from collections.abc import Iterable

import torch
from torch import Tensor


def confusion(predicted: Tensor, truth: Tensor, classes: int) -> Tensor:
    """Counts[t, p]: how many nodes of class t were called p."""
    cells = torch.bincount(truth * classes + predicted, minlength=classes * classes)
    return cells.reshape(classes, classes)


def pooled(confusions: Iterable[Tensor]) -> Tensor:
    """One confusion matrix for all clients' nodes together."""
    return torch.stack(list(confusions)).sum(0)


def accuracy(counts: Tensor) -> float:
    return float(counts.diagonal().sum() / counts.sum().clamp_min(1))


def weighted_f1(counts: Tensor) -> float:
    """F1 by class, weighted by how many nodes truly are of the class."""
    support = counts.sum(1).double()
    return float((f1(counts) * support).sum() / support.sum().clamp_min(1))


def macro_f1(counts: Tensor) -> float:
    """F1 averaged over the fixed list of classes; one that occurs nowhere counts as zero."""
    return float(f1(counts).mean())


def f1(counts: Tensor) -> Tensor:
    """2 TP / (2 TP + FP + FN) for each class, zero where that is 0/0."""
    hits = counts.diagonal().double()
    touched = (counts.sum(0) + counts.sum(1)).double()  # TP+FP plus TP+FN
    return 2 * hits / touched.clamp_min(1)


SCORES = {"accuracy": accuracy, "weighted_f1": weighted_f1, "macro_f1": macro_f1}
