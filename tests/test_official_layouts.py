"""Official checkpoints of LVS: what must be in them, what may be, and the map that its published network computes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import normalize
from torchvision.models import resnet18

from earsight import official
from earsight.checkpoint import load_weights
from earsight.errors import CheckpointError
from earsight.official_layouts import PUBLISHED


class Kept(nn.Module):
    """A ResNet-18 as LVS keeps it: three first convolutions, of which one is used, and a classifier that never is."""

    def __init__(self, first: str) -> None:
        super().__init__()
        net: Any = resnet18()
        self.first = first
        self.conv1_a, self.conv1, self.conv1_flow = (nn.Conv2d(c, 64, 7, 2, 3, bias=False) for c in (1, 3, 6))
        self.bn1, self.relu, self.maxpool = net.bn1, net.relu, net.maxpool
        self.layer1, self.layer2, self.layer3, self.layer4 = net.layer1, net.layer2, net.layer3, net.layer4
        net.layer4[0].conv1.stride = net.layer4[0].downsample[0].stride = (1, 1)
        self.fc = nn.Linear(512, 1000)

    def forward(self, x: Tensor) -> Tensor:
        x = self.maxpool(self.relu(self.bn1(self.get_submodule(self.first)(x))))
        return self.layer4(self.layer3(self.layer2(self.layer1(x))))  # type: ignore[no-any-return]


class PublishedLVS(nn.Module):
    """Names and arithmetic of LVS's published network: no projections, 14x14 places, the loudest sound features."""

    def __init__(self) -> None:
        super().__init__()
        self.imgnet, self.audnet = Kept("conv1"), Kept("conv1_a")
        for module in self.modules():
            if isinstance(module, nn.BatchNorm2d):
                nn.init.normal_(module.running_mean, 0, 0.2)
                nn.init.uniform_(module.running_var, 0.5, 1.5)

    def forward(self, image: Tensor, spectrogram: Tensor) -> Tensor:
        v = normalize(self.imgnet(image), dim=1)
        a = normalize(self.audnet(spectrogram).amax((2, 3)), dim=1)
        return torch.einsum("nchw,nc->nhw", v, a)


@pytest.fixture(scope="module")
def lvs() -> PublishedLVS:
    torch.manual_seed(4)
    return PublishedLVS().eval()


def test_the_skeleton_has_the_published_names_and_shapes(lvs: PublishedLVS) -> None:
    shapes = {k: tuple(v.shape) for k, v in lvs.state_dict().items()}
    assert len(shapes) == 248
    assert PUBLISHED["LVS"].needed | PUBLISHED["LVS"].unused == shapes
    assert not PUBLISHED["LVS"].needed.keys() & PUBLISHED["LVS"].unused.keys()


@pytest.mark.slow
def test_imported_lvs_computes_the_published_map_through_a_written_file(tmp_path: Path, lvs: PublishedLVS) -> None:
    state = {f"module.{k}": v for k, v in lvs.state_dict().items()}
    torch.save({"epoch": 7, "model_state_dict": state, "optimizer": {}}, tmp_path / "lvs.pth")
    official.import_checkpoint(tmp_path / "lvs.pth", tmp_path / "out.safetensors")
    loaded = load_weights(tmp_path / "out.safetensors")
    assert (loaded.name, loaded.meta["imported"]["source"], loaded.meta["imported"]["epoch"]) == ("lvs", "LVS", 7)
    assert (loaded.inputs.rate, loaded.inputs.seconds) == (16000, 10.0)
    g = torch.Generator().manual_seed(3)
    frames = torch.randint(0, 256, (1, 3, 224, 224), generator=g, dtype=torch.uint8)
    waveforms = 0.3 * torch.randn(1, loaded.inputs.samples, generator=g).clamp(-1, 1)
    with torch.no_grad():
        ours = loaded.model.localize(frames, waveforms).dense
        theirs = lvs(loaded.model.image.preprocess(frames), loaded.model.audio.preprocess(waveforms))
    assert theirs.shape == (1, 14, 14)
    assert theirs.std() > 1e-3
    torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-5)


def test_a_file_of_lvs_may_lack_what_its_network_never_uses_and_nothing_else(tmp_path: Path, lvs: PublishedLVS) -> None:
    state = lvs.state_dict()
    used = {k: v for k, v in state.items() if k not in PUBLISHED["LVS"].unused}
    assert len(used) == 240
    torch.save({"model_state_dict": used}, tmp_path / "x.pth")
    imported = official.convert(tmp_path / "x.pth")
    assert (imported.source, imported.method) == ("LVS", "lvs")
    assert torch.equal(imported.state["image.conv1.weight"], state["imgnet.conv1.weight"])
    assert torch.equal(imported.state["audio.conv1.weight"], state["audnet.conv1_a.weight"])
    assert not any("flow" in k or "fc" in k for k in imported.state)
    for wrong, told in (
        ({k: v for k, v in used.items() if k != "audnet.conv1_a.weight"}, "missing audnet.conv1_a.weight"),
        (used | {"imgnet.head.weight": torch.zeros(1)}, "unknown imgnet.head.weight"),
        (used | {"imgnet.fc.weight": torch.zeros(309, 512)}, r"shape of imgnet.fc.weight is \(309, 512\) where \(1000"),
    ):
        torch.save({"model_state_dict": wrong}, tmp_path / "x.pth")
        with pytest.raises(CheckpointError, match=f"tensors; against LVS: {told}"):
            official.convert(tmp_path / "x.pth")
