"""The plain code that speed is measured against says what earsight says."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest
import torch
from benchmarks.media import Media, unpacked
from benchmarks.reference import evaluation, training
from benchmarks.reference.data import Clips, fitted
from benchmarks.reference.spectrogram import spectrogram
from benchmarks.train_step import Settings, reference_step, synthetic
from benchmarks.twins import twin
from torch.utils.data import default_collate

import tiny
from benchmarks import big_pack
from earsight.config import Inputs, Optim
from earsight.data.loading import Loader, eval_batches
from earsight.data.manifest import Settings as PackSettings
from earsight.data.manifest import folder_name
from earsight.data.pack import Packed
from earsight.data.reader import SampleSpec
from earsight.data.sampler import BatchSampler
from earsight.encoders.frontend import Pixels, Spectrogram
from earsight.methods import slavc
from earsight.model_evaluation import evaluate
from earsight.protocols import get
from tiny import take_step

SETTINGS = Settings(True, 6, tiny.INPUTS, 8, Optim())


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Media:
    """Six clips as a pack and as files, with as much sound as tiny models hear."""
    root = tmp_path_factory.mktemp("media")
    settings = PackSettings(rate=tiny.INPUTS.rate, seconds=tiny.INPUTS.seconds)
    big_pack.make(root / "pack", 6, split="test", settings=settings)
    return unpacked(Packed(root / "pack" / folder_name("benchmarks.generated:test")), root / "files")


def both(**changes: float) -> tuple[slavc.Model, training.Slavc]:
    torch.manual_seed(0)
    model = slavc.Model(tiny.config(visual_dropout=0.0, infer_with="target", **changes), tiny.INPUTS)
    with torch.no_grad():
        for parameter in model.target.parameters():  # a copy that is no longer equal
            parameter.add_(0.05 * torch.randn_like(parameter))
    return model, twin(model, training.small_pair(tiny.SMALL.width))


def test_the_loss_is_the_methods_own() -> None:
    model, plain = both()
    batch = synthetic("cpu", SETTINGS)
    ours = take_step(model.train(), batch).loss
    theirs = plain.train()(model.online.image.preprocess(batch.frames), model.online.audio.preprocess(batch.waveforms))
    assert theirs.item() == pytest.approx(ours.item(), abs=1e-4)


def test_a_step_moves_both_to_the_same_weights() -> None:
    model, plain = both(momentum=0.5)
    batch = synthetic("cpu", SETTINGS)
    image, audio = model.online.image.preprocess(batch.frames), model.online.audio.preprocess(batch.waveforms)
    optimizer = torch.optim.Adam(model.groups()[0].parameters, 1e-3)
    take_step(model.train(), batch).loss.backward()
    optimizer.step()
    model.after_step()
    training.step(plain.train(), training.make_optimizer(plain, 1e-3), image, audio)
    moved = twin(model, training.small_pair(tiny.SMALL.width))
    for ours, theirs in zip(moved.target.parameters(), plain.target.parameters(), strict=True):
        # Adam's first step is the gradient's sign, which rounding decides where the gradient is next to nothing.
        assert (ours - theirs).abs().median() < 1e-5


def test_maps_are_the_methods_own() -> None:
    model, plain = both()
    batch = synthetic("cpu", SETTINGS)
    ours = model.eval().localize(batch.frames, batch.waveforms).dense
    image, audio = model.online.image.preprocess(batch.frames), model.online.audio.preprocess(batch.waveforms)
    theirs = plain.eval().maps(image, audio)
    torch.testing.assert_close(theirs, ours, atol=1e-5, rtol=0)


def test_the_resnet_pair_has_the_paper_models_layers() -> None:
    from earsight.encoders.base import Encoders, global_max_pool, make_encoders

    image, audio = make_encoders(Encoders(weights="random"), Inputs())
    plain_image, plain_audio, plain_channels = training.resnet18_pair()
    assert image.channels == audio.channels == plain_channels
    for ours, theirs in ((image, plain_image), (audio, plain_audio)):
        assert [p.shape for p in ours.parameters()] == [p.shape for p in theirs.parameters()]
    torch.manual_seed(0)
    for ours, theirs, x in (
        (image, plain_image, torch.rand(1, 3, 64, 64)),
        (audio, plain_audio, torch.rand(1, 1, 65, 60)),
    ):
        with torch.no_grad():
            for mine, other in zip(ours.parameters(), theirs.parameters(), strict=True):
                other.copy_(mine)
            found = ours.eval()(x) if ours is image else global_max_pool(ours.eval()(x))
            torch.testing.assert_close(theirs.eval()(x), found, atol=1e-4, rtol=1e-4)


def test_spectrograms_are_the_front_ends_own() -> None:
    inputs = Inputs(seconds=0.5)
    wave = np.random.default_rng(0).uniform(-0.5, 0.5, inputs.samples).astype(np.float32)
    ours = Spectrogram(inputs)(torch.from_numpy(wave)[None])[0, 0].numpy()
    np.testing.assert_allclose(spectrogram(wave, inputs.rate, inputs.window, inputs.hop), ours, atol=2e-5)


def test_a_training_batch_has_the_shapes_of_ours(made: Media) -> None:
    random.seed(0)
    dataset = Clips(made.files, [row.id for row in made.clips.rows], tiny.INPUTS, train=True)
    image, audio = default_collate([dataset[i] for i in range(4)])
    loader = Loader(made.clips, tiny.INPUTS, SampleSpec(0))
    batch = next(loader.prefetch(BatchSampler(made.clips.rows, 4).batches(0)))
    assert image.shape == Pixels()(batch.frames).shape
    assert audio.shape == Spectrogram(tiny.INPUTS)(batch.waveforms).shape
    assert image.dtype == audio.dtype == torch.float32


def test_a_whole_picture_and_its_sound_are_ours(made: Media) -> None:
    dataset = Clips(made.files, [row.id for row in made.clips.rows], tiny.INPUTS, train=False)
    image, audio = default_collate([dataset[i] for i in range(len(dataset))])
    batch = next(eval_batches(made.clips, tiny.INPUTS, len(dataset)))
    torch.testing.assert_close(audio, Spectrogram(tiny.INPUTS)(batch.waveforms), atol=2e-5, rtol=0)
    # Two levels of 255: decoders and resizers round each in their own way.
    assert (image - Pixels()(batch.frames)).abs().max() < 2.5 / (255 * min(0.229, 0.224, 0.225))


def test_evaluation_gives_our_numbers(made: Media) -> None:
    model, plain = both()
    theirs = evaluation.evaluate(plain, made.files, made.clips.rows, tiny.INPUTS)
    ours = evaluate(model, made.clips, get("official"))
    assert {name: ours.metrics[name] for name in theirs} == pytest.approx(theirs, abs=1e-6)
    dataset = Clips(made.files, [row.id for row in made.clips.rows], tiny.INPUTS, train=False)
    images, audios = default_collate([dataset[i] for i in range(6)])
    maps = evaluation.dense_maps(plain, images, audios)
    sure = [np.sort((one + 1).ravel() / 2)[-12544:].mean() for one in maps]
    np.testing.assert_allclose(ours.records.confidence, sure, atol=2e-3)


def test_a_sound_is_cut_in_its_middle_or_repeated() -> None:
    wave = np.arange(5, dtype=np.float32) / 10
    assert fitted(wave, 3).tolist() == wave[1:4].tolist()
    assert fitted(wave[:2], 5).tolist() == [*wave[:2], *wave[:2], wave[0]]


def test_a_sound_at_another_rate_is_refused(made: Media) -> None:
    clips = Clips(made.files, [made.clips.rows[0].id], replace(tiny.INPUTS, rate=9000), train=False)
    with pytest.raises(ValueError, match=r"Expected .* at 9000 samples per second, but got 8000. Resample it first."):
        clips[0]


def test_the_reference_step_trains_and_leaves_torchs_settings_alone() -> None:
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high")
    torch.backends.cudnn.benchmark = True
    try:
        reference_step("cpu", synthetic("cpu", SETTINGS), SETTINGS)()
        assert torch.get_float32_matmul_precision() == "high"
        assert torch.backends.cudnn.benchmark
    finally:
        torch.set_float32_matmul_precision(before)
        torch.backends.cudnn.benchmark = False
