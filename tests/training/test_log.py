"""The log of a run: rows that survive kills, and their mirror in TensorBoard."""

from __future__ import annotations

import errno
import importlib.util
import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from earsight.training.log import LOG, Bar, RunLog, read_log


def test_rows_are_read_back_in_order(tmp_path: Path) -> None:
    log = RunLog(tmp_path)
    log.write({"step": 1, "loss": 0.5})
    log.write({"step": 2, "val": {"ap": 0.25}})
    log.close()
    assert read_log(tmp_path / LOG) == [{"step": 1, "loss": 0.5}, {"step": 2, "val": {"ap": 0.25}}]


def test_what_came_after_the_saved_state_is_cut_off(tmp_path: Path) -> None:
    log = RunLog(tmp_path)
    log.write({"step": 1})
    log.sync()
    keep = log.bytes
    log.write({"step": 2})
    log.close()
    again = RunLog(tmp_path, keep)
    assert again.bytes == keep
    again.write({"step": 2, "again": 1})
    again.close()
    assert read_log(tmp_path / LOG) == [{"step": 1}, {"step": 2, "again": 1}]


def test_a_log_that_was_lost_is_not_filled_with_zeros(tmp_path: Path) -> None:
    log = RunLog(tmp_path, keep=500)
    log.write({"step": 3})
    log.close()
    assert read_log(tmp_path / LOG) == [{"step": 3}]


def test_a_row_that_is_still_being_written_is_left_out(tmp_path: Path) -> None:
    (tmp_path / LOG).write_text('{"step": 1}\n{"step": 2, "lo')
    assert read_log(tmp_path / LOG) == [{"step": 1}]
    assert read_log(tmp_path / "none.jsonl") == []


def test_torn_lines_are_left_out_wherever_they_are(tmp_path: Path) -> None:
    (tmp_path / LOG).write_bytes(b'{"step": 1}\n{"step": 2, "l\n\xff\xfe\x00\n[3]\n{"step": 4}\n')
    assert read_log(tmp_path / LOG) == [{"step": 1}, {"step": 4}]


@pytest.mark.parametrize(
    "line",
    [100_000 * "[", '{"a": ' * 100_000, '{"step": "4"}', '{"step": 1e30}', '{"epoch": 1.5}', '{"val": 3}',
     '{"val": {"ap": "high"}}', '{"loss": [1]}', '{"loss": null}', '{"step": true}'],
)  # fmt: skip
def test_lines_that_are_no_rows_of_numbers_are_left_out(tmp_path: Path, line: str) -> None:
    (tmp_path / LOG).write_text(f'{{"step": 1}}\n{line}\n{{"step": 4, "loss": NaN}}\n')
    assert [row["step"] for row in read_log(tmp_path / LOG)] == [1, 4]


def test_a_log_that_does_not_fit_names_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full() -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    log = RunLog(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(log, "_file", SimpleNamespace(write=len, flush=full))
        with pytest.raises(OSError, match="No space left on device") as caught:
            log.write({"step": 1})
    assert caught.value.filename == str(tmp_path / LOG)
    log.close()


def test_a_slow_rate_keeps_its_digits_and_an_unknown_one_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    bar = Bar(total=10, done=0, batch_size=8, main=False)
    bar.start_epoch("epoch 1")
    now[0] = 300.0
    assert bar.speed == ""
    bar.step()
    assert bar.speed == "0.027 clips/s, 0% of the time waiting for data"
    assert bar.rates(0.0)["clips_per_second"] == 0.0267
    bar.close()


def test_only_the_first_process_writes(tmp_path: Path) -> None:
    log = RunLog(tmp_path, main=False)
    log.write({"step": 1})
    log.sync()
    assert log.bytes == 0
    log.close()
    assert not list(tmp_path.iterdir())


@pytest.mark.skipif(importlib.util.find_spec("tensorboard") is None, reason="tensorboard is not installed")
def test_numbers_appear_in_tensorboard(tmp_path: Path) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    log = RunLog(tmp_path)
    log.write({"step": 7, "epoch": 0, "loss": 0.5, "val": {"ap": 0.25}, "note": "words stay out"})
    log.close()
    events = EventAccumulator(str(tmp_path / "tensorboard"))
    events.Reload()
    assert sorted(events.Tags()["scalars"]) == ["loss", "val/ap"]
    assert [(e.step, e.value) for e in events.Scalars("val/ap")] == [(7, 0.25)]


def test_without_tensorboard_only_the_rows_are_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    log = RunLog(tmp_path)
    log.write({"step": 1})
    log.close()
    assert [path.name for path in tmp_path.iterdir()] == [LOG]


def test_no_name_steers_the_terminal_through_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    bar = Bar(total=2, done=0, batch_size=1, main=True)
    bar.line("on a\x1b[2J\nerror: b\u202e")
    bar.close()
    assert capsys.readouterr().err == "on a\\x1b[2J\\nerror: b\\u202e\n"
