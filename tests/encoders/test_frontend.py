"""The spectrogram against scipy's, and the picture's normalisation."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from scipy.signal import get_window, spectrogram

from earsight.config import Inputs
from earsight.data.clips import fit_waveform
from earsight.encoders import frontend
from earsight.encoders.frontend import Pixels, Spectrogram, log_spectrogram, tukey

RATE, SAMPLES = 22050, 66150
TIME = np.arange(SAMPLES) / RATE


def noise(level: float, seed: int = 0) -> NDArray[np.float64]:
    return level * np.random.default_rng(seed).uniform(-1, 1, SAMPLES)


def tone(frequency: float, level: float) -> NDArray[np.float64]:
    return level * np.sin(2 * np.pi * frequency * TIME)


def impulses() -> NDArray[np.float64]:
    out = np.zeros(SAMPLES)
    out[[0, 1000, 33333, SAMPLES - 1]] = 1, -1, 0.5, 1
    return out


def short(samples: int) -> NDArray[np.float64]:
    return fit_waveform(noise(1.0)[:samples].astype(np.float32), RATE, 0.0, SAMPLES).astype(np.float64)


SOUNDS = {
    "loud noise": noise(1.0),
    "quiet noise": noise(1e-3),
    "nearly nothing": noise(1e-6),
    **{f"{f} Hz at {a}": tone(f, a) for f in (30, 43.066, 440, 1000.5, 5512.5, 10000, 11024) for a in (1, 0.1, 1e-3)},
    "silence": np.zeros(SAMPLES),
    "constant": np.full(SAMPLES, 0.7),
    "constant and tone": 0.5 + tone(440, 0.5),
    "full swing at half the rate": np.where(np.arange(SAMPLES) % 2, 1.0, -1.0),
    "impulses": impulses(),
    "7 samples, tiled": short(7),
    "700 samples, tiled": short(700),
    "half a clip, tiled": short(SAMPLES // 2 + 1),
}


def scipys(wave: NDArray[np.float64], hop: int = 238) -> NDArray[np.float64]:
    """The published arithmetic, in float64."""
    _, _, density = spectrogram(wave, RATE, nperseg=512, noverlap=512 - hop)
    return np.log(density + 1e-7) / 12


@pytest.mark.parametrize("name", SOUNDS)
@pytest.mark.parametrize("inputs", [Inputs.official(), Inputs.paper()], ids=["official", "paper"])
def test_spectrogram_equals_scipys(name: str, inputs: Inputs) -> None:
    wave = SOUNDS[name].astype(np.float32)
    expected = scipys(wave.astype(np.float64), inputs.hop)
    got = Spectrogram(inputs)(torch.from_numpy(wave)[None])[0, 0].numpy()
    assert got.shape == expected.shape == (257, inputs.frames)
    assert np.abs((got - expected) / expected).max() < 1e-5


def test_window_equals_scipys() -> None:
    np.testing.assert_allclose(tukey(512).numpy(), get_window(("tukey", 0.25), 512), atol=1e-15)


def test_official_is_257x276_and_paper_257x300() -> None:
    wave = torch.zeros(1, SAMPLES)
    assert Spectrogram(Inputs.official())(wave).shape == (1, 1, 257, 276)
    assert Spectrogram(Inputs.paper())(wave).shape == (1, 1, 257, 300)


@pytest.mark.parametrize(
    ("rate", "seconds", "frames"),
    [
        (16000, 3.0, 200),
        (22050, 3.0, 276),
        (44100, 3.0, 554),
        (48000, 3.0, 603),
        (16000, 10.0, 671),
        (22050, 10.0, 925),
        (44100, 10.0, 1851),
    ],
)
def test_frame_counts_follow_rate_and_length(rate: int, seconds: float, frames: int) -> None:
    inputs = Inputs(rate=rate, seconds=seconds)
    assert inputs.frames == frames
    assert Spectrogram(inputs)(torch.zeros(1, inputs.samples)).shape == (1, 1, 257, frames)


def test_a_batch_equals_its_clips_one_by_one() -> None:
    spectrogram_of = Spectrogram(Inputs())
    waves = torch.from_numpy(np.stack(list(SOUNDS.values())[:8]).astype(np.float32))
    alone = torch.cat([spectrogram_of(wave[None]) for wave in waves])
    torch.testing.assert_close(spectrogram_of(waves), alone, rtol=0, atol=1e-6)


def test_computing_a_few_clips_at_a_time_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    spectrogram_of = Spectrogram(Inputs())
    waves = torch.from_numpy(np.stack(list(SOUNDS.values())[:9]).astype(np.float32))
    several = spectrogram_of(waves)
    for windows in (1, 600, 10**6):
        monkeypatch.setattr(frontend, "WINDOWS_TOGETHER", windows)
        assert torch.equal(spectrogram_of(waves), several)


@pytest.mark.slow
def test_an_exported_graph_takes_any_number_of_clips() -> None:
    class Hearing(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.preprocess = Spectrogram(Inputs())

        def forward(self, waves: torch.Tensor) -> torch.Tensor:
            out: torch.Tensor = self.preprocess(waves)
            return out

    waves = torch.from_numpy(np.stack(list(SOUNDS.values())[:9]).astype(np.float32))
    count = torch.export.Dim("count", min=1, max=1024)
    graph = torch.export.export(Hearing(), (waves[:5],), dynamic_shapes=({0: count},)).module()
    for some in (waves[:2], waves):
        torch.testing.assert_close(graph(some), Spectrogram(Inputs())(some), rtol=0, atol=1e-6)


def test_gradients_reach_the_sound() -> None:
    waves = torch.from_numpy(np.stack([noise(0.5, seed) for seed in range(6)]).astype(np.float32)).requires_grad_()
    Spectrogram(Inputs())(waves).sum().backward()
    assert waves.grad is not None
    assert waves.grad.isfinite().all()
    assert waves.grad.abs().sum() > 0


def test_silence_is_finite_and_the_lowest_value() -> None:
    got = Spectrogram(Inputs())(torch.zeros(2, SAMPLES))
    assert torch.isfinite(got).all()
    torch.testing.assert_close(got, torch.full_like(got, float(np.log(1e-7) / 12)))


def test_sound_louder_than_full_scale_is_clipped() -> None:
    spectrogram_of = Spectrogram(Inputs())
    loud = torch.from_numpy(3 * noise(1.0).astype(np.float32))[None]
    torch.testing.assert_close(spectrogram_of(loud), spectrogram_of(loud.clamp(-1, 1)), rtol=0, atol=0)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64, torch.int16])
def test_other_number_types_are_computed_in_float32(dtype: torch.dtype) -> None:
    wave = torch.from_numpy(np.sign(noise(1.0)))[None].to(dtype)
    got = log_spectrogram(wave, tukey(512).float(), 238, RATE)
    assert got.dtype == torch.float32
    torch.testing.assert_close(got, log_spectrogram(wave.float(), tukey(512).float(), 238, RATE), rtol=0, atol=0)


def test_half_precision_regions_change_nothing() -> None:
    spectrogram_of = Spectrogram(Inputs())
    wave = torch.from_numpy(noise(0.5).astype(np.float32))[None]
    with torch.autocast("cpu", dtype=torch.bfloat16):
        got = spectrogram_of(wave)
    torch.testing.assert_close(got, spectrogram_of(wave), rtol=0, atol=0)


def test_pictures_are_normalised_as_for_imagenet() -> None:
    frames = torch.randint(0, 256, (2, 3, 8, 8), dtype=torch.uint8)
    got = Pixels()(frames)
    assert got.dtype == torch.float32
    mean, std = (torch.tensor(v).view(1, 3, 1, 1) for v in ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)))
    torch.testing.assert_close(got, (frames / 255 - mean) / std)


def test_there_is_nothing_to_learn_and_nothing_to_save() -> None:
    for part in (Pixels(), Spectrogram(Inputs())):
        assert not list(part.parameters())
        assert not part.state_dict()


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device here")
def test_cuda_equals_the_cpu() -> None:
    waves = torch.from_numpy(np.stack(list(SOUNDS.values())).astype(np.float32))
    frames = torch.randint(0, 256, (4, 3, 224, 224), dtype=torch.uint8)
    for inputs in (Inputs.official(), Inputs.paper()):
        here, there = Spectrogram(inputs), Spectrogram(inputs).cuda()
        torch.testing.assert_close(there(waves.cuda()).cpu(), here(waves), rtol=0, atol=1e-4)
    torch.testing.assert_close(Pixels().cuda()(frames.cuda()).cpu(), Pixels()(frames), rtol=0, atol=1e-4)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device here")
def test_cuda_waits_for_nothing_and_records_a_graph() -> None:
    spectrogram_of = Spectrogram(Inputs()).cuda()
    waves = torch.from_numpy(np.stack(list(SOUNDS.values())).astype(np.float32)).cuda()
    expected = spectrogram_of(waves)
    torch.cuda.set_sync_debug_mode("error")
    try:
        spectrogram_of(waves)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        recorded = spectrogram_of(waves)
    graph.replay()
    torch.testing.assert_close(recorded, expected, rtol=0, atol=1e-6)
