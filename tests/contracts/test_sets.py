"""What the commands may expect of every data set in the sets folder. A new set adds its maker below."""

from __future__ import annotations

import inspect
import json
import pickle
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from earsight import registry
from earsight.data.clips import ClipSet, open_set
from earsight.data.coco import lists
from earsight.data.coco.lists import pairs_of
from earsight.data.controls import with_audio
from earsight.errors import UsageError
from earsight.media.write import write_png, write_wav
from earsight.types import Clip

SETS = registry.names("set")
RATE, SECONDS = 8000, 0.5


def nothing(folder: Path) -> None:
    """For sets that need no files."""


def photos_and_sounds(folder: Path) -> Path:
    """Three pairs of a folder set: one source that is seen, one that is not, and one among others."""
    random = np.random.default_rng(0)
    for name in ("a", "b"):
        write_png(folder / f"{name}.png", random.integers(0, 256, (3, 40, 50), dtype=np.uint8))
        write_wav(folder / f"{name}.wav", random.uniform(-0.5, 0.5, 2 * RATE).astype(np.float32), RATE)
    pairs = "image,audio,start,cls,kind\na.png,a.wav,0,a,single\nb.png,b.wav,0.5,b,multi\na.png,b.wav,1,b,neg_easy\n"
    for split in ("train", "val", "test"):
        (folder / f"pairs_{split}.csv").write_text(pairs)
    (folder / "boxes.csv").write_text("image,cls,xc,yc,w,h\na.png,a,0.5,0.5,0.5,0.5\nb.png,b,0.25,0.25,0.5,0.5\n")
    return folder


def recordings(folder: Path, *names: str) -> None:
    """Pictures and sounds in the layout of the published sets."""
    random = np.random.default_rng(0)
    (folder / "frames").mkdir()
    (folder / "audio").mkdir()
    for name in names:
        write_png(folder / "frames" / f"{name}.png", random.integers(0, 256, (3, 40, 50), dtype=np.uint8))
        write_wav(folder / "audio" / f"{name}.wav", random.uniform(-0.5, 0.5, 2 * RATE).astype(np.float32), RATE)


def vggss(folder: Path) -> Path:
    """Three clips and three negatives: one class on either side of heard and unheard."""
    a, b, c, other = "aaaaaaaaaaa_000001", "bbbbbbbbbbb_000002", "ccccccccccc_000003", "aaaaaaaaaaa_000030"
    recordings(folder, a, b, c, other)
    boxes = [{"file": id, "class": "dog" if id != c else "cat", "bbox": [[0.25, 0.25, 0.5, 0.75]]} for id in (a, b, c)]
    (folder / "vggss.json").write_text(json.dumps(boxes))
    (folder / "vggss_test.csv").write_text(f"{a}\r\n{b}\r\n{c}\r\n")
    (folder / "vggss_heard_test.csv").write_text(f"{a}\n{b}")
    (folder / "vggss_unheard_test.csv").write_text(c)
    pairs = [(other, other), (a, b), (c, a)]
    lines = "".join(f"{video},{audio},non-sounding\r\n" for video, audio in pairs)
    (folder / "vggss_test_plus_silent.csv").write_text("video,audio,label\r\n" + lines)
    return folder


def vggsound(folder: Path) -> Path:
    ids = ("aaaaaaaaaaa_000001", "bbbbbbbbbbb_000002", "-c_cccccccc_000003")
    recordings(folder, *ids)
    (folder / "metadata").mkdir()
    for name in ("vggss_144k.txt", "vggss_10k.txt", "vggss_heard.txt"):
        (folder / "metadata" / name).write_text("\n".join(ids))
    lines = (f"{id[:-7]},{int(id[-6:])},dog,train\n" for id in ids)
    (folder / "vggsound.csv").write_text("".join(lines) + "ddddddddddd,4,cat,test\n")
    return folder


def flickr_soundnet(folder: Path) -> Path:
    ids = ("101", "102", "103")
    recordings(folder, *ids)
    (folder / "Annotations").mkdir()
    for id in ids:
        box = "<bbox><who>1</who><xmin>64</xmin><ymin>0</ymin><xmax>192</xmax><ymax>128</ymax></bbox>"
        (folder / "Annotations" / f"{id}.xml").write_text(f"<a><object>{box}</object></a>")
    for name in ("flickr_10k.txt", "flickr_144k.txt", "flickr_sup_train.txt", "flickr_test.csv"):
        (folder / name).write_text("".join(f"{id},0\r\n" if name.endswith("csv") else f"{id}\n" for id in ids))
    (folder / "flickr_test_plus_silent.csv").write_text("video,audio,label\n101,102,non-sounding\n")
    return folder


def coco_esc(folder: Path) -> Path:
    """Boxes of every photo, and the photos and sounds of the first, the middle and the last clip to test on."""
    random = np.random.default_rng(0)
    boxes = {(p.photo, label) for name in ("train", "val", "test") for p in lists.pairs(name) for label in seen(p)}
    lines = "".join(f"images/{photo}.jpg,{label},0.5,0.5,0.5,0.5\n" for photo, label in sorted(boxes))
    (folder / "boxes.csv").write_text("image,cls,xc,yc,w,h\n" + lines)
    (folder / "images").mkdir()
    (folder / "audio").mkdir()
    chosen = pairs_of("extended")
    for pair in (chosen[0], chosen[len(chosen) // 2], chosen[-1]):
        write_png(folder / "images" / f"{pair.photo}.png", random.integers(0, 256, (3, 40, 50), dtype=np.uint8))
        write_wav(folder / "audio" / f"{pair.sound}.wav", random.uniform(-1, 1, 5 * RATE).astype(np.float32), RATE)
    return folder


def seen(pair: lists.Pair) -> tuple[str, ...]:
    return pair.visible or ((pair.label,) if pair.kind in lists.SEEN else ())


MAKERS: dict[str, Callable[[Path], Path | None]] = {
    "toybox": nothing,
    "folder": photos_and_sounds,
    "vggss": vggss,
    "vggsound": vggsound,
    "flickr_soundnet": flickr_soundnet,
    "coco_esc": coco_esc,
}


@pytest.fixture(params=SETS)
def named(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, Path | None]:
    """A set's name, and a folder with its files."""
    name = str(request.param)
    assert name in MAKERS, f"add a maker for the set '{name}' to {__file__}: it writes three clips into a folder"
    return name, MAKERS[name](tmp_path)


@pytest.fixture
def named_split(named: tuple[str, Path | None]) -> tuple[str, Path | None]:
    """The split that is tested on, or trained on where the set has nothing to test on, and its folder."""
    name, data = named
    defaults = registry.load("set", name).DEFAULTS
    return f"{name}:{defaults['test'] or defaults['train']}", data


@pytest.fixture
def opened(named_split: tuple[str, Path | None]) -> ClipSet:
    return open_set(*named_split)


def some(clips: ClipSet) -> list[int]:
    return sorted({0, len(clips) // 2, len(clips) - 1})


def equal(one: Clip, two: Clip) -> bool:
    same = (one.id, one.rate, one.time) == (two.id, two.rate, two.time)
    return same and np.array_equal(one.frame, two.frame) and np.array_equal(one.waveform, two.waveform)


def test_a_set_file_names_its_splits_and_which_one_each_role_takes(named: tuple[str, Path | None]) -> None:
    module = registry.load("set", named[0])
    assert module.SPLITS
    assert set(module.DEFAULTS) == {"train", "val", "test"}
    # Published sets have no validation split, and some only train or only test: such a role has the split "".
    assert set(module.DEFAULTS.values()) <= {*module.SPLITS, ""}
    assert any(module.DEFAULTS.values())
    assert list(inspect.signature(module.open).parameters) == ["split", "data"]


def test_every_split_opens_and_its_rows_are_sound(named: tuple[str, Path | None]) -> None:
    name, data = named
    for split in registry.load("set", name).SPLITS:
        clips = open_set(f"{name}:{split}", data)
        assert clips.name == f"{name}:{split}"
        assert len(clips) == len(clips.rows) > 0
        assert len({row.id for row in clips.rows}) == len(clips)
        for row in clips.rows:
            assert row.id
            assert row.kind
            assert row.consensus >= 1
            assert row.positive or not row.boxes
            for x0, y0, x1, y1 in row.boxes:
                assert 0 <= x0 < x1 <= 1
                assert 0 <= y0 < y1 <= 1


def test_a_set_opens_without_torch_and_without_what_reads_packs_and_media(named_split: tuple[str, Path | None]) -> None:
    """Scoring maps needs the lists alone, also where there are no modules of Unix."""
    code = (
        "import sys; sys.modules.update(dict.fromkeys(('torch', 'pyarrow', 'av', 'tyro', 'fcntl', 'resource')));"
        "from earsight.data.clips import open_set; open_set(sys.argv[1], sys.argv[2] or None).list_hash()"
    )
    spec, data = named_split
    subprocess.run([sys.executable, "-c", code, spec, str(data or "")], check=True)


def test_positives_that_are_measured_have_ground_truth(named: tuple[str, Path | None]) -> None:
    name, data = named
    for role in ("val", "test"):
        if registry.load("set", name).DEFAULTS[role]:
            assert all(row.boxes for row in open_set(name, data, role=role).rows if row.positive)


def test_a_role_without_a_split_is_told(named: tuple[str, Path | None]) -> None:
    name, data = named
    for role, split in registry.load("set", name).DEFAULTS.items():
        if not split:
            with pytest.raises(UsageError, match=rf"Expected a split of {name} for \w+, but it has none\. Name one \("):
                open_set(name, data, role=role)


def test_a_published_set_lists_its_ids_without_media(named: tuple[str, Path | None]) -> None:
    name, data = named
    module = registry.load("set", name)
    if not hasattr(module, "ids"):
        pytest.skip(f"{name} is not published as lists of ids")
    for split in module.SPLITS:
        assert module.ids(split, data) == [row.id for row in open_set(f"{name}:{split}", data).rows]
    assert all(module.video_of(module.video_of(id)) == module.video_of(id) for id in module.ids(split, data))
    assert all(registry.load("set", spec.partition(":")[0]) for spec in module.TESTS)


def test_a_clip_is_what_was_asked_for(opened: ClipSet) -> None:
    for i in some(opened):
        clip = opened.read(i, RATE, SECONDS)
        assert clip.id == opened.rows[i].id
        assert clip.rate == RATE
        assert len(clip.waveform) <= RATE * SECONDS + 1
        assert np.isfinite(clip.waveform).all()
        assert 0 <= clip.time <= SECONDS


def test_reading_and_opening_again_give_the_same(named_split: tuple[str, Path | None], opened: ClipSet) -> None:
    again = open_set(*named_split)
    assert again.list_hash() == opened.list_hash()
    for i in some(opened):
        clip = opened.read(i, RATE, SECONDS)
        assert equal(clip, opened.read(i, RATE, SECONDS))
        assert equal(clip, again.read(i, RATE, SECONDS))


def test_a_set_crosses_process_borders_also_after_reading(opened: ClipSet) -> None:
    clip = opened.read(0, RATE, SECONDS)
    assert equal(pickle.loads(pickle.dumps(opened)).read(0, RATE, SECONDS), clip)


def test_a_set_can_be_limited_and_its_sounds_exchanged(named_split: tuple[str, Path | None]) -> None:
    few = open_set(*named_split, limit=2)
    assert len(few) == 2
    own, other = (with_audio(few, audio).read(0, RATE, SECONDS) for audio in ("real", "shuffled"))  # type: ignore[arg-type]
    assert np.array_equal(own.frame, other.frame)
    assert not np.array_equal(own.waveform, other.waveform)


def test_an_unknown_split_is_refused(named: tuple[str, Path | None]) -> None:
    name, data = named
    with pytest.raises(UsageError, match=f"Expected a split of {name} .*, but got 'nosuch'"):
        open_set(f"{name}:nosuch", data)
