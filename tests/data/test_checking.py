"""Shards that are looked at as a whole while their clips are read: faster, and no less is found."""

from __future__ import annotations

import pickle
from dataclasses import replace
from pathlib import Path

import pytest

from earsight.data import checking
from earsight.data.checking import Checks
from earsight.data.clips import Limited, open_set
from earsight.data.controls import with_audio
from earsight.data.pack import Packed
from earsight.data.packing import pack
from earsight.data.shard import Shard
from earsight.errors import MediaError
from tiny.packing import SETTINGS
from tiny.tones import Tones

RATE, SECONDS = SETTINGS.rate, SETTINGS.seconds


@pytest.fixture
def made(tmp_path: Path) -> Path:
    pack(Tones("train"), tmp_path, replace(SETTINGS, shard_rows=20))  # 64 clips
    return tmp_path / "tiny.tones-train"


def look(checks: Checks, number: int) -> bool:
    """What is known once nobody is looking any more."""
    checks.whole(number)
    for found in checks._found.values():
        found.result()
    return checks.whole(number)


def test_only_what_is_expected_is_looked_at(made: Path) -> None:
    checks = Packed(made)._checks
    assert not look(checks, 0)
    checks.expect([0, 2])
    assert (look(checks, 0), look(checks, 1), look(checks, 2)) == (True, False, True)
    assert sorted(checks._found) == [0, 2]


def test_no_more_than_a_few_shards_are_looked_at_ahead(made: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checking, "AHEAD", 2)
    packed = Packed(made)
    packed.expect(range(64))
    look(packed._checks, 0)
    assert sorted(packed._checks._found) == [0, 1]
    look(packed._checks, 3)
    assert sorted(packed._checks._found) == [0, 1, 3]


def test_the_next_shard_is_looked_at_while_one_that_is_known_is_read(
    made: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checking, "AHEAD", 2)
    packed = Packed(made)
    packed.expect(range(64))
    look(packed._checks, 0)
    look(packed._checks, 1)
    assert sorted(packed._checks._found) == [0, 1, 2]


def test_clips_of_a_shard_that_is_right_are_not_looked_at_again(made: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    packed = Packed(made)
    packed.expect(range(64))
    for number in range(4):
        assert look(packed._checks, number)
    monkeypatch.setattr(Shard, "whole", lambda *given: pytest.fail("looked at a clip of a shard that is right"))
    assert [packed.encoded(i, RATE, SECONDS).id for i in range(64)] == [row.id for row in packed.rows]


def test_a_damaged_shard_costs_the_damaged_clip_alone(made: Path) -> None:
    path = made / "shard-00001.arrow"
    data = bytearray(path.read_bytes())
    frame = bytes(Packed(made).stored(25).frame)
    data[data.index(frame) + len(frame) // 2] ^= 1
    path.write_bytes(data)
    packed = Packed(made)
    packed.expect(range(64))
    assert [look(packed._checks, number) for number in range(4)] == [True, False, True, True]
    assert packed.encoded(24, RATE, SECONDS).id == "train-24"
    with pytest.raises(MediaError, match="is not what was packed"):
        packed.encoded(25, RATE, SECONDS)


def test_a_shard_that_is_gone_is_told_by_whoever_reads_it(made: Path) -> None:
    packed = Packed(made)
    packed.expect(range(64))
    (made / "shard-00002.arrow").unlink()
    assert not look(packed._checks, 2)
    with pytest.raises(MediaError, match="shard-00002"):
        packed.encoded(45, RATE, SECONDS)


def test_sets_that_are_made_of_a_pack_expect_its_clips(made: Path) -> None:
    few = open_set("tiny.tones:train", made.parent, limit=10)
    few.expect(range(10))
    assert isinstance(few, Limited)
    assert few._whole._checks._expected == []  # type: ignore[attr-defined]
    packed = Packed(made)
    with_audio(packed, "shuffled").expect(range(64))
    assert packed._checks._expected == [0, 1, 2, 3]


def test_another_process_looks_for_itself(made: Path) -> None:
    packed = Packed(made)
    packed.expect(range(64))
    look(packed._checks, 0)
    again = pickle.loads(pickle.dumps(packed))
    assert not again._checks.whole(0)
    assert again.encoded(0, RATE, SECONDS).id == "train-0"
