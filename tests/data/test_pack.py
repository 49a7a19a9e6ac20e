"""Packed sets stand in for the sets they were made of, whatever these were made of."""

from __future__ import annotations

import pickle
import re
import shutil
import sys
from dataclasses import replace
from pathlib import Path

import make
import numpy as np
import pytest
import torch

import tiny
from earsight.config import Inputs
from earsight.data import negatives
from earsight.data.clips import Limited, open_set
from earsight.data.controls import with_audio
from earsight.data.loading import Loader, eval_batches
from earsight.data.manifest import MANIFEST, find
from earsight.data.pack import Packed, verify
from earsight.data.reader import Reader, SampleSpec
from earsight.data.sampler import BatchSampler, SampleRequest
from earsight.data.shard import Shard, Stored
from earsight.errors import MediaError, UsageError
from earsight.media.write import write_png, write_wav
from earsight.training.loop import train
from earsight.types import Row, floats
from tiny.packing import SETTINGS, contents, pack
from tiny.tones import Tones

RATE, SECONDS = SETTINGS.rate, SETTINGS.seconds
SHARD = "shard-00000.arrow"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A pack of three splits of the tones."""
    out = tmp_path_factory.mktemp("made")
    for split in ("train", "val", "torn"):
        pack(Tones(split), out, replace(SETTINGS, shard_rows=20))
    return out


@pytest.fixture
def own(made: Path, tmp_path: Path) -> Path:
    """The same in a folder that may be changed."""
    return Path(shutil.copytree(made, tmp_path / "pack"))


def test_a_packed_set_is_opened_in_place_of_the_set(made: Path) -> None:
    whole, packed = open_set("tiny.tones:val"), open_set("tiny.tones:val", made)
    assert isinstance(packed, Packed)
    assert (packed.name, packed.rows, packed.list_hash()) == (whole.name, whole.rows, whole.list_hash())
    assert open_set("tiny.tones:val", str(made)).rows == packed.rows
    assert open_set("tiny.tones", made, role="train").name == "tiny.tones:train"
    assert open_set("tiny.tones:val", made / "tiny.tones-val").rows == whole.rows


def test_clips_come_in_any_order(made: Path) -> None:
    whole, packed = Tones("train"), open_set("tiny.tones:train", made)
    for i in (63, 0, 40, 19, 20, 1, 63):
        one, two = whole.read(i, RATE, SECONDS), packed.read(i, RATE, SECONDS, draw=i)
        assert (one.id, one.rate, one.time) == (two.id, two.rate, two.time)
        assert two.frame.shape == (3, 32, 32)
        assert np.abs(floats(one.waveform) - floats(two.waveform)).max() < 1 / 32768


def test_less_sound_is_cut_around_the_frame(made: Path) -> None:
    packed = open_set("tiny.tones:train", made)
    clip, short = packed.read(3, RATE, SECONDS), packed.read(3, RATE, 0.1)
    assert np.array_equal(short.waveform, clip.waveform[300:700])
    assert short.time == pytest.approx(0.05)


@pytest.mark.parametrize(("rate", "seconds"), [(8000, SECONDS), (RATE, 0.5)])
def test_sound_that_was_not_packed_is_told_with_what_to_run(rate: int, seconds: float, made: Path) -> None:
    told = rf"but tiny\.tones:train was packed in .* with 0\.25 s at 4000\. Run: earsight data prepare .* --rate {rate}"
    with pytest.raises(UsageError, match=told):
        open_set("tiny.tones:train", made).read(0, rate, seconds)
    with pytest.raises(UsageError, match=told):
        open_set("tiny.tones:train", made, limit=3).check_audio_spec(rate, seconds)
    open_set("tiny.tones:train", made, limit=3).check_audio_spec(RATE, 0.1)
    open_set("tiny.tones:train").check_audio_spec(rate, seconds)


def test_a_clip_that_could_not_be_packed_says_why(made: Path) -> None:
    packed = open_set("tiny.tones:torn", made)
    with pytest.raises(
        MediaError, match=r"torn-17: could not be packed: torn-17: the file is torn\. Record it again\."
    ):
        packed.read(17, RATE, SECONDS)
    assert packed.read(16, RATE, SECONDS).id == "torn-16"


def test_a_set_that_reads_crosses_process_borders_without_its_files(made: Path) -> None:
    packed = open_set("tiny.tones:train", made)
    clip = packed.read(5, RATE, SECONDS)
    sent = pickle.dumps(packed)
    assert len(sent) < 20_000
    assert np.array_equal(pickle.loads(sent).read(5, RATE, SECONDS).frame, clip.frame)


def test_a_clip_is_looked_at_once_by_each_process(made: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    packed = open_set("tiny.tones:train", made)
    asked, real = [], Shard.whole

    def whole(self: Shard, at: int, row: Row, stored: Stored) -> bool:
        asked.append(row.id)
        return real(self, at, row, stored)

    monkeypatch.setattr(Shard, "whole", whole)
    for one in (packed, packed, pickle.loads(pickle.dumps(packed))):
        one.read(3, RATE, SECONDS)
    assert asked == [packed.rows[3].id] * 2


def test_a_shard_that_is_cut_off_while_it_is_read_costs_its_clips_until_it_is_mended(own: Path) -> None:
    """What was cut off from a file that is mapped cannot be looked at: the process would end."""
    packed, path = open_set("tiny.tones:train", own), own / "tiny.tones-train" / "shard-00001.arrow"
    before, whole = packed.read(39, RATE, SECONDS), path.read_bytes()
    assert packed.changed() == ""
    with path.open("r+b") as file:
        file.truncate(4096)
    told = rf"shard-00001\.arrow to be a shard of a pack, but got 4096 bytes instead of {len(whole)}\. Look with"
    with pytest.raises(MediaError, match=told):
        packed.read(39, RATE, SECONDS)
    assert packed.read(3, RATE, SECONDS).id == packed.rows[3].id
    assert re.search(told, packed.changed())
    assert re.search(told, Limited(packed, 8).changed())
    path.write_bytes(whole)
    assert np.array_equal(packed.read(39, RATE, SECONDS).frame, before.frame)
    assert packed.changed() == ""


def test_a_shard_that_was_replaced_is_looked_at_anew(own: Path) -> None:
    packed, path = open_set("tiny.tones:train", own), own / "tiny.tones-train" / "shard-00001.arrow"
    assert isinstance(packed, Packed)
    frame, whole = packed.stored(39).frame.tobytes(), path.read_bytes()
    at = whole.index(frame) + len(frame) // 2
    other = path.with_name("other")
    other.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
    other.replace(path)
    with pytest.raises(MediaError, match=r"is not what was packed in .*shard-00001\.arrow"):
        packed.read(39, RATE, SECONDS)


def test_limits_controls_and_negatives_work_on_a_pack(made: Path, tmp_path: Path) -> None:
    few = open_set("tiny.tones:train", made, limit=4)
    assert [row.id for row in few.rows] == ["train-0", "train-16", "train-32", "train-48"]
    assert not with_audio(few, "silent").read(0, RATE, SECONDS).waveform.any()
    assert not np.array_equal(
        with_audio(few, "shuffled").read(0, RATE, SECONDS).waveform, few.read(0, RATE, SECONDS).waveform
    )
    path = tmp_path / "negatives.csv"
    path.write_text("video,audio,kind\ntrain-1,train-2,easy\n")
    more = open_set(f"tiny.tones:train+{path}", made)
    assert (len(more), more.rows[-1].id) == (65, "train-1+train-2")
    assert np.array_equal(more.read(64, RATE, SECONDS).frame, more.read(1, RATE, SECONDS).frame)
    assert np.array_equal(more.read(64, RATE, SECONDS).waveform, more.read(2, RATE, SECONDS).waveform)
    assert negatives.build(more.rows[:64], count=2, same_class=0, real=[], seed=0) is not None


@pytest.mark.slow
def test_data_workers_give_the_batches_of_one_process(made: Path) -> None:
    inputs = Inputs(image_size=32, resize=36, rate=RATE, seconds=SECONDS, window=128, hop=64)
    packed = open_set("tiny.tones:torn", made)
    for workers in (0, 2):
        requests = BatchSampler(packed.rows, 16).batches(0)
        trained = list(Loader(packed, inputs, SampleSpec(0), workers=workers).prefetch(requests))
        seen = list(eval_batches(packed, inputs, 16, workers))
        if workers == 0:
            alone = trained, seen
    for ours, theirs in zip((*trained, *seen), (*alone[0], *alone[1]), strict=True):
        assert torch.equal(ours.frames, theirs.frames)
        assert torch.equal(ours.waveforms, theirs.waveforms)
        assert ours.failures == theirs.failures
    assert sorted(failure.id for batch in seen for failure in batch.failures) == ["torn-17", "torn-3"]


def test_a_pack_without_the_split_names_what_it_has(made: Path) -> None:
    told = r"tiny\.tones:shreds in the pack .*, but got tiny\.tones:torn, tiny\.tones:train, tiny\.tones:val\. Run: "
    with pytest.raises(UsageError, match=told):
        open_set("tiny.tones:shreds", made)


def test_the_command_to_run_asks_for_a_folder_where_the_set_has_one(made: Path) -> None:
    with pytest.raises(UsageError, match=r"Run: earsight data prepare toybox:val --out "):
        open_set("toybox:val", made)
    with pytest.raises(UsageError, match=r"Run: earsight data prepare vggss:test --data DIR --out "):
        open_set("vggss:test", made)


def test_without_pyarrow_a_pack_says_what_to_install(made: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "earsight.data.shard", None)
    with pytest.raises(UsageError, match=r"Expected pyarrow to read the pack .*, but it is not installed\. Install"):
        open_set("tiny.tones:val", made)


def test_an_unfinished_pack_is_not_read(own: Path) -> None:
    folder = own / "tiny.tones-val"
    (folder / MANIFEST).rename(folder / "begun.json")
    with pytest.raises(UsageError, match=r"tiny\.tones:val in the pack .*, but got an unfinished one\. Run: earsight"):
        open_set("tiny.tones:val", own)
    assert verify(folder).damages[0].detail.startswith("is missing: the pack is not finished.")


def test_a_folder_of_another_kind_is_none_of_ours(tmp_path: Path) -> None:
    assert open_set("tiny.tones:val", tmp_path).name == "tiny.tones:val"
    assert not isinstance(open_set("tiny.tones:val", tmp_path), Packed)
    assert find(tmp_path, "mine:an odd/split") is None


def test_sources_of_every_kind_are_packed_upright_and_in_colour(tmp_path: Path) -> None:
    from PIL import Image

    data = tmp_path / "data"
    data.mkdir()
    corners = make.corners(64, 48)
    exif = Image.Exif()
    exif[0x112] = 6
    make.picture(data / "turned.jpg", corners, exif=exif)
    Image.fromarray(corners).convert("CMYK").save(data / "inks.jpg")
    Image.fromarray(corners).convert("L").save(data / "grey.jpg")
    write_png(data / "one.png", np.full((3, 1, 1), 200, np.uint8))
    make.sound_file(data / "sound.wav", make.chirp(2))
    write_wav(data / "silence.wav", np.zeros(8000, np.float32), 8000)
    lines = ["turned.jpg,sound.wav,0", "inks.jpg,sound.wav,1.9", "grey.jpg,sound.wav,5", "one.png,silence.wav,0"]
    (data / "pairs_train.csv").write_text(
        "\n".join(["image,audio,start,cls,kind", *(f"{one},x,single" for one in lines)])
    )
    whole = open_set("folder:train", data)
    pack(whole, tmp_path / "pack", replace(SETTINGS, size=32), workers=0)
    packed = open_set("folder:train", tmp_path / "pack")
    assert packed.list_hash() == whole.list_hash()
    clips = [packed.read(i, RATE, SECONDS) for i in range(4)]
    assert [clip.frame.shape[1:] for clip in clips] == [(43, 32), (32, 43), (32, 43), (1, 1)]
    assert [len(clip.waveform) for clip in clips] == [1000, 400, 0, 1000]
    assert clips[0].frame[:, 2, -3].tolist() == pytest.approx([255, 0, 0], abs=60)  # its first corner, turned
    assert clips[1].frame[:, 2, 2].tolist() == pytest.approx([255, 0, 0], abs=60)
    assert np.ptp(clips[2].frame, axis=0).max() <= 4


def test_raw_videos_of_vggsound_are_packed_at_frame_125(tmp_path: Path) -> None:
    id = "aaaaaaaaaaa_000001"
    data = tmp_path / "data"
    (data / "videos").mkdir(parents=True)
    grays = [make.gray_frame(k) for k in range(250)]
    make.video(data / "videos" / f"{id}.mp4", grays, [k / 25 for k in range(250)], make.chirp(10))
    (data / "vggss_10k.txt").write_text(id)
    pack(open_set("vggsound:10k", data), tmp_path / "pack", replace(SETTINGS, size=32))
    shutil.rmtree(data)
    clip = open_set("vggsound:10k", tmp_path / "pack").read(0, RATE, SECONDS)
    assert clip.frame.mean() == pytest.approx(125, abs=1.5)
    assert clip.time == pytest.approx(0.125)
    start = round((5 - 0.125) * RATE)
    assert abs(make.lag(make.chirp(10, RATE)[start : start + 1000], clip.waveform, 100)) <= 8


def test_a_pack_can_be_packed_again_smaller(made: Path, tmp_path: Path) -> None:
    packed = open_set("tiny.tones:val", made)
    again = pack(packed, tmp_path, replace(SETTINGS, size=16, seconds=0.1, shard_rows=64))
    assert again.manifest.list_hash == packed.list_hash()
    assert len(contents(tmp_path)) == 3
    with pytest.raises(UsageError, match="Run: earsight data prepare"):
        pack(packed, tmp_path / "other", replace(SETTINGS, rate=8000))


def test_whoever_asks_for_more_sound_is_told_before_any_work(made: Path, tmp_path: Path) -> None:
    packed = open_set("tiny.tones:val", made)
    several = [packed, Limited(packed, 4), with_audio(packed, "shuffled"), with_audio(packed, "silent")]
    for one in several:
        one.check_audio_spec(RATE, SECONDS)
        with pytest.raises(UsageError, match=r"Expected 9 s of sound at \d+ samples per second, but tiny"):
            one.check_audio_spec(RATE, 9.0)
    job = tiny.job(on="tiny.tones:train")
    job = replace(job, data=str(made), inputs=replace(job.inputs, rate=RATE * 2))
    with pytest.raises(UsageError, match=r"of sound at \d+ samples per second, but tiny\.tones:train was packed in"):
        train(job, tmp_path / "run", device="cpu")
    assert not (tmp_path / "run").exists()


def test_a_shard_that_goes_away_costs_its_clips_and_no_others(own: Path) -> None:
    packed = open_set("tiny.tones:train", own)
    (own / "tiny.tones-train" / "shard-00001.arrow").unlink()
    reader = Reader(packed, Inputs(image_size=24, resize=28, rate=RATE, seconds=SECONDS, window=64, hop=32))
    seen = reader[[SampleRequest(i) for i in range(18, 22)]]
    assert [failure.id for failure in seen.failures] == ["train-20", "train-21"]
    assert seen.index.tolist() == [18, 19]
