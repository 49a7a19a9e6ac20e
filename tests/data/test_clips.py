"""Opening sets, limiting them, and cutting their sounds to length."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from earsight.data.clips import ClipSet, Limited, fit_waveform, open_set
from earsight.errors import DataError, UsageError
from earsight.types import Clip, Row


class Numbers(ClipSet):
    """Clip i is a picture of the value i."""

    def __init__(self, count: int) -> None:
        super().__init__("numbers", [Row(f"clip{i:02d}") for i in range(count)])

    def read(self, index: int, rate: int, seconds: float, draw: int = 0) -> Clip:
        frame = np.full((3, 4, 4), index, dtype=np.uint8)
        return Clip(self.rows[index].id, frame, np.zeros(8, dtype=np.float32), rate, 0.0)


def test_short_sound_is_tiled_long_is_cut_around_the_frame_and_none_is_silence() -> None:
    ramp = np.arange(100, dtype=np.float32)
    assert fit_waveform(ramp[:3], 10, 0.0, 8).tolist() == [0, 1, 2, 0, 1, 2, 0, 1]
    assert fit_waveform(ramp, 10, 5.0, 20).tolist() == list(range(40, 60))
    assert fit_waveform(ramp, 10, 0.0, 20).tolist() == list(range(20))
    assert fit_waveform(ramp, 10, 10.0, 20).tolist() == list(range(80, 100))
    assert fit_waveform(ramp, 10, -50.0, 20).tolist() == list(range(20))
    assert fit_waveform(ramp, 10, 3.0, 100).tolist() == ramp.tolist()
    none = fit_waveform(ramp[:0], 10, 0.0, 8)
    assert none.tolist() == [0.0] * 8
    assert none.dtype == np.float32


def test_a_limit_spreads_over_the_set() -> None:
    whole = Numbers(10)
    few = Limited(whole, 4)
    assert [row.id for row in few.rows] == ["clip00", "clip02", "clip05", "clip07"]
    assert few.read(2, 8000, 0.25).id == "clip05"
    assert few.list_hash() != whole.list_hash()
    assert Limited(whole, 99).list_hash() == whole.list_hash()


@pytest.mark.parametrize(
    ("spec", "limit", "message"),
    [
        ("toybx", 0, "Unknown set 'toybx', did you mean 'toybox'"),
        ("toybox:tests", 0, r"Expected a split of toybox \(train, val, test, extended, .*\), but got 'tests'"),
        ("toybox:val", -1, "Expected a limit of at least 1, or 0 for all clips, but got -1"),
    ],
)
def test_a_set_that_cannot_be_opened_says_why(spec: str, limit: int, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        open_set(spec, limit=limit)


@pytest.mark.parametrize(("role", "word"), [("train", "training"), ("val", "validation"), ("test", "testing")])
def test_a_role_that_a_set_has_no_split_for_is_told(
    role: str, word: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    text = "SPLITS, DEFAULTS = ('a', 'b'), {'val': ''}\ndef open(split, data): ...\n"
    (tmp_path / "lab").mkdir()
    (tmp_path / "lab" / f"bare_{role}.py").write_text(text, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    name = f"lab.bare_{role}"
    message = (
        rf"Expected a split of {name} for {word}, but it has none\. Name one \({name}:a, {name}:b\), or another set"
    )
    monkeypatch.delitem(sys.modules, "lab", raising=False)
    with pytest.raises(UsageError, match=message):
        open_set(name, role=role)


def test_a_role_picks_the_default_split() -> None:
    assert open_set("toybox", role="val").name == "toybox:val"
    assert open_set("toybox", role="test").name == "toybox:extended"
    assert len(open_set("toybox:val", limit=5)) == 5


def test_a_file_of_names_narrows_a_set(tmp_path: Path) -> None:
    whole = open_set("toybox:extended")
    pictures = list(dict.fromkeys(row.picture or row.id for row in whole.rows))[:3]
    names = tmp_path / "clean.txt"
    names.write_text("".join(f"{name}\n" for name in pictures))
    some = open_set("toybox:extended", only=names)
    assert {row.picture or row.id for row in some.rows} == set(pictures)
    assert some.list_hash() != whole.list_hash()
    assert some.read(0, 8000, 0.5).id == some.rows[0].id
    assert len(open_set("toybox:extended", only=names, limit=2)) == 2
    names.write_text(f"{pictures[0]}\nnobody\n")
    with pytest.raises(
        DataError, match=r"but got 1 of 2 that it does not have, such as 'nobody'\. Check that it is the"
    ):
        open_set("toybox:extended", only=names)
