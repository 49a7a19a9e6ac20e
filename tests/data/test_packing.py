"""Making packs: the same bytes however it went, clips that cannot be read, and what is refused."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from earsight.data.clips import ClipSet, Limited, open_set
from earsight.data.manifest import BEGUN, MANIFEST, MARK, Settings, read_manifest
from earsight.data.pack import Packed
from earsight.data.packing import Outcome
from earsight.errors import DataError, MediaError, UsageError
from earsight.types import Clip, Row, floats
from tiny.packing import SETTINGS, contents, pack
from tiny.tones import Tones


class Made(ClipSet):
    """Rows and clips as a test wants them; a text in place of a clip is why it cannot be read."""

    def __init__(self, clips: list[Clip | str], rows: list[Row] | None = None) -> None:
        names = [clip if isinstance(clip, str) else clip.id for clip in clips]
        super().__init__("made:all", rows or [Row(f"{i}") for i in range(len(names))])
        self.clips, self.asked = clips, list[int]()

    def read(self, index: int, rate: int, seconds: float, draw: int = 0) -> Clip:
        self.asked.append(index)
        clip = self.clips[index]
        if isinstance(clip, str):
            raise MediaError(self.rows[index].id, clip)
        return replace(clip, id=self.rows[index].id)


def clip(height: int = 20, width: int = 30, samples: int = 1000, time: float = 0.125) -> Clip:
    noise = np.random.default_rng(samples)
    frame = np.full((3, height, width), 128, np.uint8)
    return Clip("x", frame, noise.uniform(-1, 1, samples).astype(np.float32), 4000, time)


@pytest.fixture(scope="module")
def straight(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """The pack that comes out when nobody kills it."""
    out = tmp_path_factory.mktemp("straight") / "pack"
    pack(Tones("torn"), out, SETTINGS)
    return contents(out)


def test_a_pack_has_a_mark_shards_and_a_manifest_and_nothing_else(straight: dict[str, bytes]) -> None:
    shards = [f"tiny.tones-torn/shard-{i:05d}.arrow" for i in range(16)]
    assert list(straight) == [MARK, "tiny.tones-torn/pack.json", *shards]
    told = json.loads(straight["tiny.tones-torn/pack.json"])
    assert (told["format"], told["set"], told["rows"]) == (1, "tiny.tones:torn", 64)
    assert [one["rows"] for one in told["shards"]] == [4] * 16
    assert [(one["index"], one["id"]) for one in told["failed"]] == [(3, "torn-3"), (17, "torn-17")]
    assert told["failed"][0]["reason"] == "torn-3: the file is torn. Record it again."


@pytest.mark.slow
def test_workers_change_no_byte(straight: dict[str, bytes], tmp_path: Path) -> None:
    pack(Tones("torn"), tmp_path / "pack", SETTINGS, workers=2)
    assert contents(tmp_path / "pack") == straight


def small(tmp_path: Path, clips: list[Clip | str], **more: float) -> tuple[Made, Outcome]:
    made = Made(clips)
    return made, pack(made, tmp_path / "pack", replace(SETTINGS, shard_rows=2), **more)  # type: ignore[arg-type]


def test_too_many_failures_keep_what_was_packed_and_only_those_are_read_again(tmp_path: Path) -> None:
    clips: list[Clip | str] = [clip(), "is gone.", "is gone.", clip(), clip()]
    made, outcome = small(tmp_path, clips, max_failed=0.3)
    folder = tmp_path / "pack" / "made-all"
    assert not outcome.finished
    assert [failed.id for failed in outcome.manifest.failed] == ["1", "2"]
    assert (folder / BEGUN).is_file()
    assert not (folder / MANIFEST).exists()
    made.clips[2], made.asked = clip(), []
    again = pack(made, tmp_path / "pack", replace(SETTINGS, shard_rows=2), max_failed=0.3)
    assert again.finished
    assert made.asked == [1, 2, 4]
    assert not (folder / BEGUN).exists()
    assert [failed.index for failed in read_manifest(folder).failed] == [1]


def test_a_finished_pack_is_left_alone_and_mended_clips_come_in(tmp_path: Path) -> None:
    clips: list[Clip | str] = [clip(), "is gone.", clip(), clip()]
    made, outcome = small(tmp_path, clips, max_failed=1)
    before = contents(tmp_path / "pack")
    changed = (outcome.folder / "shard-00000.arrow").stat().st_mtime_ns
    made.asked = []
    assert small(tmp_path, clips, max_failed=1)[1].kept == 3
    assert contents(tmp_path / "pack") == before
    assert (outcome.folder / "shard-00000.arrow").stat().st_mtime_ns == changed
    with pytest.raises(MediaError, match=r"1: could not be packed: 1: is gone\. Mend it, and run data prepare again"):
        Packed(outcome.folder).read(1, 4000, 0.25)
    clips[1] = clip()
    assert small(tmp_path, clips)[1].manifest.failed == ()
    assert Packed(outcome.folder).read(1, 4000, 0.25).frame.shape == (3, 20, 30)


def test_a_damaged_shard_is_made_anew(tmp_path: Path) -> None:
    made, outcome = small(tmp_path, [clip(), clip(), clip(samples=900), clip()])
    before = contents(tmp_path / "pack")
    path = outcome.folder / "shard-00001.arrow"
    for at in (4, 700, len(path.read_bytes()) // 2, -3):
        data = bytearray(path.read_bytes())
        data[at] ^= 1
        path.write_bytes(data)
        made.asked = []
        pack(made, tmp_path / "pack", replace(SETTINGS, shard_rows=2))
        assert not {0, 1} & set(made.asked)
        assert contents(tmp_path / "pack") == before


def flipped(path: Path, part: bytes) -> None:
    """Flip a bit in the middle of a part of a file."""
    data = bytearray(path.read_bytes())
    data[data.index(part) + len(part) // 2] ^= 1
    path.write_bytes(data)


def test_of_a_damaged_shard_only_damaged_clips_are_read_again(tmp_path: Path) -> None:
    clips: list[Clip | str] = [clip(), clip(samples=900), clip()]
    made, outcome = small(tmp_path, clips)
    before = contents(tmp_path / "pack")
    path = outcome.folder / "shard-00000.arrow"
    flipped(path, Packed(outcome.folder).stored(1).wave.tobytes())
    made.clips[0], made.asked = "is gone.", []
    again = pack(made, tmp_path / "pack", replace(SETTINGS, shard_rows=2))
    assert (again.finished, made.asked) == (True, [1])
    assert contents(tmp_path / "pack") == before


@pytest.mark.parametrize("at", [4, None])  # the whole file cannot be read, or one clip of it
def test_what_is_damaged_is_not_replaced_by_failures_alone(tmp_path: Path, at: int | None) -> None:
    made, outcome = small(tmp_path, [clip(), clip(samples=900), clip()])
    path = outcome.folder / "shard-00000.arrow"
    if at is None:
        flipped(path, Packed(outcome.folder).stored(1).wave.tobytes())
    else:
        path.write_bytes(path.read_bytes()[:at] + b"?" + path.read_bytes()[at + 1 :])
    before = contents(tmp_path / "pack")
    made.clips[:] = ["is gone."] * 3
    with pytest.raises(DataError, match=r"Expected to read the . damaged clips of .* again, but none could be read"):
        pack(made, tmp_path / "pack", replace(SETTINGS, shard_rows=2), max_failed=1)
    assert contents(tmp_path / "pack") == before
    path.unlink()  # as it says, where they are gone for good
    made.clips[0] = clip()
    again = pack(made, tmp_path / "pack", replace(SETTINGS, shard_rows=2), max_failed=1)
    assert again.finished
    assert [failure.index for failure in again.manifest.failed] == [1]


def test_shards_that_nothing_is_known_of_are_not_deleted(tmp_path: Path) -> None:
    made, outcome = small(tmp_path, [clip(), clip(), clip()])
    whole = contents(tmp_path / "pack")
    (outcome.folder / MANIFEST).unlink()
    before = contents(tmp_path / "pack")
    with pytest.raises(UsageError, match=r"Expected pack\.json or .* beside the shards of .*, but got neither"):
        pack(made, tmp_path / "pack", replace(SETTINGS, shard_rows=2))
    assert contents(tmp_path / "pack") == before
    assert pack(made, tmp_path / "pack", replace(SETTINGS, shard_rows=2), force=True).finished
    assert contents(tmp_path / "pack") == whole


def test_other_settings_or_clips_are_refused_unless_forced(tmp_path: Path) -> None:
    out = tmp_path / "pack"
    few, more = Limited(Tones("train"), 6), Limited(Tones("train"), 3)
    pack(few, out, SETTINGS)
    with pytest.raises(UsageError, match=r"begun with, but got other settings\. Use --force to pack it anew"):
        pack(few, out, replace(SETTINGS, quality=50))
    with pytest.raises(UsageError, match=r"but got other list_hash, rows"):
        pack(more, out, SETTINGS)
    (out / "tiny.tones-train" / "notes.txt").write_text("mine")
    pack(more, out, SETTINGS, force=True)
    assert sorted(path.name for path in (out / "tiny.tones-train").iterdir()) == [
        "notes.txt", MANIFEST, "shard-00000.arrow",
    ]  # fmt: skip


def test_an_unfinished_pack_refuses_other_settings_too(tmp_path: Path) -> None:
    made, _ = small(tmp_path, ["is gone.", clip()])
    with pytest.raises(UsageError, match="but got other settings"):
        pack(made, tmp_path / "pack", SETTINGS)
    (tmp_path / "pack" / "made-all" / BEGUN).write_text("{")
    with pytest.raises(UsageError, match="but got other format, set"):
        small(tmp_path, [clip(), clip()])


def test_several_splits_share_a_pack(tmp_path: Path) -> None:
    for split in ("train", "val"):
        pack(Limited(Tones(split), 3), tmp_path, SETTINGS)
    assert sorted(path.name for path in tmp_path.iterdir()) == [MARK, "tiny.tones-train", "tiny.tones-val"]


def test_two_commands_do_not_pack_into_one_folder(tmp_path: Path) -> None:
    class Nested(Tones):
        def read(self, index: int, rate: int, seconds: float, draw: int = 0) -> Clip:
            pack(Tones("train"), tmp_path, SETTINGS)
            raise AssertionError

    with pytest.raises(UsageError, match=r"packed by one command, but another one is at it\. Wait for it to end\."):
        pack(Nested("train"), tmp_path, SETTINGS)


@pytest.mark.parametrize(
    ("name", "message"),
    [("photo.jpg", r"but .* has photo\.jpg in it\. Name another folder\."), ("", "but got the file")],
)
def test_only_new_folders_and_packs_are_packed_into(tmp_path: Path, name: str, message: str) -> None:
    out = tmp_path / "out"
    if name:
        out.mkdir()
    (out / name).write_text("x")
    with pytest.raises(UsageError, match=message):
        pack(Tones("train"), out, SETTINGS)


def test_a_pack_cannot_be_packed_into_itself(tmp_path: Path) -> None:
    outcome = pack(Limited(Tones("train"), 3), tmp_path, SETTINGS)
    with pytest.raises(UsageError, match="Expected another folder than the pack that is read"):
        pack(Packed(outcome.folder), tmp_path, SETTINGS)
    with pytest.raises(UsageError, match="Expected another folder than the pack that is read"):
        pack(Limited(Packed(outcome.folder), 2), tmp_path, SETTINGS, force=True)
    assert pack(Packed(outcome.folder), tmp_path / "again", SETTINGS).finished


@pytest.mark.parametrize(
    "row",
    [
        Row("x" * 1025),
        Row("bad\udcff"),
        Row("x", boxes=((0, 0, 1, 1),)),
        Row("x", boxes=((0.0, 0.0, 1.0, float("nan")),)),
    ],
)
def test_rows_that_would_not_come_back_the_same_are_refused(tmp_path: Path, row: Row) -> None:
    with pytest.raises(
        DataError, match=r"boxes of finite floats and a consensus of at least 1 in made:all, but got another"
    ):
        pack(Made([clip()], [row]), tmp_path, SETTINGS)


def test_a_set_without_clips_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="Expected clips in made:all, but got none"):
        pack(Limited(Made([clip()]), 0), tmp_path, SETTINGS)


def test_odd_names_tiny_pictures_and_no_sound_come_back(tmp_path: Path) -> None:
    rows = [
        Row("a/../b c\n", "ö", "neg \x1b[2J", ((0.1, 0.2, 0.30000000000000004, 1.0),), 2, "p", "s"),
        Row("日本" * 300),
        Row("", kind="positive"),
    ]
    made = Made([clip(1, 1), clip(3, 400, samples=0, time=0.0), clip(400, 300)], rows)
    packed = Packed(pack(made, tmp_path, SETTINGS).folder)
    assert packed.rows == made.rows
    assert packed.list_hash() == made.list_hash()
    got = [packed.read(i, 4000, 0.25) for i in range(3)]
    assert [one.frame.shape for one in got] == [(3, 1, 1), (3, 3, 400), (3, 43, 32)]
    assert [len(one.waveform) for one in got] == [1000, 0, 1000]
    assert np.abs(floats(got[0].waveform) - made.clips[0].waveform).max() <= 0.5001 / 32768  # type: ignore[union-attr]


def test_loud_and_senseless_samples_are_cut(tmp_path: Path) -> None:
    loud = replace(clip(), waveform=np.array([2, -2, np.nan, np.inf, 1, -1, 0.5], np.float32))
    got = Packed(pack(Made([loud]), tmp_path, SETTINGS).folder).read(0, 4000, 0.25).waveform
    top = 32767 / 32768
    assert floats(got).tolist() == [top, -1, 0, top, top, -1, 0.5]


def test_a_picture_that_is_too_long_for_jpeg_is_named(tmp_path: Path) -> None:
    outcome = pack(Made([clip(1, 65_501)]), tmp_path, SETTINGS, max_failed=1)
    assert "has a picture of 65501 x 1, and JPEG ends at 65500. Cut the picture." in outcome.manifest.failed[0].reason


def test_a_set_that_gives_another_rate_is_told(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="at 8000 samples per second, but its set gave 4000"):
        pack(Made([clip()]), tmp_path, replace(SETTINGS, rate=8000))


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("size", 0, "a size of 16 to 4096, but got 0"),
        ("rate", 10, "a rate of 1000 to"),
        ("seconds", 0.0, "seconds above 0"),
        ("seconds", float("nan"), "seconds above 0"),
        ("quality", 101, "a quality of 1 to 100, but got 101"),
        ("shard_rows", 0, "shard rows of 1 to"),
        ("shard_rows", 1 << 20, r"bytes of sound in a shard, but got .*\. Use fewer rows\."),
    ],
)
def test_senseless_settings_are_refused(name: str, value: float, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        replace(Settings(), **{name: value})  # type: ignore[arg-type]


def test_a_share_of_failures_is_a_share(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="max_failed between 0 and 1, but got 2"):
        pack(Tones("train"), tmp_path, SETTINGS, max_failed=2)


def test_progress_counts_clips_that_were_there(tmp_path: Path) -> None:
    told: list[tuple[int, int]] = []
    clips: list[Clip | str] = [clip(), clip(), "is gone.", clip()]
    small(tmp_path, clips, max_failed=1)
    pack(
        Made(clips), tmp_path / "pack", replace(SETTINGS, shard_rows=2), max_failed=1,
        report=lambda done, total, rate: told.append((done, total)),
    )  # fmt: skip
    assert told == [(2, 4), (3, 4), (4, 4)]


def test_toybox_is_the_same_list_packed(tmp_path: Path) -> None:
    whole = open_set("toybox:val", limit=5)
    packed = Packed(pack(whole, tmp_path, replace(SETTINGS, size=256), limit=5).folder)
    assert (packed.name, packed.rows, packed.list_hash()) == (whole.name, whole.rows, whole.list_hash())
    for i in range(5):
        one, two = whole.read(i, 4000, 0.25), packed.read(i, 4000, 0.25)
        assert (one.id, one.rate, one.time) == (two.id, two.rate, two.time)
        assert np.abs(one.frame.astype(int) - two.frame).mean() < 10
        assert np.abs(floats(one.waveform) - floats(two.waveform)).max() < 1 / 32768


def test_a_set_that_calls_itself_otherwise_is_found_by_what_it_is_opened_by(tmp_path: Path) -> None:
    packed = Packed(pack(Made([clip()]), tmp_path, SETTINGS, spec="my.sets.made:all").folder, "my.sets.made:all")
    assert (packed.folder.name, packed.name) == ("my.sets.made-all", "made:all")
