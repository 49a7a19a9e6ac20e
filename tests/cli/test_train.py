"""`earsight train`: which settings a command line gives, and what a run that goes on refuses."""

from __future__ import annotations

import gc
import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import earsight
import earsight.training.loop
from earsight.cli import main
from earsight.cli.train import read_ahead
from earsight.config import Inputs, Optim
from earsight.methods import slavc
from earsight.recipes import RECIPES
from earsight.training.job import Job

Captured = pytest.CaptureFixture[str]


class Trained:
    """Stands in for training: keeps what it was asked for."""

    def __init__(self) -> None:
        self.jobs: list[Job] = []
        self.more: list[dict[str, Any]] = []
        self.frozen: list[int] = []

    def __call__(self, job: Job, out: Path, **more: Any) -> Path:
        self.jobs.append(job)
        self.more.append(more)
        self.frozen.append(gc.get_freeze_count())
        return out / "weights.safetensors"


@pytest.fixture
def trained(monkeypatch: pytest.MonkeyPatch) -> Trained:
    stand_in = Trained()
    monkeypatch.setattr(earsight.training.loop, "train", stand_in)
    return stand_in


def begun(folder: Path, job: Job) -> Path:
    """A run's folder as training begins it."""
    folder.mkdir()
    (folder / "run.json").write_text(json.dumps(job.to_json()), encoding="utf-8")
    return folder


def test_without_flags_the_methods_own_settings_hold(trained: Trained, tmp_path: Path, capsys: Captured) -> None:
    assert main(["train", "slavc", "--on", "toybox", "--out", str(tmp_path / "r")]) == 0
    assert trained.jobs == [Job("slavc", slavc.Config(), Inputs(), Optim(), on="toybox", val="toybox:val")]
    assert trained.more == [{"device": "auto", "resume": False, "force": False}]
    assert trained.frozen[0] > 1000  # what was imported is not looked through for garbage, while training lasts
    assert gc.get_freeze_count() == 0
    got = capsys.readouterr()
    assert got.out == f"{tmp_path / 'r' / 'weights.safetensors'}\n"
    assert "next: earsight eval" in got.err


@pytest.mark.parametrize(("on", "tested"), [("toybox:val", "toybox"), ("vggsound:10k", "vggss"), ("vggss", "vggss")])
def test_the_next_command_names_a_set_that_can_be_tested_on(
    on: str, tested: str, trained: Trained, capsys: Captured
) -> None:
    assert main(["train", "slavc", "--on", on, "-o", "r"]) == 0
    assert f"--on {tested}\n" in capsys.readouterr().err


def test_every_flag_reaches_the_job(trained: Trained) -> None:
    args = "slavc --on toybox:train --data d -o r --val toybox:test --limit 9 --protocol paper --false-alarm 0.2"
    more = "--device cpu --force --method.visual-dropout 0.5 --method.encoders.image small --method.no-targets"
    more += " --method.encoders.audio small"
    rest = "--method.pooling=max --optim.epochs 3 --optim.compile --inputs.rate 16000 --inputs.no-flip"
    assert main(["train", *args.split(), *more.split(), *rest.split()]) == 0
    job = trained.jobs[0]
    assert (job.on, job.data, job.val, job.limit) == ("toybox:train", "d", "toybox:test", 9)
    assert (job.protocol, job.false_alarm) == ("paper", 0.2)
    config = slavc.Config(slavc.Encoders("small", "small"), visual_dropout=0.5, targets=False, pooling="max")
    assert job.config == config
    assert job.optim == Optim(epochs=3, compile=True)
    assert job.inputs == Inputs(rate=16000, flip=False)
    assert trained.more == [{"device": "cpu", "resume": False, "force": True}]


def test_encoders_have_short_flags(trained: Trained) -> None:
    assert (
        main(["train", "slavc", "--on", "toybox", "--out", "r", "--image-encoder", "small", "--audio-encoder=resnet18"])
        == 0
    )
    assert trained.jobs[0].config.encoders == slavc.Encoders("small", "resnet18")


def test_a_preset_is_where_flags_start_from(trained: Trained) -> None:
    assert main(["train", "slavc", "--on", "toybox", "-o", "r", "--preset", "paper", "--method.momentum", "0.5"]) == 0
    job, paper = trained.jobs[0], slavc.paper()
    assert job.config == slavc.Config(**{**vars(paper.config), "momentum": 0.5})
    assert (job.inputs, job.optim, job.protocol) == (paper.inputs, paper.optim, "paper")


@pytest.mark.parametrize("method", [["slavc"], []])
def test_a_recipe_names_everything(method: list[str], trained: Trained) -> None:
    assert main(["train", *method, "--recipe", "slavc_toybox", "-o", "r"]) == 0
    assert trained.jobs == [RECIPES["slavc_toybox"]()]


def test_a_recipes_validation_set_stays_behind_on_another_training_set(
    trained: Trained, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "my").mkdir()
    text = "DEFAULTS = {'train': 'a'}\nSPLITS = ('a',)\ndef open(split, data): ...\n"
    (tmp_path / "my" / "noval.py").write_text(text, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    assert main(["train", "--recipe", "slavc_toybox", "--on", "my.noval", "-o", "r"]) == 0
    assert (trained.jobs[0].on, trained.jobs[0].val) == ("my.noval", "")


@pytest.mark.parametrize(
    ("flags", "val"),
    [
        ("--on toybox", "toybox:val"),
        ("--on toybox:train", "toybox:val"),
        ("--on toybox:val", ""),
        ("--on toybox --val none", ""),
        ("--on toybox --val toybox:test", "toybox:test"),
        ("--on vggsound", ""),
    ],
)
def test_validation_is_the_sets_own_split_unless_given(flags: str, val: str, trained: Trained) -> None:
    assert main(["train", "slavc", "-o", "r", *flags.split()]) == 0
    assert trained.jobs[0].val == val


def test_a_folder_without_a_validation_list_is_trained_on_without(
    trained: Trained, tmp_path: Path, capsys: Captured
) -> None:
    flags = ["--on", "folder", "--data", str(tmp_path), "-o", "r"]
    assert main(["train", "slavc", *flags]) == 0
    told = capsys.readouterr().err
    assert f"no validation: there is no pairs_val.csv in {tmp_path}. Add it, with boxes.csv, to measure" in told
    assert "next: earsight localize r/weights.safetensors VIDEO" in told
    (tmp_path / "pairs_val.csv").touch()
    (tmp_path / "pairs_test.csv").touch()
    assert main(["train", "slavc", *flags]) == 0
    told = capsys.readouterr().err
    assert told == f"next: earsight eval r/weights.safetensors --on folder --data {tmp_path}\n"
    assert main(["train", "slavc", *flags, "--val", "none"]) == 0
    assert [job.val for job in trained.jobs] == ["", "folder:val", ""]


def test_a_run_that_began_without_validation_goes_on_without_when_a_list_has_come(
    trained: Trained, tmp_path: Path
) -> None:
    flags = ["train", "slavc", "--on", "folder", "--data", str(tmp_path), "-o", str(tmp_path / "r")]
    assert main(flags) == 0
    begun(tmp_path / "r", trained.jobs[0])
    (tmp_path / "pairs_val.csv").touch()
    assert main([*flags, "--resume"]) == 0
    assert trained.jobs[1] == trained.jobs[0]


@pytest.mark.parametrize(
    ("flags", "epochs", "batch_size"),
    [
        ("slavc --limit 64", 1, 8),
        ("slavc --limit=64 --preset paper", 1, 8),
        ("slavc --limit 64 --optim.batch-size 32", 1, 32),
        ("slavc --limit 64 --optim.epochs 20", 20, 128),
        ("slavc --limit 64 --optim.epochs=2", 2, 128),
        ("slavc --limit 0", 20, 128),
        ("dsol --preset two_stages --limit 64", 2, 8),
    ],
)
def test_a_limit_without_a_number_of_epochs_is_a_smoke_test(
    flags: str, epochs: int, batch_size: int, trained: Trained, capsys: Captured
) -> None:
    assert main(["train", *flags.split(), "--on", "toybox", "-o", "r"]) == 0
    optim, told = trained.jobs[0].optim, capsys.readouterr().err
    assert (optim.epochs, optim.batch_size) == (epochs, batch_size)
    cut = "0" not in flags.split() and "epochs" not in flags
    words = (
        f"--limit makes this a smoke test: {epochs} epoch{'s'[: epochs > 1]} in batches of {batch_size} at most. Add"
    )
    assert (words in told) == cut


def test_a_smoke_test_goes_on_as_it_began(trained: Trained, tmp_path: Path, capsys: Captured) -> None:
    run = str(tmp_path / "r")
    flags = ["train", "slavc", "--on", "toybox", "--limit", "64", "-o", run]
    preset = [*flags, "--preset", "official"]
    assert main(preset) == 0
    begun(tmp_path / "r", trained.jobs[0])
    for args in (["train", "-o", run], flags, preset):
        assert main([*args, "--resume"]) == 0
        assert trained.jobs[-1] == trained.jobs[0]
    longer = replace(trained.jobs[0], optim=Optim(epochs=3))
    (tmp_path / "r" / "run.json").write_text(json.dumps(longer.to_json()), encoding="utf-8")
    assert main([*flags, "--resume"]) == 0
    assert trained.jobs[-1] == longer
    capsys.readouterr()


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ("-o r", "Expected METHOD, but got none. Name it first: earsight train METHOD --on SET --out RUN. Known: "),
        ("-o r --resume", "Expected a run to resume in r, or METHOD, but got none"),
        ("slavec --on toybox -o r", "Unknown method 'slavec', did you mean 'slavc'?"),
        ("slavc -o r", "Expected a training set, but got none. Add --on SET, one of: "),
        ("slavc --on toyboks -o r", "Unknown set 'toyboks', did you mean 'toybox'?"),
        ("slavc --on toybox -o r --protocol exat", "Unknown protocol 'exat', did you mean 'exact'?"),
        ("slavc --on toybox -o r --protocol universal", "has a level, but got universal. Write universal:level=SCORE"),
        ("slavc --on toybox -o r --preset papr", "Unknown preset 'papr', did you mean 'paper'? Known: official, paper"),
        ("slavc -o r --recipe slavc_toyboks", "Unknown recipe 'slavc_toyboks', did you mean 'slavc_toybox'?"),
        ("slavc -o r --recipe slavc_toybox --preset paper", "Expected --recipe or --preset, but got both"),
        ("other -o r --recipe slavc_toybox", "Expected METHOD slavc, which the recipe slavc_toybox trains, but got"),
        ("-o r --preset paper --resume", "Expected a run to resume in r, or METHOD, but got none"),
        ("slavc --on toybox -o r --resume --force", "Expected --resume or --force, but got both"),
        ("slavc --on toybox -o r --optim.epochs 0", "Expected epochs of at least 1, but got 0"),
        ("slavc --on toybox -o r --limit -1", "Expected limit of at least 0, but got -1"),
    ],
)
def test_what_cannot_be_trained_is_refused(
    args: str, message: str, trained: Trained, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["train", *args.split()]) == 2
    got = capsys.readouterr()
    assert message in " ".join(got.err.split())
    assert got.out == ""
    assert trained.jobs == []


def test_a_missing_out_folder_is_a_usage_error(capsys: Captured) -> None:
    assert main(["train", "slavc", "--on", "toybox"]) == 2
    assert "--out" in capsys.readouterr().err


def test_a_run_goes_on_with_its_own_settings(trained: Trained, tmp_path: Path) -> None:
    job = RECIPES["slavc_toybox"]()
    run = begun(tmp_path / "r", job)
    assert main(["train", "--out", str(run), "--resume"]) == 0
    assert main(["train", "slavc", "--on", job.on, "-o", str(run), "--resume", "--optim.epochs", "8"]) == 0
    assert main(["train", "--recipe", "slavc_toybox", "-o", str(run), "--resume"]) == 0
    assert trained.jobs == [job, job, job]
    assert all(more["resume"] for more in trained.more)


def test_a_run_without_validation_goes_on_without(trained: Trained, tmp_path: Path) -> None:
    job = Job("slavc", slavc.Config(), Inputs(), Optim(), on="toybox")
    run = begun(tmp_path / "r", job)
    assert main(["train", "--out", str(run), "--resume"]) == 0
    assert trained.jobs == [job]


def test_a_run_that_names_modules_goes_on_once_the_user_names_them(
    trained: Trained, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    (tmp_path / "somebodys").mkdir()
    (tmp_path / "somebodys" / "clips.py").write_text(
        "from earsight.data.sets.toybox import DEFAULTS, SPLITS, open as open"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    job = replace(RECIPES["slavc_toybox"](), on="somebodys.clips:train", val="somebodys.clips:val")
    run = begun(tmp_path / "r", job)
    assert main(["train", "--out", str(run), "--resume"]) == 1
    assert f"Expected a set of earsight in {run / 'run.json'}, but got the module 'somebodys.clips', which is not" in (
        capsys.readouterr().err
    )
    assert main(["train", "--on", job.on, "--out", str(run), "--resume"]) == 0
    monkeypatch.delitem(sys.modules, "somebodys.clips")
    monkeypatch.setenv("EARSIGHT_MODULES", "somebodys")
    assert main(["train", "--out", str(run), "--resume"]) == 0
    assert trained.jobs == [job, job]


def test_the_same_preset_goes_on_too(trained: Trained, tmp_path: Path) -> None:
    flags = ["--on", "toybox", "--preset", "paper", "--optim.epochs", "3", "--out", str(tmp_path / "r")]
    assert main(["train", "slavc", *flags]) == 0
    begun(tmp_path / "r", trained.jobs[0])
    assert main(["train", "slavc", *flags, "--resume"]) == 0
    assert trained.jobs[1] == trained.jobs[0]


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ("--optim.epochs 9", "but got --optim.epochs 9 where the run has 8. Go on with: earsight train --out"),
        ("--method.dim 4", "--method.dim 4 where the run has 128"),
        ("--on toybox:test", "--on 'toybox:test' where the run has 'toybox:train'"),
        ("--val none", "--val '' where the run has 'toybox:val'"),
        ("--limit 3 --protocol paper --val none --inputs.rate 8000 --inputs.hop 99", "and 2 more. Go on with"),
    ],
)
def test_flags_that_contradict_the_run_are_refused(
    flags: str, message: str, trained: Trained, tmp_path: Path, capsys: Captured
) -> None:
    run = begun(tmp_path / "r", RECIPES["slavc_toybox"]())
    assert main(["train", "-o", str(run), "--resume", *flags.split()]) == 2
    assert message in capsys.readouterr().err
    assert trained.jobs == []


def test_what_does_not_decide_the_result_may_change(trained: Trained, tmp_path: Path) -> None:
    job = RECIPES["slavc_toybox"]()
    begun_with = replace(job, data="old", optim=replace(job.optim, workers=3, max_failed=0.2))
    run = begun(tmp_path / "r", begun_with)
    flags = "--data new --optim.workers 2 --optim.save-every 7 --optim.save-epochs 3"
    assert main(["train", "-o", str(run), "--resume", *flags.split(), "--optim.max-failed", "0.5"]) == 0
    changed = replace(job.optim, workers=2, save_every=7, save_epochs=3, max_failed=0.5)
    assert trained.jobs == [replace(job, data="new", optim=changed)]
    # Neither a recipe nor a preset takes them back: only flags change them.
    assert main(["train", "--recipe", "slavc_toybox", "-o", str(run), "--resume", "--optim.workers", "1"]) == 0
    assert trained.jobs[1] == replace(begun_with, optim=replace(begun_with.optim, workers=1))


def test_another_method_does_not_go_on(trained: Trained, tmp_path: Path, capsys: Captured) -> None:
    run = begun(tmp_path / "r", RECIPES["slavc_toybox"]())
    assert main(["train", "other", "-o", str(run), "--resume"]) == 2
    assert f"Expected METHOD slavc, which the run {run} trains, but got other" in capsys.readouterr().err


@pytest.mark.parametrize(
    "text",
    ["{", '{"method": "slavc"}', "[]", 100_000 * "[", '{"method": 3}',
     '{"method": "slavc", "on": "toybox", "limit": "x"}',
     '{"method": "slavc", "on": "toybox", "config": [], "inputs": {}, "optim": {}}',
     '{"method": "slavc", "on": "toybox", "config": {}, "inputs": {}, "optim": {"epochs": 1' + 30 * "0" + "}}"],
)  # fmt: skip
def test_damaged_settings_of_a_run_are_told(text: str, tmp_path: Path, capsys: Captured) -> None:
    (tmp_path / "run.json").write_text(text, encoding="utf-8")
    assert main(["train", "-o", str(tmp_path), "--resume"]) == 1
    assert f"Expected a run's settings, but {tmp_path / 'run.json'} cannot be read" in capsys.readouterr().err


def test_resume_begins_a_run_that_was_never_begun(trained: Trained, tmp_path: Path) -> None:
    assert main(["train", "slavc", "--on", "toybox", "-o", str(tmp_path / "new"), "--resume"]) == 0
    assert trained.more[0]["resume"] is True


def test_reading_ahead_finds_the_method_anywhere_but_behind_a_flag() -> None:
    assert read_ahead(["slavc", "--out", "other"]) == ("slavc", {"--out": "other"})
    args = ["--inputs.no-flip", "slavc", "--out=r", "--resume"]
    assert read_ahead(args) == ("slavc", {"--inputs.no-flip": "", "--out": "r", "--resume": ""})
    assert read_ahead(["--force", "slavc", "--preset"]) == ("slavc", {"--force": "", "--preset": ""})
    assert read_ahead(["--out", "--resume", "slavc"]) == ("slavc", {"--out": "--resume", "--resume": ""})


def test_a_method_behind_a_flag_that_takes_no_value_is_asked_for_first(capsys: Captured) -> None:
    assert main(["train", "--optim.compile", "slavc", "--on", "toybox", "-o", "r"]) == 2
    assert "Name it first: earsight train METHOD" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.parametrize("start", ["earsight", "module"])
def test_the_next_command_of_a_method_from_outside_runs_as_printed(
    start: str, tmp_path: Path, tiny_flags: list[str]
) -> None:
    (tmp_path / "my lab").mkdir()
    here = tmp_path / "my lab"
    (here / "lab").mkdir()
    (here / "lab" / "mine.py").write_text("from earsight.methods.slavc import PRESETS, Config, Model\n")
    (here / "lab" / "tones.py").write_text("from tiny.tones import DEFAULTS, SPLITS, open\n")
    paths = [str(Path(earsight.__file__).parents[1]), str(Path(__file__).parents[1])]
    scripts = str(Path(sys.executable).parent)
    environment = {**os.environ, "PATH": f"{scripts}{os.pathsep}{os.environ['PATH']}"}
    environment.pop("EARSIGHT_MODULES", None)
    command = [sys.executable, "-m", "earsight"]  # which finds modules in this folder, and earsight alone does not
    if start == "earsight":
        command, paths = ["earsight"], [*paths, str(here)]
    environment["PYTHONPATH"] = os.pathsep.join(paths)
    args = ["train", "lab.mine", "--on", "lab.tones", "-o", "my run", "--limit", "16", "--device", "cpu", *tiny_flags]
    told = subprocess.run([*command, *args], cwd=here, env=environment, capture_output=True, text=True)
    assert told.returncode == 0, told.stderr
    (line,) = [line for line in told.stderr.splitlines() if line.startswith("next: ")]
    done = subprocess.run(
        line.removeprefix("next: "), shell=True, cwd=here, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, (line, done.stderr)
    assert "my run" in done.stdout


@pytest.mark.slow
def test_train_eval_and_show_work_together(tmp_path: Path, tiny_flags: list[str], capsys: Captured) -> None:
    run, report = tmp_path / "run", tmp_path / "report"
    assert (
        main(["train", "slavc", "--on", "toybox", "-o", str(run), "--limit", "8", "--device", "cpu", *tiny_flags]) == 0
    )
    assert capsys.readouterr().out == f"{run / 'weights.safetensors'}\n"
    assert main(["train", "slavc", "--on", "toybox", "-o", str(run), "--limit", "8", *tiny_flags]) == 2
    assert "--resume to go on with it, --force to start over" in capsys.readouterr().err
    assert main(["train", "-o", str(run), "--resume"]) == 0
    capsys.readouterr()
    assert main(["show", str(run)]) == 0
    shown = capsys.readouterr().out
    assert "state        finished" in shown
    assert "epoch 1 of 1, step 2" in shown
    assert (
        main(
            ["eval", str(run), "--on", "toybox", "--limit", "16", "--audio", "all", "--workers", "1", "-o", str(report)]
        )
        == 0
    )
    assert "run, shuffled audio" in capsys.readouterr().out
    assert (report / "plots" / "overlays.png").is_file()
    assert main(["show", str(report)]) == 0
    assert "| run, silent audio" in capsys.readouterr().out


def test_a_training_that_is_stopped_says_how_it_goes_on(
    tmp_path: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stopped(job: Job, out: Path, **more: Any) -> Path:
        out.mkdir(exist_ok=True)
        raise KeyboardInterrupt

    monkeypatch.setattr(earsight.training.loop, "train", stopped)
    monkeypatch.delenv("EARSIGHT_MODULES", raising=False)
    run = tmp_path / "r"
    args = ["train", "slavc", "--on", "tiny.tones:train", "--val", "none", "-o", str(run)]
    assert main(args) == 130
    assert "go on with" not in capsys.readouterr().err  # nothing was saved yet
    (run / "state.pt").touch()
    assert main(args) == 130
    # The set's module is allowed by its name, without its split.
    assert f"EARSIGHT_MODULES=tiny.tones earsight train --out {run} --resume\n" in capsys.readouterr().err


def test_a_run_that_is_finished_says_so(trained: Trained, tmp_path: Path, capsys: Captured) -> None:
    run = begun(tmp_path / "r", replace(RECIPES["slavc_toybox"](), data=""))
    (run / "weights.safetensors").touch()
    assert main(["train", "-o", str(run), "--resume"]) == 0
    assert f"{run} is finished; train further in another folder\n" in capsys.readouterr().err
