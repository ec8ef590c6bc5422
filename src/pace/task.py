"""What a node's label is, how it is learnt and how it is scored: classification, one class a node.

Counts are a confusion matrix: other rooms keep and pool them, and ask the scores of them.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy, one_hot


def loss(logits: Tensor, labels: Tensor) -> Tensor:
    """What training descends: the mean cross-entropy."""
    return cross_entropy(logits, labels)


def losses(logits: Tensor, labels: Tensor) -> Tensor:
    """The cross-entropy of each node."""
    return cross_entropy(logits, labels, reduction="none")


def nll(logits: Tensor, labels: Tensor) -> float:
    """What gates compare: the mean negative log-likelihood in float64, convex in the logits."""
    return float(cross_entropy(logits.double(), labels))


def targets(labels: Tensor, classes: int) -> Tensor:
    """What a regression is fitted to: a one at each node's class, (nodes, classes)."""
    return one_hot(labels, classes).float()


def called(logits: Tensor) -> Tensor:
    """The class that each node is called."""
    return logits.argmax(1)


def counted(logits: Tensor, labels: Tensor, classes: int) -> Tensor:
    """All that scores are made of, counts[t, p]: how many nodes of class t were called p."""
    cells = torch.bincount(labels * classes + called(logits), minlength=classes * classes)
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


def macro_f1_present(counts: Tensor) -> float:
    """F1 averaged over the classes that some node truly is of; zero where there is no node."""
    present = counts.sum(1) > 0
    return float(f1(counts)[present].mean()) if present.any() else 0.0


def f1(counts: Tensor) -> Tensor:
    """2 TP / (2 TP + FP + FN) for each class, zero where that is 0/0."""
    hits = counts.diagonal().double()
    touched = (counts.sum(0) + counts.sum(1)).double()  # TP+FP plus TP+FN
    return 2 * hits / touched.clamp_min(1)


def roc_auc(scores: Tensor, truth: Tensor) -> float | None:
    """The chance that a node of class 1 scores above one of class 0, ties counted half.

    None where the nodes are of one class only. By ranks: (R_1 - n_1 (n_1 + 1) / 2) / (n_0 n_1), with
    R_1 the sum of the ranks of class 1.
    """
    from scipy.stats import rankdata  # a second to import, so only where a score needs it

    ones = truth.bool()
    count = int(ones.sum())
    if count in (0, len(truth)):
        return None
    ranks = torch.from_numpy(rankdata(scores.double().numpy()))
    above = float(ranks[ones].sum()) - count * (count + 1) / 2
    return above / (count * (len(truth) - count))


def mean_auc(values: Sequence[float | None], nodes: Sequence[int]) -> float | None:
    """Clients' ROC AUC averaged by their nodes: each receiver's model ranks that receiver's nodes."""
    areas = [(value, n) for value, n in zip(values, nodes, strict=True) if value is not None]
    total = sum(n for _, n in areas)
    return sum(value * n for value, n in areas) / total if total else None


@dataclass(frozen=True)
class Bin:
    """Nodes that a model is about equally sure of."""

    nodes: int
    hits: int  # those it is right about
    confidence: float  # mean probability of the class it names; 0 where there are no nodes


def reliability(logits: Tensor, truth: Tensor, bins: int = 10) -> tuple[Bin, ...]:
    """Nodes by the probability of the class they are called, in bins of equal width from 0 to 1."""
    # A model whose logits are not numbers is not sure of anything.
    confidence, predicted = logits.double().softmax(1).nan_to_num(0).max(1)
    index = (confidence * bins).long().clamp_max(bins - 1)
    nodes = torch.bincount(index, minlength=bins)
    hits = torch.bincount(index[predicted == truth], minlength=bins)
    means = torch.bincount(index, confidence, minlength=bins) / nodes.clamp_min(1)
    counts = zip(nodes.tolist(), hits.tolist(), means.tolist(), strict=True)
    return tuple(Bin(count, right, round(mean, 6)) for count, right, mean in counts)


def calibration_error(bins: Sequence[Bin]) -> float:
    """ECE: Σ_b n_b / n · |hits_b / n_b - confidence_b|."""
    nodes = sum(part.nodes for part in bins)
    return sum(abs(part.hits - part.nodes * part.confidence) for part in bins) / max(nodes, 1)


def temperature(logits: Tensor, labels: Tensor) -> float:
    """What to divide logits by for probabilities that fit these labels; classes stay as they are.

    The cross-entropy is convex in β = 1 / T, so its slope is bisected, from T = 20 to T = 1 / 20. Labels
    are softened by 1 / (nodes + 2), as Platt does. Being surer (T < 1) can cost much and gains
    little, so it takes a gain of two standard errors on these nodes. Without nodes, 1.
    """
    if not len(labels) or not bool(torch.isfinite(logits).all()):
        return 1.0
    values, classes = logits.double(), logits.shape[1]
    soft = 1 / (len(labels) + 2)
    wanted = (1 - soft) * one_hot(labels, classes) + soft / classes
    low, high = 1 / 20, 20.0
    for _ in range(60):
        beta = (low * high) ** 0.5
        slope = float((((beta * values).softmax(1) - wanted) * values).sum())
        low, high = (low, beta) if slope > 0 else (beta, high)
    best = 1 / (low * high) ** 0.5
    gain = losses(values, labels) - losses(values / best, labels)
    certain = len(labels) > 1 and float(gain.mean()) > 2 * float(gain.std()) / len(labels) ** 0.5
    return best if best >= 1 or certain else 1.0


SCORES = {"accuracy": accuracy, "weighted_f1": weighted_f1, "macro_f1": macro_f1}
