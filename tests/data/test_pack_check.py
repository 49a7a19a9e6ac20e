"""Packs that are damaged or hostile: what is hurt is named, the rest is read, and nothing grows or breaks."""

from __future__ import annotations

import json
import random
import resource
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from earsight.data.clips import Limited, open_set
from earsight.data.manifest import MANIFEST, read_manifest
from earsight.data.pack import Packed, verify
from earsight.data.packing import encode_jpeg
from earsight.data.shard import Stored, encode
from earsight.errors import DataError, EarsightError, MediaError
from tiny.packing import SETTINGS, pack
from tiny.tones import Tones

RATE, SECONDS = SETTINGS.rate, SETTINGS.seconds
SHARD = "shard-00000.arrow"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A pack of two splits of the tones."""
    out = tmp_path_factory.mktemp("made")
    for split in ("train", "val"):
        pack(Tones(split), out, replace(SETTINGS, shard_rows=20))
    return out


@pytest.fixture
def own(made: Path, tmp_path: Path) -> Path:
    """The same in a folder that may be changed."""
    return Path(shutil.copytree(made, tmp_path / "pack"))


def test_a_flipped_byte_costs_one_clip_and_is_found(own: Path) -> None:
    folder = own / "tiny.tones-val"
    path = folder / "shard-00001.arrow"
    packed = Packed(folder)
    wave = packed.stored(25).wave
    at = path.read_bytes().index(wave[400:440].tobytes())
    data = bytearray(path.read_bytes())
    data[at] ^= 1
    path.write_bytes(data)
    packed = Packed(folder)
    with pytest.raises(
        MediaError, match=r"val-25: is not what was packed in .*shard-00001\.arrow\. Look with earsight"
    ):
        packed.read(25, RATE, SECONDS)
    assert [packed.read(i, RATE, SECONDS).id for i in (24, 26)] == ["val-24", "val-26"]
    (damage,) = verify(folder).damages
    assert (damage.shard, damage.clips) == ("shard-00001.arrow", ("val-25",))


def test_a_flipped_byte_anywhere_is_found(own: Path) -> None:
    path = own / "tiny.tones-val" / SHARD
    data = path.read_bytes()
    for at in range(0, len(data), len(data) // 50):
        path.write_bytes(data[:at] + bytes([data[at] ^ 16]) + data[at + 1 :])
        (damage,) = verify(path.parent).damages
        assert damage.shard == SHARD


def test_missing_cut_and_foreign_shards_are_told(own: Path) -> None:
    folder = own / "tiny.tones-val"
    shutil.copy(own / "tiny.tones-train" / "shard-00002.arrow", folder / "shard-00002.arrow")
    assert [damage.shard for damage in verify(folder).damages] == ["shard-00002.arrow"]
    path = folder / SHARD
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(
        DataError, match=r"shard-00000\.arrow to be a shard of a pack, but got \d+ bytes instead of \d+"
    ):
        Packed(folder)
    assert verify(folder).damages[0].detail == "cannot be read, with clips 0 to 19."
    path.unlink()
    assert verify(folder).damages[0].detail == "is missing, with clips 0 to 19."
    with pytest.raises(DataError, match=r"shard of a pack, but got none\."):
        Packed(folder)


def test_another_list_than_was_packed_is_told(own: Path) -> None:
    path = own / "tiny.tones-val" / MANIFEST
    path.write_text(path.read_text().replace(Packed(path.parent).manifest.list_hash, "0123456789ab"))
    assert verify(path.parent).damages[0].detail.startswith("tells the list 0123456789ab, but the clips are those of")
    (own / "tiny.tones-train").rename(own / "tiny.tones-shreds")
    with pytest.raises(
        DataError, match=r"Expected tiny\.tones:shreds in .*, but got tiny\.tones:train\. Name the folder"
    ):
        open_set("tiny.tones:shreds", own)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (b"{", "Expected JSON in"),
        (b"[]", "Expected names and values in"),
        (b"[" * 100_000, "Expected JSON in"),
        (b"\xff", "Expected JSON in"),
        ({"format": 2}, "to describe a pack of format 1, but got 2. Use the earsight"),
        ({"rows": 10**12}, "1 to 100000000 rows"),
        (b'{"format": 1}', "Expected set, name, list_hash, limit, rows, settings, shards, failed in"),
        ({"rows": True}, "int for Manifest.rows"),
        ({"rows": 63}, "63 rows in all shards"),
        ({"more": 1}, "unknown more"),
        ({"shards": []}, "64 rows in all shards"),
        ({"shards": [{"rows": -1, "bytes": 1, "sha256": ""}]}, "rows in each shard"),
        ({"set": "../x:y"}, "set 'name:split'"),
        ({"settings": {"rate": 0}}, "a rate of 1000 to"),
        ({"settings": {"seconds": float("nan")}}, "seconds above 0"),
        ({"failed": [{"index": 64, "id": "", "reason": ""}]}, "failed clips of this list"),
        ({"failed": None}, "a list for Manifest.failed"),
    ],
)
def test_a_manifest_that_makes_no_sense_is_refused(change: bytes | dict[str, object], told: str, own: Path) -> None:
    path = own / "tiny.tones-val" / MANIFEST
    if isinstance(change, bytes):
        path.write_bytes(change)
    else:
        path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    with pytest.raises(DataError) as raised:
        read_manifest(path.parent)
    assert told in str(raised.value)
    assert verify(path.parent).damages[0].shard == MANIFEST


def picture(data: bytes, height: int, width: int, tmp_path: Path) -> None:
    """Try to read a picture of a stranger's pack, whose digests are right."""
    outcome = pack(Limited(Tones("train"), 1), tmp_path, SETTINGS)
    packed = Packed(outcome.folder)
    shard = encode(0, packed.rows, [Stored(np.frombuffer(data, np.uint8), height, width, np.zeros(9, np.int16), 0.0)])
    (outcome.folder / SHARD).write_bytes(shard)
    path = outcome.folder / MANIFEST
    values = json.loads(path.read_text())
    values["shards"][0]["bytes"] = shard.size
    path.write_text(json.dumps(values))
    Packed(outcome.folder).read(0, RATE, SECONDS)


def test_pictures_are_looked_at_before_they_are_decoded(tmp_path: Path) -> None:
    from io import BytesIO

    from PIL import Image

    plain = encode_jpeg(np.zeros((3, 20, 30), np.uint8), 75)
    picture(plain, 20, 30, tmp_path / "good")
    at = plain.index(b"\xff\xc0")
    huge = plain[: at + 5] + b"\xff\xdc\xff\xdc" + plain[at + 9 :]
    slow, grey = BytesIO(), BytesIO()
    Image.new("RGB", (30, 20)).save(slow, "jpeg", progressive=True)
    Image.new("L", (30, 20)).save(grey, "jpeg")
    for i, (data, height, width) in enumerate(
        [
            (huge, 65500, 65500),
            (huge, 20, 30),
            (plain, 30, 20),
            (plain, 0, 30),
            (slow.getvalue(), 20, 30),
            (grey.getvalue(), 20, 30),
            (b"", 20, 30),
            (b"\xff\xd8", 20, 30),
            (plain[: at + 19], 20, 30),
            (plain[: at + 19] + plain[-2:], 20, 30),
        ]
    ):
        with pytest.raises(MediaError, match=r"has a picture that is not as it was packed.*\. Prepare the pack"):
            picture(data, height, width, tmp_path / str(i))


def test_packs_that_were_tampered_with_are_refused_or_fine(own: Path) -> None:
    chance = random.Random(0)
    folder = own / "tiny.tones-val"
    files = {folder / SHARD: (folder / SHARD).read_bytes(), folder / MANIFEST: (folder / MANIFEST).read_bytes()}
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for turn in range(60):
        path = folder / (SHARD if turn % 4 else MANIFEST)
        data = bytearray(files[path])
        for _ in range(chance.randrange(1, 6)):
            at = chance.randrange(len(data) if turn % 2 else min(3000, len(data)))
            data[at : at + chance.choice((1, 8))] = chance.choice((b"\xff" * 8, bytes(8), chance.randbytes(1)))
        path.write_bytes(data)
        if path.name == SHARD:
            values = json.loads(files[folder / MANIFEST])
            values["shards"][0]["bytes"] = len(data)
            (folder / MANIFEST).write_text(json.dumps(values))
        try:
            packed = Packed(folder)
            for i in range(20):
                try:
                    packed.read(i, RATE, SECONDS)
                except MediaError:
                    continue
        except EarsightError:
            pass
        assert verify(folder).damages or path.name == MANIFEST
        for one, content in files.items():
            one.write_bytes(content)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200_000  # kilobytes
