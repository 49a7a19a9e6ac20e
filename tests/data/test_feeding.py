"""Batches on their way to the device."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from earsight.data import feeding
from earsight.data.items import Sent
from earsight.data.parcel import Given, Parcel, Pictures
from earsight.data.view import View
from earsight.device import own_stream


def test_all_feeds_of_a_gpu_unpack_on_one_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each stream keeps memory of its own, so that new ones would fill a GPU over many epochs."""
    monkeypatch.setattr(torch.cuda, "Stream", lambda device, priority: object())
    own_stream.cache_clear()
    one, other = torch.device("cuda", 0), torch.device("cuda", 1)
    assert own_stream(one, "unpacking") is own_stream(torch.device("cuda:0"), "unpacking")
    assert own_stream(one, "unpacking") is not own_stream(other, "unpacking")
    assert own_stream(one, "unpacking") is not own_stream(one, "scoring")
    own_stream.cache_clear()


def parcel(decoded: bool) -> Sent:
    given = Given("a", np.zeros((8, 9, 3), np.uint8) if decoded else np.zeros(5, np.uint8), 8, 9, View.whole(4))
    return Sent(Parcel(Pictures.of([given]), torch.zeros(1, 6, dtype=torch.int16), torch.tensor([0]), ("a",)), ())


@pytest.mark.parametrize("flat", [False, True])
def test_only_batches_that_the_device_decodes_wait_for_each_other(flat: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    def held(sent: list[Sent]) -> list[feeding._Held]:
        return [feeding._Held(one.flat() if flat else one, None) for one in sent]

    def sizes(sent: list[Sent]) -> list[int]:
        return [len(group) for group in feeding._groups(iter(held(sent)))]

    assert sizes([parcel(False)] * 18) == [1, 1, 1, 1, 2, 3, 4, 4, 1], "few at first, and never many batches"
    monkeypatch.setattr(feeding, "TOGETHER", 2)
    assert sizes([parcel(False)] * 9) == [1, 1, 1, 1, 2, 2, 1], "then two clips together"
    monkeypatch.setattr(feeding, "TOGETHER", 1)
    assert sizes([parcel(False)] * 3) == [1, 1, 1], "a batch of more clips is never parted"
    monkeypatch.setattr(feeding, "TOGETHER", 512)
    assert sizes([parcel(True)] * 3) == [1, 1, 1]
    assert sizes([Sent(None, ()), parcel(True)]) == [1, 1]
