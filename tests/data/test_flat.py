"""A batch in one piece is the batch."""

from __future__ import annotations

import pickle

import pytest
import torch
from torch import Tensor

from earsight.data.flat import ALIGNED, Flat, Room
from earsight.types import Batch


def batch(truth: bool) -> Batch:
    random = torch.Generator().manual_seed(1)
    frames = torch.randint(0, 255, (3, 3, 5, 5), dtype=torch.uint8, generator=random)
    given = torch.rand(3, 5, 5, generator=random) if truth else None
    known = torch.tensor([True, False, True]) if truth else None
    waveforms = torch.rand(7, 3, generator=random).T  # not in the order of memory
    return Batch(frames, waveforms, torch.tensor([4, 0, 9]), ("a", "b", "c"), given, known)


def tensors(one: Batch) -> list[Tensor]:
    found: list[Tensor] = []

    def keep(x: Tensor) -> Tensor:
        found.append(x)
        return x

    one.each(keep)
    return found


@pytest.mark.parametrize("truth", [False, True])
def test_a_batch_in_one_piece_opens_to_what_it_was(truth: bool) -> None:
    given = batch(truth)
    flat = Flat.of(given)
    assert flat.data.is_shared()
    opened = flat.opened()
    assert opened.ids == given.ids
    ours, theirs = tensors(opened), tensors(given)
    assert len(ours) == len(theirs) == (5 if truth else 3)
    for mine, other in zip(ours, theirs, strict=True):
        assert mine.dtype == other.dtype
        assert torch.equal(mine, other)
        assert mine.is_contiguous()
        assert (mine.data_ptr() - flat.data.data_ptr()) % ALIGNED == 0
        assert mine.untyped_storage().data_ptr() == flat.data.data_ptr()


def test_what_is_changed_in_the_piece_is_changed_in_the_batch() -> None:
    flat = Flat.of(batch(False))
    flat.data.zero_()
    assert not any(x.any() for x in tensors(flat.opened()))


def test_only_one_tensor_of_it_has_data() -> None:
    flat = Flat.of(batch(True))
    assert all(x.is_meta for x in tensors(flat.form))
    assert len(pickle.dumps(flat.form)) < 4000


def test_room_is_used_in_turns_and_grows() -> None:
    room = Room(2)
    first, second = Flat.of(batch(False), room), Flat.of(batch(True), room)
    assert first.data.is_shared()
    assert torch.equal(first.opened().frames, batch(False).frames)
    assert first.data.data_ptr() != second.data.data_ptr()
    second.data.zero_()
    again = Flat.of(batch(False), room)
    assert again.data.data_ptr() == first.data.data_ptr()
    longer = Flat.of(Batch(torch.ones(9, 3, 50, 50), torch.ones(9, 7), torch.arange(9), ("a",) * 9), room)
    assert longer.data.untyped_storage().data_ptr() != second.data.data_ptr()
    assert (longer.opened().frames == 1).all()
    shorter = Flat.of(batch(True), Room(1))
    assert len(shorter.data) == len(second.data)
