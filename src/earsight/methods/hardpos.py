"""HardPos: LVS in which a clip's lookalikes and soundalikes from the training list are positives too.

Senocak et al., "Learning Sound Localization Better from Semantically Similar Samples", ICASSP 2022. Each clip brings
along the picture of a visual neighbour and the sound of an audible one; the responses of all four pairs of own and
neighbouring picture and sound stand where LVS has the response of the clip alone. No code was published: the number of
neighbours, the features they are found by and whether LVS's background stays are settings.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import logsigmoid, normalize

from earsight import distributed
from earsight.config import MOST_EPOCHS, Inputs, Optim, check_most, need
from earsight.data.files import read_npz
from earsight.errors import DataError, TrainingError
from earsight.losses import paired
from earsight.methods import lvs
from earsight.methods.base import Context, Preset, gather
from earsight.methods.lvs import mean_above
from earsight.types import Batch, Neighbours, Row, Step

SCORES_AT_ONCE = 2**26
"""Similarities held in memory while neighbours are found; those of all pairs of 144000 clips would take 83 GB."""


@dataclass(frozen=True)
class Config(lvs.Config):
    """Settings of HardPos: those of LVS, without its background term, and how neighbours are found."""

    background: bool = False
    """Whether the picture's own background is a negative."""
    neighbours: int = 20
    """How many nearest clips a clip's neighbour is drawn from, anew each epoch; 0 is LVS with the same
    `background`."""
    warmup: int = 2
    """First epochs without neighbours, which are LVS with the same `background`."""
    features: Literal["own", "start", "file"] = "own"
    """What neighbours are found by: the model's own features as they are trained, as they start, or those of a file."""
    remine: int = 1
    """Epochs after which neighbours are found again, with the model's own features."""
    file: str = ""
    """An .npz file of features: ids (M,), pictures (M, D) and sounds (M, E), for at least the training list."""
    responses: Literal["mean", "sum"] = "mean"
    """Whether the four responses of a clip are averaged, or added as in the paper. NOTE: added, in LVS's form "code",
    they beat every single response from the first step on, and nothing is left to learn. A sum belongs to the form
    "paper", where the negatives are a sum too."""

    def __post_init__(self) -> None:
        super().__post_init__()
        need(self.neighbours >= 0, "neighbours of at least 0", self.neighbours)
        need(self.warmup >= 0, "warmup of at least 0", self.warmup)
        check_most(self, neighbours=10_000, warmup=MOST_EPOCHS, remine=MOST_EPOCHS)
        need(self.remine >= 1, "remine of at least 1 epoch", self.remine)
        need((self.features == "file") == bool(self.file), "a file together with features 'file' and only then",
             f"features '{self.features}' and file '{self.file}'")  # fmt: skip


def nearest(features: Tensor, neighbours: int) -> Tensor:
    """The nearest other clips of each clip by cosine, nearest first: (N, D) -> int32 (N, at most `neighbours`).

    Rows that are not finite belong to clips that cannot be read; they are nobody's neighbours.

    >>> nearest(torch.tensor([[1.0, 0.0], [1.0, 0.1], [0.0, 1.0], [float("nan"), 0.0]]), 1)[:3].tolist()
    [[1], [0], [1]]
    """
    readable = features.isfinite().all(1)
    count = int(readable.sum())
    if count < 2:
        raise DataError(
            f"Expected at least two clips with features to find neighbours among, but got {count} of {len(features)}. "
            "Use more clips, or --method.neighbours 0."
        )
    # NOTE: the paper's dot product, of unit vectors, because clips with long ones would be everybody's neighbours.
    unit = normalize(torch.where(readable[:, None], features, 0.0).float(), dim=1)
    found = []
    at_once = max(1, SCORES_AT_ONCE // len(unit))
    for first in range(0, len(unit), at_once):
        scores = unit[first : first + at_once] @ unit.T
        scores[:, ~readable] = -torch.inf
        scores.diagonal(first).fill_(-torch.inf)  # nobody is their own neighbour
        found.append(scores.topk(min(neighbours, count - 1)).indices.int().cpu())
    return torch.cat(found)


def above(cosines: Tensor, level: float, softness: float) -> Tensor:
    """How much each place (..., hw) counts in LVS's mean over the source; adds up to 1."""
    return torch.softmax(logsigmoid((cosines - level) / softness), -1)


def drawn(neighbours: Tensor, epoch: int, stream: int) -> Tensor:
    """One of its neighbours (N, K) for each clip, as a function of epoch, clip and stream alone: int64 (N,)."""
    which = np.random.default_rng((epoch, stream)).random(len(neighbours))
    at = (torch.from_numpy(which) * neighbours.shape[1]).long()
    return neighbours.long().gather(1, at[:, None])[:, 0]


def read_features(path: str, rows: Sequence[Row]) -> tuple[Tensor, Tensor]:
    """Features of pictures (N, D) and sounds (N, E) of the clips in `rows`, in their order, from an .npz file."""
    try:
        file = read_npz(Path(path), ("ids", "pictures", "sounds"))
        ids, pictures, sounds = ([str(x) for x in file["ids"]], file["pictures"], file["sounds"])
    except (KeyError, TypeError, ValueError) as error:
        raise DataError(
            f"Expected an .npz file with ids, pictures and sounds, but got {path}: {error}. Save it with numpy.savez."
        ) from error
    place = {name: i for i, name in enumerate(ids)}
    shaped = pictures.ndim == sounds.ndim == 2 and len(pictures) == len(sounds) == len(ids)
    numbers = all(np.issubdtype(x.dtype, np.floating) or np.issubdtype(x.dtype, np.integer) for x in (pictures, sounds))
    if not shaped or not numbers:
        raise DataError(
            f"Expected pictures and sounds of {path} as numbers ({len(ids)}, D), one row for each of its ids, but got "
            f"{pictures.dtype} {pictures.shape} and {sounds.dtype} {sounds.shape}. Save them again."
        )
    if len(place) < len(ids):
        raise DataError(
            f"Expected each clip once in {path}, but got {len(ids) - len(place)} ids again. Save one row for each clip."
        )
    missing = [row.id for row in rows if row.id not in place]
    if missing:
        raise DataError(
            f"Expected features of every training clip in {path}, but got none of {len(missing)}, among them "
            f"{', '.join(missing[:3])}. Add them, with NaN for clips that cannot be read."
        )
    at = [place[row.id] for row in rows]
    return torch.from_numpy(pictures[at]).float(), torch.from_numpy(sounds[at]).float()


class Model(lvs.Model):
    """LVS's encoders and map; neighbours are looked for in the training list and nowhere else."""

    config: Config

    def __init__(self, config: Config, inputs: Inputs) -> None:
        super().__init__(config, inputs)
        for name in ("near_pictures", "near_sounds"):  # int32 (clips, neighbours), once they are found
            self.register_buffer(name, torch.zeros(0, dtype=torch.int32), persistent=False)

    def on_epoch(self, context: Context) -> None:
        c = self.config
        done = context.epoch + 1
        if not c.neighbours:
            return
        if done == 0:
            due = c.features != "own" or c.warmup == 0
        else:
            due = c.features == "own" and done >= c.warmup and (done - c.warmup) % c.remine == 0
        if due:
            self.mine(context)

    def mine(self, context: Context) -> None:
        """Find every clip's neighbours among the training clips, by picture and by sound."""
        if self.config.features == "file":
            pictures, sounds = read_features(self.config.file, context.rows)
        else:
            pictures, sounds = context.extract(self.describe).chunk(2, 1)  # which have one width
        device, k = next(self.parameters()).device, self.config.neighbours
        state = {"near_pictures": nearest(pictures.to(device), k), "near_sounds": nearest(sounds.to(device), k)}
        self.load_training_state(state)

    def describe(self, batch: Batch) -> Tensor:
        """What a clip is compared by: its picture's mean over places, and its sound, (B, 2 C).

        Of a model that is being trained the mean is that of the source alone, as its mask has it: pictures are then
        alike when what sounds in them is.
        """
        image, audio = self.embed_images(batch.frames)["places"], self.embed_sounds(batch.waveforms)["sound"]
        places = image.float().flatten(2)
        picture = places.mean(2)
        if self.config.features == "own":
            cosines = paired(image, audio).flatten(1)
            picture = torch.einsum("bcs,bs->bc", places, above(cosines, self.config.positive, self.config.softness))
        return torch.cat([picture, audio.float()], 1)

    def neighbours(self, epoch: int) -> Neighbours | None:
        if not self.config.neighbours or epoch < self.config.warmup:
            return None
        pictures, sounds = self.get_buffer("near_pictures"), self.get_buffer("near_sounds")
        if not len(pictures):
            raise TrainingError("Expected neighbours of every clip, but got none. Call `on_epoch` before training.")
        return Neighbours(drawn(pictures.cpu(), epoch, 0), drawn(sounds.cpu(), epoch, 1))

    def response(self, image: Tensor, audio: Tensor) -> Tensor:
        """The mean cosine of each picture's source with its sound: (B, C, h, w), (B, C) -> (B,)."""
        return mean_above(paired(image, audio).flatten(1), self.config.positive, self.config.softness)

    def loss(self, batch: Batch, counts: list[int]) -> Step:
        if batch.neighbour_pictures is None or batch.neighbour_sounds is None:
            return super().loss(batch, counts)
        # One pass, so that a batch norm sees clips and neighbours together.
        places = self.embed_images(torch.cat([batch.frames, batch.neighbour_pictures]))["places"]
        sounds = self.embed_sounds(torch.cat([batch.waveforms, batch.neighbour_sounds]))["sound"]
        (image, like), (audio, alike) = places.chunk(2), sounds.chunk(2)
        near = self.response(like, audio) + self.response(image, alike) + self.response(like, alike)
        near = distributed.gather(near, counts)

        # From here on as in LVS, but with more than one response on the diagonal.
        one, other = {"places": image}, {"sound": audio}
        change = partial(with_near, near=near, how=self.config.responses)
        step = self.step(gather(one, counts), gather(other, counts), change)
        logs = {**step.logs, "near": near.mean().detach() / 3}
        return Step(step.loss, logs, None if batch.truth is None else self.compare(one, other))


def with_near(pairs: Tensor, near: Tensor, how: Literal["sum", "mean"]) -> Tensor:
    """Scores (N, N) in which the own response of each clip is that of four pairs; `near` (N,) adds up the other three.

    >>> with_near(torch.tensor([[0.5, 0.25], [0.25, 0.5]]), torch.tensor([1.5, 1.5]), "sum")
    tensor([[2.0000, 0.2500],
            [0.2500, 2.0000]])
    """
    own = pairs.diagonal()
    four = (own + near) / (4 if how == "mean" else 1)
    return pairs + torch.diag_embed(four - own)


def paper() -> Preset:
    """The paper's sum of four responses in the paper's form of LVS's loss, as far as both are known.

    NOTE: no code was published. Batches of 16 and weight decay are those of the authors' later work on the same base;
    the number of neighbours and the features are ours, and epochs are those of all methods here.
    """
    config = Config(form="paper", responses="sum")
    return Preset(config, Inputs.official(), Optim(batch_size=16, weight_decay=1e-4), "official")


PRESETS = {"paper": paper}
