"""Batches on their way to the device."""

from __future__ import annotations

import pytest
import torch

from earsight.data import feeding


def test_all_feeds_of_a_gpu_unpack_on_one_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each stream keeps memory of its own, so that new ones would fill a GPU over many epochs."""
    monkeypatch.setattr(torch.cuda, "Stream", lambda device, priority: object())
    feeding._unpacking.cache_clear()
    one, other = torch.device("cuda", 0), torch.device("cuda", 1)
    assert feeding._unpacking(one) is feeding._unpacking(torch.device("cuda:0"))
    assert feeding._unpacking(one) is not feeding._unpacking(other)
    feeding._unpacking.cache_clear()
