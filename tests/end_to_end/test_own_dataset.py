"""A data set from outside the package, one file as docs/add-a-dataset.md has it, with the commands that runs print."""

from __future__ import annotations

import re
import shlex
import sys
from pathlib import Path
from typing import Any

import make
import pytest

from earsight.cli import main
from earsight.types import Clip

PAGE = Path(__file__).parents[2] / "docs" / "add-a-dataset.md"
TINY = [
    *("--image-encoder", "small", "--audio-encoder", "small", "--method.encoders.width", "4"),
    *("--method.dim", "8", "--inputs.image-size", "32", "--inputs.resize", "36", "--inputs.rate", "8000"),
    *("--inputs.seconds", "1", "--inputs.window", "128", "--inputs.hop", "64", "--optim.epochs", "3"),
    *("--optim.batch-size", "4", "--optim.save-every", "1", "--device", "cpu"),
]


def printed(text: str, before: str, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The command behind a word of what was printed, whose settings of the environment are made."""
    line = next(line for line in text.splitlines() if before in line)
    words = shlex.split(line.partition(before)[2])
    while "=" in words[0]:
        monkeypatch.setenv(*words.pop(0).split("=", 1))
    assert words[0] == "earsight"
    return words[1:]


def test_it_trains_is_stopped_goes_on_evaluates_and_localizes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("EARSIGHT_MODULES", raising=False)
    (tmp_path / "own").mkdir()
    (tmp_path / "media").mkdir()
    (tmp_path / "own" / "chimes.py").write_text(re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.S)[0])
    monkeypatch.syspath_prepend(str(tmp_path))
    names = [f"chime{i}" for i in range(8)]
    for name in names:
        make.picture(tmp_path / "media" / f"{name}.jpg", make.corners())
        make.sound_file(tmp_path / "media" / f"{name}.wav", make.chirp(2))
    for split in ("train", "test"):
        (tmp_path / "media" / f"{split}.txt").write_text("\n".join(names))
    make.steps(tmp_path / "video.mp4", 1.2)

    command = ["train", "slavc", "--on", "own.chimes", "--data", "media", "--out", "run", *TINY]
    reads = 0

    def stop() -> None:
        nonlocal reads
        reads += 1
        if reads == 14:  # in the second epoch
            raise KeyboardInterrupt

    __import__("own.chimes")
    bells: Any = sys.modules["own.chimes"].Bells
    read = bells.read

    def stopping(self: Any, *args: Any) -> Clip:
        stop()
        clip: Clip = read(self, *args)
        return clip

    monkeypatch.setattr(bells, "read", stopping)
    assert main(command) == 130
    resume = printed(capsys.readouterr().err, "go on with: ", monkeypatch)
    assert main(resume) == 0
    evaluate = printed(capsys.readouterr().err, "next: ", monkeypatch)
    assert main(evaluate) == 0
    assert "run" in capsys.readouterr().out
    assert main(["localize", "run", "video.mp4", "--format", "json", "--out", "results"]) == 0
    assert list((tmp_path / "results").glob("*.earsight.json"))
    assert main(["data", "prepare", "own.chimes:test", "--data", "media", "--rate", "8000", "--out", "pack"]) == 0
    assert main([*evaluate[:-1], "pack"] if evaluate[-2] == "--data" else evaluate) == 0
