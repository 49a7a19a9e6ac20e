"""DSOL: finding sources and naming objects take turns, each with what the other has learned.

Hu et al., "Discriminative Sounding Objects Localization via Self-supervised Audiovisual Matching", NeurIPS 2020. Stage
one alternates: a pass learns whether picture and sound belong together by their best place; what is seen at those
places is clustered; and some passes learn to tell the clusters apart, by eye and by ear. Stage two (`mixtures`) learns
from scenes of four clips which of the clusters is heard where. SLAVC does not say which stage it had.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, Self

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, normalize

from earsight import distributed
from earsight import sounding_objects as pieces
from earsight.clustering import kmeans, means
from earsight.config import MOST_EPOCHS, Inputs, Optim, check_choices, check_most, need
from earsight.encoders.base import Encoders, global_max_pool, make_encoders
from earsight.losses import paired, partners
from earsight.methods.base import Context, Features, Group, Preset, Stage, TwoTower, frozen_copy
from earsight.types import Batch, Maps, Step

MIXED = "mixtures"
LEAST = {"dim": 1, "clusters": 2, "passes": 0, "first_clustering": 1, "mixtures": 0, "match_after": 0,
         "match_weight": 0, "head_decay": 0}  # fmt: skip


def _encoders() -> Encoders:
    return Encoders(layer4_stride=1)


@dataclass(frozen=True)
class Config:
    """Settings of DSOL. The defaults are stage one as published for music, but for 309 clusters, one pass earlier."""

    encoders: Encoders = field(default_factory=_encoders)
    """Which networks see and hear."""
    variant: Literal["music", "audioset"] = "music"
    """Published form: cosines and a scale, or ("audioset") plain products with a scale and a bias, and stage two with
    sigmoids instead of products with the map."""
    dim: int = 128
    """Size of the projected features that are compared."""
    scale: float = 5.0
    """What the learned factor of the cosines starts from; the AudioSet variant draws it."""
    clusters: int = 309
    """Clusters of what is seen, one for each class; with fewer clips, each is a cluster of its own."""
    object_level: float = 0.05
    """Places with a map above this belong to the object that is clustered."""
    passes: int = 3
    """Classification passes after each clustering; 0 never clusters."""
    first_clustering: int = 1
    """Localization passes before the first clustering; the published code has two."""
    head_lr: float = 1e-3
    """Learning rate of the classifiers, which start anew after each clustering."""
    head_decay: float = 1e-4
    """Weight decay of the classifiers."""
    mixtures: int = 0
    """Epochs of stage two, on scenes of four clips; 0 for stage one alone."""
    match_weight: float = 0.5
    """Stage two: times this the localization loss is added to the loss of the clusters."""
    match_after: int = 0
    """Stage two: epochs without the localization loss."""

    def __post_init__(self) -> None:
        check_choices(self)
        for name, least in LEAST.items():
            need(getattr(self, name) >= least, f"{name} of at least {least}", getattr(self, name))
        check_most(self, dim=4096, clusters=10_000, passes=MOST_EPOCHS, first_clustering=MOST_EPOCHS,
                   mixtures=MOST_EPOCHS, match_after=MOST_EPOCHS)  # fmt: skip
        for name in ("scale", "head_lr"):
            need(getattr(self, name) > 0, f"a positive {name}", getattr(self, name))
        need(0 <= self.object_level < 1, "object_level from 0 to less than 1", self.object_level)
        need(self.passes > 0 or not self.mixtures, "passes of at least 1 before mixtures", self.passes,
             "Their teacher is a classifier; set --method.mixtures 0, or let it learn.")  # fmt: skip

    @property
    def least_epochs(self) -> int:
        """With fewer epochs there is nothing to train stage two with."""
        return self.first_clustering if self.mixtures else 1


class Cosines(nn.Module):
    """The variant for music: scaled cosines, and stage two with products of cluster scores and maps."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.tensor(config.scale))

    def logits(self, places: Tensor, sounds: Tensor) -> Tensor:
        """Logits (B, h, w) of the maps for projected places (B, dim, h, w) and sounds (B, dim)."""
        return self.scale * paired(places, sounds)

    def maps(self, places: Tensor, sounds: Tensor) -> Maps:
        cosine = paired(places, sounds)
        return _maps(self.scale * cosine, cosine, (-1.0, 1.0))

    def cluster_scores(self, scores: Tensor, found: Tensor) -> Tensor:
        return scores * found[:, None]

    naming_loss = staticmethod(pieces.naming_loss)
    match_loss = staticmethod(pieces.silent_loss)


class Products(nn.Module):
    """The variant for AudioSet: plain products with a scale and a bias, and stage two with sigmoids."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.scale = nn.Parameter(2 * torch.rand(()) - 1)
        self.bias = nn.Parameter(2 * torch.rand(()) - 1)

    def logits(self, places: Tensor, sounds: Tensor) -> Tensor:
        with torch.autocast(places.device.type, enabled=False):
            return self.scale * torch.einsum("bchw,bc->bhw", places.float(), sounds.float()) + self.bias

    def maps(self, places: Tensor, sounds: Tensor) -> Maps:
        logits = self.logits(places, sounds)
        return _maps(logits, logits, None)

    def cluster_scores(self, scores: Tensor, found: Tensor) -> Tensor:
        return torch.sigmoid(scores)

    naming_loss = staticmethod(pieces.tagging_loss)
    match_loss = staticmethod(pieces.match_loss)


def _maps(logits: Tensor, dense: Tensor, bounds: tuple[float, float] | None) -> Maps:
    found = torch.sigmoid(logits)
    # The best place's map is the probability that was trained: that picture and sound belong together.
    return Maps(found, dense, bounds, found.amax((1, 2)), (0.0, 1.0))


class Model(TwoTower):
    labels: Tensor
    passes: Tensor
    clustering: Tensor
    dictionary: Tensor

    def __init__(self, config: Config, inputs: Inputs) -> None:
        super().__init__(inputs)
        self.config = config
        self.image, self.audio = make_encoders(config.encoders, inputs)
        wide, narrow, dim = self.image.channels, self.audio.channels, config.dim
        self.image_project = nn.Sequential(nn.Conv2d(wide, dim, 1), nn.ReLU(), nn.Conv2d(dim, dim, 1))
        self.audio_project = nn.Sequential(nn.Linear(narrow, dim), nn.ReLU(), nn.Linear(dim, dim))
        self.variant = Cosines(config) if config.variant == "music" else Products(config)
        self.heads = pieces.Heads(wide, narrow, config.clusters)
        self.register_buffer("dictionary", torch.zeros(config.clusters, wide))
        # What training remembers and a weights file need not hold.
        self.register_buffer("labels", torch.zeros(0, dtype=torch.int64), persistent=False)
        self.register_buffer("passes", torch.tensor(0), persistent=False)
        self.register_buffer("clustering", torch.zeros(0), persistent=False)
        self.passed = 0  # epochs of the stage that are over
        if config.mixtures:
            # NOTE: the published code draws both. A negative slope would take every object for what it is not.
            self.slope, self.offset = nn.Parameter(torch.ones(())), nn.Parameter(torch.zeros(()))
            self.teacher = frozen_copy(nn.ModuleList([self.audio, self.heads.audio]))
        self.start_stage(self.stages(config.first_clustering)[0])

    def project_image(self, encoded: Tensor) -> Features:
        return {"places": self.image_project(encoded)}

    def project_audio(self, encoded: Tensor) -> Features:
        return {"sound": self.audio_project(global_max_pool(encoded))}

    def compare(self, image: Features, audio: Features) -> Maps:
        return self.variant.maps(image["places"], audio["sound"])

    def scores(self, encoded: Tensor, found: Tensor) -> Tensor:
        """Score of each cluster at each place (B, K, h, w), for encoded pictures (B, C, h, w) and maps (B, h, w)."""
        with torch.autocast(encoded.device.type, enabled=False):
            like = torch.einsum("bchw,kc->bkhw", encoded.float(), self.dictionary)
            return self.variant.cluster_scores(self.slope * like + self.offset, found)

    def stages(self, epochs: int) -> tuple[Stage, ...]:
        """Stage one counts `epochs` localization passes. It ends with one, or, before stage two, with classifiers."""
        c = self.config
        last = epochs if c.mixtures else epochs - 1
        need(not c.mixtures or last >= c.first_clustering, f"at least {c.first_clustering} epochs before mixtures",
             epochs, "Train longer, or lower --method.first-clustering.")  # fmt: skip
        clusterings = max(last - c.first_clustering + 1, 0)
        # Localization passes leave the classifiers alone, classification passes the projections.
        first = Stage("alternating", epochs + c.passes * clusterings, has_unused_parameters=True)
        return (first, Stage(MIXED, c.mixtures, has_unused_parameters=True)) if c.mixtures else (first,)

    def start_stage(self, stage: Stage) -> None:
        self.mixed = stage.name == MIXED
        self.heads.requires_grad_(not self.mixed)
        if self.config.mixtures:
            self.slope.requires_grad_(self.mixed)
            self.offset.requires_grad_(self.mixed)

    def on_epoch(self, context: Context) -> None:
        self.passed = context.epoch + 1
        self.passes.fill_(self.passed)
        if self.mixed:
            if self.passed == 0:
                self.teacher.load_state_dict(nn.ModuleList([self.audio, self.heads.audio]).state_dict())
        elif self.classifies(self.passed) and not self.classifies(self.passed - 1):
            self.cluster(context)

    def load_training_state(self, state: Mapping[str, Tensor]) -> None:
        super().load_training_state(state)
        self.passed = int(self.passes)

    def groups(self) -> list[Group]:
        named = [(name, p) for name, p in self.named_parameters() if p.requires_grad]
        heads = [p for name, p in named if name.startswith("heads.")]
        main = Group([p for name, p in named if not name.startswith("heads.")])
        return [main, Group(heads, self.config.head_lr, self.config.head_decay)] if heads else [main]

    def train(self, mode: bool = True) -> Self:
        super().train(mode)
        if self.config.mixtures:
            self.teacher.eval()
        return self

    def loss(self, batch: Batch, counts: list[int]) -> Step:
        if self.mixed:
            return self.mix(batch, counts)
        return self.classify(batch, counts) if self.classifies(self.passed) else self.match(batch, counts)

    def classifies(self, passed: int) -> bool:
        """Whether the pass after `passed` others of stage one is a classification pass: they follow a clustering."""
        since = passed - self.config.first_clustering
        return since >= 0 and since % (self.config.passes + 1) < self.config.passes

    def match(self, batch: Batch, counts: list[int]) -> Step:
        """A localization pass: each sound with its own picture and with another clip's."""
        image, audio = self.embed_images(batch.frames), self.embed_sounds(batch.waveforms)
        places, sounds = distributed.gather(image["places"], counts), distributed.gather(audio["sound"], counts)
        shift = int(torch.randint(1, max(len(sounds), 2), ()))
        partner = partners(distributed.gather(batch.index, counts), shift)
        own, other = self.variant.logits(places, sounds), self.variant.logits(places[partner], sounds)
        best, rest = (torch.sigmoid(x.detach().amax((1, 2))).mean() for x in (own, other))
        logs = {"own": best, "other": rest, "scale": self.variant.scale.detach()}
        return Step(pieces.match_loss(own, other), logs, None if batch.truth is None else self.compare(image, audio))

    def classify(self, batch: Batch, counts: list[int]) -> Step:
        """A classification pass: picture and sound each name the cluster of the object in the picture."""
        encoded, audio = self.encode_images(batch.frames), global_max_pool(self.encode_sounds(batch.waveforms))
        by_image = distributed.gather(self.heads.image(encoded.mean((2, 3))), counts).float()
        by_audio = distributed.gather(self.heads.audio(audio), counts).float()
        wanted = self.labels[distributed.gather(batch.index, counts)]
        there = wanted >= 0  # clips that could not be read when all were clustered have no label
        number = there.sum().clamp(min=1)
        image_loss, audio_loss = (
            cross_entropy(x, wanted, ignore_index=-1, reduction="sum") / number for x in (by_image, by_audio)
        )
        right = ((by_image.argmax(1) == wanted) & there).sum() / number
        logs = {"loss_image": image_loss.detach(), "loss_audio": audio_loss.detach(), "right_by_image": right}
        maps = None
        if batch.truth is not None:
            maps = self.compare(self.project_image(encoded), {"sound": self.audio_project(audio)})
        return Step(image_loss + audio_loss, {**logs, **pieces.clustering_logs(self.clustering)}, maps)

    def mix(self, batch: Batch, counts: list[int]) -> Step:
        """A step of stage two: one scene for each clip; all processes draw the same ones and each makes its own."""
        index = distributed.gather(batch.index, counts)
        scenes = pieces.draw(index, self.labels[index] if len(self.labels) else index)
        mine = slice(sum(counts[: distributed.rank()]), sum(counts[: distributed.rank() + 1]))
        frames = pieces.tile(distributed.gather(batch.frames, counts), scenes.pictures[mine])
        waves = pieces.overlay(distributed.gather(batch.waveforms, counts), scenes.sounds[mine])
        encoded, spectrograms = self.encode_images(frames), self.audio.preprocess(waves)
        places, sounds = self.image_project(encoded), self.audio_project(global_max_pool(self.audio(spectrograms)))
        found = torch.sigmoid(self.variant.logits(places, sounds))
        guess = distributed.gather(self.scores(encoded, found).mean((2, 3)), counts)
        with torch.no_grad():
            encoder, head = self.teacher[0], self.teacher[1]
            taught = distributed.gather(head(global_max_pool(encoder(spectrograms))).float(), counts)
        places, sounds = distributed.gather(places, counts), distributed.gather(sounds, counts)
        own, other = self.variant.logits(places, sounds), self.variant.logits(places[scenes.silent], sounds)
        named, matched = self.variant.naming_loss(guess, taught), self.variant.match_loss(own, other)
        logs = {"loss_names": named.detach(), "loss_match": matched.detach(), "scale": self.variant.scale.detach()}
        maps = None if batch.truth is None else self.localize(batch.frames, batch.waveforms)
        loss = named if self.passed < self.config.match_after else named + self.config.match_weight * matched
        return Step(loss, logs, maps)

    def cluster(self, context: Context) -> None:
        """Label every clip by the object where its sound comes from, and begin to learn these labels."""
        objects = context.extract(self.objects)
        readable = ~objects.isnan().any(1)
        k = min(self.config.clusters, int(readable.sum()))
        found, _ = kmeans(normalize(objects), k, seed=int(torch.randint(2**31, ())))
        # The first process's labels, because a tie that rounding decides must not part the processes.
        labels = distributed.all_gather_object(found.cpu())[0].to(found.device)
        self.clustering = pieces.agreement(labels, self.labels, context.rows)
        self.labels = labels
        self.dictionary.copy_(means(objects[readable], labels[readable], torch.zeros_like(self.dictionary)))
        self.heads.draw()
        context.forget(self.heads.parameters())

    def objects(self, batch: Batch) -> Tensor:
        """What the picture shows where each clip's sound comes from, (B, C)."""
        encoded = self.encode_images(batch.frames)
        maps = self.compare(self.project_image(encoded), self.embed_sounds(batch.waveforms))
        return pieces.object_of(encoded, maps.native, self.config.object_level)


def _published(config: Config, batch_size: int) -> Preset:
    inputs = Inputs(resize=256, rate=16000, seconds=1.0, window=160, hop=80)
    return Preset(config, inputs, Optim(epochs=15, batch_size=batch_size, weight_decay=1e-4), "official")


def official() -> Preset:
    """Stage one of the published code (DTaoo/Discriminative-Sounding-Objects-Localization) for music.

    NOTE: its pictures also change in brightness and colour, and its spectrograms have 64 mel bands in decibels.
    """
    return _published(Config(clusters=11, first_clustering=2), 32)


def two_stages() -> Preset:
    """Both stages of the published code for music, stage two on scenes of four clips.

    NOTE: its scenes are made once, of clips whose classes are known; here of each batch, by cluster.
    """
    return _published(Config(clusters=11, first_clustering=2, mixtures=5), 32)


def audioset() -> Preset:
    """Stage one of the published code for AudioSet, with the settings of its stage two.

    NOTE: its pictures are not normalised by ImageNet's mean and deviation, and its 2000 epochs are there to be stopped.
    """
    config = Config(variant="audioset", clusters=13, first_clustering=12, match_weight=1.0, match_after=50)
    return _published(config, 256)


PRESETS = {"official": official, "two_stages": two_stages, "audioset": audioset}
