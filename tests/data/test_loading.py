"""What leaves the loader: picture and truth through the same crop, and batches that three numbers decide."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import islice
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn.functional import max_pool2d

from earsight.config import Inputs
from earsight.data.clips import ClipSet, Limited, open_set
from earsight.data.loading import Loader, Prefetcher, eval_batches
from earsight.data.reader import Reader, SampleSpec
from earsight.data.sampler import BatchSampler, SampleRequest, batch_at
from earsight.data.view import View, eval_picture
from earsight.device import own_stream
from earsight.errors import DataError, MediaError, UsageError
from earsight.types import Batch, Clip, Failure, Neighbours, Row

INPUTS = Inputs(image_size=64, resize=80, rate=8000, seconds=0.25, window=64, hop=32)
SIZES = ((96, 96), (120, 200), (200, 90), (40, 50), (80, 80), (33, 400))


class Painted(ClipSet):
    """Black pictures of several shapes with a white box where the truth is; clip i sounds as the constant i / 100."""

    def __init__(self, count: int = 24, broken: tuple[int, ...] = ()) -> None:
        random = np.random.default_rng(0)
        self.sizes = [SIZES[i % len(SIZES)] for i in range(count)]
        rows = []
        for i, (h, w) in enumerate(self.sizes):
            x0, y0 = int(random.integers(w // 2)), int(random.integers(h // 2))
            x1, y1 = int(random.integers(x0 + w // 4, w)), int(random.integers(y0 + h // 4, h))
            rows.append(Row(f"clip{i:02d}", boxes=((x0 / w, y0 / h, x1 / w, y1 / h),)))
        super().__init__("painted:test", rows)
        self.broken = broken
        self.draws: list[int] = []

    def read(self, index: int, rate: int, seconds: float, draw: int = 0) -> Clip:
        self.draws.append(draw)
        if index in self.broken:
            raise MediaError(f"clip{index:02d}.mp4", "ends too early.", "Copy it again.")
        h, w = self.sizes[index]
        frame = np.zeros((3, h, w), dtype=np.uint8)
        x0, y0, x1, y1 = self.rows[index].boxes[0]
        frame[:, round(y0 * h) : round(y1 * h), round(x0 * w) : round(x1 * w)] = 255
        wave = np.full(round(rate * seconds), index / 100, dtype=np.float32)
        return Clip(self.rows[index].id, frame, wave, rate, seconds / 2)


class Refuses(Painted):
    def read(self, index: int, rate: int, seconds: float, draw: int = 0) -> Clip:
        raise UsageError("Expected a rate, but got none. Name one.")


class Dies(Painted):
    def read(self, index: int, rate: int, seconds: float, draw: int = 0) -> Clip:
        os._exit(1)


def train_batches(clips: ClipSet, inputs: Inputs, *, batch_size: int, seed: int, epoch: int, truth: bool = False,
                  seconds: float = 0.0, workers: int = 0, **how: Any) -> Iterator[Batch]:  # fmt: skip
    annotated = tuple(bool(row.boxes) for row in clips.rows) if truth else None
    loader = Loader(clips, inputs, SampleSpec(seed, seconds, annotated), workers=workers)
    return loader.prefetch(BatchSampler(clips.rows, batch_size, seed).batches(epoch, **how))


def batches(read: Iterable[Batch]) -> list[Batch]:
    found = list(read)
    assert all(len(batch) == len(batch.rows) > 0 for batch in found)
    return found


def grown(mask: Tensor, by: int) -> Tensor:
    return max_pool2d(mask.float()[None, None], 2 * by + 1, 1, by)[0, 0] > 0


def differ_inside(white: Tensor, truth: Tensor, by: int = 2) -> int:
    """Pixels in which picture and truth disagree, away from the box's edge, which resizing makes soft."""
    edge = grown(truth, by) & grown(~truth, by)
    return int(((white != truth) & ~edge)[by:-by, by:-by].sum())


@pytest.mark.parametrize("epoch", range(4))
def test_truth_goes_through_the_same_crop_and_flip_as_the_picture(epoch: int) -> None:
    clips = Painted()
    flips = 0
    for batch in batches(train_batches(clips, INPUTS, batch_size=6, seed=1, epoch=epoch, truth=True)):
        assert batch.truth is not None
        assert batch.supervised is not None
        assert batch.supervised.all()
        for frame, truth, index in zip(batch.frames, batch.truth, batch.index.tolist(), strict=True):
            assert differ_inside(frame[0] > 127, truth > 0.5) == 0, clips.rows[index]
            flips += differ_inside(frame[0].flip(-1) > 127, truth > 0.5) > 0
    assert flips > 6  # mirrored truth would not pass


def test_crops_and_flips_change_from_epoch_to_epoch_and_both_mirrorings_come() -> None:
    views = [View.draw(160, 200, INPUTS, np.random.default_rng(i)) for i in range(200)]
    assert {v.flip for v in views} == {True, False}
    assert {v.left for v in views} == set(range(37))
    assert {v.top for v in views} == set(range(17))
    plain = replace(INPUTS, flip=False)
    assert not any(View.draw(160, 200, plain, np.random.default_rng(i)).flip for i in range(50))
    one, two = (
        torch.cat([b.frames for b in batches(train_batches(Painted(), INPUTS, batch_size=24, seed=0, epoch=e))])
        for e in (0, 1)
    )
    assert not torch.equal(one, two)


def test_training_reads_with_the_epoch_as_draw_and_evaluation_with_0() -> None:
    clips = Painted(4)
    list(train_batches(clips, INPUTS, batch_size=4, seed=0, epoch=3))
    list(eval_batches(clips, INPUTS, 4))
    assert clips.draws == [3] * 4 + [0] * 4


def test_every_seed_has_draws_of_its_own() -> None:
    clips = Painted(4)
    for seed in (1, 2):
        list(train_batches(clips, INPUTS, batch_size=4, seed=seed, epoch=3))
    first, second = clips.draws[:4], clips.draws[4:]
    assert len(set(first)) == len(set(second)) == 1
    assert abs(first[0] - second[0]) > 100_000


def test_pictures_stay_uint8_and_sound_stays_a_waveform() -> None:
    for batch in (
        *batches(train_batches(Painted(), INPUTS, batch_size=8, seed=0, epoch=0)),
        *batches(eval_batches(Painted(), INPUTS, 8)),
    ):
        assert batch.frames.dtype == torch.uint8
        assert batch.frames.shape == (8, 3, 64, 64)
        assert batch.waveforms.dtype == torch.float32
        assert batch.waveforms.shape == (8, INPUTS.samples)
        assert batch.truth is None
        assert batch.supervised is None


@pytest.mark.parametrize(("height", "width"), SIZES)
def test_the_shorter_side_is_resized_in_training(height: int, width: int) -> None:
    view = View.draw(height, width, INPUTS, np.random.default_rng(0))
    assert min(view.height, view.width) == 80
    assert abs(view.height / view.width - height / width) < 0.02 * max(height / width, 1)


@pytest.mark.parametrize(("height", "width"), SIZES)
def test_evaluation_squeezes_the_whole_picture_into_the_square(height: int, width: int) -> None:
    frame = np.zeros((3, height, width), dtype=np.uint8)
    frame[0, : height // 2] = 200
    frame[1, :, width // 2 :] = 100
    got = eval_picture(frame, INPUTS)
    assert got.shape == (3, 64, 64)
    assert got.dtype == torch.uint8
    assert (got[0, :24] > 190).all()
    assert (got[0, 40:] < 10).all()
    assert (got[1, :, :24] < 10).all()
    assert (got[1, :, 40:] > 90).all()


def test_evaluation_goes_through_all_clips_in_order() -> None:
    got = batches(eval_batches(Painted(10), INPUTS, 4))
    assert [i for b in got for i in b.index.tolist()] == list(range(10))
    assert [id for b in got for id in b.ids] == [f"clip{i:02d}" for i in range(10)]
    assert [len(b) for b in got] == [4, 4, 2]


@pytest.mark.parametrize("world", [2, 3, 4])
def test_processes_share_the_batches_that_one_would_get(world: int) -> None:
    alone = [b.index.tolist() for b in batches(eval_batches(Painted(10), INPUTS, 4))]
    assert alone == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
    parts = [batches(eval_batches(Painted(10), INPUTS, 4, rank=r, world=world)) for r in range(world)]
    assert sorted(b.index.tolist() for part in parts for b in part) == alone


def same(one: Batch, two: Batch) -> bool:
    assert one.truth is not None
    assert two.truth is not None
    tensors = ((one.frames, two.frames), (one.waveforms, two.waveforms), (one.index, two.index), (one.truth, two.truth))
    return one.ids == two.ids and all(torch.equal(a, b) for a, b in tensors)


@pytest.mark.slow
def test_batches_are_the_same_with_and_without_workers() -> None:
    clips = Limited(open_set("toybox:val"), 12)
    results = [
        batches(train_batches(clips, INPUTS, batch_size=4, seed=5, epoch=2, workers=workers, truth=True))
        for workers in (0, 2)
    ]
    assert len(results[0]) == len(results[1]) == 3
    assert all(same(a, b) for a, b in zip(*results, strict=True))


def test_starting_at_any_step_gives_the_rest_of_the_epoch() -> None:
    def some(first: int) -> list[Batch]:
        return batches(train_batches(Painted(), INPUTS, batch_size=5, seed=5, epoch=2, first_step=first, truth=True))

    whole = some(0)
    assert len(whole) == 4
    for first in range(1, 5):
        rest = some(first)
        assert len(rest) == 4 - first
        assert all(same(a, b) for a, b in zip(whole[first:], rest, strict=True))


def test_loading_neither_reads_nor_moves_the_global_generators() -> None:
    torch.manual_seed(3)
    np.random.seed(3)
    before = torch.get_rng_state(), np.random.get_state()[1].copy()  # type: ignore[index]
    one = batches(train_batches(Painted(), INPUTS, batch_size=6, seed=0, epoch=0, truth=True))
    assert torch.equal(torch.get_rng_state(), before[0])
    assert np.array_equal(np.random.get_state()[1], before[1])  # type: ignore[index]
    torch.manual_seed(4)
    two = batches(train_batches(Painted(), INPUTS, batch_size=6, seed=0, epoch=0, truth=True))
    assert all(same(a, b) for a, b in zip(one, two, strict=True))


@pytest.mark.parametrize("world", [2, 3])
def test_the_parts_of_all_processes_are_one_process_batch(world: int) -> None:
    def part(rank: int, of: int) -> list[Batch]:
        loaded = train_batches(Painted(), INPUTS, batch_size=6, seed=7, epoch=1, rank=rank, world=of, truth=True)
        return batches(loaded)

    whole = part(0, 1)
    parts = [part(rank, world) for rank in range(world)]
    for step, batch in enumerate(whole):
        mine = [p[step] for p in parts]
        assert torch.equal(torch.cat([b.frames for b in mine]), batch.frames)
        assert torch.equal(torch.cat([b.waveforms for b in mine]), batch.waveforms)
        assert tuple(id for b in mine for id in b.ids) == batch.ids
        assert [len(b) for b in mine] == [6 // world] * world


def test_an_unreadable_clip_is_left_out_and_named() -> None:
    found = list(eval_batches(Painted(6, broken=(1, 4, 5)), INPUTS, 2))
    assert [batch.ids for batch in found] == [("clip00",), ("clip02", "clip03"), ()]
    failures = [failure for batch in found for failure in batch.failures]
    assert [failure.id for failure in failures] == ["clip01", "clip04", "clip05"]
    assert failures[0] == Failure("clip01", "clip01.mp4: ends too early. Copy it again.")


def test_an_unreadable_clip_changes_no_other_clip_of_the_batch() -> None:
    (whole,), (rest,) = (
        batches(train_batches(Painted(6, broken), INPUTS, batch_size=6, seed=0, epoch=0)) for broken in ((), (3,))
    )
    keep = whole.index != 3
    assert torch.equal(rest.frames, whole.frames[keep])
    assert torch.equal(rest.waveforms, whole.waveforms[keep])


def test_clips_without_boxes_are_not_supervised() -> None:
    clips = Painted(4)
    clips.rows = (*clips.rows[:2], Row("clip02"), Row("clip03"))
    clips.read = lambda i, rate, seconds, draw=0: Clip(  # type: ignore[method-assign]
        clips.rows[i].id, np.zeros((3, 80, 80), np.uint8), np.zeros(9, np.float32), rate, 0.0
    )
    (batch,) = batches(train_batches(clips, INPUTS, batch_size=4, seed=0, epoch=0, truth=True))
    assert batch.supervised is not None
    assert batch.truth is not None
    assert batch.supervised.tolist() == [i < 2 for i in batch.index.tolist()]
    assert not batch.truth[~batch.supervised].any()


def test_an_epoch_is_a_permutation_of_its_own() -> None:
    samplers = [BatchSampler([Row(str(i)) for i in range(50)], 4, seed) for seed in (0, 1)]
    orders = [sampler.order(epoch).tolist() for sampler in samplers for epoch in (0, 1)]
    assert all(sorted(order) == list(range(50)) for order in orders)
    assert len({tuple(order) for order in orders}) == 4


def test_only_whole_batches_are_trained_on() -> None:
    assert [BatchSampler([Row("a")] * n, 4).steps for n in (0, 3, 4, 7, 8)] == [0, 0, 1, 1, 2]
    assert not list(train_batches(Painted(3), INPUTS, batch_size=4, seed=0, epoch=0))
    assert batch_at(np.arange(10), 1, 5, 0, 2).tolist() == [5, 6, 7]


@pytest.mark.slow
def test_the_workers_of_one_epoch_read_the_next_as_new_ones_would() -> None:
    clips = Painted()
    with_workers = Loader(clips, INPUTS, SampleSpec(3), workers=2)
    for epoch in range(3):
        requests = BatchSampler(clips.rows, 8, 3).batches(epoch)
        kept = batches(with_workers.prefetch(requests))
        new = batches(Loader(clips, INPUTS, SampleSpec(3)).prefetch(requests))
        assert all(torch.equal(a.frames, b.frames) for a, b in zip(kept, new, strict=True))
        assert [a.ids for a in kept] == [b.ids for b in new]


@pytest.mark.slow
@pytest.mark.parametrize("workers", [0, 2])
def test_epochs_that_follow_each_other_are_what_each_is_alone(workers: int) -> None:
    clips = Painted()
    sampler, made = BatchSampler(clips.rows, 8, 3), list[int]()

    def requests() -> Iterator[list[SampleRequest]]:
        for epoch in range(50):
            made.append(epoch)
            yield from sampler.batches(epoch)

    loader = Loader(clips, INPUTS, SampleSpec(3), workers=workers)
    for _ in range(2):  # closed in between, it begins anew
        made.clear()
        prefetcher = loader.prefetch(requests())
        for epoch in range(2):
            alone = batches(Loader(clips, INPUTS, SampleSpec(3)).prefetch(sampler.batches(epoch)))
            kept = batches(islice(prefetcher, len(alone)))
            assert all(torch.equal(a.frames, b.frames) for a, b in zip(kept, alone, strict=True))
            assert [a.ids for a in kept] == [b.ids for b in alone]
        assert len(made) < 10  # the others are not worked out before they are needed


@pytest.mark.slow
def test_what_ends_a_worker_is_told_without_its_traceback() -> None:
    with pytest.raises(UsageError, match=r"^Expected a rate, but got none\. Name one\.$"):
        list(eval_batches(Refuses(), INPUTS, 4, workers=1))
    with pytest.raises(DataError, match=r"one of them died, perhaps for lack of memory\. Use fewer workers"):
        list(eval_batches(Dies(), INPUTS, 4, workers=1))


class CutOff(Dies):
    """Its file was cut off, and to read what is gone ends a process."""

    def changed(self) -> str:
        return "Expected a.arrow to be a shard of a pack, but got 5 bytes instead of 9. Prepare it again."


@pytest.mark.slow
def test_a_file_that_was_cut_off_under_a_worker_is_named() -> None:
    told = (
        r"died, because a file was cut off while it read\. Expected a\.arrow .* 5 bytes instead of 9\. Prepare it again"
    )
    with pytest.raises(DataError, match=told):
        list(eval_batches(CutOff(), INPUTS, 4, workers=1))


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_without_workers_no_shared_memory_is_used(device: str) -> None:
    """Which containers often have little of; a batch that does not fit would end the process."""
    batch = Loader(Painted(), INPUTS, SampleSpec(0), device=device)._loader.dataset[[SampleRequest(0)]]
    assert isinstance(batch, Batch)
    assert not batch.frames.is_shared()


def test_too_many_workers_are_refused_before_they_start() -> None:
    with pytest.raises(UsageError, match=r"Expected at most 512 workers, but got 5000\. One for each core is enough"):
        next(eval_batches(Painted(10), INPUTS, 4, workers=5000))


def test_clips_asked_for_beside_others_come_with_them_cropped_like_themselves() -> None:
    clips, n = Painted(), 24
    neighbours = Neighbours((torch.arange(n) + 1) % n, (torch.arange(n) + 2) % n)
    near = batches(train_batches(clips, INPUTS, batch_size=8, seed=0, epoch=1, neighbours=neighbours))
    plain = batches(train_batches(clips, INPUTS, batch_size=8, seed=0, epoch=1))
    frames = {int(i): b.frames[k] for b in plain for k, i in enumerate(b.index)}
    for with_near, without in zip(near, plain, strict=True):
        assert without.neighbour_pictures is None
        assert torch.equal(with_near.frames, without.frames)
        assert with_near.neighbour_pictures is not None
        assert with_near.neighbour_sounds is not None
        for k, i in enumerate(with_near.index.tolist()):
            assert torch.equal(with_near.neighbour_pictures[k], frames[(i + 1) % n])
            assert with_near.neighbour_sounds[k].unique().item() == pytest.approx((i + 2) % n / 100)


def test_a_clip_whose_companion_cannot_be_read_is_left_out_and_named() -> None:
    clips = Painted(4, broken=(2,))
    neighbours = Neighbours(torch.tensor([1, 2, 3, 0]), torch.tensor([1, 0, 3, 0]))
    (batch,) = train_batches(clips, INPUTS, batch_size=4, seed=0, epoch=0, neighbours=neighbours)
    assert sorted(batch.ids) == ["clip00", "clip03"]
    assert sorted(failure.id for failure in batch.failures) == ["clip01", "clip02"]
    assert all("clip02.mp4" in failure.reason for failure in batch.failures)


def test_training_may_hear_more_than_the_model_does() -> None:
    (batch,) = batches(train_batches(Painted(4), INPUTS, batch_size=4, seed=0, epoch=0, seconds=1.0))
    assert batch.waveforms.shape == (4, 8000)
    (batch,) = batches(train_batches(Painted(4), INPUTS, batch_size=4, seed=0, epoch=0, seconds=0.1))
    assert batch.waveforms.shape == (4, INPUTS.samples)


@pytest.mark.parametrize(
    ("length", "time"), [(12000, 0.75), (12000, 0.1), (12000, 1.4), (5000, 0.3), (1500, 0.1), (0, 0.0)]
)
def test_what_the_model_hears_is_in_the_middle_of_what_training_hears(length: int, time: float) -> None:
    class Ramps(Painted):
        def read(self, index: int, rate: int, seconds: float, draw: int = 0) -> Clip:
            wave = np.linspace(-1, 1, length, dtype=np.float32)
            return replace(super().read(index, rate, seconds, draw), waveform=wave, rate=rate, time=time)

    (plain,) = batches(train_batches(Ramps(4), INPUTS, batch_size=4, seed=0, epoch=0))
    (longer,) = batches(train_batches(Ramps(4), INPUTS, batch_size=4, seed=0, epoch=0, seconds=1.0))
    extra = (8000 - INPUTS.samples) // 2
    assert longer.waveforms.shape == (4, 8000)
    assert torch.equal(longer.waveforms[:, extra : extra + INPUTS.samples], plain.waveforms)


def test_ground_truth_that_may_not_be_used_is_left_empty() -> None:
    spec = SampleSpec(0, annotated=(True, False, True, False))
    (batch,) = batches(Loader(Painted(4), INPUTS, spec).prefetch([[SampleRequest(i) for i in range(4)]]))
    assert batch.truth is not None
    assert batch.supervised is not None
    for i, truth, supervised in zip(batch.index.tolist(), batch.truth, batch.supervised, strict=True):
        assert bool(supervised) == (i % 2 == 0)
        assert bool(truth.any()) == (i % 2 == 0)


def test_rows_come_with_every_batch() -> None:
    clips = Painted(10, broken=(4,))
    for read in (train_batches(clips, INPUTS, batch_size=5, seed=0, epoch=0), eval_batches(clips, INPUTS, 4)):
        for batch in read:
            assert batch.rows == tuple(clips.rows[i] for i in batch.index.tolist())


def test_all_prefetchers_of_a_gpu_copy_on_one_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each stream keeps memory of its own, so that new ones would fill a GPU over many epochs."""
    monkeypatch.setattr(torch.cuda, "Stream", lambda device, priority: object())
    own_stream.cache_clear()
    one, other = torch.device("cuda", 0), torch.device("cuda", 1)
    assert own_stream(one, "copying") is own_stream(torch.device("cuda:0"), "copying")
    assert own_stream(one, "copying") is not own_stream(other, "copying")
    assert own_stream(one, "copying") is not own_stream(one, "scoring")
    own_stream.cache_clear()


class Sounds(Painted):
    """Clips whose sounds are of these types, and all the same."""

    def __init__(self, *types: type) -> None:
        super().__init__(len(types))
        self.types = types

    def read(self, index: int, rate: int, seconds: float, draw: int = 0) -> Clip:
        wave = np.array([-1, 0.5]) if self.types[index] is np.float32 else np.array([-32768, 16384])
        return replace(super().read(index, rate, seconds), waveform=wave.astype(self.types[index]))


@pytest.mark.parametrize("types", [(np.int16, np.int16), (np.float32, np.float32), (np.int16, np.float32)])
def test_sounds_become_floats_on_the_device_and_not_before(types: tuple[type, ...]) -> None:
    reader = Reader(Sounds(*types), INPUTS)
    batch = reader[[SampleRequest(0), SampleRequest(1)]]
    assert batch.waveforms.dtype == (torch.int16 if set(types) == {np.int16} else torch.float32)
    (sent,) = Prefetcher((one for one in [batch]), torch.device("cpu"))
    assert torch.equal(sent.waveforms[:, :4], torch.tensor([[-1, 0.5] * 2] * 2))
