"""SLAVC: localization and audio-visual correspondence learned together, with visual dropout and momentum encoders.

Mo and Morgado, "A Closer Look at Weakly-Supervised Audio-Visual Source Localization", NeurIPS 2022. Each modality has
two projections: `loc` says where in a picture a sound is (softmax over places), `avc` says whose sound a place makes
(softmax over sounds). Their product is the probability that sound m comes from place xy of picture n.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial
from typing import Literal, NamedTuple

import torch
from torch import Tensor, nn

from earsight import distributed
from earsight.config import Form, Inputs, Optim, check_choices, check_most, need
from earsight.losses import Axis, Pooling, log_joint, match, pool
from earsight.methods.base import Method, Preset
from earsight.models.ema import frozen_copy, update
from earsight.models.encoders import Encoders, init_like_published, make_encoders
from earsight.models.similarity import all_pairs, paired
from earsight.models.streams import side_by_side
from earsight.types import Batch, Maps, Step


@dataclass(frozen=True)
class Config:
    """Settings of SLAVC. The defaults are the published code's, except that maps come from the momentum copies.

    The presets at the end of this file hold exactly what each source says.
    """

    encoders: Encoders = field(default_factory=Encoders)
    dim: int = 512
    """Size of the projected features."""
    temperature: float = 0.03
    visual_dropout: float = 0.9
    """Share of picture features dropped in training, online and target alike."""
    audio_dropout: float = 0.0
    targets: bool = True
    """Match against momentum copies; off matches online against online."""
    momentum: float = 0.999
    """How slowly the copies follow: 0 copies the online weights after every step."""
    target_heads: bool = True
    """Whether the projections have momentum copies too (published code) or only the encoders (paper)."""
    decompose: bool = True
    """Two projections, P = P_loc P_avc; off is multiple-instance matching with one projection."""
    pooling: Pooling = "sum"
    """How places become a pair's score: "sum" of probabilities (published code) or "max" (paper)."""
    audio_term: Axis = "audios"
    """What the term with online sounds and target pictures normalises over: "audios" (code) or "images" (paper)."""
    infer: Literal["both", "loc", "avc"] = "both"
    """Which similarities make the map."""
    infer_with: Literal["online", "target"] = "target"
    """Whether maps come from the online weights or from the momentum copies."""

    def __post_init__(self) -> None:
        check_choices(self)
        need(self.temperature > 0, "a positive temperature", self.temperature)
        need(0 <= self.visual_dropout < 1, "visual_dropout in [0, 1)", self.visual_dropout)
        need(0 <= self.audio_dropout < 1, "audio_dropout in [0, 1)", self.audio_dropout)
        need(0 <= self.momentum <= 1, "momentum in [0, 1]", self.momentum)
        need(self.dim >= 1, "dim of at least 1", self.dim)
        check_most(self, dim=4096)
        if not self.decompose:
            need(self.infer != "avc", "infer 'both' or 'loc' without decomposition", self.infer)


class Features(NamedTuple):
    """Projected features of a batch: pictures (B, dim, h, w) and sounds (B, dim); avc is None without decomposition."""

    image_loc: Tensor
    audio_loc: Tensor
    image_avc: Tensor | None
    audio_avc: Tensor | None

    def gathered(self, counts: list[int]) -> Features:
        """The features of all processes' clips, with gradient."""
        loc = distributed.gather(self.image_loc, counts), distributed.gather(self.audio_loc, counts)
        if self.image_avc is None or self.audio_avc is None:
            return Features(*loc, None, None)
        return Features(*loc, distributed.gather(self.image_avc, counts), distributed.gather(self.audio_avc, counts))


class Branch(nn.Module):
    """Both encoders and their projections: the online branch, or its slow copy."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.image, self.audio, channels = make_encoders(config.encoders)
        self.image_loc = nn.Conv2d(channels, config.dim, 1)
        self.audio_loc = nn.Linear(channels, config.dim)
        heads: list[nn.Module] = [self.image_loc, self.audio_loc]
        if config.decompose:
            self.image_avc = nn.Conv2d(channels, config.dim, 1)
            self.audio_avc = nn.Linear(channels, config.dim)
            heads += [self.image_avc, self.audio_avc]
        for head in heads:
            init_like_published(head)
        self.decompose = config.decompose

    def project(self, image: Tensor, audio: Tensor) -> Features:
        return Features(
            self.image_loc(image),
            self.audio_loc(audio),
            self.image_avc(image) if self.decompose else None,
            self.audio_avc(audio) if self.decompose else None,
        )


class Model(Method):
    steady = True

    def __init__(self, config: Config, inputs: Inputs) -> None:
        super().__init__(inputs)
        self.config = config
        self.online = Branch(config)
        if config.targets:
            self.target = frozen_copy(self.online)
            if not config.target_heads:  # the projections are then shared: only the encoders have slow copies
                for name in ("image_loc", "audio_loc", "image_avc", "audio_avc"):
                    if hasattr(self.target, name):
                        delattr(self.target, name)

    def forward(self, batch: Batch) -> Step:
        image, audio = self.front.image(batch.frames), self.front.sound(batch.waveforms)
        counts = distributed.sizes(len(batch))
        seen, heard, *slow = self.encode(image, audio, *(("online", "target") if self.config.targets else ("online",)))
        online = self.project(seen, heard, "online", counts)
        # Ground truth pulls at the map as it will be used, without dropout; the copies, which have no gradient, follow.
        maps = self.maps(self.online.project(seen, heard)) if batch.truth is not None else None
        target = online
        if self.config.targets:
            target = self.project(slow[0], slow[1], "target", counts)
        # The sums run over the clips of all processes, as if there were one.
        online, target = online.gathered(counts), target.gathered(counts)
        hear = match(self.pair_scores(target, online), self.config.audio_term)  # online sounds, target pictures
        see = match(self.pair_scores(online, target), "audios")  # online pictures, target sounds
        return Step(hear + see, {"loss_audio": hear.detach(), "loss_image": see.detach()}, maps)

    def pair_scores(self, pictures: Features, sounds: Features) -> Tensor:
        """Scores (N, M) of every picture with every sound, taken from two branches."""
        loc = all_pairs(pictures.image_loc, sounds.audio_loc) / self.config.temperature
        if pictures.image_avc is None or sounds.audio_avc is None:
            return pool(loc, self.config.pooling)
        avc = all_pairs(pictures.image_avc, sounds.audio_avc) / self.config.temperature
        return pool(log_joint(loc, avc), self.config.pooling)

    def encode(self, image: Tensor, audio: Tensor, *branches: str) -> list[Tensor]:
        """The outputs of the branches' encoders, picture and sound in turn; the slow ones have no gradient."""

        def output(branch: str, of: str) -> Tensor:
            encoders = self.target if branch == "target" else self.online
            with torch.set_grad_enabled(torch.is_grad_enabled() and branch == "online"):
                out: Tensor = encoders.image(image) if of == "image" else encoders.audio(audio)
                return out

        return side_by_side(*(partial(output, branch, of) for branch in branches for of in ("image", "audio")))

    def project(self, v: Tensor, a: Tensor, branch: str, counts: list[int]) -> Features:
        """Projected features; dropout acts on the encoders' outputs, in training only."""
        if self.training:
            v = distributed.dropout(v, self.config.visual_dropout, counts)
            a = distributed.dropout(a, self.config.audio_dropout, counts)
        if branch == "target" and self.config.target_heads:
            with torch.no_grad():
                return self.target.project(v, a)
        # NOTE: the paper names no slow projections; then the target features pass the online ones, with gradient.
        return self.online.project(v, a)

    def localize(self, frames: Tensor, waveforms: Tensor) -> Maps:
        branch = "target" if self.config.targets and self.config.infer_with == "target" else "online"
        image, audio = self.front.image(frames), self.front.sound(waveforms)
        seen, heard = self.encode(image, audio, branch)
        return self.maps(self.project(seen, heard, branch, [frames.shape[0]]))

    def maps(self, f: Features) -> Maps:
        """The mean cosine of each picture's places with its own sound."""
        maps = []
        if self.config.infer != "avc":
            maps.append(paired(f.image_loc, f.audio_loc))
        if self.config.infer != "loc" and f.image_avc is not None and f.audio_avc is not None:
            maps.append(paired(f.image_avc, f.audio_avc))
        cosine = torch.stack(maps).mean(0)
        # NOTE: the paper adds the two cosines and the code averages them over the temperature; within the stated bounds
        # both are this mean, so every threshold on the scaled map is the same.
        return Maps(native=cosine, dense=cosine, bounds=(-1.0, 1.0))

    def supervised_loss(self, maps: Maps, truth: Tensor, form: Form) -> Tensor:
        if form == "unscaled" and self.config.decompose and self.config.infer == "both":
            maps = replace(maps, dense=2 * maps.dense)  # the paper adds the two cosines, of which a map is the mean
        return super().supervised_loss(maps, truth, form)

    def compiled(self) -> list[nn.Module]:
        branches = [self.online, self.target] if self.config.targets else [self.online]
        return [encoder for b in branches for encoder in (b.image, b.audio)]

    @torch.no_grad()
    def after_step(self) -> None:
        if not self.config.targets:
            return
        online = dict(self.online.named_parameters())
        slow = dict(self.target.named_parameters())
        update(slow.values(), (online[name] for name in slow), self.config.momentum)


def official() -> Preset:
    """The published code (stoneMo/SLAVC) with its script's settings."""
    return Preset(Config(infer_with="online"), Inputs.official(), Optim(), "official")


def paper() -> Preset:
    """The paper's text."""
    config = Config(target_heads=False, pooling="max", audio_term="images", infer_with="target")
    return Preset(config, Inputs.paper(), Optim(weight_decay=1e-4), "paper")


PRESETS = {"official": official, "paper": paper}
