"""The JPEG engines of a GPU see what a CPU's decoder sees."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor
from torchvision.io import ImageReadMode, decode_jpeg, encode_jpeg

from earsight.data import decoding
from earsight.data.decoding import File, decode_files, engines_of

SIZES = ((256, 341), (341, 256), (256, 455), (256, 256), (301, 257), (40, 50), (33, 400), (20, 1200))
GPU = torch.device("cuda", 0)
needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device here")


def file(number: int) -> File:
    """A JPEG of gentle colours with hard edges and some noise."""
    height, width = SIZES[number % len(SIZES)]
    y, x = np.mgrid[:height, :width]
    chance = np.random.default_rng(number)
    edges = 60.0 * (((x // 23 + y // 17 + number) % 3) - 1)
    picture = np.stack(
        [120 + edges * s + 40 * np.sin((x * s + y) / 15) + chance.normal(0, 4) for s in (1.0, -0.5, 0.3)]
    )
    noisy = (picture + chance.normal(0, 6, picture.shape)).clip(0, 255).astype(np.uint8)
    return File(encode_jpeg(torch.from_numpy(noisy), 90), height, width)


def on_cpu(file: File) -> Tensor:
    return decode_jpeg(file.data, mode=ImageReadMode.RGB)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device here")
def test_without_a_gpu_there_are_no_engines() -> None:
    assert engines_of(GPU) is None


@pytest.mark.gpu
@needs_gpu
@pytest.mark.parametrize("count", [1, 5, 64, 300])
def test_a_gpu_decodes_to_the_pictures_of_a_cpu(count: int) -> None:
    engines = engines_of(GPU)
    if engines is None:
        pytest.skip("no JPEG engines in this GPU")
    files = [file(i) for i in range(count)]
    seen = engines.decode([one.data for one in files], [(one.height, one.width) for one in files])
    for one, picture in zip(files, seen, strict=True):
        if picture is None:
            assert min(one.height, one.width) < 64
            continue
        apart = (picture.cpu().short() - on_cpu(one).short()).abs()
        assert int(apart.max()) <= 1
        assert float(apart.float().mean()) < 0.01
    for one, found in zip(files, decode_files(files, GPU), strict=True):
        assert not found.failed
        assert int((found.picture.cpu().short() - on_cpu(one).short()).abs().max()) <= 1


@pytest.mark.gpu
@needs_gpu
def test_files_that_are_refused_change_no_other() -> None:
    files = [file(i) for i in range(12)]
    good = [found.picture.cpu() for found in decode_files(files, GPU)]
    liar = File(files[0].data, 257, 341)
    cut = File(files[1].data[:100].clone(), 341, 256)
    seen = decode_files([*files[:5], liar, *files[5:], cut], GPU)
    assert "instead of (3, 257, 341)" in seen[5].failed
    assert "cannot be decoded" in seen[-1].failed
    kept = seen[:5] + seen[6:-1]
    assert not any(found.failed for found in kept)
    assert all(torch.equal(found.picture.cpu(), picture) for found, picture in zip(kept, good, strict=True))


@pytest.mark.gpu
@needs_gpu
@pytest.mark.parametrize("engines", [True, False])
def test_work_that_is_queued_before_keeps_its_memory(engines: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not engines:  # then torchvision decodes
        monkeypatch.setattr(decoding, "engines_of", lambda device: None)
    files = [file(i) for i in range(64)]
    good = [found.picture.cpu() for found in decode_files(files, GPU)]
    stream = torch.cuda.Stream(GPU, priority=-1)  # type: ignore[no-untyped-call]
    expected = torch.full((8_000_000,), 0.5)
    with torch.cuda.stream(stream):
        samples = torch.full((8_000_000,), 16384, dtype=torch.int16, device=GPU)
        for late in (False, True):  # the memory of `numbers` is free before they are written, or before they are read
            torch.cuda.empty_cache()  # so that it is there that pictures are decoded to
            stream.synchronize()
            if not late:
                torch.cuda._sleep(400_000_000)
            numbers = samples.float()
            if late:
                torch.cuda._sleep(400_000_000)
            heard = numbers / 32768
            del numbers
            seen = decode_files(files, GPU)
            assert torch.equal(heard.cpu(), expected)
            assert all(torch.equal(found.picture.cpu(), picture) for found, picture in zip(seen, good, strict=True))
