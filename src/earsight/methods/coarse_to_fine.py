"""CoarsetoFine: picture and sound first agree on pairs and categories, then category by category on places.

Qian et al., "Multiple Sound Sources Localization from Coarse to Fine", ECCV 2020, in the simpler form that its authors
recommend (folder `new` of their code). Stage one learns which pairs belong together and which categories are seen and
heard. Stage two takes each category's share of the picture and of the sound and pulls the two together. Categories come
from outside: what they are (`labels`) belongs to every result.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits, linear, normalize

from earsight import distributed
from earsight.category_labels import from_classes, from_files, targets
from earsight.category_places import combined, fine_loss, pair_loss, shares
from earsight.clustering import kmeans
from earsight.config import Inputs, Optim, check_choices, check_most, need
from earsight.encoders.base import Encoders, global_max_pool, make_encoders
from earsight.errors import TrainingError
from earsight.methods.base import Context, Features, Preset, Stage, TwoTower
from earsight.types import Batch, Maps, Step


@dataclass(frozen=True)
class Config:
    """Settings of CoarsetoFine. The defaults are the published losses with categories that need no supervision."""

    encoders: Encoders = field(default_factory=lambda: Encoders(layer4_stride=1))
    labels: Literal["clusters", "classes", "file"] = "clusters"
    """Where categories come from: k-means on the training clips, their classes, or a tagger's file."""
    categories: int = 7
    """How many there are; what `labels` finds is checked against it."""
    clustered: Literal["sounds", "pictures"] = "sounds"
    """What k-means looks at: spectra of the sounds, or the picture encoder's features before training."""
    class_groups: str = ""
    """File (csv class,category) that sorts classes into categories; without it each class is one."""
    sound_labels: str = ""
    """A tagger's file for sounds: csv id,CATEGORY,... or .npz; empty takes `picture_labels` for both."""
    picture_labels: str = ""
    """A tagger's file for pictures; empty takes `sound_labels` for both."""
    fine_lr: float | None = None
    """Learning rate of stage two; none keeps that of stage one."""
    pooling: Literal["mean", "max"] = "mean"
    """How the pair classifier pools places: their mean (published code) or their maximum (paper)."""
    dim: int = 128
    """Size of the vectors that stage two compares."""
    active: float = 0.3
    """Probability above which a category counts as seen or heard."""
    margin: float = 1.4
    """Distance beyond which different categories, or different clips, are left alone."""
    double_sigmoid: bool = False
    """Weigh the map's categories as the published code does, whose second sigmoid makes them all active and alike."""

    def __post_init__(self) -> None:
        check_choices(self)
        need(self.categories >= 1, "categories of at least 1", self.categories)
        need(self.labels == "classes" or not self.class_groups, "class_groups with labels 'classes' only", self.labels)
        files = self.sound_labels or self.picture_labels
        need(self.labels == "file" or not files, "sound_labels and picture_labels with labels 'file' only", self.labels)
        need(self.fine_lr is None or self.fine_lr > 0, "a positive fine_lr", self.fine_lr)
        need(self.dim >= 1, "dim of at least 1", self.dim)
        check_most(self, categories=10_000, dim=4096)
        need(0 <= self.active < 1, "active of at least 0 and below 1", self.active)
        need(0 < self.margin <= 2, "a margin above 0 and at most 2, the largest distance", self.margin)


class Model(TwoTower):
    sound_labels: Tensor
    picture_labels: Tensor

    def __init__(self, config: Config, inputs: Inputs) -> None:
        super().__init__(inputs)
        self.config = config
        self.note = _labels_note(config)
        self.image, self.audio = make_encoders(config.encoders, inputs)
        wide, narrow = self.image.channels, self.audio.channels
        self.pair_in, self.pair_out = nn.Linear(wide + narrow, 128), nn.Linear(128, 2)
        self.image_classes = nn.Linear(wide, config.categories, bias=False)
        self.audio_classes = nn.Linear(narrow, config.categories, bias=False)
        self.project_picture = _projection(wide, config.dim)
        self.project_sound = _projection(narrow, config.dim)
        # Labels are as many as the training clips, and no part of weights.
        self.register_buffer("sound_labels", torch.zeros(0, dtype=torch.int64), persistent=False)
        self.register_buffer("picture_labels", torch.zeros(0, dtype=torch.int64), persistent=False)
        self.start_stage(self.stages(1)[0])

    def stages(self, epochs: int) -> tuple[Stage, ...]:
        """Half of the epochs each, and one at least: a single epoch becomes one of each stage."""
        coarse = max(epochs // 2, 1)
        return Stage("coarse", coarse), Stage("fine", max(epochs - coarse, 1), self.config.fine_lr)

    def start_stage(self, stage: Stage) -> None:
        self.fine = stage.name == "fine"
        # Untouched before stage two, the projections are new when it begins.
        self.project_picture.requires_grad_(self.fine)
        self.project_sound.requires_grad_(self.fine)

    def on_epoch(self, context: Context) -> None:
        """Find every training clip's categories, once: stage two goes on with those of stage one."""
        if len(self.sound_labels):
            return
        c = self.config
        if c.labels == "file":
            sounds, pictures = from_files(context.rows, c.categories, c.sound_labels, c.picture_labels)
        elif c.labels == "classes":
            sounds = pictures = from_classes(context.rows, c.categories, c.class_groups)
        else:
            sounds = pictures = kmeans(context.extract(self.describe), c.categories)[0]
        self.load_training_state({"sound_labels": sounds, "picture_labels": pictures})

    def describe(self, batch: Batch) -> Tensor:
        """What k-means looks at (B, C): mean and spread of the spectrum over time, or the encoded picture's mean."""
        if self.config.clustered == "pictures":
            return self.encode_images(batch.frames).float().mean((2, 3))
        spectra = self.audio.preprocess(batch.waveforms)[:, 0]
        return torch.cat((spectra.mean(2), spectra.std(2, correction=0)), 1)

    def pooled(self, places: Tensor) -> Tensor:
        return places.mean((2, 3)) if self.config.pooling == "mean" else global_max_pool(places)

    def project_image(self, encoded: Tensor) -> Features:
        with torch.autocast(encoded.device.type, enabled=False):
            places = encoded.float()
            vectors = _units(self.project_picture, places.permute(0, 2, 3, 1))
            return {"vectors": vectors, "pooled": self.pooled(places)}

    def project_audio(self, encoded: Tensor) -> Features:
        with torch.autocast(encoded.device.type, enabled=False):
            times = encoded.float()
            logits = self.audio_classes(times.mean((2, 3)))
            return {"vectors": self.sound_vectors(times), "logits": logits, "pooled": self.pooled(times)}

    def sound_vectors(self, times: Tensor) -> Tensor:
        """Each category's share of the sound, (B, C, f, t) -> (B, K, dim), of length 1."""
        return _units(self.project_sound, shares(times, self.audio_classes.weight))

    def pair_logits(self, pictures: Tensor, sounds: Tensor) -> Tensor:
        """Of every picture (N, C) with every sound (M, C): (N, M, 2). The first layer meets each of them once."""
        weight, bias = self.pair_in.weight, self.pair_in.bias
        of_pictures = linear(pictures, weight[:, : pictures.shape[1]], bias)
        of_sounds = linear(sounds, weight[:, pictures.shape[1] :])
        out: Tensor = self.pair_out((of_pictures[:, None] + of_sounds[None]).relu())
        return out

    def loss(self, batch: Batch, counts: list[int]) -> Step:
        if not len(self.sound_labels):
            raise TrainingError("Expected labels of the training clips, but got none. Call `on_epoch` before training.")
        picture, sound = self.encode_images(batch.frames).float(), self.encode_sounds(batch.waveforms).float()
        with torch.autocast(picture.device.type, enabled=False):  # the distances of stage two need float32
            step = self.step(distributed.gather(batch.index, counts), picture, sound, counts)
            if batch.truth is None:
                return step
            return replace(step, maps=self.compare(self.project_image(picture), self.project_audio(sound)))

    def step(self, index: Tensor, picture: Tensor, sound: Tensor, counts: list[int]) -> Step:
        """The loss of the whole batch, of which this process has encoded its part."""
        c = self.config
        image_logits = distributed.gather(self.image_classes(picture.mean((2, 3))), counts)
        audio_logits = distributed.gather(self.audio_classes(sound.mean((2, 3))), counts)
        pooled = [distributed.gather(self.pooled(places), counts) for places in (picture, sound)]
        sounds, pictures = (targets(x, index, c.categories) for x in (self.sound_labels, self.picture_labels))
        terms = {
            "loss_pairs": pair_loss(self.pair_logits(*pooled)),
            "loss_sounds": binary_cross_entropy_with_logits(audio_logits, sounds),
            "loss_pictures": binary_cross_entropy_with_logits(image_logits, pictures),
        }
        active = {}
        if self.fine:
            of_sounds = distributed.gather(self.sound_vectors(sound), counts)
            vectors = _units(self.project_picture, shares(picture, self.image_classes.weight))
            of_pictures = distributed.gather(vectors, counts)
            audible, visible = audio_logits.sigmoid() > c.active, image_logits.sigmoid() > c.active
            found = fine_loss(of_sounds, of_pictures, audible, visible, c.margin)
            terms |= {"loss_near": found.near, "loss_apart": found.apart}
            active = {"active": found.pairs.float()}  # without any, the two terms say nothing
        loss = torch.stack(list(terms.values())).sum()
        return Step(loss, {name: value.detach() for name, value in {**terms, **active}.items()})

    def compare(self, image: Features, audio: Features) -> Maps:
        with torch.autocast(image["vectors"].device.type, enabled=False):
            cosines = torch.einsum("bkd,bhwd->bkhw", audio["vectors"], image["vectors"])
            probability = audio["logits"].sigmoid()
            if self.config.double_sigmoid:
                probability = probability.sigmoid()
            native, dense = combined(cosines, probability, self.config.active)
            # The native map's maximum is 1 in every picture, so it is no confidence. Which pairs match is learned.
            both = torch.cat((image["pooled"], audio["pooled"]), 1)
            together = self.pair_out(self.pair_in(both).relu())
            return Maps(native, dense, (-1.0, 1.0), together.softmax(1)[:, 1], (0.0, 1.0))


def _labels_note(c: Config) -> str:
    """Where categories came from, in words."""
    files = dict.fromkeys(Path(name).name for name in (c.sound_labels, c.picture_labels) if name)
    source = {"clusters": f"clusters of {c.clustered}", "classes": "classes", "file": " and ".join(files)}[c.labels]
    return f"{c.categories} categories from {source}"


def _projection(channels: int, dim: int) -> nn.Sequential:
    wide = 2 * channels
    return nn.Sequential(nn.Linear(channels, wide, bias=False), nn.ReLU(), nn.Linear(wide, dim, bias=False))


def _units(projection: nn.Module, features: Tensor) -> Tensor:
    """Projected features (..., C) of length 1.

    As rows of one matrix: with more dimensions torch adds up in another order when weights are frozen.
    """
    return normalize(projection(features.reshape(-1, features.shape[-1])), dim=1).view(*features.shape[:-1], -1)


def official() -> Preset:
    """The authors' recommended code (shvdiwnkozbw/Multi-Source-Sound-Localization, folder `new`), 20 epochs a stage.

    Its categories are seven of AudioSet's, from taggers that are not part of it: --method.sound-labels FILE.

    NOTE: it hears 64 mel bands; here they are the spectrogram of all methods, with its windows of 40 ms every 20 ms. It
    squeezes pictures to 256x256; here the shorter side becomes 256 and the rest is cropped.
    """
    config = Config(labels="file", fine_lr=1e-4, double_sigmoid=True)
    optim = Optim(epochs=40, batch_size=16, optimizer="sgd", lr=1e-3, weight_decay=5e-4)
    return Preset(config, Inputs(image_size=256, resize=256, seconds=5.0, window=882, hop=441), optim, "official")


def paper() -> Preset:
    """The paper's pair classifier, which pools maxima, and its one sigmoid; all else as in the recommended code.

    NOTE: the paper's own networks, detected boxes and attention on sounds are those of older code that cannot run.
    """
    published = official()
    return replace(published, config=replace(published.config, pooling="max", double_sigmoid=False), protocol="paper")


PRESETS = {"official": official, "paper": paper}
