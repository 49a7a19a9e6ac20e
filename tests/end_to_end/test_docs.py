"""What README and quickstart tell people to type works, with tiny models and media in place of theirs."""

from __future__ import annotations

import csv
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import make
import pytest
import torch

from earsight.checkpoint import save_weights
from earsight.cli import main
from earsight.config import Inputs
from earsight.data.clips import open_set
from earsight.data.sets import toybox
from earsight.encoders.base import Encoders
from earsight.errors import UsageError
from earsight.methods.slavc import Config, Model

ROOT = Path(__file__).parents[2]
PAGES = ("README.md", "docs/quickstart.md")
MEASURING = ("docs/protocols.md", "docs/why-numbers-differ.md")
TINY = [
    *("--method.encoders.image", "small", "--method.encoders.audio", "small"),
    *("--method.encoders.width", "4", "--method.encoders.weights", "random"),
    *("--method.dim", "8", "--inputs.image-size", "32", "--inputs.resize", "36", "--inputs.rate", "8000"),
    *("--inputs.seconds", "1", "--inputs.window", "128", "--inputs.hop", "64", "--optim.epochs", "1"),
    *("--optim.batch-size", "4", "--limit", "8", "--device", "cpu"),
]


def blocks(page: str, language: str) -> list[str]:
    """The fenced blocks of a language ("" for plain ones)."""
    parts = re.split(r"^```(\w*)\n", (ROOT / page).read_text(encoding="utf-8"), flags=re.M)
    opened = zip(parts[1::4], parts[2::4], strict=True)  # fences come in pairs: language, text, nothing, prose
    return [text for name, text in opened if name == language]


def commands(page: str) -> list[list[str]]:
    """The earsight commands in the page's plain blocks, without comments."""
    lines = [line.split("  #")[0] for block in blocks(page, "") for line in block.splitlines()]
    return [shlex.split(line)[1:] for line in lines if line.startswith("earsight ")]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with everything the pages mention: a trained run, a photo, a sound, a video, own pairs."""
    monkeypatch.chdir(tmp_path)
    torch.manual_seed(0)
    config = Config(encoders=Encoders("small", "small", weights="random", width=4), dim=8)
    inputs = Inputs(image_size=32, resize=36, rate=8000, seconds=1.0, window=128, hop=64)
    calibration = {"threshold": 0.5, "false_alarm": 0.1, "recall": 0.8, "negatives": 10}
    meta = {"protocol": "exact", "calibration": calibration, "universal_level": 0.5}
    save_weights(tmp_path / "demo/run/weights.safetensors", Model(config, inputs), "slavc", config, meta)
    (tmp_path / "runs" / "toys").mkdir(parents=True)
    log = '{"step": 1, "epoch": 0, "val": {"ap": 0.1, "loc_acc": 0.2}}\n'
    (tmp_path / "runs" / "toys" / "log.jsonl").write_text(log)
    monkeypatch.setattr(toybox, "COUNTS", dict.fromkeys(toybox.COUNTS, 12))
    make.steps(tmp_path / "my-video.mp4", 1.2)
    make.picture(tmp_path / "photo.jpg", make.corners())
    make.sound_file(tmp_path / "sound.wav", make.chirp(2))
    pairs = tmp_path / "my_pairs"
    pairs.mkdir()
    make.picture(pairs / "photo.jpg", make.corners())
    make.sound_file(pairs / "sound.wav", make.chirp(2))
    for split in ("train", "val", "test"):
        with (pairs / f"pairs_{split}.csv").open("w", newline="") as file:
            rows = csv.writer(file)
            rows.writerow(["image", "audio", "start", "cls", "kind"])
            for k in range(8):
                kind = "single" if split == "train" or k % 2 else "neg_offscreen"
                rows.writerow(["photo.jpg", "sound.wav", 0.1 * k, "dog", kind])
    (pairs / "boxes.csv").write_text("image,cls,xc,yc,w,h\nphoto.jpg,dog,0.5,0.5,0.4,0.4\n")
    return tmp_path


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES)
def test_every_command_of_a_page_works(page: str, home: Path) -> None:
    shutil.rmtree(home / "runs")
    for example in blocks(page, "python"):
        if "np.savez" in example:  # the maps that the commands score
            exec(compile(example, page, "exec"), {})
    if page == "README.md":  # what the demonstration leaves behind
        assert main(["eval", "demo/run", "--on", "toybox:extended", "--audio", "real", "--out", "demo/report"]) == 0
    ran = []
    for args in commands(page):
        if args[0] == "app":  # serves until it is stopped; tests/app does it
            continue
        if args[0] == "import" or "WEIGHTS" in args:  # needs half a gigabyte; tests/test_official.py does it
            continue
        assert main([*args, *TINY] if args[0] == "train" else args) == 0, args
        ran.append(args[0])
    assert {"train", "eval", "localize"} <= set(ran)


@pytest.mark.slow
@pytest.mark.parametrize("page", MEASURING)
def test_every_command_on_measuring_works_and_prints_what_the_page_says(
    page: str, home: Path, shared: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (home / "metadata").symlink_to(shared / "metadata")
    found = commands(page)
    assert found
    for args in found:
        assert main(args) == 0, args
    printed = capsys.readouterr().out
    for block in blocks(page, "text"):
        assert block.strip() in printed


@pytest.mark.slow
def test_the_page_on_packs_works_and_prints_what_comes_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page = "docs/packs.md"
    monkeypatch.chdir(tmp_path)
    found = commands(page)
    assert [args[0] for args in found] == ["data", "show", "data", "data"]
    for args in found:
        assert main(args) == 0, args
    for example in blocks(page, "python"):
        exec(compile(example, page, "exec"), {})
    printed = capsys.readouterr().out
    shard = tmp_path / "packs/toys/toybox-val/shard-00000.arrow"
    stored = open_set("toybox:val", tmp_path / "packs/toys").stored(8).frame
    data = bytearray(shard.read_bytes())
    data[data.index(stored) + len(stored) // 2] ^= 1
    shard.write_bytes(data)
    assert main(found[2]) == 1
    printed += capsys.readouterr().out
    shown = [block for block in blocks(page, "text") if block.startswith("packs/toys")]
    assert len(shown) == 2
    for block in shown:
        assert block.strip() in printed


@pytest.mark.parametrize("page", PAGES)
def test_every_python_example_of_a_page_works(page: str, home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    examples = blocks(page, "python")
    assert examples
    for example in examples:
        exec(compile(example, page, "exec"), {})
    assert "source" in capsys.readouterr().out


@pytest.mark.parametrize("page", PAGES)
def test_the_maps_of_a_page_score_above_zero(page: str, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(toybox, "COUNTS", dict.fromkeys(toybox.COUNTS, 60))
    (example,) = [one for one in blocks(page, "python") if "np.savez" in one]
    exec(compile(example, page, "exec"), {})
    (file,) = home.glob("*maps.npz")
    assert main(["score", str(file), "--on", "toybox:extended", "--out", "maps-report"]) == 0
    found = json.loads((home / "maps-report/metrics.json").read_text())["evaluations"]
    assert {e["protocol"]["name"] for e in found} == {"exact", "official", "paper"}
    for e in found:
        if e["audio"] == "real":
            assert min(e["metrics"]["loc_acc"], e["metrics"]["max_f1"], e["metrics"]["ap"]) > 0.05


def test_the_page_on_adding_a_data_set_holds_a_set_that_opens(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (home / "own_sets").mkdir()
    (home / "own_sets" / "__init__.py").touch()
    (home / "own_sets" / "bells.py").write_text(blocks("docs/add-a-dataset.md", "python")[0])
    monkeypatch.syspath_prepend(str(home))
    data = home / "bells"
    data.mkdir()
    for split in ("train", "test"):
        (data / f"{split}.txt").write_text("one\ntwo\n")
    for name in ("one", "two"):
        make.picture(data / f"{name}.jpg", make.corners())
        make.sound_file(data / f"{name}.wav", make.chirp(4))
    assert main(["eval", "demo/run", "--on", "own_sets.bells", "--data", str(data)]) == 0
    assert main(["data", "check", "own_sets.bells", "--data", str(data)]) == 0
    assert main(["data", "audit", "own_sets.bells", "--data", str(data)]) == 0
    assert "bells:test, same clip: one, two" in capsys.readouterr().out
    negatives = ["data", "negatives", "own_sets.bells", "--data", str(data), "-o", "n.csv", "--same-class", "1"]
    assert main(negatives) == 0
    assert "the extended set is own_sets.bells:test+n.csv" in capsys.readouterr().err
    assert len(open_set("own_sets.bells:test+n.csv", data)) == 4
    assert [row.id for row in open_set("own_sets.bells", data, role="train").rows] == ["one", "two"]
    with pytest.raises(UsageError, match=r"Expected a split of own_sets\.bells for validation, but it has none"):
        open_set("own_sets.bells", data, role="val")


def test_the_page_on_adding_a_method_holds_a_method_that_trains(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (home / "mean_pooling.py").write_text(blocks("docs/add-a-method.md", "python")[0])
    monkeypatch.syspath_prepend(str(home))
    (home / "own").mkdir()
    (home / "own" / "__init__.py").touch()
    (home / "mean_pooling.py").rename(home / "own" / "mean_pooling.py")
    at = TINY.index("--method.dim")
    tiny = TINY[:at] + TINY[at + 2 :]
    assert main(["train", "own.mean_pooling", "--on", "folder", "--data", "my_pairs", "--out", "run", *tiny]) == 0
    assert main(["eval", "run", "--on", "folder", "--data", "my_pairs"]) == 0


@pytest.mark.slow
def test_the_page_on_adding_an_encoder_holds_one_whose_run_is_stopped_and_goes_on_as_printed(home: Path) -> None:
    (home / "lab").mkdir()
    (home / "lab" / "bands.py").write_text(blocks("docs/add-an-encoder.md", "python")[0])
    paths = [str(ROOT / "src"), str(home)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "OMP_NUM_THREADS": "1"}
    environment["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment.pop("EARSIGHT_MODULES", None)

    def typed(line: str) -> str:
        done = subprocess.run(line, shell=True, cwd=home, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, (line, done.stderr)
        return done.stderr

    flags = [*TINY, "--method.encoders.audio", "lab.bands", "--optim.epochs", "6", "--optim.save-every", "1"]
    words = ["earsight", "train", "slavc", "--on", "toybox", "--out", "my run", *flags]
    with subprocess.Popen(words, cwd=home, env=environment, stderr=subprocess.PIPE, text=True) as training:
        while not (home / "my run" / "state.pt").exists() and training.poll() is None:
            time.sleep(0.05)
        training.send_signal(signal.SIGINT)
        _, told = training.communicate(timeout=300)
    assert training.returncode == 130, told
    (go_on,) = [line for line in told.splitlines() if "go on with: " in line]
    assert "EARSIGHT_MODULES=lab.bands earsight train --out 'my run' --resume" in go_on
    (measure,) = [line for line in typed(go_on.partition("go on with: ")[2]).splitlines() if "next: " in line]
    typed(f"{measure.partition('next: ')[2]} --limit 8")
    pair = "--image photo.jpg --audio sound.wav --format json --out shown"
    typed(f"EARSIGHT_MODULES=lab.bands earsight localize 'my run' {pair}")
    shown = json.loads(next((home / "shown").glob("*.json")).read_text(encoding="utf-8"))
    assert shown
    refused = subprocess.run(["earsight", "localize", "my run", *pair.split()], cwd=home, env=environment, text=True,
                             capture_output=True)  # fmt: skip
    assert refused.returncode == 1
    assert "Expected an encoder of earsight in" in refused.stderr
