"""Shapes, sizes and starting points of the encoders, and the slow copies made of them."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

from earsight.config import Inputs
from earsight.encoders import resnet18, small
from earsight.encoders.base import (
    Encoders,
    global_max_pool,
    init_like_published,
    make_encoders,
    no_start_weights,
    starts_of,
)
from earsight.errors import UsageError
from earsight.losses import all_pairs, paired
from earsight.methods.base import ema_update, frozen_copy

INPUTS = Inputs()


def resnet_image(stride: int = 2) -> resnet18.Image:
    return resnet18.Image(Encoders(layer4_stride=stride), INPUTS)


def resnet_audio(stride: int = 2) -> resnet18.Audio:
    return resnet18.Audio(Encoders(layer4_stride=stride), INPUTS)


def count(module: nn.Module) -> int:
    return sum(p.numel() for p in module.parameters())


@pytest.mark.parametrize(("stride", "side"), [(2, 7), (1, 14)])
def test_resnet_pictures_give_7x7_or_14x14(stride: int, side: int) -> None:
    net = resnet_image(stride).eval()
    with torch.no_grad():
        assert net(torch.zeros(1, 3, 224, 224)).shape == (1, 512, side, side)


@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("frames", [276, 300])
def test_resnet_sounds_give_frequencies_and_times(stride: int, frames: int) -> None:
    net = resnet_audio(stride).eval()
    with torch.no_grad():
        f, t = (9, (frames + 31) // 32) if stride == 2 else (17, (frames + 15) // 16)
        assert net(torch.zeros(2, 1, 257, frames)).shape == (2, 512, f, t)


def test_parameter_counts_are_the_published_ones() -> None:
    assert count(resnet_image()) == 11_176_512
    assert count(resnet_audio()) == 11_170_240
    assert count(resnet_image(1)) == 11_176_512


def test_the_stride_changes_no_weight() -> None:
    torch.manual_seed(0)
    one = resnet_image(1)
    torch.manual_seed(0)
    two = resnet_image(2)
    assert all(torch.equal(a, b) for a, b in zip(one.state_dict().values(), two.state_dict().values(), strict=True))


def test_pooling_takes_the_largest_value_of_each_channel_wherever_it_lies() -> None:
    x = torch.randn(2, 16, 5, 7)
    torch.testing.assert_close(global_max_pool(x), x.flatten(2).max(2).values)


@pytest.mark.parametrize("width", [4, 24])
def test_the_small_pair_fits_together(width: int) -> None:
    image, audio = make_encoders(Encoders("small", "small", width=width), INPUTS)
    assert image.channels == audio.channels == 4 * width
    with torch.no_grad():
        assert image(torch.zeros(2, 3, 112, 112)).shape == (2, 4 * width, 7, 7)
        assert audio(torch.zeros(2, 1, 129, 137)).shape == (2, 4 * width, 5, 5)


@pytest.mark.parametrize(("kind", "channels"), [("resnet18", 512), ("small", 96)])
def test_encoders_bring_their_preprocessing_and_say_their_width(kind: str, channels: int) -> None:
    image, audio = make_encoders(Encoders(kind, kind, weights="random"), INPUTS)
    with torch.no_grad():
        places = image.eval()(image.preprocess(torch.zeros(1, 3, 64, 64, dtype=torch.uint8)))
        times = audio.eval()(audio.preprocess(torch.zeros(1, INPUTS.samples)))
    assert places.shape[:2] == times.shape[:2] == (1, channels)
    assert image.channels == audio.channels == channels
    assert not [*image.preprocess.parameters(), *audio.preprocess.parameters()]
    assert not {**image.preprocess.state_dict(), **audio.preprocess.state_dict()}


def test_picture_and_sound_may_have_different_encoders() -> None:
    image, audio = make_encoders(Encoders("resnet18", "small", weights="random", width=4), INPUTS)
    assert (image.channels, audio.channels) == (512, 16)
    assert isinstance(image, resnet18.Image)
    assert isinstance(audio, small.Audio)


def test_an_encoder_that_is_not_there_is_refused_with_those_that_are(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(
        UsageError, match=r"Unknown encoder 'resnet50', did you mean 'resnet18'. Known: resnet18, small"
    ):
        make_encoders(Encoders("resnet50"), INPUTS)
    with pytest.raises(UsageError, match=r"Expected an importable module for encoder 'no\.such', but got"):
        make_encoders(Encoders("small", "no.such"), INPUTS)
    with pytest.raises(UsageError, match=r"Expected an encoder of sounds .a class Audio. in 'tiny\.tones', but it has "
                       "none. Known: resnet18, small"):  # fmt: skip
        make_encoders(Encoders("small", "tiny.tones"), INPUTS)
    monkeypatch.setattr(small, "Audio", lambda settings, inputs: nn.Identity())
    with pytest.raises(UsageError, match=r"Expected small\.Audio to be an earsight\.encoders\.base\.Encoder, but got"):
        make_encoders(Encoders("small", "small"), INPUTS)


def test_all_but_imagenet_starts_as_published() -> None:
    torch.manual_seed(0)
    image, audio = make_encoders(Encoders(weights="random"), INPUTS)
    assert isinstance(image, resnet18.Image)
    for part in audio.modules():
        if isinstance(part, nn.Conv2d):
            out = part.weight.shape[0] * part.weight.shape[2] * part.weight.shape[3]
            assert part.weight.std().item() == pytest.approx((2 / out) ** 0.5, rel=0.1)
            assert part.bias is None
        if isinstance(part, nn.BatchNorm2d):
            assert part.weight.mean().item() == pytest.approx(1, abs=0.02)
            assert 0.01 < part.weight.std().item() < 0.03
            assert not part.bias.any()


def test_linear_layers_start_small() -> None:
    torch.manual_seed(0)
    head = nn.Linear(512, 512)
    init_like_published(head)
    assert head.weight.std().item() == pytest.approx(0.01, rel=0.05)


def test_start_weights_reach_the_picture_encoder_only_when_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    monkeypatch.setattr(resnet18, "load_image_weights", lambda _module, weights: asked.append(weights))
    make_encoders(Encoders(), INPUTS)
    with no_start_weights():
        make_encoders(Encoders(), INPUTS)
    make_encoders(Encoders(), INPUTS)
    make_encoders(Encoders("small", "small"), INPUTS)
    assert asked == ["imagenet", "random", "imagenet"]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"layer4_stride": 3}, "Expected layer4_stride 1 or 2, but got 3"),
        ({"width": 2}, "Expected width of at least 4, but got 2"),
    ],
)
def test_bad_settings_are_refused(settings: dict[str, object], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        Encoders(**settings)  # type: ignore[arg-type]


def test_a_slow_copy_moves_as_computed_by_hand() -> None:
    slow, online = nn.Linear(2, 2), nn.Linear(2, 2)
    with torch.no_grad():
        for p in slow.parameters():
            p.zero_()
        for p in online.parameters():
            p.fill_(1.0)
    for expected in (0.1, 0.19):
        ema_update(slow.parameters(), online.parameters(), 0.9)
        assert all(torch.allclose(p, torch.full_like(p, expected)) for p in slow.parameters())
    ema_update(slow.parameters(), online.parameters(), 0.0)
    assert all(torch.equal(p, torch.ones_like(p)) for p in slow.parameters())
    ema_update(slow.parameters(), [torch.zeros_like(p) for p in online.parameters()], 1.0)
    assert all(torch.equal(p, torch.ones_like(p)) for p in slow.parameters())


def test_a_frozen_copy_shares_nothing_and_takes_no_gradient() -> None:
    online = small.Image(Encoders("small", "small", width=4), INPUTS)
    slow = frozen_copy(online)
    assert all(not p.requires_grad for p in slow.parameters())
    assert all(p.requires_grad for p in online.parameters())
    with torch.no_grad():
        for p in online.parameters():
            p.add_(1)
    assert not any(torch.equal(a, b) for a, b in zip(online.parameters(), slow.parameters(), strict=True))


def test_updating_nothing_is_fine() -> None:
    ema_update([], [], 0.5)


def test_pairs_are_the_diagonal_of_all_pairs() -> None:
    image, audio = torch.randn(3, 8, 2, 4), torch.randn(3, 8)
    every = all_pairs(image, audio)
    assert every.shape == (3, 3, 2, 4)
    assert every.abs().max() <= 1 + 1e-6
    torch.testing.assert_close(paired(image, audio), every[torch.arange(3), torch.arange(3)])
    slow = nn.functional.cosine_similarity(image[0, :, 1, 2], audio[2], dim=0)
    torch.testing.assert_close(every[0, 2, 1, 2], slow)


def test_similarity_is_float32_in_half_precision_regions_and_of_zeros_is_zero() -> None:
    image, audio = torch.randn(2, 8, 2, 2).bfloat16(), torch.zeros(2, 8).bfloat16()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        got = all_pairs(image, audio)
    assert got.dtype == torch.float32
    assert not got.any()


def test_the_loudest_value_and_its_gradient_are_the_same_with_repeatable_kernels() -> None:
    x = torch.randn(3, 4, 5, 6, generator=torch.Generator().manual_seed(0))
    found = []
    for deterministic in (False, True):
        mine = x.clone().requires_grad_()
        torch.use_deterministic_algorithms(deterministic)
        try:
            value = global_max_pool(mine)
            value.square().sum().backward()
        finally:
            torch.use_deterministic_algorithms(False)
        assert mine.grad is not None
        found.append((value.detach(), mine.grad))
    assert torch.equal(found[0][0], found[1][0])
    assert torch.equal(found[0][1], found[1][1])


def test_a_model_tells_once_what_its_picture_encoders_started_from(tmp_path: Path) -> None:
    torch.save(resnet_image().state_dict(), tmp_path / "start.pth")
    one, _ = make_encoders(Encoders(weights=str(tmp_path / "start.pth")), INPUTS)
    assert one.start.startswith("file start.pth, sha256 ")
    assert starts_of(nn.ModuleList([one, frozen_copy(one), resnet_image()])) == [one.start, "random weights"]
    with no_start_weights():
        assert starts_of(make_encoders(Encoders(weights="nowhere.pth"), INPUTS)[0]) == ["random weights"]
    assert starts_of(make_encoders(Encoders("small", "small", width=4), INPUTS)[0]) == []


def test_the_small_pair_says_that_it_starts_at_random() -> None:
    assert Encoders("small", "small").weights == Encoders("small", "small", weights="random").weights == "random"
    assert Encoders().weights == "imagenet"
    with pytest.raises(UsageError, match=r"Expected weights 'random' for a small picture encoder, .* but got net.pth"):
        Encoders("small", "small", weights="net.pth")


def test_an_encoder_without_start_weights_refuses_a_name() -> None:
    with pytest.raises(UsageError, match=r"Expected weights 'random' for earsight\.encoders\.resnet18, .* got noise"):
        make_encoders(Encoders(weights="random", audio_weights="noise"), Inputs())
