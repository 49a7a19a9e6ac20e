"""Results are kept as JSON, and docs/performance.md says what they say."""

from __future__ import annotations

import doctest
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from benchmarks.measure import How, Result, compare

from benchmarks import __main__ as command
from benchmarks import big_pack, epoch, eval_command, measure, memory, page, precision, telling, whole_set
from earsight.errors import DataError, UsageError

RESULT = Result("scoring", "2 maps", "fast", "slow", 2, "maps", 0.5, 2.0, {"largest difference": 1e-9})


def test_the_page_is_what_the_results_say() -> None:
    text = page.PAGE.read_text(encoding="utf-8")
    assert text == page.text(text), "write it anew: python -m benchmarks.page"
    for name in page.COMMANDS:
        first, last = page.marks(name)
        assert text.count(first) == text.count(last) == 1


def test_a_table_names_hardware_and_command(tmp_path: Path) -> None:
    about = {"gpu": "a GPU", "cpu": "a CPU", "cores": 2, "torch": "2.11", "commit": "abc"}
    command.write(tmp_path / "gpu.json", about, [RESULT])
    whole = "".join("".join(page.marks(name)) for name in page.COMMANDS)
    text = page.text(whole, tmp_path)
    assert "Measured on: a GPU, a CPU (2 cores), torch 2.11, commit abc." in text
    assert page.COMMANDS["gpu"] in text
    assert "| **Scoring**: 2 maps | fast | slow | 4 maps/s | 1 maps/s | **4.0** | largest difference: 1e-09 |" in text
    assert page.text(text, tmp_path) == text


def test_every_comparison_has_a_name_on_the_page() -> None:
    assert set(page.NAMES) == set(command.COMPARISONS)


def test_other_results_of_the_same_machine_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "cpu.json"
    other = Result("spectrogram", "1 clip", "fast", "slow", 1, "clips", 1.0, 3.0)
    command.write(path, {"cpu": "one"}, [RESULT])
    command.write(path, {"cpu": "one"}, [other])
    assert [one["name"] for one in json.loads(path.read_text())["results"]] == ["spectrogram", "scoring"]
    command.write(path, {"cpu": "another"}, [other])
    assert [one["name"] for one in json.loads(path.read_text())["results"]] == ["spectrogram"]


def test_both_sides_are_run_in_turn() -> None:
    ran: list[str] = []
    seconds = compare(lambda: ran.append("ours"), lambda: ran.append("reference"), rounds=2)
    assert ran == ["ours", "reference"] * 3
    assert all(one >= 0 for one in seconds)
    assert (RESULT.ratio, RESULT.rates) == (4.0, (4.0, 1.0))


def test_a_quick_run_prints_lines_and_writes_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command.main(["--quick", "--only", "spectrogram", "--json", str(tmp_path / "cpu.json")])
    printed = capsys.readouterr().out.splitlines()
    assert len(printed) == 2
    assert printed[1].startswith("spectrogram: ")
    kept = json.loads((tmp_path / "cpu.json").read_text(encoding="utf-8"))
    assert set(kept["hardware"]) == {"gpu", "cpu", "cores", "torch", "commit"}
    assert kept["results"][0]["extra"]["largest difference"] < 2e-5


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in command.COMPARISONS if name != "spectrogram"])
def test_every_comparison_runs(name: str) -> None:
    result = command.comparison(name)(How(quick=True))
    assert result.name == name
    assert result.items > 0
    assert result.extra.get("largest difference", 0.0) < 1e-6


@pytest.mark.parametrize("module", [measure, epoch, page, telling])
def test_examples_in_docstrings_hold(module: object) -> None:
    assert doctest.testmod(module).failed == 0  # type: ignore[arg-type]


@pytest.mark.slow
def test_an_epoch_is_trained_and_measured(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    big_pack.make(tmp_path / "pack", 12)
    arguments = ["--pack", str(tmp_path / "pack"), "--out", str(tmp_path / "run"), "--device", "cpu", "--epochs", "2"]
    kept = tmp_path / "results" / "epoch.json"
    epoch.main([*arguments, "--skip", "3", "--optim", "batch_size=4", "--json", str(kept)])
    found = json.loads(kept.read_text(encoding="utf-8"))
    assert found["numbers"]["steps"] == 3
    assert 0 <= found["numbers"]["waited"] <= 1
    assert found["numbers"]["main_gib"] > 0.05
    assert "minutes_of_the_schedule: " in capsys.readouterr().out
    first, last = page.marks("epoch")
    assert "| clips a second, end to end |" in page.text(f"{first}{last}", kept.parent)
    with pytest.raises(UsageError, match="Expected more than 100 steps, but got 6"):
        epoch.main([*arguments, "--optim", "batch_size=4"])


def test_a_log_without_times_is_refused() -> None:
    with pytest.raises(DataError, match=r"Expected a log that tells the time before and after step 100, but got 0"):
        epoch.sustained([{"step": 200}], 8, 100)


def test_a_whole_set_is_evaluated_and_measured(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    big_pack.make(tmp_path / "pack", rows=40, split="test")
    kept = tmp_path / "whole_set.json"
    whole_set.main(["--pack", str(tmp_path / "pack"), "--device", "cpu", "--json", str(kept)])
    said = capsys.readouterr().out
    assert "clips: 40\n" in said
    assert all(f"{part}: " in said for part in ("data_alone", "encoders_alone", "scoring_alone"))
    first, last = page.marks("whole_set")
    assert "| clips per second | " in page.text(f"{first}{last}", tmp_path)


@pytest.mark.slow
def test_the_whole_command_is_timed_in_a_process_of_its_own(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    big_pack.make(tmp_path / "pack", rows=12, split="test")
    monkeypatch.setattr(eval_command, "TIMES", 1)
    eval_command.main(["--pack", str(tmp_path / "pack"), "--device", "cpu"])
    told = dict(line.split(": ") for line in capsys.readouterr().out.splitlines())
    parts = [float(told[name]) for name in ("start_of_the_process", "real_sound", "shuffled_or_silent_sound", "report")]
    assert 0 < sum(parts) < float(told["seconds_of_the_command"])


@pytest.mark.slow
def test_a_command_that_fails_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(eval_command, "SPEC", "no_such_set")
    with pytest.raises(DataError, match=r"Expected an evaluation of .*, but it ended with:\n(.|\n)*no_such_set"):
        eval_command.run(tmp_path, "cpu", tmp_path)


def test_precisions_are_told_with_their_seeds(tmp_path: Path) -> None:
    numbers = {"fp32": {"ap": [0.5, 0.6], "max_f1": [0.4, 0.4], "loc_acc": [0.3, 0.1]}}
    about = {"gpu": "", "cpu": "a CPU", "cores": 1, "torch": "2.11", "commit": "abc"}
    telling.keep({"hardware": about, "command": "c", "numbers": numbers}, tmp_path / "precision.json")
    first, last = page.marks("precision")
    assert "| fp32 | 55.00 (50.0, 60.0) | 40.00 (40.0, 40.0) | 20.00 (30.0, 10.0) |" in page.text(
        f"{first}{last}", tmp_path
    )


@pytest.mark.parametrize("main", [epoch.main, whole_set.main, eval_command.main, precision.main])
def test_a_gpu_that_is_not_there_is_told(
    main: Callable[[list[str]], None], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    with pytest.raises(SystemExit, match="2"):
        main(["--pack", "p", "--out", "r"] if main is epoch.main else [] if main is precision.main else ["--pack", "p"])
    assert "Expected a GPU, but torch finds none. Give --device cpu." in capsys.readouterr().err


def test_memory_is_told_of_this_process_and_of_those_it_started() -> None:
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        assert child.pid in memory.descendants(os.getpid())
        with memory.Watch(0.05) as watch:
            held = b"x" * (64 << 20)
            watch.look()
        assert watch.main > len(held)
        assert watch.others >= 1
        assert watch.together > watch.main
    finally:
        child.communicate(b"\n")
    assert memory.own(child.pid) is None
