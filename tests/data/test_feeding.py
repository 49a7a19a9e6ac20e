"""Batches on their way to the device."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from earsight.data.feeding import Feed
from earsight.data.items import Item, Loaded, Read, together
from earsight.device import own_stream


def test_all_feeds_of_a_gpu_copy_on_one_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each stream keeps memory of its own, so that new ones would fill a GPU over many epochs."""
    monkeypatch.setattr(torch.cuda, "Stream", lambda device, priority: object())
    own_stream.cache_clear()
    one, other = torch.device("cuda", 0), torch.device("cuda", 1)
    assert own_stream(one, "copying") is own_stream(torch.device("cuda:0"), "copying")
    assert own_stream(one, "copying") is not own_stream(other, "copying")
    assert own_stream(one, "copying") is not own_stream(one, "scoring")
    own_stream.cache_clear()


def loaded(*waves: Any) -> Loaded:
    reads = [Read(torch.zeros(3, 4, 4, dtype=torch.uint8), wave, None) for wave in waves]
    return together([Item(i, f"clip{i}", None, read, None) for i, read in enumerate(reads)])


def test_sounds_become_floats_on_the_device_and_not_before() -> None:
    whole, floats = np.array([-32768, 16384], np.int16), np.array([-1, 0.5], np.float32)
    sent = [loaded(whole, whole), loaded(floats, floats), loaded(whole, floats), Loaded(None, ())]
    assert [None if one.batch is None else one.batch.waveforms.dtype for one in sent] == [
        torch.int16,
        torch.float32,
        torch.float32,
        None,
    ]
    for batch, _ in Feed((one for one in sent), torch.device("cpu")):
        assert batch is None or torch.equal(batch.waveforms, torch.tensor([[-1, 0.5], [-1, 0.5]]))
