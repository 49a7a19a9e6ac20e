"""Clips that travel as JPEG files and 16-bit samples become the batches that workers would have made."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from earsight.config import Inputs
from earsight.data.clips import ClipSet, Limited
from earsight.data.controls import with_audio
from earsight.data.decoding import engines_of
from earsight.data.feeding import Feed, deliver
from earsight.data.items import Items, Sent, Visit, Wanted, together
from earsight.data.jpeg import decode_clip, encode_jpeg
from earsight.data.loading import DECODING, Loader
from earsight.data.parcel import Parcel
from earsight.errors import UsageError
from earsight.types import Clip, Encoded, Row

INPUTS = Inputs(image_size=64, resize=80, rate=8000, seconds=0.25, window=64, hop=32)
SIZES = ((96, 96), (120, 200), (200, 90), (40, 50), (80, 80), (33, 400), (20, 1200))
CPU = torch.device("cpu")


class Jpegs(ClipSet):
    """Smooth pictures of many shapes as JPEG files, with a ramp as sound."""

    def __init__(self) -> None:
        super().__init__("jpegs:test", [Row(f"clip{i:02d}", boxes=((0.2, 0.2, 0.7, 0.6),)) for i in range(14)])

    @property
    def is_encoded(self) -> bool:
        return True

    def encoded(self, index: int, rate: int, seconds: float, draw: int = 0) -> Encoded:
        height, width = SIZES[index % len(SIZES)]
        y, x = np.mgrid[:height, :width]
        frame = np.stack(
            [127 + 100 * np.sin(x / 9 + index), 127 + 100 * np.cos(y / 7), 127 + 100 * np.sin((x + y) / 11)]
        ).astype(np.uint8)
        data = np.frombuffer(encode_jpeg(frame, 95), np.uint8)
        wave = (np.arange(round(rate * seconds)) * (index + 1) % 65536 - 32768).astype(np.int16)
        return Encoded(self.rows[index].id, data, height, width, wave, rate, seconds / 2)

    def read(self, index: int, rate: int, seconds: float, draw: int = 0) -> Clip:
        clip = self.encoded(index, rate, seconds, draw)
        return Clip(clip.id, decode_clip(clip), clip.waveform.astype(np.float32) / 32768, rate, clip.time)


def both(clips: ClipSet, visits: list[Visit], wanted: Wanted | None, decode: bool) -> tuple[Sent, Sent]:
    """What workers hand over as stored, and as they read it themselves."""
    stored = Items(clips, INPUTS, wanted, encoded=True, decode=decode)
    read = Items(clips, INPUTS, wanted)
    return together([stored[visit] for visit in visits]), together([read[visit] for visit in visits])


@pytest.mark.parametrize("decode", [False, True])
@pytest.mark.parametrize("wanted", [None, Wanted(5), Wanted(5, 1.0), Wanted(1, annotated=(True, False) * 7)])
def test_what_is_unpacked_is_what_workers_read(wanted: Wanted | None, decode: bool) -> None:
    clips = Jpegs()
    at = [i for i in range(len(clips)) if wanted is None or SIZES[i % 7] != (20, 1200)]
    stored, read = both(clips, [Visit(i, 3, (i + 1) % 6, (i + 2) % 6) for i in at], wanted, decode)
    assert isinstance(stored.batch, Parcel)
    ours, theirs = deliver([stored], CPU)[0].batch, deliver([read], CPU)[0].batch
    assert ours is not None
    assert theirs is not None
    assert ours.ids == theirs.ids
    for name in ("waveforms", "index", "truth", "supervised", "near_waveforms"):
        mine, other = getattr(ours, name), getattr(theirs, name)
        assert (mine is None) == (other is None), name
        assert mine is None or torch.equal(mine, other), name
    for mine, other in ((ours.frames, theirs.frames), (ours.near_frames, theirs.near_frames)):
        assert mine is not None
        assert other is not None
        assert torch.equal(mine, other)


@pytest.mark.parametrize("decode", [False, True])
def test_a_picture_that_cannot_be_decoded_is_left_out_and_named(decode: bool) -> None:
    class Garbage(Jpegs):
        def encoded(self, index: int, rate: int, seconds: float, draw: int = 0) -> Encoded:
            clip = super().encoded(index, rate, seconds, draw)
            return replace(clip, jpeg=clip.jpeg[:4]) if index == 2 else clip

    items = Items(Garbage(), INPUTS, Wanted(0), encoded=True, decode=decode)
    (loaded,) = deliver([together([items[Visit(i)] for i in range(5)])], CPU)
    assert loaded.batch is not None
    assert loaded.batch.ids == ("clip00", "clip01", "clip03", "clip04")
    assert loaded.batch.index.tolist() == [0, 1, 3, 4]
    assert len(loaded.batch.frames) == len(loaded.batch.waveforms) == 4
    assert [failure.id for failure in loaded.failures] == ["clip02"]
    assert "cannot be decoded" in loaded.failures[0].reason
    assert deliver([together([items[Visit(2)]])], CPU)[0].batch is None


def test_a_picture_of_another_size_than_it_says_is_left_out_and_named() -> None:
    class Liar(Jpegs):
        def encoded(self, index: int, rate: int, seconds: float, draw: int = 0) -> Encoded:
            clip = super().encoded(index, rate, seconds, draw)
            return replace(clip, height=clip.height + (index == 1))

    items = Items(Liar(), INPUTS, encoded=True)
    (loaded,) = deliver([together([items[Visit(i)] for i in range(3)])], CPU)
    assert [failure.id for failure in loaded.failures] == ["clip01"]
    assert "instead of (3, 121, 200)" in loaded.failures[0].reason


def test_a_neighbour_that_cannot_be_decoded_is_the_one_that_is_blamed() -> None:
    class Garbage(Jpegs):
        def encoded(self, index: int, rate: int, seconds: float, draw: int = 0) -> Encoded:
            clip = super().encoded(index, rate, seconds, draw)
            return replace(clip, jpeg=clip.jpeg[:4]) if index == 3 else clip

    items = Items(Garbage(), INPUTS, encoded=True)
    (loaded,) = deliver([together([items[Visit(0, 0, 1, 1)], items[Visit(1, 0, 3, 3)]])], CPU)
    assert [failure.id for failure in loaded.failures] == ["clip01"]
    assert loaded.failures[0].reason.startswith("clip03: has a JPEG")


@pytest.mark.parametrize("decode", [False, True])
def test_batches_that_are_decoded_together_are_what_they_are_alone(decode: bool) -> None:
    items = Items(Jpegs(), INPUTS, None, encoded=True, decode=decode)
    sent = [together([items[Visit(i, 0, i, i)] for i in range(first, first + 4)]) for first in (0, 4, 8)]
    sent.insert(1, Sent(None, ()))
    for one, alone in zip(deliver(sent, CPU), sent, strict=True):
        (wanted,) = deliver([alone], CPU)
        assert (one.batch is None) == (wanted.batch is None)
        if one.batch is not None and wanted.batch is not None:
            assert torch.equal(one.batch.frames, wanted.batch.frames)
            assert one.batch.near_frames is not None
            assert torch.equal(one.batch.near_frames, wanted.batch.frames)


def test_controls_and_parts_of_a_packed_set_are_packed_too() -> None:
    clips = Jpegs()
    assert Limited(clips, 4).encoded(1, 8000, 0.25).id == "clip03"
    silent, shuffled = with_audio(clips, "silent"), with_audio(clips, "shuffled")
    assert silent.is_encoded
    assert not silent.encoded(3, 8000, 0.25).waveform.any()
    assert silent.encoded(3, 8000, 0.25).waveform.dtype == np.int16
    for i in range(len(clips)):
        heard, read = shuffled.encoded(i, 8000, 0.25), shuffled.read(i, 8000, 0.25)
        assert heard.id == read.id == clips.rows[i].id
        assert np.array_equal(heard.waveform.astype(np.float32) / 32768, read.waveform)


def test_a_set_of_files_says_that_it_is_not_packed() -> None:
    class Plain(Jpegs):
        encoded = ClipSet.encoded
        is_encoded = ClipSet.is_encoded

    assert not Plain().is_encoded
    with pytest.raises(UsageError, match=r"Expected a packed set, but got jpegs:test\. Pack it with earsight data"):
        Plain().encoded(0, 8000, 0.25)


def test_waiting_for_data_is_told_once() -> None:
    items = Items(Jpegs(), INPUTS)
    sent = (together([items[Visit(i)] for i in range(3)]) for _ in range(1))
    feed = Feed(sent, CPU)
    assert len(list(feed)) == 1
    assert feed.waited() > 0
    assert feed.waited() == 0


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device here")
@pytest.mark.parametrize("workers", [0, 2, DECODING])
def test_a_gpu_sees_and_hears_what_a_cpu_does(workers: int) -> None:
    clips = Jpegs()
    visits = [[Visit(i, epoch, i, i) for i in range(14) if SIZES[i % 7] != (20, 1200)] for epoch in range(6)]
    feed = Loader(clips, INPUTS, Wanted(2), workers=workers, device="cuda", decode="auto").feed(visits)
    on_gpu = [loaded.batch for loaded in feed]
    on_cpu = [loaded.batch for loaded in Loader(clips, INPUTS, Wanted(2)).feed(visits)]
    assert len(on_gpu) == len(on_cpu) == 6
    for ours, theirs in zip(on_gpu, on_cpu, strict=True):
        assert ours is not None
        assert theirs is not None
        assert ours.frames.is_cuda
        assert ours.ids == theirs.ids
        assert torch.equal(ours.waveforms.cpu(), theirs.waveforms)
        apart = ours.frames.cpu().float() - theirs.frames.float()
        if workers >= DECODING:
            assert float(apart.abs().max()) <= 2
            continue
        if engines_of(torch.device("cuda", 0)) is not None:  # a level in decoding, two in resizing
            assert float(apart.abs().max()) <= 4
            assert float(apart.abs().mean()) < 0.1
            continue
        # torchvision's spreads colours over neighbouring pixels in another way, but brightness is stored for each.
        brightness = torch.einsum("bchw,c->bhw", apart, torch.tensor([0.299, 0.587, 0.114])).abs()
        assert float(brightness.mean()) < 1
        assert float((brightness > 4).float().mean()) < 0.02
        assert float((apart.abs() > 8).float().mean()) < 0.02
    assert feed.waited() >= 0


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device here")
def test_what_stops_the_thread_that_works_ahead_is_raised_where_batches_are_asked_for() -> None:
    class Breaks(Jpegs):
        def encoded(self, index: int, rate: int, seconds: float, draw: int = 0) -> Encoded:
            raise OSError("the disk is gone")

    with pytest.raises(OSError, match="the disk is gone"):
        list(Loader(Breaks(), INPUTS, device="cuda").feed([[Visit(0)]]))
