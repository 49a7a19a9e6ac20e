"""Official checkpoints come in safely, whole, and compute the map that the published networks compute."""

from __future__ import annotations

import os
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import normalize
from torchvision.models import resnet18

from earsight import official
from earsight.checkpoint import load_weights
from earsight.encoders.base import no_start_weights
from earsight.errors import CheckpointError, UsageError
from earsight.methods.base import build
from earsight.official_layouts import PUBLISHED

TAU = 0.03


def backbone(channels: int) -> nn.Module:
    """The published backbones: flat picture features, or the largest sound features."""
    net: Any = resnet18()
    if channels == 1:
        net.conv1 = nn.Conv2d(1, 64, 7, 2, 3, bias=False)
    net.avgpool = nn.Identity() if channels == 3 else nn.AdaptiveMaxPool2d(1)
    net.fc = nn.Identity()
    return net  # type: ignore[no-any-return]


class Published(nn.Module):
    """Names and arithmetic of the published networks: heads "1", "2" and slow copies for SLAVC, one head for EZ-VSL."""

    def __init__(self, heads: tuple[str, ...], branches: tuple[str, ...]) -> None:
        super().__init__()
        self.heads = heads
        for b in branches:
            self.add_module(f"{b}imgnet", backbone(3))
            self.add_module(f"{b}audnet", backbone(1))
            for h in heads:
                self.add_module(f"{b}img_proj{h}", nn.Conv2d(512, 512, 1))
                self.add_module(f"{b}aud_proj{h}", nn.Linear(512, 512))
        for module in self.modules():
            if isinstance(module, nn.BatchNorm2d):  # a trained network's statistics are not 0 and 1
                nn.init.normal_(module.running_mean, 0, 0.2)
                nn.init.uniform_(module.running_var, 0.5, 1.5)
                module.num_batches_tracked.fill_(11)

    def forward(self, image: Tensor, spectrogram: Tensor, branch: str = "") -> Tensor:
        part = self.get_submodule
        v = part(f"{branch}imgnet")(image).view(-1, 512, 7, 7)
        a = part(f"{branch}audnet")(spectrogram)
        total = torch.zeros(len(image), 7, 7)
        for h in self.heads:
            vh = normalize(part(f"{branch}img_proj{h}")(v), dim=1)
            ah = normalize(part(f"{branch}aud_proj{h}")(a), dim=1)
            total = total + (vh * ah[:, :, None, None]).sum(1)
        return total / (len(self.heads) * TAU)


@pytest.fixture(scope="module")
def slavc() -> Published:
    torch.manual_seed(1)
    return Published(("1", "2"), ("", "momentum_")).eval()


@pytest.fixture(scope="module")
def ezvsl() -> Published:
    torch.manual_seed(2)
    return Published(("",), ("",)).eval()


def save(net: nn.Module, path: Path, prefix: str = "module.", **beside: Any) -> Path:
    state = {prefix + k: v for k, v in net.state_dict().items()}
    optimizer = torch.optim.Adam(net.parameters()).state_dict()
    torch.save({"model": state, "optimizer": optimizer, "epoch": 20, **beside}, path)
    return path


def spell_like_numpy_1(path: Path) -> None:
    """Rewrite a file's pickle as numpy 1 would have written it."""
    with zipfile.ZipFile(path) as old:
        records = {info.filename: old.read(info) for info in old.infolist()}
    name = next(n for n in records if n.endswith("data.pkl"))
    assert b"cnumpy._core.multiarray\nscalar\n" in records[name]
    records[name] = records[name].replace(b"cnumpy._core.multiarray\n", b"cnumpy.core.multiarray\n")
    with zipfile.ZipFile(path, "w") as new:
        for record, data in records.items():
            new.writestr(record, data)


def clips() -> tuple[Tensor, Tensor]:
    g = torch.Generator().manual_seed(3)
    frames = torch.randint(0, 256, (2, 3, 224, 224), generator=g, dtype=torch.uint8)
    return frames, 0.3 * torch.randn(2, 66150, generator=g).clamp(-1, 1)


def shapes(net: nn.Module) -> dict[str, tuple[int, ...]]:
    return {k: tuple(v.shape) for k, v in net.state_dict().items()}


def test_skeletons_have_the_published_sizes(slavc: Published, ezvsl: Published) -> None:
    assert len(slavc.state_dict()) == 496
    assert len(ezvsl.state_dict()) == 244
    assert sum(p.numel() for p in slavc.parameters()) == 46_794_752
    assert sum(p.numel() for p in ezvsl.parameters()) == 22_872_064
    assert PUBLISHED["SLAVC"].needed == shapes(slavc)
    assert PUBLISHED["EZ-VSL"].needed == shapes(ezvsl)


@pytest.mark.parametrize("branch", ["online", "target"])
def test_imported_slavc_computes_the_published_map(tmp_path: Path, slavc: Published, branch: str) -> None:
    imported = official.convert(save(slavc, tmp_path / "latest.pth"))
    assert (imported.source, imported.method) == ("SLAVC", "slavc")
    with no_start_weights():
        model = build("slavc", replace(imported.config, infer_with=branch), imported.inputs).eval()
    model.load_state_dict(imported.state)
    frames, waveforms = clips()
    with torch.no_grad():
        ours = model.localize(frames, waveforms).dense
        image, sound = model.online.image.preprocess(frames), model.online.audio.preprocess(waveforms)
        theirs = slavc(image, sound, "" if branch == "online" else "momentum_") * TAU
    assert theirs.std() > 1e-3
    torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-5)


@pytest.mark.slow
def test_imported_ezvsl_computes_the_published_map_through_a_written_file(tmp_path: Path, ezvsl: Published) -> None:
    path = save(ezvsl, tmp_path / "best.pth", best_cIoU=np.float64(0.3885), best_Auc=np.float64(0.3954))
    official.import_checkpoint(path, tmp_path / "out.safetensors")
    loaded = load_weights(tmp_path / "out.safetensors", "cpu")
    assert loaded.name == "ezvsl"
    assert loaded.meta["protocol"] == "official"
    assert loaded.meta["imported"]["source"] == "EZ-VSL"
    assert loaded.meta["imported"]["best_cIoU"] == 0.3885
    frames, waveforms = clips()
    with torch.no_grad():
        ours = loaded.model.eval().localize(frames, waveforms).dense
        theirs = ezvsl(loaded.model.image.preprocess(frames), loaded.model.audio.preprocess(waveforms)) * TAU
    assert theirs.std() > 1e-3
    torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["fnac", "marginnce", "slavc"])
def test_the_methods_with_ezvsls_network_give_its_maps(tmp_path: Path, ezvsl: Published, method: str) -> None:
    """Weights came in as SLAVC without decomposition before there was EZ-VSL; those files keep their maps too."""
    path = save(ezvsl, tmp_path / "best.pth")
    frames, waveforms = clips()
    answers = []
    for name in ("", method):
        out = tmp_path / f"{name}.safetensors"
        imported = official.import_checkpoint(path, out, name)
        loaded = load_weights(out)
        assert loaded.name == imported.method == (name or "ezvsl")
        assert (imported.source, loaded.inputs) == ("EZ-VSL", imported.inputs)
        with torch.no_grad():
            answers.append(loaded.model.localize(frames, waveforms).dense)
    assert torch.equal(answers[0], answers[1])


def test_a_method_with_another_network_is_refused(tmp_path: Path, ezvsl: Published) -> None:
    with pytest.raises(
        UsageError,
        match=r"Expected a method with the network of EZ-VSL, which best.pth holds \(ezvsl or fnac or marginnce or "
        r"slavc\), but got lvs. Leave --method out",
    ):
        official.convert(save(ezvsl, tmp_path / "best.pth"), "lvs")


def test_avc_is_the_first_projection_and_loc_the_second(tmp_path: Path, slavc: Published) -> None:
    state = official.convert(save(slavc, tmp_path / "latest.pth")).state
    theirs = slavc.state_dict()
    assert torch.equal(state["online.image_heads.avc.weight"], theirs["img_proj1.weight"])
    assert torch.equal(state["online.image_heads.loc.weight"], theirs["img_proj2.weight"])
    assert torch.equal(state["online.audio_heads.loc.bias"], theirs["aud_proj2.bias"])
    assert torch.equal(state["target.audio.conv1.weight"], theirs["momentum_audnet.conv1.weight"])
    assert torch.equal(state["target.audio_heads.avc.bias"], theirs["momentum_aud_proj1.bias"])


@pytest.mark.parametrize("numpy_1", [False, True], ids=["numpy 2", "numpy 1"])
def test_numpy_scalars_load_under_both_spellings_and_swapped_scores_are_put_right(
    tmp_path: Path, slavc: Published, numpy_1: bool
) -> None:
    path = save(
        slavc,
        tmp_path / "latest.pth",
        best_Precision=np.float32(0.5),
        best_AP=np.float64(0.40),  # the trainer's F1
        best_F1=np.float64(0.33),  # the trainer's AP
        seen=np.int64(9),
    )
    if numpy_1:
        spell_like_numpy_1(path)
    meta = official.convert(path).meta["imported"]
    assert (meta["best_AP"], meta["best_F1"], meta["best_Precision"], meta["epoch"]) == (0.33, 0.40, 0.5, 20)
    assert all(type(v) in (str, int, float) for v in meta.values())
    assert meta["file"] == "latest.pth"
    assert len(meta["sha256"]) == 64


def test_bare_state_dicts_and_unprefixed_names_are_accepted(tmp_path: Path, ezvsl: Published) -> None:
    torch.save(ezvsl.state_dict(), tmp_path / "bare.pth")
    imported = official.convert(tmp_path / "bare.pth")
    pairs = zip(imported.state.values(), ezvsl.state_dict().values(), strict=True)
    assert all(torch.equal(ours, theirs) for ours, theirs in pairs)
    assert imported.source == "EZ-VSL"
    assert "epoch" not in imported.meta["imported"]


def test_odd_values_beside_the_weights_are_left_out(tmp_path: Path, ezvsl: Published) -> None:
    odd = {"model": ezvsl.state_dict(), 5: 1, "epoch": 10**400, "best_cIoU": float("nan"), "best_Auc": "high"}
    torch.save(odd, tmp_path / "x.pth")
    assert set(official.convert(tmp_path / "x.pth").meta["imported"]) == {"source", "file", "sha256"}


def test_other_checkpoints_are_refused_with_what_was_found(tmp_path: Path, ezvsl: Published) -> None:
    state = ezvsl.state_dict()
    wrong = {k: v for k, v in state.items() if k != "aud_proj.bias"} | {"extra.weight": torch.zeros(1)}
    wrong["img_proj.weight"] = torch.zeros(128, 512, 1, 1)
    torch.save({"model": wrong}, tmp_path / "x.pth")
    with pytest.raises(
        CheckpointError,
        match=r"Expected an official checkpoint of SLAVC \(496 tensors\) or EZ-VSL \(244 tensors\) or LVS "
        r"\(240 to 248 tensors\) in .*x.pth, but got 244 tensors; against EZ-VSL: missing "
        r"aud_proj.bias; unknown extra.weight; shape of img_proj.weight is "
        r"\(128, 512, 1, 1\) where \(512, 512, 1, 1\) is needed. Give the .pth file",
    ):
        official.convert(tmp_path / "x.pth")


def test_a_slavc_file_that_lacks_its_slow_copies_is_refused(tmp_path: Path, slavc: Published) -> None:
    torch.save({k: v for k, v in slavc.state_dict().items() if "momentum" not in k}, tmp_path / "x.pth")
    with pytest.raises(
        CheckpointError, match=r"got 248 tensors; against SLAVC: missing momentum_imgnet.* and 245 more"
    ):
        official.convert(tmp_path / "x.pth")


class Hostile:
    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def __reduce__(self) -> tuple[Any, ...]:
        return os.system, (f"touch {self.marker}",)


class Evaluates(Hostile):
    def __reduce__(self) -> tuple[Any, ...]:
        return eval, (f"open({str(self.marker)!r}, 'w')",)


@pytest.mark.parametrize(("kind", "name"), [(Hostile, r"\w+.system"), (Evaluates, "eval")])
@pytest.mark.parametrize("zipped", [True, False])
def test_hostile_files_are_refused_and_nothing_runs(
    tmp_path: Path, kind: type[Hostile], name: str, zipped: bool
) -> None:
    marker, path = tmp_path / "ran", tmp_path / "x.pth"
    torch.save({"model": {"a": torch.zeros(1)}, "best_AP": kind(marker)}, path, _use_new_zipfile_serialization=zipped)
    with pytest.raises(
        CheckpointError, match=f"Expected only tensors .* got the code reference '{name}'. It was not run"
    ):
        official.convert(path)
    assert not marker.exists()


def test_the_allowance_ends_with_the_import(tmp_path: Path, ezvsl: Published) -> None:
    path = save(ezvsl, tmp_path / "best.pth", best_cIoU=np.float64(0.1))
    official.convert(path)
    with pytest.raises(Exception, match="weights_only"):
        torch.load(path, weights_only=True)


def test_numpy_arrays_are_not_let_in(tmp_path: Path) -> None:
    torch.save({"model": {"a": torch.zeros(1)}, "history": np.array([object()])}, tmp_path / "x.pth")
    with pytest.raises(CheckpointError, match=r"code reference 'numpy.*_reconstruct'"):
        official.convert(tmp_path / "x.pth")


@pytest.mark.parametrize("keep", [0, 100, 100_000])
def test_truncated_files_are_refused(tmp_path: Path, ezvsl: Published, keep: int) -> None:
    path = save(ezvsl, tmp_path / "best.pth")
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(CheckpointError, match=r"damaged file or another format .*Get it again"):
        official.convert(path)


def test_weights_of_earsight_need_no_import(tmp_path: Path) -> None:
    with pytest.raises(
        CheckpointError, match=r"Expected an official checkpoint, .* Weights of earsight need no import"
    ):
        official.convert(tmp_path / "weights.safetensors")
