"""JPEG files in memory."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import torch

from earsight.data.pack import decode_jpeg
from earsight.data.packing import encode_jpeg
from earsight.types import U8


def noisy(height: int, width: int) -> U8:
    y, x = np.mgrid[:height, :width]
    waves = np.stack([127 + 90 * np.sin(x / 9), 127 + 90 * np.cos(y / 7), 127 + 90 * np.sin((x + y) / 11)])
    return (waves + np.random.default_rng(height).uniform(-30, 30, waves.shape)).astype(np.uint8)


@pytest.mark.parametrize(("height", "width"), [(1, 1), (7, 300), (224, 224), (255, 341)])
@pytest.mark.parametrize("quality", [75, 95])
def test_files_and_pictures_are_torchvisions_to_the_byte(height: int, width: int, quality: int) -> None:
    from torchvision import io

    picture = noisy(height, width)
    data = encode_jpeg(picture, quality)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torchvision 0.29 says that these functions will go
        assert data == io.encode_jpeg(torch.from_numpy(picture), quality).numpy().tobytes()
        wanted = io.decode_jpeg(torch.frombuffer(bytearray(data), dtype=torch.uint8)).numpy()
    seen = decode_jpeg(np.frombuffer(data, np.uint8), (height, width))
    assert np.array_equal(seen, wanted)
    assert seen.flags.writeable
    with pytest.raises(ValueError, match="not a plain JPEG of"):
        decode_jpeg(np.frombuffer(data, np.uint8), (height, width + 1))


def test_nothing_is_written_or_read_with_a_warning(recwarn: pytest.WarningsRecorder) -> None:
    decode_jpeg(np.frombuffer(encode_jpeg(noisy(30, 40), 90), np.uint8), (30, 40))
    assert not recwarn.list


def test_damaged_files_are_refused() -> None:
    data = np.frombuffer(encode_jpeg(noisy(60, 80), 90), np.uint8)
    for damaged in (data[:0], data[:20], data[: len(data) // 2], np.zeros(500, np.uint8)):
        with pytest.raises(ValueError, match=r"."):
            decode_jpeg(damaged, (60, 80))
