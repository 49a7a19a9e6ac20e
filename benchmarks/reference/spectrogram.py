"""scipy's spectrogram of one clip."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import scipy.signal

F32 = npt.NDArray[np.float32]


def spectrogram(wave: F32, rate: int, window: int = 512, hop: int = 238) -> F32:
    """Log spectrogram (F, T) of a waveform (S,), divided by 12."""
    _, _, density = scipy.signal.spectrogram(wave, rate, nperseg=window, noverlap=window - hop)
    out: F32 = (np.log(density + 1e-7) / 12).astype(np.float32)
    return out
