"""Commands without what only training needs: they run, or name the extra to install."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from earsight.cli import COMMANDS, main
from earsight.cli.settings import EXTRAS
from earsight.config import Inputs, Optim
from earsight.data.clips import open_set
from earsight.methods import slavc
from earsight.training.job import Job

HIDDEN = tuple(name for modules in EXTRAS.values() for name in modules)
CODE = f"""
import json, sys

class Hidden:
    def find_spec(self, name, *more):
        if name.partition(".")[0] in {HIDDEN!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Hidden())
from earsight.cli import main
codes = []
for args in json.loads(sys.argv[1]):
    print(">", *args, flush=True)
    codes.append(main(args))
    print(f"< {{codes[-1]}}", flush=True)
sys.exit(max(codes))
"""


def without_extras(*commands: list[str]) -> subprocess.CompletedProcess[str]:
    """Run commands in a process that has the core dependencies alone."""
    words = [sys.executable, "-c", CODE, json.dumps(commands)]
    return subprocess.run(words, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def exported(weights: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("exported") / "tiny"
    assert main(["export", str(weights), "-o", str(out)]) == 0
    return out


def test_help_and_lists_need_no_extra() -> None:
    kinds = ("methods", "encoders", "samplers", "sets", "metrics", "protocols", "recipes", "tables")
    done = without_extras(
        ["--help"], *([*name.split(), "--help"] for name in COMMANDS), *(["list", kind] for kind in kinds)
    )
    assert done.returncode == 0, done.stderr


def test_doctor_says_that_all_is_well_and_which_extras_are_missing() -> None:
    done = without_extras(["doctor"])
    assert done.returncode == 0, done.stdout
    assert "extras            installed: none" in done.stdout
    assert (
        "-  torch             not installed: training, evaluation of weights, packs (pip install 'earsight[train]')"
        in (done.stdout)
    )


def test_show_needs_no_extra(weights: Path, exported: Path, media: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    run.mkdir()
    job = Job("slavc", slavc.Config(), Inputs(), Optim(), on="toybox")
    (run / "run.json").write_text(json.dumps(job.to_json()), encoding="utf-8")
    (run / "weights.safetensors").write_bytes(weights.read_bytes())
    paths = (weights, exported, run, media / "clip.mp4", media / "picture.png", media / "tone.wav")
    done = without_extras(*(["show", str(path)] for path in paths))
    assert done.returncode == 0, done.stderr
    assert "visible from confidence 0.0000 on" in done.stdout


def test_an_exported_model_localizes_without_an_extra(exported: Path, media: Path, tmp_path: Path) -> None:
    pair = ["--image", str(media / "picture.png"), "--audio", str(media / "tone.wav")]
    out = ["-o", str(tmp_path), "--format", "mp4,png,json,npz"]
    done = without_extras(
        ["localize", str(exported), str(media / "clip.mp4"), *out],
        ["localize", str(exported), *pair, *out[:3], "png,json,npz"],
    )
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "clip.earsight.mp4").stat().st_size > 1000


@pytest.fixture
def maps(tmp_path: Path) -> Path:
    random = np.random.default_rng(0)
    ids = np.array([row.id for row in open_set("toybox").rows])
    np.savez(tmp_path / "theirs.npz", id=ids, maps=random.uniform(size=(len(ids), 7, 7)).astype(np.float32))
    return tmp_path / "theirs.npz"


def test_scores_and_comparisons_need_no_extra(maps: Path, tmp_path: Path) -> None:
    reports = [tmp_path / "one", tmp_path / "two"]
    score = ["score", str(maps), "--on", "toybox", "--protocol", "exact", "--trained-on", "toybox:train"]
    done = without_extras(
        [*score, "--shuffled", str(maps), "--out", str(reports[0])],
        [*score, "--name", "other", "--out", str(reports[1])],
        ["compare", *map(str, reports), "--draws", "100"],
        ["compare", "--table", "table3", "--format", "latex"],
        ["show", str(reports[0])],
    )
    assert done.returncode == 0, done.stderr
    assert (reports[0] / "report.html").is_file()


@pytest.mark.parametrize(
    ("args", "extra"),
    [
        (["train", "slavc", "--on", "toybox", "-o", "run"], "train"),
        (["train", "slavc", "--help"], "train"),
        (["eval", "w.safetensors", "--on", "toybox"], "train"),
        (["demo"], "train"),
        (["import", "latest.pth", "-o", "w.safetensors"], "train"),
        (["export", "w.safetensors", "-o", "exported"], "export"),
        (["localize", "w.safetensors", "clip.mp4"], "train"),
        (["localize", "w.safetensors", "clip.mp4", "--object-prior", "0.9"], "train"),
        (["list", "presets"], "train"),
        (["data", "prepare", "toybox", "-o", "pack"], "train"),
        (["app", "w.onnx"], "app"),
    ],
)
def test_a_command_that_needs_an_extra_names_it_in_one_line(args: list[str], extra: str) -> None:
    done = without_extras(args)
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"earsight: error: Expected {EXTRAS[extra][0]}") or "Expected pyarrow" in line
    assert line.endswith(f"Install the extra '{extra}': pip install 'earsight[{extra}]'")
    assert done.returncode == 2
