"""SET+FILE: positives with the negatives of a csv file, read as pictures and sounds of the set's own clips."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pytest

from earsight.data.clips import open_set
from earsight.data.controls import with_audio
from earsight.data.layout import Listed
from earsight.data.lists import Pair
from earsight.data.negatives import WithNegatives, build, write
from earsight.errors import DataError, MediaError, UsageError
from earsight.media.write import write_png, write_wav

RATE = 8000


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for i, name in enumerate(("a", "b", "c")):
        write_png(tmp_path / f"{name}.png", np.full((3, 20, 30), 50 * i, np.uint8))
        write_wav(tmp_path / f"{name}.wav", np.full(4 * RATE, i / 4, np.float32), RATE)
    pairs = [
        "image,audio,start,cls,kind",
        *(f"{n}.png,{n}.wav,0,{cls},single" for n, cls in zip("abc", "xxy", strict=True)),
    ]
    (tmp_path / "pairs_test.csv").write_text("\n".join(pairs))
    (tmp_path / "boxes.csv").write_text(
        "image,cls,xc,yc,w,h\na.png,x,.5,.5,.5,.5\nb.png,x,.5,.5,.5,.5\nc.png,y,.5,.5,1,1"
    )
    return tmp_path


def test_negatives_follow_the_positives_of_any_set(tmp_path: Path) -> None:
    base = open_set("toybox:test")
    write(tmp_path / "n.csv", build(base.rows, count=20))
    clips = open_set(f"toybox:test+{tmp_path / 'n.csv'}")
    assert clips.name == "toybox:test+n.csv"
    assert clips.rows[: len(base)] == base.rows
    assert len(clips) == len(base) + 20
    labels = {row.id: row.label for row in base.rows}
    at = {row.id: i for i, row in enumerate(base.rows)}
    for i in range(len(base), len(clips), 7):
        row = clips.rows[i]
        assert row.id == f"{row.picture}+{row.sound}"
        assert row.label == labels[row.sound]
        assert row.kind == ("hard" if labels[row.picture] == row.label else "easy")
        assert row.boxes == ()
        clip = clips.read(i, RATE, 0.5)
        assert clip.id == row.id
        np.testing.assert_array_equal(clip.frame, base.read(at[row.picture], RATE, 0.5).frame)
        np.testing.assert_array_equal(clip.waveform, base.read(at[row.sound], RATE, 0.5).waveform)
    assert clips.read(3, RATE, 0.5).id == base.rows[3].id


def test_an_extended_set_can_be_limited_pickled_and_shuffled(folder: Path) -> None:
    base = open_set("folder:test", folder)
    write(folder / "n.csv", build(base.rows, count=3, seed=1))
    clips = open_set(f"folder:test+{folder / 'n.csv'}", folder)
    assert isinstance(clips, WithNegatives)
    for i in range(len(clips)):
        one, two = clips.read(i, RATE, 1.0), pickle.loads(pickle.dumps(clips)).read(i, RATE, 1.0)
        np.testing.assert_array_equal(one.waveform, two.waveform)
    assert len(open_set(f"folder:test+{folder / 'n.csv'}", folder, limit=4)) == 4
    assert with_audio(clips, "shuffled").read(5, RATE, 1.0).id == clips.rows[5].id


def test_files_are_those_of_the_two_clips(folder: Path, tmp_path: Path) -> None:
    write(folder / "n.csv", [Pair("a+a@0", "c+c@0", "easy")])
    clips = open_set(f"folder:test+{folder / 'n.csv'}", folder)
    assert isinstance(clips, WithNegatives)
    assert clips.files(3) == (folder / "a.png", folder / "c.wav")
    assert clips.files(1) == (folder / "b.png", folder / "b.wav")
    write(tmp_path / "t.csv", [Pair("test-00000", "test-00001", "easy")])
    toys = open_set(f"toybox:test+{tmp_path / 't.csv'}")
    assert isinstance(toys, WithNegatives)
    assert toys.files(0) is None


@pytest.mark.parametrize(
    ("pair", "match"),
    [
        (
            Pair("test-00000", "nobody", "easy"),
            r"made of clips of toybox:test, but got nobody in .*\. Name the set",
        ),
        (Pair("other", "other", "real"), "but got other in"),
        (Pair("test-00000", "test-00000", "real"), "test-00000 again: a positive cannot be a negative too"),
    ],
)
def test_negatives_of_another_set_are_refused(tmp_path: Path, pair: Pair, match: str) -> None:
    write(tmp_path / "n.csv", [pair])
    with pytest.raises(DataError, match=match):
        open_set(f"toybox:test+{tmp_path / 'n.csv'}")


def test_a_set_that_has_negatives_gets_no_more(tmp_path: Path) -> None:
    write(tmp_path / "n.csv", [Pair("a", "b", "easy")])
    with pytest.raises(UsageError, match=r"but got toybox:extended, which has 384 negatives already\. Name a split"):
        open_set(f"toybox+{tmp_path / 'n.csv'}")


def test_the_published_negatives_give_the_published_extended_set(shared: Path) -> None:
    folder = shared / "metadata"
    ours = open_set(f"vggss:test+{folder / 'vggss_test_plus_silent.csv'}", folder)
    assert ours.rows == open_set("vggss:extended", folder).rows
    assert isinstance(ours, Listed)
    with pytest.raises(MediaError, match="has no picture"):  # real negatives are looked for by name
        ours.read(5158, RATE, 1.0)


def test_negatives_name_the_recordings_of_their_clips_as_the_set_does(folder: Path) -> None:
    write(folder / "n.csv", [Pair("a+a@0", "c+c@0", "easy")])
    row = open_set(f"folder:test+{folder / 'n.csv'}", folder).rows[3]
    assert (row.id, row.picture, row.sound) == ("a+a@0+c+c@0", "a.png", "c.wav")
