"""Plain versions in the style of the published recipe: one sample at a time, PIL-like steps, scipy and numpy."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import scipy.signal

F32 = npt.NDArray[np.float32]


def spectrograms(waveforms: F32, rate: int) -> list[F32]:
    """scipy's spectrogram of each clip, logarithm, division by 12."""
    out = []
    for wave in waveforms:
        _, _, density = scipy.signal.spectrogram(wave, rate, nperseg=512, noverlap=274)
        out.append((np.log(density + 1e-7) / 12).astype(np.float32))
    return out


def score_maps(maps: F32, truths: F32) -> tuple[float, float]:
    """Share of cIoU over 0.5 at the median threshold and mean confidence (mean of the top quarter), map by map.

    Maps and truths are (N, 224, 224).
    """
    hits, sure = [], []
    for score, truth in zip(maps, truths, strict=True):
        ranked = np.sort(((score + 5) / 10).flatten())
        sure.append(ranked[-(ranked.size // 4) :].mean())
        scaled = (score - score.min()) / (score.max() - score.min())
        threshold = np.sort(scaled.flatten())[scaled.size // 2]
        predicted = scaled >= threshold
        union = truth.sum() + (predicted * (truth == 0)).sum()
        hits.append((predicted * truth).sum() / union >= 0.5)
    return float(np.mean(hits)), float(np.mean(sure))
