"""Maps arrive as they were made, and several batches of them become one."""

from __future__ import annotations

import pytest
import torch

from earsight.arriving import Arriving, joined
from earsight.types import Maps


def some(count: int, seed: int, *, native: bool = False) -> Maps:
    draw = torch.Generator().manual_seed(seed)
    dense, other, own = (torch.rand(shape, generator=draw) for shape in ((count, 3, 4),) * 2 + ((count,),))
    return Maps(other if native else dense, dense, (0.0, 1.0), own if native else None, (0.0, 2.0) if native else None)


@pytest.mark.parametrize("native", [False, True])
def test_maps_arrive_in_full_precision_with_the_places_of_their_clips(native: bool) -> None:
    maps = some(2, 0, native=native)
    there, index = Arriving(maps.each(torch.Tensor.double), torch.tensor([4, 9])).arrived()
    assert index == [4, 9]
    assert there.dense.dtype == torch.float32
    assert torch.equal(there.dense, maps.dense)
    assert (there.native is there.dense) is not native


def test_maps_that_arrive_do_not_change_with_those_that_were_made() -> None:
    maps = some(1, 0)
    made = Arriving(maps, torch.tensor([0]))
    wanted = maps.dense.clone()
    maps.dense.zero_()
    assert torch.equal(made.arrived()[0].dense, wanted)


@pytest.mark.parametrize("native", [False, True])
def test_batches_are_joined_in_order(native: bool) -> None:
    parts = [some(2, 0, native=native), some(3, 1, native=native)]
    whole = joined(parts)
    assert whole is not None
    assert torch.equal(whole.dense, torch.cat([part.dense for part in parts]))
    assert torch.equal(whole.native, torch.cat([part.native for part in parts]))
    assert (whole.native is whole.dense) is not native
    assert (whole.bounds, whole.native_bounds) == (parts[0].bounds, parts[0].native_bounds)
    assert (whole.confidence is None) is not native


def test_nothing_joined_is_none() -> None:
    assert joined([]) is None


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device here")
def test_maps_of_a_gpu_have_arrived_when_they_are_handed_out() -> None:
    maps = some(2, 0, native=True)
    made = Arriving(maps.each(torch.Tensor.cuda), torch.tensor([1, 2]).cuda())
    there, index = made.arrived()
    assert torch.equal(there.native, maps.native)
    assert index == [1, 2]
