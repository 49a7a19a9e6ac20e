"""`earsight doctor`: says what works, and fails only for what is needed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from earsight.cli import about, main
from earsight.cli.settings import EXTRAS
from earsight.errors import EarsightError

Captured = pytest.CaptureFixture[str]


def broken() -> str:
    raise EarsightError("is not\nthere")


def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave out what takes time."""
    for slow in ("_video", "_training"):
        monkeypatch.setattr(about, slow, lambda: "fine")


def test_everything_works_here(capsys: Captured) -> None:
    assert main(["doctor"]) == 0
    out = capsys.readouterr().out
    for name in ("python", "torch", "av", "ffmpeg", "libx264", "gpu", "memory", "disk", "imagenet weights"):
        assert f" {name} " in out
    assert "✓  training step" in out
    assert "✓  video round trip" in out
    assert out.endswith("All is well.\n")


@pytest.mark.parametrize("check", ["_ffmpeg", "_disk", "_video", "_training"])
def test_something_needed_that_is_broken_makes_exit_1(
    check: str, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    quick(monkeypatch)
    monkeypatch.setattr(about, check, broken)
    assert main(["doctor", "--json"]) == 1
    values = json.loads(capsys.readouterr().out)
    assert values["ok"] is False
    assert [c["detail"] for c in values["checks"] if c["state"] == "broken"] == ["is not there"]


@pytest.mark.parametrize("check", ["_encoder", "_gpu", "_memory", "_imagenet"])
def test_something_optional_may_be_missing(check: str, monkeypatch: pytest.MonkeyPatch, capsys: Captured) -> None:
    quick(monkeypatch)
    monkeypatch.setattr(about, check, broken)
    assert main(["doctor"]) == 0
    assert "is not there" in capsys.readouterr().out


def test_a_package_that_does_not_import_is_named(monkeypatch: pytest.MonkeyPatch, capsys: Captured) -> None:
    quick(monkeypatch)
    monkeypatch.setattr(about, "NEEDED", ("no_such_package",))
    monkeypatch.setattr(about, "EXTRAS", {"log": ("no_such_extra",)})
    assert main(["doctor"]) == 1
    out = capsys.readouterr().out
    assert "No module named 'no_such_package'" in out
    assert "not installed: training curves in TensorBoard (pip install 'earsight[log]')" in out
    assert "Not working: no_such_package." in out


def test_every_extra_of_the_package_is_told_with_what_it_is_for(
    monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    quick(monkeypatch)
    monkeypatch.setattr(about, "missing", list)
    assert main(["doctor"]) == 0
    out = capsys.readouterr().out
    for extra, modules in EXTRAS.items():
        for name in modules:
            assert f"-  {name:<16}  not installed: {about.USES[extra]} (pip install 'earsight[{extra}]')\n" in out
    assert "extras            installed: none" in out
    assert "training step" not in out


def test_an_extra_that_is_there_and_does_not_import_breaks_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    quick(monkeypatch)
    monkeypatch.setattr(about, "EXTRAS", {"log": ("earsight.no_such_part",)})
    monkeypatch.setattr(about, "missing", lambda modules: [])
    assert main(["doctor"]) == 0
    assert "No module named 'earsight.no_such_part'" in capsys.readouterr().out


def test_little_disk_space_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(about, "_ROOM", 1e30)
    with pytest.raises(EarsightError, match="too little for a run; make room"):
        about._disk()


def test_imagenet_weights_that_training_would_refuse_are_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TORCH_HOME", str(tmp_path))
    file = tmp_path / "hub" / "checkpoints" / "resnet18-f37072fd.pth"
    file.parent.mkdir(parents=True)
    file.write_bytes(b"another file")
    with pytest.raises(EarsightError, match=r"resnet18-f37072fd\.pth is damaged or another file: its sha256"):
        about._imagenet()


def test_missing_imagenet_weights_name_their_place(monkeypatch: pytest.MonkeyPatch, tmp_path: object) -> None:
    monkeypatch.setattr("torch.hub.get_dir", lambda: str(tmp_path))
    with pytest.raises(EarsightError, match=r"put https://\S+resnet18\S+ at \S+checkpoints/resnet18"):
        about._imagenet()
