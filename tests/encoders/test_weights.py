"""Weights come in by name, from files or not at all, and whatever is wrong with a file is said."""

from __future__ import annotations

import hashlib
import http.server
import os
import subprocess
import sys
import threading
import zipfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest
import safetensors.torch
import torch
from torch import Tensor, nn
from torchvision.models import resnet18

from earsight import official
from earsight.encoders import start_weights
from earsight.encoders.start_weights import load_image_weights, read_state
from earsight.errors import CheckpointError
from tiny import killing, limited


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        pass


def encoder(seed: int = 0) -> nn.Module:
    torch.manual_seed(seed)
    net: nn.Module = resnet18()
    net.fc = nn.Identity()
    return net


def same(a: nn.Module, b: dict[str, Tensor]) -> bool:
    return all(torch.equal(v, b[k].to(v.dtype)) for k, v in a.state_dict().items())


@pytest.fixture(scope="module")
def state() -> dict[str, Tensor]:
    return encoder(7).state_dict()


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty torch cache; its checkpoints folder."""
    monkeypatch.setattr(torch.hub, "_hub_dir", None)
    monkeypatch.setenv("TORCH_HOME", str(tmp_path / "torch"))
    monkeypatch.setenv("no_proxy", "*")
    return tmp_path / "torch" / "hub" / "checkpoints"


@pytest.fixture
def site(
    tmp_path: Path, state: dict[str, Tensor], hub: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[str, Path]]:
    """A local web site that serves a good file; its address and the served file."""
    folder = tmp_path / "www"
    folder.mkdir()
    torch.save(state, folder / "new.pth")
    digits = hashlib.sha256((folder / "new.pth").read_bytes()).hexdigest()[:8]
    file = (folder / "new.pth").rename(folder / f"resnet18-{digits}.pth")
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(folder)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{server.server_address[1]}/{file.name}"
    monkeypatch.setattr(start_weights, "IMAGENET_URL", url)
    yield url, file
    server.shutdown()
    server.server_close()


def test_random_changes_nothing() -> None:
    net = encoder()
    before = {k: v.clone() for k, v in net.state_dict().items()}
    assert load_image_weights(net, "random") == "random weights"
    assert same(net, before)


@pytest.mark.parametrize("prefix", ["", "module.", "encoder.", "module.encoder."])
@pytest.mark.parametrize("wrap", [None, "model", "state_dict"])
def test_file_loads_with_any_prefix_and_wrapper(
    tmp_path: Path, state: dict[str, Tensor], prefix: str, wrap: str | None
) -> None:
    named = {prefix + k: v for k, v in state.items()}
    torch.save({wrap: named, "epoch": 3} if wrap else named, tmp_path / "r.pth")
    net = encoder()
    text = load_image_weights(net, str(tmp_path / "r.pth"))
    assert same(net, state)
    assert text == f"file r.pth, sha256 {hashlib.sha256((tmp_path / 'r.pth').read_bytes()).hexdigest()[:8]}"


def test_safetensors_file_loads(tmp_path: Path, state: dict[str, Tensor]) -> None:
    safetensors.torch.save_file(state, tmp_path / "r.safetensors")
    net = encoder()
    load_image_weights(net, str(tmp_path / "r.safetensors"))
    assert same(net, state)


def test_half_precision_becomes_float_and_fc_is_ignored(tmp_path: Path, state: dict[str, Tensor]) -> None:
    half = {k: v.half() if v.is_floating_point() else v for k, v in state.items()}
    torch.save({**half, "fc.weight": torch.zeros(1000, 512), "fc.bias": torch.zeros(1000)}, tmp_path / "r.pth")
    net = encoder()
    load_image_weights(net, str(tmp_path / "r.pth"))
    assert net.state_dict()["conv1.weight"].dtype == torch.float32
    assert same(net, half)


def test_files_from_before_batch_counters_load(tmp_path: Path, state: dict[str, Tensor]) -> None:
    old = {k: v for k, v in state.items() if not k.endswith("num_batches_tracked")}
    assert len(old) == 100
    torch.save(old, tmp_path / "r.pth")
    net = encoder()
    load_image_weights(net, str(tmp_path / "r.pth"))
    assert torch.equal(net.state_dict()["layer4.1.bn2.weight"], state["layer4.1.bn2.weight"])


def test_the_half_precision_imagenet_file_loads(shared: Path) -> None:
    net = encoder()
    text = load_image_weights(net, str(shared / "weights" / "resnet18_imagenet_half.pth"))
    assert text.startswith("file resnet18_imagenet_half.pth, sha256 ")
    assert torch.isfinite(net.eval()(torch.zeros(1, 3, 64, 64))).all()


def test_another_network_is_refused_by_its_names(shared: Path) -> None:
    with pytest.raises(
        CheckpointError, match=r"(?s)Expected .*ResNet-18 layout.*missing conv1.weight.*unknown features"
    ):
        load_image_weights(encoder(), str(shared / "weights" / "mobilenet_v2-b0353104.pth"))


def test_wrong_layout_names_keys_and_shapes(tmp_path: Path, state: dict[str, Tensor]) -> None:
    wrong = {k: v for k, v in state.items() if k != "bn1.bias"} | {"extra.weight": torch.zeros(1)}
    wrong["conv1.weight"] = torch.zeros(64, 1, 7, 7)
    torch.save(wrong, tmp_path / "r.pth")
    with pytest.raises(
        CheckpointError,
        match=r"missing bn1.bias; unknown extra.weight; "
        r"shape of conv1.weight is \(64, 1, 7, 7\) where \(64, 3, 7, 7\) is needed",
    ):
        load_image_weights(encoder(), str(tmp_path / "r.pth"))


def test_a_refused_file_leaves_the_encoder_as_it_was(tmp_path: Path, state: dict[str, Tensor]) -> None:
    torch.save({k: v for k, v in state.items() if k != "bn1.bias"}, tmp_path / "r.pth")
    net = encoder()
    before = {k: v.clone() for k, v in net.state_dict().items()}
    with pytest.raises(CheckpointError, match=r"missing bn1.bias"):
        load_image_weights(net, str(tmp_path / "r.pth"))
    assert same(net, before)


@pytest.mark.parametrize(
    ("content", "what"), [([1, 2], "a list"), ({}, "an empty dict"), ({"epoch": 3}, "a dict with 'epoch'")]
)
def test_files_without_a_state_dict_are_refused(tmp_path: Path, content: object, what: str) -> None:
    torch.save(content, tmp_path / "r.pth")
    with pytest.raises(CheckpointError, match=f"to hold a state dict .*, but got {what}"):
        load_image_weights(encoder(), str(tmp_path / "r.pth"))


def test_missing_files_and_folders_are_refused(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="but got nothing there"):
        load_image_weights(encoder(), str(tmp_path / "no.pth"))
    with pytest.raises(CheckpointError, match="but got a folder"):
        load_image_weights(encoder(), str(tmp_path))


@pytest.mark.parametrize("suffix", [".pth", ".safetensors"])
@pytest.mark.parametrize("keep", [0, 7, 1000, 2_000_000])
def test_truncated_files_name_the_file_to_delete(
    tmp_path: Path, state: dict[str, Tensor], suffix: str, keep: int
) -> None:
    path = tmp_path / f"r{suffix}"
    if suffix == ".pth":
        torch.save(state, path)
    else:
        safetensors.torch.save_file(state, path)
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(CheckpointError, match=r"damaged file or another format .*Get it again"):
        load_image_weights(encoder(), str(path))


def packed(path: Path) -> Path:
    """A file of torch.save whose one tensor, 160 MiB of zeros, is deflated to 1 MiB."""
    plain = path.with_suffix(".plain")
    with torch.serialization.skip_data():
        torch.save({"conv1.weight": torch.empty(40 << 20)}, plain)
    with zipfile.ZipFile(plain) as old, zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as new:
        for part in old.infolist():
            if part.file_size < 1 << 20:
                new.writestr(part.filename, old.read(part))
                continue
            with new.open(part.filename, "w") as stream:
                for _ in range(part.file_size >> 20):
                    stream.write(bytes(1 << 20))
    plain.unlink()
    return path


@pytest.mark.parametrize("read", [read_state, official.convert, killing.read_strange_state])
def test_a_packed_tensor_is_refused_before_it_is_unpacked(tmp_path: Path, read: Callable[[Path], object]) -> None:
    path = packed(tmp_path / "r.pth")
    assert path.stat().st_size < 4 << 20
    assert "not the bytes that torch.save wrote" in limited.refusal(read, path, mib=128)


def test_a_changed_value_is_refused(tmp_path: Path) -> None:
    torch.save({"conv1.weight": torch.full((1000,), 0.5)}, tmp_path / "r.pth")
    data = bytearray((tmp_path / "r.pth").read_bytes())
    data[data.find(torch.full((2,), 0.5).numpy().tobytes()) + 400] ^= 1
    (tmp_path / "r.pth").write_bytes(data)
    with pytest.raises(CheckpointError, match=r"not the bytes that torch\.save wrote"):
        read_state(tmp_path / "r.pth")


def test_imagenet_downloads_once_and_tells_nothing_on_stdout(
    site: tuple[str, Path], hub: Path, state: dict[str, Tensor], capsys: pytest.CaptureFixture[str]
) -> None:
    net = encoder()
    assert load_image_weights(net, "imagenet") == "ImageNet ResNet-18 (torchvision IMAGENET1K_V1)"
    assert same(net, state)
    out, err = capsys.readouterr()
    assert out == ""
    assert "Downloading" in err
    site[1].unlink()  # the second time must not need the site
    assert [p.name for p in hub.iterdir()] == [site[1].name]
    load_image_weights(encoder(), "imagenet")


def test_torchvisions_file_name_carries_the_hash() -> None:
    assert start_weights.IMAGENET_URL == "https://download.pytorch.org/models/resnet18-f37072fd.pth"


def test_offline_names_the_file_the_address_and_the_folder(hub: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    url = "http://127.0.0.1:9/resnet18-f37072fd.pth"  # nothing listens on the discard port
    monkeypatch.setattr(start_weights, "IMAGENET_URL", url)
    with pytest.raises(
        CheckpointError,
        match=rf"Expected to download {url}, but got: .*Put the file there by hand: {hub}/resnet18-f37072fd\.pth "
        r"\(sha256 f37072fd\)\. Or name a local file: --method\.encoders\.weights FILE",
    ):
        load_image_weights(encoder(), "imagenet")
    assert list(hub.iterdir()) == []


def test_a_file_the_site_lacks_is_reported_like_offline(site: tuple[str, Path]) -> None:
    site[1].unlink()
    with pytest.raises(CheckpointError, match=r"Expected to download .*404"):
        load_image_weights(encoder(), "imagenet")


def test_damaged_downloads_are_not_kept(site: tuple[str, Path], hub: Path) -> None:
    site[1].write_bytes(site[1].read_bytes()[:5000])
    with pytest.raises(
        CheckpointError,
        match=r"a file with sha256 \w{8} at .*, but got one with .*damaged on the way .*Or name a local file",
    ):
        load_image_weights(encoder(), "imagenet")
    assert list(hub.iterdir()) == []


def test_a_damaged_cached_file_is_named(site: tuple[str, Path], hub: Path) -> None:
    load_image_weights(encoder(), "imagenet")
    cached = hub / site[1].name
    cached.write_bytes(cached.read_bytes()[:-1])
    with pytest.raises(
        CheckpointError,
        match=rf"Expected a sha256 of .* the file is damaged or of another version. Delete {cached} and run",
    ):
        load_image_weights(encoder(), "imagenet")


@pytest.mark.slow
def test_processes_that_start_together_all_load_and_leave_one_file(site: tuple[str, Path], hub: Path) -> None:
    code = (
        "import sys\n"
        "from torchvision.models import resnet18\nfrom torch import nn\nfrom earsight.encoders import start_weights\n"
        "start_weights.IMAGENET_URL = sys.argv[1]\nnet = resnet18()\nnet.fc = nn.Identity()\n"
        "print(start_weights.load_image_weights(net, 'imagenet'))"
    )
    env = os.environ | {"OMP_NUM_THREADS": "1"}
    runs = [
        subprocess.Popen([sys.executable, "-c", code, site[0]], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=env)
        for _ in range(3)
    ]
    for run in runs:
        out, err = run.communicate(timeout=300)
        assert run.returncode == 0, err.decode()
        assert out.decode().strip() == "ImageNet ResNet-18 (torchvision IMAGENET1K_V1)"
    assert [p.name for p in hub.iterdir()] == [site[1].name]


def test_a_cache_that_cannot_be_written_is_told_with_what_moves_it(site: tuple[str, Path], hub: Path) -> None:
    hub.parent.mkdir(parents=True)
    hub.write_text("a file in the folder's place")
    with pytest.raises(CheckpointError, match=r"Expected to write .*\.pth, but got: .*Set TORCH_HOME to a folder"):
        load_image_weights(encoder(), "imagenet")
