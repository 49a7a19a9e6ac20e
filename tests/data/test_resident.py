"""Clips that lie decoded in memory give the batches that reading them gives."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor

import tiny
from earsight.config import Inputs, Optim
from earsight.data import resident as resident_module
from earsight.data.clips import Limited, Some, open_set
from earsight.data.feeding import deliver
from earsight.data.items import Items, Loaded, Visit, Wanted, together
from earsight.data.loading import Loader, epoch_visits
from earsight.data.packing import pack
from earsight.data.resident import Drawn, Resident, need_resident
from earsight.errors import MediaError, UsageError
from earsight.training import loop
from earsight.training.loop import train
from earsight.types import Batch, Clip, Encoded
from tiny import two_stages
from tiny.packing import SETTINGS
from tiny.tones import Tones

RATE, SECONDS = SETTINGS.rate, SETTINGS.seconds
INPUTS = Inputs(image_size=24, resize=28, rate=RATE, seconds=0.125, window=64, hop=32)
CPU, CUDA = torch.device("cpu"), torch.device("cuda")


class Wide(Tones):
    """Pictures of several shapes, of which one is much too long."""

    def read(self, index: int, rate: int, seconds: float, draw: int = 0) -> Clip:
        clip = super().read(index, rate, seconds, draw)
        return replace(clip, frame=np.tile(clip.frame, (1, 1, 30 if index == 7 else 1 + index % 3)))


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("resident")
    for tones in (Wide("train"), Tones("torn"), Tones("val")):
        pack(tones, out, replace(SETTINGS, shard_rows=20))
    return out


def tensors(batch: Batch) -> list[Tensor]:
    found: list[Tensor] = []
    batch.each(lambda x: found.append(x) or x)  # type: ignore[func-returns-value]
    return found


def assert_same(ours: Loaded, theirs: Loaded) -> None:
    assert ours.failures == theirs.failures
    assert ours.batch is not None
    assert theirs.batch is not None
    assert ours.batch.ids == theirs.batch.ids
    for x, y in zip(tensors(ours.batch), tensors(theirs.batch), strict=True):
        assert x.dtype == y.dtype
        assert torch.equal(x, y)


@pytest.mark.parametrize(
    "wanted",
    [
        Wanted(3),
        Wanted(3, annotated=tuple(i % 2 == 0 for i in range(64))),
        Wanted(3, seconds=SECONDS),
        None,
    ],
    ids=["plain", "annotated", "longer", "whole"],
)
@pytest.mark.parametrize("split", ["train", "torn"])
def test_batches_are_those_that_are_read(made: Path, wanted: Wanted | None, split: str) -> None:
    clips = open_set(f"tiny.tones:{split}", made)
    items = Items(clips, INPUTS, wanted, encoded=True)
    drawn = Drawn(Resident(clips, INPUTS, 0.0 if wanted is None else wanted.seconds, CPU), items)
    for visits in (
        [Visit(i, 0) for i in range(20)],
        [Visit(i, 2) for i in (63, 5, 5, 17, 40)],
        [Visit(i, 1, (i + 1) % 64, (i + 3) % 64) for i in range(60, 64)],
    ):
        (ours,), (theirs,) = (
            deliver([sent], CPU) for sent in (drawn.__getitems__(visits), together([items[v] for v in visits]))
        )
        assert_same(ours, theirs)
        if split == "torn" and len(visits) == 20:
            assert [failure.id for failure in ours.failures] == ["torn-3", "torn-17"]


def test_what_fails_is_named_with_whoever_it_was_to_be_beside(made: Path) -> None:
    clips = open_set("tiny.tones:torn", made)
    items = Items(clips, INPUTS, Wanted(0), encoded=True)
    drawn = Drawn(Resident(clips, INPUTS, 0.0, CPU), items)
    visits = [Visit(0, 0, 3, 3), Visit(1, 0, 2, 17), Visit(2, 0, 4, 5)]
    sent = drawn.__getitems__(visits)
    assert sent.failures == together([items[visit] for visit in visits]).failures
    assert [failure.id for failure in sent.failures] == ["torn-0", "torn-1"]
    assert drawn.__getitems__([Visit(3)]).batch is None


def test_parts_of_a_set_can_be_kept_too(made: Path) -> None:
    for clips in (Limited(open_set("tiny.tones:train", made), 9), Some(open_set("tiny.tones:train", made), [5, 3, 60])):
        items = Items(clips, INPUTS, Wanted(1), encoded=True)
        drawn = Drawn(Resident(clips, INPUTS, 0.0, CPU), items)
        visits = [Visit(i, 4) for i in range(len(clips))]
        (ours,), (theirs,) = (
            deliver([sent], CPU) for sent in (drawn.__getitems__(visits), together([items[v] for v in visits]))
        )
        assert_same(ours, theirs)


def test_a_set_without_a_clip_that_can_be_read_gives_reasons(made: Path) -> None:
    clips = Some(open_set("tiny.tones:torn", made), [3, 17])
    kept = Resident(clips, INPUTS, 0.0, CPU)
    assert kept.bytes == 0
    sent = Drawn(kept, Items(clips, INPUTS, Wanted(0), encoded=True)).__getitems__([Visit(0), Visit(1)])
    assert sent.batch is None
    assert [failure.id for failure in sent.failures] == ["torn-3", "torn-17"]


def test_memory_is_counted_and_too_little_of_it_refused(made: Path) -> None:
    clips = open_set("tiny.tones:val", made)
    kept = Resident(clips, INPUTS, 0.0, CPU)
    assert kept.bytes == 64 * (3 * 32 * 32 + 2 * INPUTS.samples)
    Resident(clips, INPUTS, 0.0, CPU, free=int(kept.bytes / resident_module.SHARE) + 1)
    with pytest.raises(
        UsageError, match=r"room on the GPU for 0\.0 GiB of clips with --optim\.resident, but got 0\.0, "
    ):
        Resident(clips, INPUTS, 0.0, CPU, free=kept.bytes)


def test_clips_that_are_larger_than_the_first_are_refused_too(made: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resident_module, "READ", 4)
    clips = Some(open_set("tiny.tones:train", made), [0, 3, 6, 9, 2, 5, 8, 11])
    kept = Resident(clips, INPUTS, 0.0, CPU)
    first = Resident(Some(clips, range(4)), INPUTS, 0.0, CPU)
    assert kept.bytes > 3 * first.bytes
    with pytest.raises(UsageError, match=r"of clips with --optim\.resident"):
        Resident(clips, INPUTS, 0.0, CPU, free=int(2.1 * first.bytes / resident_module.SHARE))


def test_memory_that_is_full_too_soon_is_told(made: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(files: object, device: object) -> list[object]:
        raise torch.OutOfMemoryError("no more")

    monkeypatch.setattr(resident_module, "decode_files", full)
    with pytest.raises(
        UsageError, match=r"room on the GPU for 64 clips with --optim\.resident, but it was full after 0"
    ):
        Resident(open_set("tiny.tones:val", made), INPUTS, 0.0, CPU)


class Varying(Some):
    """Another sound in every epoch."""

    varies = True

    def encoded(self, index: int, rate: int, seconds: float, draw: int = 0) -> Encoded:
        clip = super().encoded(index, rate, seconds, draw)
        return replace(clip, waveform=np.roll(clip.waveform, draw % 1000))

    def sounds(self, indices: Sequence[int], rate: int, seconds: float) -> None:
        return None


def test_sounds_that_change_are_read_in_every_epoch(made: Path) -> None:
    clips = Varying(open_set("tiny.tones:torn", made), range(64))
    kept = Resident(clips, INPUTS, 0.0, CPU)
    assert kept.bytes == 62 * 3 * 32 * 32
    items = Items(clips, INPUTS, Wanted(0), encoded=True)
    drawn, heard = Drawn(kept, items), []
    for epoch in range(2):
        visits = [Visit(i, epoch, (i + 1) % 64, (i + 2) % 64) for i in range(12)]
        (ours,), (theirs,) = (
            deliver([sent], CPU) for sent in (drawn.__getitems__(visits), together([items[v] for v in visits]))
        )
        assert_same(ours, theirs)
        assert ours.batch is not None
        heard.append(ours.batch.waveforms)
    assert not torch.equal(*heard)


def test_only_a_gpu_keeps_packs(made: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    packed = open_set("tiny.tones:train", made)
    with pytest.raises(UsageError, match=r"Expected a GPU for --optim\.resident, but got cpu\. Train without it"):
        need_resident(packed, Optim(), CPU)
    monkeypatch.setattr(resident_module, "has_kernels", lambda device: True)
    need_resident(packed, Optim(), CPU)
    need_resident(Limited(packed, 5), Optim(decode="gpu"), CPU)
    with pytest.raises(
        UsageError, match=r"Expected a GPU that decodes for --optim\.resident, but got --optim\.decode cpu"
    ):
        need_resident(packed, Optim(decode="cpu"), CPU)
    with pytest.raises(UsageError, match=r"Expected a pack for --optim\.resident, but got the files of tiny\.tones"):
        need_resident(Tones("train"), Optim(), CPU)


class Deaf(Varying):
    """Of one clip the sound of the first epoch is torn."""

    def encoded(self, index: int, rate: int, seconds: float, draw: int = 0) -> Encoded:
        if index == 5 and draw == 0:
            raise MediaError(self.rows[index].id, "has a torn sound.")
        return super().encoded(index, rate, seconds, draw)


def test_a_sound_that_cannot_be_read_costs_the_visits_that_hear_it(made: Path) -> None:
    clips = Deaf(open_set("tiny.tones:val", made), range(64))
    items = Items(clips, INPUTS, Wanted(0), encoded=True)
    drawn = Drawn(Resident(clips, INPUTS, 0.0, CPU), items)
    for epoch in range(2):
        visits = [Visit(i, epoch) for i in range(4, 8)]
        sent = drawn.__getitems__(visits)
        assert sent.failures == together([items[visit] for visit in visits]).failures
        assert len(sent.failures) == (epoch == 0)


class Spoilt(Some):
    """A picture with a good header that cannot be decoded."""

    def encoded(self, index: int, rate: int, seconds: float, draw: int = 0) -> Encoded:
        clip = super().encoded(index, rate, seconds, draw)
        return replace(clip, jpeg=np.concatenate([clip.jpeg[:300], clip.jpeg[:20]])) if index == 7 else clip

    def jpegs(self, indices: Sequence[int]) -> None:
        return None


def test_a_clip_whose_picture_is_of_no_use_is_still_heard(made: Path) -> None:
    val = open_set("tiny.tones:val", made)
    for clips in (Spoilt(val, range(64)), open_set("tiny.tones:train", made)):  # undecodable, and much too long
        items = Items(clips, INPUTS, Wanted(0), encoded=True)
        drawn = Drawn(Resident(clips, INPUTS, 0.0, CPU), items)
        visits = [Visit(0, 0, 1, 7), Visit(1, 0, 7, 2), Visit(7, 0, 1, 2), Visit(2, 0, 3, 3)]
        (ours,), (theirs,) = (
            deliver([sent], CPU) for sent in (drawn.__getitems__(visits), together([items[v] for v in visits]))
        )
        assert_same(ours, theirs)
        assert [failure.id for failure in ours.failures] == [clips.rows[1].id, clips.rows[7].id]


def test_clips_of_one_name_are_kept_apart(made: Path) -> None:
    val = open_set("tiny.tones:val", made)
    clips = Some(val, [3, 4, 3])
    clips.rows = (val.rows[3], replace(val.rows[4], id=val.rows[3].id), val.rows[3])
    items = Items(clips, INPUTS, Wanted(0), encoded=True)
    drawn = Drawn(Resident(clips, INPUTS, 0.0, CPU), items)
    visits = [Visit(i) for i in range(3)]
    (ours,), (theirs,) = (
        deliver([sent], CPU) for sent in (drawn.__getitems__(visits), together([items[v] for v in visits]))
    )
    assert_same(ours, theirs)


@pytest.mark.slow
@pytest.mark.parametrize(("method", "settings"), [("slavc", None), ("tiny.two_stages", two_stages.Config())])
def test_training_ends_with_the_same_weights(
    made: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    method: str,
    settings: object,
) -> None:
    monkeypatch.setattr(loop, "need_resident", lambda clips, settings, where: None)
    job = tiny.job(method=method, settings=settings, on="tiny.tones:train", epochs=2, max_failed=0.5)
    job = replace(job, data=str(made))
    job = replace(job, inputs=replace(job.inputs, rate=RATE, seconds=SECONDS, window=64, hop=32))
    found = []
    for resident in (False, True):
        optim = replace(job.optim, resident=resident)
        path = train(replace(job, optim=optim), tmp_path / str(resident), device="cpu")
        found.append(load_file(path))
    read, kept = found
    assert read.keys() == kept.keys()
    assert all(torch.equal(read[name], kept[name]) for name in read)
    assert capsys.readouterr().err.count("decoded into the memory") == 1  # for all stages


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device here")
def test_a_gpu_cuts_the_same_from_what_it_keeps(made: Path) -> None:
    clips, wanted = open_set("tiny.tones:train", made), Wanted(0, SECONDS)
    kept = Resident(clips, INPUTS, SECONDS, CUDA)
    visits = [batch for epoch in range(3) for batch in epoch_visits(64, 0, epoch, batch_size=16)]
    ours = list(Loader(clips, INPUTS, wanted, device=CUDA, resident=kept).feed(visits))
    theirs = list(Loader(clips, INPUTS, wanted, device=CUDA, decode="gpu").feed(visits))
    assert len(ours) == 12
    for one, other in zip(ours, theirs, strict=True):
        assert_same(one, other)
