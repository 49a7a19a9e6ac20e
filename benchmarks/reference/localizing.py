"""A video frame by frame: decode one, resize it, hear the sound around it, ask the model, paint, write."""

from __future__ import annotations

import math
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from PIL import Image

from benchmarks.reference.data import F32, fitted, heard, squeezed, to_tensor
from benchmarks.reference.training import Slavc
from earsight.config import Inputs

U8 = npt.NDArray[np.uint8]


def localize_video(
    model: Slavc, path: Path, to: Path, inputs: Inputs, device: str = "cpu", end: float = math.inf
) -> int:
    """Write a silent overlay video up to `end`, with the encoder's settings that earsight has; returns its frames."""
    import av

    sound = soundtrack(path, inputs.rate)
    count = 0
    with av.open(str(path)) as film, av.open(str(to), "w") as out:
        video: Any = film.streams.video[0]
        written: Any = out.add_stream("libx264", Fraction(video.average_rate), {"crf": "20", "preset": "veryfast"})
        written.width, written.height, written.pix_fmt = video.width, video.height, "yuv420p"
        for frame in film.decode(video):
            time = float(frame.time or 0.0)
            if time >= end:
                break
            picture = frame.to_ndarray(format="rgb24")
            values = frame_map(model, picture, around(sound, time, inputs), inputs, device)
            out.mux(written.encode(av.VideoFrame.from_ndarray(painted(picture, values), format="rgb24")))
            count += 1
        out.mux(written.encode(None))
    return count


def soundtrack(path: Path, rate: int) -> F32:
    """All of a video's sound (S,), mixed to one channel."""
    import av

    resampler = av.AudioResampler("flt", "mono", rate)
    with av.open(str(path)) as film:
        frames = [part for frame in film.decode(film.streams.audio[0]) for part in resampler.resample(frame)]
        frames += resampler.resample(None)
    return np.concatenate([frame.to_ndarray()[0] for frame in frames])


def around(sound: F32, time: float, inputs: Inputs) -> F32:
    """What the model hears at a time: the sound around it, moved inside the file at both ends."""
    start = round(time * inputs.rate - inputs.samples / 2)
    start = max(0, min(start, len(sound) - inputs.samples))
    return fitted(sound[start : start + inputs.samples], inputs.samples)


def frame_map(model: Slavc, picture: U8, wave: F32, inputs: Inputs, device: str) -> F32:
    """The map of one picture (H, W, 3), at its own size."""
    image = to_tensor(squeezed(Image.fromarray(picture), inputs.image_size))[None].to(device)
    with torch.no_grad():
        small = model.maps(image, heard(wave, inputs)[None].to(device))
    large = F.interpolate(small[:, None], size=picture.shape[:2], mode="bicubic", align_corners=False)
    out: F32 = large[0, 0].cpu().numpy()
    return out


def painted(picture: U8, values: F32) -> U8:
    """The picture with its map over it, from blue over green to red."""
    heat = (values - values.min()) / (values.max() - values.min() + 1e-9)
    colors = np.stack([np.clip(1.5 - np.abs(4 * heat - peak), 0, 1) for peak in (3, 2, 1)], axis=2)
    blended = 0.5 * picture.astype(np.float32) + 0.5 * 255 * colors
    out: U8 = blended.astype(np.uint8)
    return out
