"""Runs with files that are not part of earsight: trained, killed, resumed, measured by the printed command, used."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from earsight.cli import main
from earsight.media.write import write_png, write_wav
from tiny import killing, processes

TINY = [
    *("--inputs.image-size", "32", "--inputs.resize", "32", "--inputs.rate", "4000", "--inputs.seconds", "0.5"),
    *("--inputs.window", "128", "--inputs.hop", "64", "--optim.epochs", "2", "--optim.batch-size", "4"),
    *("--optim.save-every", "1", "--limit", "16", "--device", "cpu"),
]
ROOT = Path(__file__).parents[2]


def write(home: Path, monkeypatch: pytest.MonkeyPatch, name: str, text: str) -> None:
    """Keep a file as a module of the package `own`, which is found in `home`."""
    (home / "own").mkdir(exist_ok=True)
    (home / "own" / "__init__.py").touch()
    (home / "own" / f"{name}.py").write_text(text, encoding="utf-8")
    for module in ("own", f"own.{name}"):
        monkeypatch.delitem(sys.modules, module, raising=False)
    monkeypatch.syspath_prepend(str(home))
    monkeypatch.chdir(home)


def pair(home: Path) -> list[str]:
    """Flags of `earsight localize` for a picture and a sound."""
    write_png(home / "picture.png", np.full((3, 40, 60), 90, np.uint8))
    write_wav(home / "tone.wav", np.sin(np.arange(8000) / 3).astype(np.float32), 8000)
    return ["--image", str(home / "picture.png"), "--audio", str(home / "tone.wav")]


def shell(command: str, home: Path) -> subprocess.CompletedProcess[str]:
    """What a user types, in `home`; a package there is found by what the command itself says."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    env = os.environ | {"PATH": path, "PYTHONPATH": f"{ROOT / 'src'}:{ROOT / 'tests'}:{home}"}
    return subprocess.run(["bash", "-c", command], cwd=home, env=env, capture_output=True, text=True, timeout=300)


def whole_life(home: Path, capsys: pytest.CaptureFixture[str], *args: str) -> Path:
    """Train with `args`; killed and resumed it ends with the same bits; the printed command measures; it localizes."""
    straight, run = home / "straight", home / "run"
    assert main(["train", *args, *TINY, "--out", str(straight)]) == 0
    process = processes.start(killing.command_until_write, ["train", *args, *TINY, "--out", str(run)], "state.pt", 3)
    assert processes.finish([process]) == [-signal.SIGKILL]
    assert not (run / "weights.safetensors").exists()
    capsys.readouterr()
    assert main(["train", *args, *TINY, "--out", str(run), "--resume"]) == 0
    printed = capsys.readouterr().err
    assert "resuming at epoch 1, step 3" in printed
    got, wanted = killing.contents(run)[0], killing.contents(straight)[0]
    assert got.keys() == wanted.keys()
    assert all(torch.equal(got[name], value) for name, value in wanted.items())
    found = re.search(r"^next: (.*)$", printed, re.M)
    assert found is not None
    done = shell(found[1], home)
    assert done.returncode == 0, done.stderr
    assert "LocAcc" in done.stdout
    before = found[1].partition("earsight ")[0]
    done = shell(f"{before}earsight localize {run} {shlex.join(pair(home))} -o shown", home)
    assert done.returncode == 0, done.stderr
    return run
