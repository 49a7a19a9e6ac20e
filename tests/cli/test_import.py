"""`earsight import`: writes what was asked for, replaces nothing unasked, and refuses other files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import earsight.official
from earsight.cli import main
from earsight.config import Inputs
from earsight.methods import slavc
from earsight.official import Imported

Captured = pytest.CaptureFixture[str]


@pytest.fixture
def official(monkeypatch: pytest.MonkeyPatch) -> None:
    """An import that needs no checkpoint of 500 tensors."""

    def stand_in(path: Path, out: Path, method: str) -> Imported:
        out.write_bytes(b"weights")
        if method:
            return Imported("EZ-VSL", method, None, Inputs(), {}, {"protocol": "official", "imported": {}})
        meta = {"protocol": "official", "imported": {"source": "SLAVC", "file": path.name, "epoch": 19}}
        preset = slavc.official()
        return Imported("SLAVC", "slavc", preset.config, preset.inputs, {}, meta)

    monkeypatch.setattr(earsight.official, "import_checkpoint", stand_in)


@pytest.mark.usefixtures("official")
def test_an_import_tells_what_the_file_was(tmp_path: Path, capsys: Captured) -> None:
    out = tmp_path / "slavc.safetensors"
    args = ["import", "latest.pth", "-o", str(out)]
    assert main(args) == 0
    got = capsys.readouterr()
    assert got.out.splitlines()[:2] == [str(out), "  source    SLAVC"]
    assert f"next: earsight localize {out} VIDEO" in got.err
    assert main(args) == 2
    assert f"Expected no file at {out} yet, but got one. Use --force to replace it." in capsys.readouterr().err
    assert main([*args, "--force", "--json"]) == 0
    values = json.loads(capsys.readouterr().out)
    assert (values["source"], values["epoch"], values["weights"]) == ("SLAVC", 19, str(out))


@pytest.mark.usefixtures("official")
def test_another_method_of_the_same_network_can_be_named(tmp_path: Path, capsys: Captured) -> None:
    assert main(["import", "best.pth", "-o", str(tmp_path / "w.safetensors"), "--method", "fnac", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["method"] == "fnac"


def test_another_ending_is_refused(tmp_path: Path, capsys: Captured) -> None:
    assert main(["import", "latest.pth", "--out", str(tmp_path / "slavc.pth")]) == 2
    assert "Expected an output name that ends in .safetensors" in capsys.readouterr().err


def test_a_file_that_is_no_checkpoint_is_refused(tmp_path: Path, capsys: Captured) -> None:
    bad = tmp_path / "latest.pth"
    bad.write_bytes(b"nothing of the kind")
    assert main(["import", str(bad), "-o", str(tmp_path / "out.safetensors")]) == 1
    assert f"Expected readable weights in {bad}, but got a damaged file" in capsys.readouterr().err
    assert not (tmp_path / "out.safetensors").exists()
