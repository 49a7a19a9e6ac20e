"""DMC in both its forms, made tiny, and the vectors that it clusters."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

import tiny
from earsight.methods.dmc import Config, Model
from earsight.types import Batch
from tiny import noise

SMALL = Config(encoders=tiny.SMALL, spaces=4, dim=8)
FORMS: list[dict[str, Any]] = [
    {},
    {"start": "farthest"},
    {"visual_clusters": 3, "audio_clusters": 2},
    {"form": "original"},
    {"form": "original", "spaces": 2},
]


def make_batch(clips: int = 5) -> Batch:
    return noise.make_batch(clips)


def make_model(**changes: Any) -> Model:
    torch.manual_seed(0)
    return Model(replace(SMALL, **changes), tiny.INPUTS)


def vectors(model: Model, batch: Batch) -> tuple[Tensor, Tensor]:
    """What is clustered in the end, place by place: (B, N, C) of pictures and (B, M, C) of sounds."""
    encoded = model.image(model.image.preprocess(batch.frames)), model.audio(model.audio.preprocess(batch.waveforms))
    places, times = (x.flatten(2).transpose(1, 2) for x in encoded)
    return places, times
