"""HardPos: LVS in which a clip's lookalikes and soundalikes from the training list are positives too.

Senocak et al., "Learning Sound Localization Better from Semantically Similar Samples", ICASSP 2022. Each clip brings
along the picture of a visual neighbour and the sound of an audible one; the responses of all four pairs of own and
neighbouring picture and sound stand where LVS has the response of the clip alone. No code was published: the number of
neighbours, the features they are found by and whether LVS's background stays are settings.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
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
from earsight.methods import lvs
from earsight.methods.base import Context, Near, Preset, Stage
from earsight.methods.lvs import mean_above, mean_below, paper_loss, published_loss
from earsight.models.similarity import all_pairs, paired
from earsight.types import Batch, Row, Step

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
        self.found: dict[str, Tensor] = {}

    def prepare(self, stage: Stage, context: Context) -> None:
        c = self.config
        if c.neighbours and (c.features != "own" or c.warmup == 0):
            self.mine(context)

    def between_epochs(self, context: Context) -> None:
        c = self.config
        since = context.epoch + 1 - c.warmup
        if c.neighbours and c.features == "own" and since >= 0 and since % c.remine == 0:
            self.mine(context)

    def mine(self, context: Context) -> None:
        """Find every clip's neighbours among the training clips, by what is seen and by what is heard."""
        if self.config.features == "file":
            pictures, sounds = read_features(self.config.file, context.rows)
        else:
            both = context.extract(self.describe)
            pictures, sounds = both.chunk(2, 1)
        where = next(self.parameters()).device
        k = self.config.neighbours
        self.found = {"pictures": nearest(pictures.to(where), k), "sounds": nearest(sounds.to(where), k)}

    def describe(self, batch: Batch) -> Tensor:
        """What a clip is compared by: its picture's mean over places beside its sound, (B, 2 C).

        Of a model that is being trained the mean is that of the source alone, as its mask has it: pictures are then
        alike when what sounds in them is.
        """
        image, audio = self.features(batch.frames, batch.waveforms)
        places = image.float().flatten(2)
        seen = places.mean(2)
        if self.config.features == "own":
            cosines = paired(image, audio).flatten(1)
            seen = torch.einsum("bcs,bs->bc", places, above(cosines, self.config.positive, self.config.softness))
        return torch.cat([seen, audio.float()], 1)

    def near(self, epoch: int) -> Near | None:
        if not self.config.neighbours or epoch < self.config.warmup:
            return None
        if not self.found:
            raise TrainingError("Expected neighbours of every clip, but got none. Call `prepare` before training.")
        return Near(drawn(self.found["pictures"], epoch, 0), drawn(self.found["sounds"], epoch, 1))

    def training_state(self) -> dict[str, Tensor]:
        return dict(self.found)

    def load_training_state(self, state: dict[str, Tensor]) -> None:
        self.found = dict(state)

    def features(self, frames: Tensor, waveforms: Tensor) -> tuple[Tensor, Tensor]:
        """Places (B, C, h, w) and sounds (B, C)."""
        return self.image(self.front.image(frames)), self.audio(self.front.sound(waveforms))

    def response(self, image: Tensor, audio: Tensor) -> Tensor:
        """The mean cosine of each picture's source with its sound: (B, C, h, w), (B, C) -> (B,)."""
        return mean_above(paired(image, audio).flatten(1), self.config.positive, self.config.softness)

    def forward(self, batch: Batch) -> Step:
        if batch.neighbour_pictures is None or batch.neighbour_sounds is None:
            return super().forward(batch)
        # One pass, so that a batch norm sees clips and neighbours together.
        frames = torch.cat([batch.frames, batch.neighbour_pictures])
        waveforms = torch.cat([batch.waveforms, batch.neighbour_sounds])
        (image, like), (audio, alike) = (x.chunk(2) for x in self.features(frames, waveforms))
        near = self.response(like, audio) + self.response(image, alike) + self.response(like, alike)

        # From here on as in LVS, but with more than one response on the diagonal.
        c = self.config
        counts = distributed.sizes(len(batch))
        near = distributed.gather(near, counts)
        cosines = all_pairs(distributed.gather(image, counts), distributed.gather(audio, counts)).flatten(2)
        pairs = mean_above(cosines, c.positive, c.softness)
        behind = mean_below(cosines.diagonal().T, c.negative, c.softness) if c.background else None
        logs = {"source": pairs.diagonal().mean().detach(), "near": near.mean().detach() / 3}
        if behind is not None:
            logs["background"] = behind.mean().detach()
        pairs = with_near(pairs, near, c.responses)
        if c.form == "paper":
            loss = paper_loss(pairs, behind, cosines.mean(2))
        else:
            loss = published_loss(pairs, behind, c.temperature, c.published_diagonal)
        return Step(loss, logs, None if batch.truth is None else self.maps(image, audio))


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
