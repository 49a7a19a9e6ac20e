"""Scores and metrics in numpy, one map and one threshold at a time, as published evaluators compute them."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

F32 = npt.NDArray[np.float32]
Pair = tuple[float, float]


def official(values: F32, truth: F32, bound: float = 5.0) -> Pair:
    """cIoU and confidence of one map (224, 224) as the published evaluator computes them.

    The values may lie anywhere between `-bound` and `bound`.
    """
    score = (values + bound) / (2 * bound)
    confidence = np.sort(score.flatten())[-(score.size // 4) :].mean()
    scaled = (score - score.min()) / (score.max() - score.min())
    threshold = np.sort(scaled.flatten())[int(scaled.size * 0.5)]
    return _overlap(scaled >= threshold, truth), float(confidence)


def exact(values: F32, truth: F32, bound: float = 5.0) -> Pair:
    """The same with the score's own scale and its highest value as the confidence."""
    score = (values + bound) / (2 * bound)
    threshold = np.sort(score.flatten())[int(score.size * 0.5)]
    return _overlap(score >= threshold, truth), float(score.max())


def paper(values: F32, truth: F32, bound: float = 5.0) -> Pair:
    """The same with a strict comparison."""
    score = (values + bound) / (2 * bound)
    threshold = np.sort(score.flatten())[int(score.size * 0.5)]
    return _overlap(score > threshold, truth), float(score.max())


def truth_of(box: tuple[float, float, float, float] | None) -> F32:
    """A ground-truth map of one box in fractions of the picture, or of none."""
    truth = np.zeros((224, 224), dtype=np.float32)
    if box is not None:
        x0, y0, x1, y1 = (int(np.clip(value, 0, 1) * 224) for value in box)
        truth[y0:y1, x0:x1] = 1
    return truth


def _overlap(predicted: npt.NDArray[np.bool_], truth: F32) -> float:
    found = np.zeros(truth.shape)
    found[predicted] = 1
    return float(np.sum(found * truth) / (np.sum(truth) + np.sum(found * (truth == 0))))


def numbers(pairs: list[Pair], positive: list[bool], strict: bool, published: bool) -> dict[str, float]:
    """LocAcc, AUC, average precision and the highest F1, one threshold after another.

    `published` looks at the thresholds of the published code and sums as it does; else at every threshold.
    """
    ciou, sure, seen = np.array([p[0] for p in pairs]), np.array([p[1] for p in pairs]), np.array(positive)
    hit = seen & (ciou > 0.5 if strict else ciou >= 0.5)
    shares = [np.mean(ciou[seen] >= 0.05 * i) for i in range(21)]

    def curve(thresholds: npt.NDArray[np.float64]) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
        precision, recall = [], []
        for at in thresholds:
            claimed = sure >= at
            tp, fn = np.sum(hit & claimed), np.sum(seen & ~claimed)
            precision.append(tp / np.sum(claimed))
            recall.append(tp / (tp + fn) if tp + fn else 1.0)
        return np.array(precision), np.array(recall)

    if published:
        p, r = curve(np.sort(sure)[:-1][:: -max(1, len(sure) // 200)])
        ap = np.sum(np.maximum.accumulate(p[::-1])[::-1][:-1] * np.diff(r))
        p, r = curve(np.sort(sure)[:: max(1, len(sure) // 10)])
    else:
        p, r = curve(np.unique(sure)[::-1])
        ap = np.sum(p * np.diff(r, prepend=0.0))
    with np.errstate(invalid="ignore"):
        f1 = np.nan_to_num(2 * p * r / (p + r))
    return {
        "loc_acc": float(np.sum(hit) / np.sum(seen)),
        "auc": float(np.trapezoid(shares, 0.05 * np.arange(21))),
        "ap": float(ap),
        "max_f1": float(f1.max()),
    }
