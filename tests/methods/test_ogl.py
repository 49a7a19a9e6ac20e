"""Facts about OGL: the mean absolute activation of a frozen network, on the published scale."""

from __future__ import annotations

from pathlib import Path

import pytest
import safetensors.torch
import torch
import torchvision
from torch import Tensor, nn

from earsight.checkpoint import load_weights, save_weights
from earsight.config import Inputs
from earsight.errors import CheckpointError, TrainingError, UsageError
from earsight.methods.ogl import PRESETS, Config, Model
from earsight.predict import predict
from earsight.protocols import get
from earsight.types import Batch
from tiny import take_step

INPUTS = Inputs(image_size=64, resize=64, rate=4000, seconds=0.5, window=128, hop=64)


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Weights as torchvision writes them, of a network that has seen nothing."""
    torch.manual_seed(3)
    path = tmp_path_factory.mktemp("weights") / "resnet18.pth"
    torch.save(torchvision.models.resnet18(weights=None).state_dict(), path)
    return path


def pictures(count: int = 3, seed: int = 0) -> Tensor:
    random = torch.Generator().manual_seed(seed)
    return torch.randint(0, 256, (count, 3, 64, 64), generator=random, dtype=torch.uint8)


def sounds(count: int = 3) -> Tensor:
    return torch.zeros(count, INPUTS.samples)


class Given(nn.Module):
    """Features (1, 2, 1, 2) whatever is seen."""

    preprocess = nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        return torch.tensor([[[[1.0, -3.0]], [[4.0, 3.0]]]])


def test_the_map_is_the_mean_absolute_activation_and_its_score_is_not_clipped() -> None:
    model = Model(Config(weights="random"), INPUTS)
    model.encoder = Given()
    maps = model.localize(pictures(1), sounds(1))
    assert maps.dense.tolist() == [[[2.5, 3.0]]]
    assert maps.native is maps.dense
    assert maps.bounds == maps.native_bounds == (0.0, 2.5)
    assert predict(maps, get("exact"), (1, 2)).score.flatten().tolist() == pytest.approx([1.0, 1.2])
    assert predict(maps, get("exact")).confidence.tolist() == pytest.approx([1.2])


def test_a_map_is_that_of_torchvisions_network(file: Path) -> None:
    net = torchvision.models.resnet18(weights=None)
    net.load_state_dict(torch.load(file, weights_only=True))
    net.avgpool, net.fc = nn.Identity(), nn.Identity()
    seen = pictures()
    with torch.no_grad():
        mean, std = torch.tensor([0.485, 0.456, 0.406]), torch.tensor([0.229, 0.224, 0.225])
        flat = net.eval()((seen / 255 - mean.view(3, 1, 1)) / std.view(3, 1, 1))
        wanted = flat.view(3, 512, 2, 2).abs().mean(1)
        got = Model(Config(weights=str(file)), INPUTS).eval().localize(seen, sounds()).dense
    torch.testing.assert_close(got, wanted)


def test_the_grid_is_seven_by_seven_at_224_pixels_and_a_setting() -> None:
    frames = torch.zeros(1, 3, 224, 224, dtype=torch.uint8)
    for stride, side in ((2, 7), (1, 14)):
        model = Model(Config(weights="random", layer4_stride=stride), Inputs()).eval()
        assert model.localize(frames, torch.zeros(1, 9)).dense.shape == (1, side, side)


def test_the_scale_is_a_setting_and_changes_the_score_alone(file: Path) -> None:
    one = Model(Config(weights=str(file)), INPUTS).eval().localize(pictures(), sounds())
    other = Model(Config(weights=str(file), scale=5.0), INPUTS).eval().localize(pictures(), sounds())
    assert torch.equal(one.dense, other.dense)
    assert other.bounds == (0.0, 5.0)


def test_it_does_not_listen(file: Path) -> None:
    model = Model(Config(weights=str(file)), INPUTS).eval()
    silent, loud = model.localize(pictures(), sounds()), model.localize(pictures(), torch.randn(3, INPUTS.samples))
    assert torch.equal(silent.dense, loud.dense)


def test_it_is_frozen_in_training_mode_too(file: Path) -> None:
    model = Model(Config(weights=str(file)), INPUTS)
    assert not any(p.requires_grad for p in model.parameters())
    assert model.stages(20) == ()
    still = model.eval().localize(pictures(), sounds()).dense
    assert torch.equal(model.train().localize(pictures(), sounds()).dense, still)
    with pytest.raises(TrainingError, match="Expected a method with something to learn, but got OGL, which is frozen"):
        take_step(model, Batch(pictures(), sounds(), torch.arange(3)))


def test_its_weights_file_holds_the_network_and_can_stand_for_one(file: Path, tmp_path: Path) -> None:
    config = Config(weights=str(file))
    model = Model(config, INPUTS).eval()
    saved = tmp_path / "w.safetensors"
    save_weights(saved, model, "ogl", config, {})
    assert len(safetensors.torch.load_file(saved)) == 120
    wanted = model.localize(pictures(), sounds()).dense
    again = load_weights(saved).model  # the settings name a file, which is not read again
    assert torch.equal(again.localize(pictures(), sounds()).dense, wanted)
    as_file = Model(Config(weights=str(saved)), INPUTS).eval()
    assert torch.equal(as_file.localize(pictures(), sounds()).dense, wanted)


def test_wrong_settings_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="Expected a positive scale, but got 0"):
        Config(scale=0)
    with pytest.raises(UsageError, match="Expected layer4_stride 1 or 2, but got 3"):
        Config(layer4_stride=3)
    with pytest.raises(CheckpointError, match=r"Expected a weights file at .*gone.pth, but got nothing there"):
        Model(Config(weights=str(tmp_path / "gone.pth")), INPUTS)


def test_the_preset_is_the_published_code() -> None:
    preset = PRESETS["official"]()
    assert preset.config == Config("imagenet", 2, 2.5)
    assert preset.inputs.image_size == 224
