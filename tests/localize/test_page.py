"""The page on localizing describes what is written."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import re
from pathlib import Path

import make
import pytest

from earsight.cli.localize import Localize
from earsight.localize import Localizer, Settings, localize_video
from earsight.localize.timeline import SILENCE_DB, VERSION

PAGE = (Path(__file__).parents[2] / "docs" / "localize.md").read_text(encoding="utf-8")


def example() -> dict:
    (found,) = re.findall(r"```json\n(.*?)```", PAGE, flags=re.S)
    return json.loads(found)


def test_the_example_has_the_keys_of_a_timeline_and_each_is_explained(localizer: Localizer, tmp_path: Path) -> None:
    timeline = localize_video(localizer, make.steps(tmp_path / "a.mp4", 0.5), tmp_path, Settings(formats="json"))
    values, wanted = json.loads(timeline.files[0].read_text()), example()
    assert list(wanted) == list(values)
    assert list(wanted["items"][0]) == list(values["items"][0])
    assert wanted["version"] == VERSION
    assert wanted["silence_db"] == SILENCE_DB
    explained = {
        name for line in re.findall(r"^\| (`.*?) \|", PAGE, flags=re.M) for name in re.findall(r"`(\w+)`", line)
    }
    assert {*wanted, *wanted["items"][0]} <= explained


def test_every_flag_is_explained() -> None:
    for field in dataclasses.fields(Localize):
        if field.name not in ("weights", "inputs", "image", "audio", "out", "object_fusion", "object_weights"):
            assert f"`--{field.name.replace('_', '-')}" in PAGE


def test_the_python_example_runs(
    localizer: Localizer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (code,) = re.findall(r"```python\n(.*?)```", PAGE, flags=re.S)
    make.steps(tmp_path / "my-video.mp4", 0.6)
    monkeypatch.setattr(Localizer, "load", lambda path: localizer)
    with contextlib.chdir(tmp_path):
        exec(compile(code, "docs/localize.md", "exec"), {})
    assert "not calibrated" in capsys.readouterr().out
    assert (tmp_path / "answers" / "my-video.earsight.npz").exists()
