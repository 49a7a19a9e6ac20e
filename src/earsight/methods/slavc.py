"""SLAVC: localization and audio-visual correspondence learned together, with visual dropout and momentum encoders.

Mo and Morgado, "A Closer Look at Weakly-Supervised Audio-Visual Source Localization", NeurIPS 2022. Each modality has
two projections: `loc` says where in a picture a sound is (softmax over places), `avc` says whose sound a place makes
(softmax over sounds). Their product is the probability that sound m comes from place xy of picture n.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial
from typing import Literal

import torch
from torch import Tensor, nn

from earsight import distributed
from earsight.config import Form, Inputs, Optim, check_choices, check_most, need
from earsight.device import run_concurrently
from earsight.encoders.base import Encoder, Encoders, global_max_pool, init_like_published, make_encoders
from earsight.losses import Axis, Pooling, all_pairs, log_joint, match, paired, pool
from earsight.methods.base import Features, Preset, TwoTower, ema_update, frozen_copy, gather
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


class Branch(nn.Module):
    """Both encoders and their projections: the online branch, or its momentum copy."""

    def __init__(self, config: Config, inputs: Inputs) -> None:
        super().__init__()
        self.image, self.audio = make_encoders(config.encoders, inputs)
        self.image_heads, self.audio_heads = nn.ModuleDict(), nn.ModuleDict()
        names = ("loc", "avc") if config.decompose else ("loc",)
        for name in names:
            self.image_heads[name] = nn.Conv2d(self.image.channels, config.dim, 1)
            self.audio_heads[name] = nn.Linear(self.audio.channels, config.dim)
        for name in names:
            init_like_published(self.image_heads[name])
            init_like_published(self.audio_heads[name])


class Model(TwoTower):
    cuda_graph_safe = True

    def __init__(self, config: Config, inputs: Inputs) -> None:
        super().__init__(inputs)
        self.config = config
        self.online = Branch(config, inputs)
        if config.targets:
            self.target = frozen_copy(self.online)
            if not config.target_heads:  # the projections are then shared: only the encoders have momentum copies
                del self.target.image_heads, self.target.audio_heads
        self.inferred = {"both": ("loc", "avc"), "loc": ("loc",), "avc": ("avc",)}[config.infer]
        if not config.decompose:
            self.inferred = ("loc",)

    def loss(self, batch: Batch, counts: list[int]) -> Step:
        branches = [self.online, self.target] if self.config.targets else [self.online]
        encoded = self.encode(batch, branches)
        features = [self.features(encoded[branch], branch, counts) for branch in branches]
        online, target = features[0], features[-1]
        # Ground truth pulls at the map as it will be used, without dropout; the copies, which have no gradient, follow.
        maps = None
        if batch.truth is not None:
            image, audio = encoded[self.online][0], global_max_pool(encoded[self.online][1])
            maps = self.compare(_each(self.online.image_heads, image), _each(self.online.audio_heads, audio))
        # The sums run over the clips of all processes, as if there were one.
        audio_term = match(self.score(target[0], online[1]), self.config.audio_term)  # online sounds, target pictures
        image_term = match(self.score(online[0], target[1]), "audios")  # online pictures, target sounds
        logs = {"loss_audio": audio_term.detach(), "loss_image": image_term.detach()}
        return Step(audio_term + image_term, logs, maps)

    def encode(self, batch: Batch, branches: list[Branch]) -> dict[Branch, tuple[Tensor, Tensor]]:
        """What the encoders of these branches give for a batch; momentum copies have no gradient."""
        image, audio = self.online.image.preprocess(batch.frames), self.online.audio.preprocess(batch.waveforms)

        def run(branch: Branch, encoder: nn.Module, x: Tensor) -> Tensor:
            with torch.set_grad_enabled(torch.is_grad_enabled() and branch is self.online):
                out: Tensor = encoder(x)
                return out

        works = [partial(run, b, encoder, x) for b in branches for encoder, x in ((b.image, image), (b.audio, audio))]
        results = run_concurrently(*works)
        return dict(zip(branches, zip(results[::2], results[1::2], strict=True), strict=True))

    def features(self, encoded: tuple[Tensor, Tensor], branch: Branch, counts: list[int]) -> tuple[Features, Features]:
        """Features of pictures and sounds of all processes; dropout acts on the encoders' outputs, in training only."""
        image, audio = encoded[0], global_max_pool(encoded[1])
        if self.training:
            image = distributed.dropout(image, self.config.visual_dropout, counts)
            audio = distributed.dropout(audio, self.config.audio_dropout, counts)
        # NOTE: the paper names no momentum projections; then the target features pass the online ones, with gradient.
        heads = branch if self.config.target_heads else self.online
        with torch.set_grad_enabled(torch.is_grad_enabled() and heads is self.online):
            return gather(_each(heads.image_heads, image), counts), gather(_each(heads.audio_heads, audio), counts)

    def score(self, image: Features, audio: Features) -> Tensor:
        """Scores (N, M) of every picture with every sound."""
        logits = {name: all_pairs(image[name], audio[name]) / self.config.temperature for name in image}
        joint = log_joint(logits["loc"], logits["avc"]) if "avc" in logits else logits["loc"]
        return pool(joint, self.config.pooling)

    def branch(self) -> Branch:
        """The branch that maps are made with."""
        return self.target if self.config.targets and self.config.infer_with == "target" else self.online

    def encoders(self) -> tuple[Encoder, Encoder]:
        branch = self.branch()
        return branch.image, branch.audio

    def project_image(self, encoded: Tensor) -> Features:
        return _each((self.branch() if self.config.target_heads else self.online).image_heads, encoded)

    def project_audio(self, encoded: Tensor) -> Features:
        return _each((self.branch() if self.config.target_heads else self.online).audio_heads, global_max_pool(encoded))

    def compare(self, image: Features, audio: Features) -> Maps:
        """The mean cosine of each picture's places with its own sound."""
        cosine = torch.stack([paired(image[name], audio[name]) for name in self.inferred]).mean(0)
        # NOTE: the paper adds the two cosines and the code averages them over the temperature; within the stated bounds
        # both are this mean, so every threshold on the scaled map is the same.
        return Maps(native=cosine, dense=cosine, bounds=(-1.0, 1.0))

    def supervised_loss(self, maps: Maps, truth: Tensor, form: Form) -> Tensor:
        if form == "unscaled" and len(self.inferred) == 2:
            maps = replace(maps, dense=2 * maps.dense)  # the paper adds the two cosines, of which a map is the mean
        return super().supervised_loss(maps, truth, form)

    @torch.no_grad()
    def after_step(self) -> None:
        if self.config.targets:
            online, target = dict(self.online.named_parameters()), dict(self.target.named_parameters())
            ema_update(target.values(), (online[name] for name in target), self.config.momentum)


def _each(heads: nn.ModuleDict, x: Tensor) -> Features:
    return {name: head(x) for name, head in heads.items()}


def official() -> Preset:
    """The published code (stoneMo/SLAVC) with its script's settings."""
    return Preset(Config(infer_with="online"), Inputs.official(), Optim(), "official")


def paper() -> Preset:
    """The paper's text."""
    config = Config(target_heads=False, pooling="max", audio_term="images", infer_with="target")
    return Preset(config, Inputs.paper(), Optim(weight_decay=1e-4), "paper")


PRESETS = {"official": official, "paper": paper}
