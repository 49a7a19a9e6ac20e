"""What a run reports: JSON lines in its folder, TensorBoard when installed, and a progress bar on stderr."""

from __future__ import annotations

import importlib.util
import json
import os
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from earsight.escape import visible
from earsight.files import named, parse_json
from earsight.metrics.base import TITLES, without_negatives

LOG = "log.jsonl"
BOARD = "tensorboard"
SHOWN = ("ap", "max_f1", "loc_acc")
"""Of the numbers of a validation, those that a line has room for; without negatives, LocAcc and AUC."""


class RunLog:
    """Appends rows to the log and mirrors their numbers to TensorBoard; silent on all processes but the first.

    Args:
        folder: the run's folder.
        keep: bytes of an earlier log to keep, as the saved state says; the steps that wrote the rest will run again.
    """

    def __init__(self, folder: Path, keep: int = 0, *, first_step: int = 0, main: bool = True) -> None:
        self._main = main
        self._board: Any = None
        if not main:
            return
        self._path, self._events = folder / LOG, folder / BOARD
        self._file = self._path.open("r+b" if self._path.exists() else "w+b")
        # A log that somebody cut shorter is not filled up: truncate would write zeros.
        self._file.truncate(min(keep, self._file.seek(0, os.SEEK_END)))
        self._file.seek(0, os.SEEK_END)
        if importlib.util.find_spec("tensorboard") is not None:
            from torch.utils.tensorboard import SummaryWriter

            with named(self._events):
                self._board = SummaryWriter(str(self._events), purge_step=first_step)

    def write(self, row: Mapping[str, Any]) -> None:
        """Append one row; nested numbers appear in TensorBoard as "group/name"."""
        if not self._main:
            return
        with named(self._path):
            self._file.write(json.dumps(row).encode() + b"\n")
            self._file.flush()
        if self._board is not None:
            with named(self._events):
                for name, value in _numbers(row):
                    self._board.add_scalar(name, value, row.get("step", 0))

    @property
    def bytes(self) -> int:
        return self._file.tell() if self._main else 0

    def sync(self) -> None:
        """Make sure the rows are on disk before a state that counts on them is written."""
        if self._main:
            with named(self._path):
                os.fsync(self._file.fileno())

    def close(self) -> None:
        if self._main:
            with named(self._path):
                self._file.close()
            if self._board is not None:
                with named(self._events):
                    self._board.close()


def read_log(path: Path) -> list[dict[str, Any]]:
    """The rows of a run's log; none when it has not begun.

    Lines that are torn or hold anything but numbers, and a last one that is still being written, are left out.
    """
    if not path.is_file():
        return []
    rows = [_row(line) for line in path.read_text(encoding="utf-8", errors="replace").split("\n")[:-1]]
    return [row for row in rows if row is not None]


def _row(line: str) -> dict[str, Any] | None:
    try:
        row = parse_json(line)
    except ValueError:
        return None
    return row if _is_row(row) else None


def _is_row(row: Any) -> bool:
    """Whether these are numbers by name, of which step and epoch are whole, and perhaps numbers of a validation."""
    if not isinstance(row, dict) or not isinstance(val := row.get("val", {}), dict):
        return False
    numbers = [value for name, value in row.items() if name != "val"]
    whole = all(type(row.get(name, 0)) is int for name in ("step", "epoch"))
    return whole and all(type(value) in (int, float) for value in (*numbers, *val.values()))


def shown(numbers: Mapping[str, float]) -> str:
    """These numbers of a validation in a line, in percent; a dash for one that is not defined.

    >>> shown({"ap": 0.5, "loc_acc": 0.25, "auroc": 0.5}), shown({"ap": 0.25, "loc_acc": 0.25, "auc": 0.125})
    ('AP 50.00  max-F1 -  LocAcc 25.00', 'LocAcc 25.00  AUC 12.50')
    """
    names = ("loc_acc", "auc") if without_negatives(numbers) else SHOWN
    told = {name: f"{100 * numbers[name]:.2f}" if name in numbers else "-" for name in names}
    return "  ".join(f"{TITLES[name]} {value}" for name, value in told.items())


def _numbers(row: Mapping[str, Any], prefix: str = "") -> list[tuple[str, float]]:
    out: list[tuple[str, float]] = []
    for name, value in row.items():
        if isinstance(value, Mapping):
            out += _numbers(value, f"{prefix}{name}/")
        elif isinstance(value, int | float) and name not in ("step", "epoch"):
            out.append((prefix + name, float(value)))
    return out


class Bar:
    """Progress with rate and time left: a live bar on a terminal, one line an epoch elsewhere."""

    def __init__(self, total: int, done: int, batch_size: int, main: bool) -> None:
        self._batch_size, self._done = batch_size, done
        self._began = time.monotonic()
        self._epoch = self._asked = (self._began, done)
        self._waited = 0.0
        console = Console(stderr=True)
        self._say = main
        self._progress = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[rate]}"),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            console=console,
            disable=not (main and console.is_terminal),
        )
        self._task = self._progress.add_task("training", total=total, completed=done, rate="")
        self._progress.start()

    def start_epoch(self, text: str) -> None:
        """Begin to count clips and time anew."""
        self._epoch = self._asked = (time.monotonic(), self._done)
        self._waited = 0.0
        self._progress.update(self._task, description=visible(text))

    def step(self) -> None:
        self._done += 1
        self._progress.update(self._task, advance=1, rate=clips_per_second(self._rate(self._epoch)))

    def rates(self, waited: float) -> dict[str, float]:
        """How fast it went since this was last asked, of which the device waited so many seconds for data; `elapsed`
        counts from the beginning of this process, with all that lies between epochs."""
        rate, seconds = self._rate(self._asked), time.monotonic() - self._asked[0]
        self._asked = (time.monotonic(), self._done)
        self._waited += waited
        elapsed = self._asked[0] - self._began
        return {"elapsed": round(elapsed, 3), "seconds": round(seconds, 4), "waited": round(waited, 4),
                "clips_per_second": round(rate, 4)}  # fmt: skip

    @property
    def speed(self) -> str:
        """The rate of this epoch, and how much of its time the device waited for data; "" before its first step."""
        rate = clips_per_second(self._rate(self._epoch))
        share = self._waited / max(time.monotonic() - self._epoch[0], 1e-9)
        return rate and f"{rate}, {share:.0%} of the time waiting for data"

    def _rate(self, since: tuple[float, int]) -> float:
        began, done = since
        return (self._done - done) * self._batch_size / max(time.monotonic() - began, 1e-9)

    def line(self, text: str) -> None:
        """A line that stays, above the bar."""
        if self._say:
            text = visible(text)
            if self._progress.disable:
                sys.stderr.write(text + "\n")
                sys.stderr.flush()
            else:
                self._progress.console.print(text, highlight=False, markup=False)

    def close(self) -> None:
        self._progress.stop()


def clips_per_second(rate: float) -> str:
    """A rate in words, slow ones with their digits; "" where nothing was done, since no rate is known then.

    >>> clips_per_second(1234.5), clips_per_second(0.0312), clips_per_second(0)
    ('1234 clips/s', '0.031 clips/s', '')
    """
    if rate <= 0:
        return ""
    return f"{rate:.0f} clips/s" if rate >= 10 else f"{rate:.2g} clips/s"
