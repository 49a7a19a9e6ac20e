"""Shapes, sizes and starting points of the encoders, and the slow copies made of them."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from earsight.errors import UsageError
from earsight.models import encoders as encoders_module
from earsight.models.audio import ResNetAudio, SmallAudio, loudest
from earsight.models.ema import frozen_copy, update
from earsight.models.encoders import Encoders, init_like_published, make_encoders, no_start_weights, starts_of
from earsight.models.image import ResNetImage, SmallImage
from earsight.models.similarity import all_pairs, paired


def count(module: nn.Module) -> int:
    return sum(p.numel() for p in module.parameters())


@pytest.mark.parametrize(("stride", "side"), [(2, 7), (1, 14)])
def test_resnet_pictures_give_7x7_or_14x14(stride: int, side: int) -> None:
    net = ResNetImage(stride).eval()
    with torch.no_grad():
        assert net(torch.zeros(1, 3, 224, 224)).shape == (1, 512, side, side)


@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("frames", [276, 300])
def test_resnet_sounds_give_one_vector_each(stride: int, frames: int) -> None:
    net = ResNetAudio(stride).eval()
    with torch.no_grad():
        assert net(torch.zeros(2, 1, 257, frames)).shape == (2, 512)


def test_parameter_counts_are_the_published_ones() -> None:
    assert count(ResNetImage()) == 11_176_512
    assert count(ResNetAudio()) == 11_170_240
    assert count(ResNetImage(1)) == 11_176_512


def test_the_stride_changes_no_weight() -> None:
    torch.manual_seed(0)
    one = ResNetImage(1)
    torch.manual_seed(0)
    two = ResNetImage(2)
    assert all(torch.equal(a, b) for a, b in zip(one.state_dict().values(), two.state_dict().values(), strict=True))


@pytest.mark.parametrize("net", [ResNetAudio().eval(), SmallAudio(4).eval()], ids=["resnet18", "small"])
def test_sounds_are_max_pooled(net: nn.Module) -> None:
    """The pooled vector is the largest value of the last feature map, wherever it lies."""
    seen: list[Tensor] = []
    last = net.layer4 if isinstance(net, ResNetAudio) else net.layers
    hook = last.register_forward_hook(lambda _m, _i, out: seen.append(out))  # type: ignore[operator,union-attr]
    with torch.no_grad():
        got = net(torch.randn(2, 1, 129, 100))
    hook.remove()
    assert seen[0].shape[2] * seen[0].shape[3] > 1
    torch.testing.assert_close(got, seen[0].flatten(2).max(2).values)


@pytest.mark.parametrize("width", [4, 24])
def test_the_small_pair_fits_together(width: int) -> None:
    image, audio, channels = make_encoders(Encoders(kind="small", width=width))
    assert channels == 4 * width
    with torch.no_grad():
        assert image(torch.zeros(2, 3, 112, 112)).shape == (2, channels, 7, 7)
        assert audio(torch.zeros(2, 1, 129, 137)).shape == (2, channels)


def test_all_but_imagenet_starts_as_published() -> None:
    torch.manual_seed(0)
    image, audio, _ = make_encoders(Encoders(weights="random"))
    assert isinstance(image, ResNetImage)
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
    monkeypatch.setattr(encoders_module, "load_image_weights", lambda _module, weights: asked.append(weights))
    make_encoders(Encoders())
    with no_start_weights():
        make_encoders(Encoders())
    make_encoders(Encoders())
    make_encoders(Encoders(kind="small"))
    assert asked == ["imagenet", "random", "imagenet"]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"kind": "resnet50"}, "Expected kind resnet18 or small, but got 'resnet50'"),
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
        update(slow.parameters(), online.parameters(), 0.9)
        assert all(torch.allclose(p, torch.full_like(p, expected)) for p in slow.parameters())
    update(slow.parameters(), online.parameters(), 0.0)
    assert all(torch.equal(p, torch.ones_like(p)) for p in slow.parameters())
    update(slow.parameters(), [torch.zeros_like(p) for p in online.parameters()], 1.0)
    assert all(torch.equal(p, torch.ones_like(p)) for p in slow.parameters())


def test_a_frozen_copy_shares_nothing_and_takes_no_gradient() -> None:
    online = SmallImage(4)
    slow = frozen_copy(online)
    assert all(not p.requires_grad for p in slow.parameters())
    assert all(p.requires_grad for p in online.parameters())
    with torch.no_grad():
        for p in online.parameters():
            p.add_(1)
    assert not any(torch.equal(a, b) for a, b in zip(online.parameters(), slow.parameters(), strict=True))


def test_updating_nothing_is_fine() -> None:
    update([], [], 0.5)


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
            value = loudest(mine)
            value.square().sum().backward()
        finally:
            torch.use_deterministic_algorithms(False)
        assert mine.grad is not None
        found.append((value.detach(), mine.grad))
    assert torch.equal(found[0][0], found[1][0])
    assert torch.equal(found[0][1], found[1][1])


def test_a_model_tells_once_what_its_picture_encoders_started_from(tmp_path: Path) -> None:
    torch.save(ResNetImage().state_dict(), tmp_path / "start.pth")
    one, _, _ = make_encoders(Encoders(weights=str(tmp_path / "start.pth")))
    assert isinstance(one, ResNetImage)
    assert one.start.startswith("file start.pth, sha256 ")
    assert starts_of(nn.ModuleList([one, frozen_copy(one), ResNetImage()])) == [one.start, "random weights"]
    with no_start_weights():
        assert starts_of(make_encoders(Encoders(weights="nowhere.pth"))[0]) == ["random weights"]
    assert starts_of(make_encoders(Encoders(kind="small", width=4))[0]) == []


def test_the_small_pair_says_that_it_starts_at_random() -> None:
    assert Encoders(kind="small").weights == Encoders(kind="small", weights="random").weights == "random"
    assert Encoders().weights == "imagenet"
    with pytest.raises(UsageError, match=r"Expected weights 'random' for encoders of kind small, .* but got net.pth"):
        Encoders(kind="small", weights="net.pth")
