"""Clips of a pack that are read many at once are what they are one by one."""

from __future__ import annotations

import pickle
import shutil
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from earsight.config import Inputs
from earsight.data import checking, loading
from earsight.data.clips import ClipSet, Limited, Some, open_set
from earsight.data.controls import with_audio
from earsight.data.extended import extend
from earsight.data.feeding import deliver
from earsight.data.items import Items, Run, Sent, Visit, Wanted, together
from earsight.data.loading import Loader, eval_batches
from earsight.data.pack import Packed
from earsight.data.packing import pack
from earsight.data.parcel import Parcel
from earsight.errors import UsageError
from earsight.types import Clip
from tiny.packing import SETTINGS
from tiny.tones import Tones

RATE, SECONDS = SETTINGS.rate, SETTINGS.seconds
INPUTS = Inputs(image_size=24, resize=28, rate=RATE, seconds=SECONDS, window=64, hop=32)


class Uneven(Tones):
    """Sounds of two lengths: what is short is heard more than once."""

    def read(self, index: int, rate: int, seconds: float, draw: int = 0) -> Clip:
        clip = super().read(index, rate, seconds, draw)
        return replace(clip, waveform=clip.waveform[: -300 if index == 5 else None])


class Wide(Tones):
    """Pictures of several shapes."""

    def read(self, index: int, rate: int, seconds: float, draw: int = 0) -> Clip:
        clip = super().read(index, rate, seconds, draw)
        return replace(clip, frame=np.tile(clip.frame, (1, 1, 1 + index % 3)))


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("runs")
    for name, tones in (("plain", Tones("train")), ("torn", Tones("torn")), ("uneven", Uneven("train"))):
        pack(tones, out / name, replace(SETTINGS, shard_rows=20))
    pack(Wide("train"), out / "wide", replace(SETTINGS, shard_rows=20))
    return out


def looked_at(clips: ClipSet) -> ClipSet:
    """The same, of which each clip that can be read is known to be right."""
    for i in range(len(clips)):
        Items(clips, INPUTS, encoded=True)[Visit(i)]
    return clips


def opened(made: Path, name: str, split: str = "train") -> ClipSet:
    return looked_at(open_set(f"tiny.tones:{split}", made / name))


def one_by_one(items: Items, at: list[int]) -> Sent:
    return together([items[Visit(i)] for i in at])


def tensors(sent: Sent) -> list[torch.Tensor]:
    found: list[torch.Tensor] = []
    assert isinstance(sent.batch, Parcel)
    sent.batch.each(lambda x: found.append(x) or x)  # type: ignore[func-returns-value]
    return found


def assert_same(ours: Sent, theirs: Sent) -> None:
    assert isinstance(ours.batch, Parcel)
    assert isinstance(theirs.batch, Parcel)
    assert ours.failures == theirs.failures
    assert ours.batch.ids == theirs.batch.ids == ours.batch.pictures.ids
    assert ours.batch.pictures.side == theirs.batch.pictures.side
    for x, y in zip(tensors(ours), tensors(theirs), strict=True):
        assert x.dtype == y.dtype
        assert torch.equal(x, y)


@pytest.mark.parametrize(
    "at",
    [
        list(range(8)),
        list(range(15, 45)),  # of three shards
        [0, 1, 2, 5, 6, 30, 63],
        [9],
        [7, 3, 3, 19, 20, 2],
    ],
)
@pytest.mark.parametrize("name", ["plain", "wide"])
def test_many_at_once_are_the_same_clips(made: Path, name: str, at: list[int]) -> None:
    items = Items(opened(made, name), INPUTS, encoded=True)
    many = items.__getitems__([Visit(i) for i in at])
    assert isinstance(many, Run)
    assert_same(together(many), one_by_one(items, at))


@pytest.mark.parametrize("change", ["some", "limited", "shuffled", "silent", "negatives"])
def test_parts_and_controls_are_read_at_once_too(made: Path, change: str, tmp_path: Path) -> None:
    clips = opened(made, "plain")
    (tmp_path / "negatives.csv").write_text("video,audio,kind\ntrain-1,train-2,easy\ntrain-4,train-60,easy\n")
    changed = {
        "some": lambda: Some(clips, [2, 3, 4, 40, 41, 63]),
        "limited": lambda: Limited(clips, 16),
        "shuffled": lambda: with_audio(clips, "shuffled"),
        "silent": lambda: with_audio(clips, "silent"),
        "negatives": lambda: Some(extend(clips, tmp_path / "negatives.csv"), [61, 62, 63, 64, 65]),
    }[change]()
    items = Items(changed, INPUTS, encoded=True)
    at = list(range(len(changed)))
    many = items.__getitems__([Visit(i) for i in at])
    assert isinstance(many, Run)
    assert_same(together(many), one_by_one(items, at))


def test_of_more_sound_than_is_asked_for_the_middle_is_heard(made: Path) -> None:
    less = Inputs(image_size=24, resize=28, rate=RATE, seconds=0.1, window=64, hop=32)
    items = Items(opened(made, "plain"), less, encoded=True)
    many = items.__getitems__([Visit(i) for i in range(30)])
    assert isinstance(many, Run)
    assert_same(together(many), one_by_one(items, list(range(30))))


def test_what_is_special_is_read_one_by_one(made: Path) -> None:
    def at_once(clips: ClipSet, at: range, wanted: Wanted | None = None, decode: bool = False) -> bool:
        items = Items(clips, INPUTS, wanted, encoded=True, decode=decode)
        found = items.__getitems__([Visit(i) for i in at])
        if wanted is None and not decode:
            assert_same(together(found), one_by_one(items, list(at)))
        return isinstance(found, Run)

    torn, uneven = opened(made, "torn", "torn"), opened(made, "uneven")
    assert at_once(torn, range(4, 17))
    assert not at_once(torn, range(10))  # of which one could not be packed
    assert at_once(uneven, range(6, 30))
    assert not at_once(uneven, range(8))
    assert not at_once(uneven, range(5, 6))
    plain = opened(made, "plain")
    assert not at_once(plain, range(8), Wanted(0))
    assert not at_once(plain, range(8), decode=True)
    assert not at_once(pickle.loads(pickle.dumps(plain)), range(8))  # of which nothing is known yet


def test_a_shard_that_was_looked_at_as_a_whole_is_read_at_once(made: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clips = open_set("tiny.tones:train", made / "plain")
    assert isinstance(clips, Packed)
    items, visits = Items(clips, INPUTS, encoded=True), [Visit(i) for i in range(15, 45)]
    clips.expect(range(64))
    go_on, look = threading.Event(), checking._is_whole
    monkeypatch.setattr(checking, "_is_whole", lambda *given: go_on.wait(60) and look(*given))
    assert not isinstance(items.__getitems__(visits), Run)  # nobody waits for it
    go_on.set()
    for number in range(4):
        clips._checks.whole(number)
        for found in list(clips._checks._found.values()):
            assert found.result(timeout=60)
    clips._found_right.clear()
    assert isinstance(items.__getitems__(visits), Run)
    assert_same(together(items.__getitems__(visits)), one_by_one(items, list(range(15, 45))))


def test_a_clip_without_a_good_header_fails_whoever_asks_for_it(made: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also one that is only to be heard."""
    clips = opened(made, "plain")
    shuffled = with_audio(clips, "shuffled")
    real = Packed._is_jpeg
    spoilt = clips.encoded(30, RATE, SECONDS).jpeg

    def but_one(self: Packed, data: np.ndarray[Any, np.dtype[np.uint8]], height: int, width: int) -> bool:
        return real(self, data, height, width) and not np.array_equal(data, spoilt)

    monkeypatch.setattr(Packed, "_is_jpeg", but_one)
    for chosen in (clips, shuffled):
        items = Items(chosen, INPUTS, encoded=True)
        sent = together(items.__getitems__([Visit(i) for i in range(64)]))
        assert_same(sent, one_by_one(items, list(range(64))))
        assert len(sent.failures) == (1 if chosen is clips else 2)
        alone = [together(items.__getitems__([Visit(i)])) for i in range(64)]
        assert [failure for one in alone for failure in one.failures] == list(sent.failures)


def test_clips_without_sound_cost_nothing_and_are_silent(tmp_path: Path) -> None:
    class Mute(Tones):
        def read(self, index: int, rate: int, seconds: float, draw: int = 0) -> Clip:
            clip = super().read(index, rate, seconds, draw)
            return replace(clip, waveform=clip.waveform[: 0 if index in (0, 20) else 7 if index == 40 else None])

    pack(Mute("train"), tmp_path, replace(SETTINGS, shard_rows=20))
    clips = looked_at(open_set("tiny.tones:train", tmp_path))
    assert isinstance(clips, Packed)
    for number in range(3):
        assert clips._shard(number).sounds(0, 20) is None
    items = Items(clips, INPUTS, encoded=True)
    for at in ([0], list(range(4)), [40], list(range(64))):
        found = items.__getitems__([Visit(i) for i in at])
        assert not isinstance(found, Run)
        assert_same(together(found), one_by_one(items, at))
    assert isinstance(items.__getitems__([Visit(1), Visit(2)]), Run)


def test_nothing_is_asked_for_at_once(made: Path) -> None:
    clips = opened(made, "plain")
    for chosen in (clips, with_audio(clips, "silent"), with_audio(clips, "shuffled")):
        assert together(Items(chosen, INPUTS, encoded=True).__getitems__([])) == Sent(None, ())
    with pytest.raises(UsageError, match="of sound at"):
        with_audio(clips, "silent").sounds([0], RATE * 2, SECONDS)


def test_a_damaged_clip_is_named_however_it_is_read(made: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(made / "plain", tmp_path / "pack"))
    (shard,) = sorted(folder.rglob("shard-00001.arrow"))
    clips = Packed(shard.parent)
    wave = clips.stored(25).wave.tobytes()
    data = bytearray(shard.read_bytes())
    data[bytes(data).index(wave) + 7] ^= 1
    del clips
    shard.write_bytes(data)
    clips = Packed(shard.parent)
    clips.expect(range(len(clips)))
    items = Items(clips, INPUTS, encoded=True)
    for _ in range(3):  # the shard is looked at meanwhile
        sent = together(items.__getitems__([Visit(i) for i in range(20, 40)]))
        assert [failure.id for failure in sent.failures] == ["train-25"]
        assert sent.batch is not None


def test_a_shard_that_goes_away_costs_its_clips_and_no_others(made: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(made / "plain", tmp_path / "pack"))
    (shard,) = sorted(folder.rglob("shard-00001.arrow"))
    clips = looked_at(Packed(shard.parent))
    assert isinstance(clips, Packed)
    clips._open.clear()
    shard.unlink()
    sent = together(Items(clips, INPUTS, encoded=True).__getitems__([Visit(i) for i in range(18, 22)]))
    assert [failure.id for failure in sent.failures] == ["train-20", "train-21"]


def test_a_gpu_gets_a_pack_without_workers(made: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    class Counted(Loader):
        def __init__(self, *args: Any, workers: int, **more: Any) -> None:
            asked.append(workers)
            super().__init__(*args, workers=workers, **more)

    monkeypatch.setattr(loading, "Loader", Counted)
    packed, files = opened(made, "plain"), Tones("train")
    for kernels in (False, True):
        monkeypatch.setattr(loading, "has_kernels", lambda device, there=kernels: there)
        for clips in (packed, files):
            eval_batches(clips, INPUTS, 6, 2).close()
    assert asked == [2, 2, 0, 2]
    with pytest.raises(UsageError, match="at most 512 workers"):
        eval_batches(packed, INPUTS, 6, 5000)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device here")
@pytest.mark.parametrize("name", ["plain", "uneven", "wide"])
def test_a_gpu_gets_what_was_read_at_once(made: Path, name: str) -> None:
    clips, cuda = opened(made, name), torch.device("cuda")
    items = Items(clips, INPUTS, encoded=True)
    visits = [[Visit(i) for i in range(first, min(first + 6, 64))] for first in range(0, 64, 6)]
    seen = list(Loader(clips, INPUTS, device=cuda).feed(visits))
    assert len(seen) == 11
    for i, (batch, failures) in enumerate(seen):
        ((expected, _),) = deliver([one_by_one(items, list(range(6 * i, min(6 * i + 6, 64))))], cuda)
        assert batch is not None
        assert expected is not None
        assert not failures
        assert batch.ids == expected.ids
        assert torch.equal(batch.index, expected.index)
        assert torch.equal(batch.frames, expected.frames)
        assert torch.equal(batch.waveforms, expected.waveforms)
