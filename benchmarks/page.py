"""docs/performance.md: its tables, written from the files in benchmarks/results by `python -m benchmarks.page`."""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Any

PAGE = Path(__file__).parents[1] / "docs" / "performance.md"
RESULTS = Path(__file__).with_name("results")
NAMES = {
    "train_step": "Training step",
    "data_path": "Data path of a GPU run",
    "data_path_cpu": "Data path of a CPU run",
    "jpeg": "Decoding JPEG files",
    "spectrogram": "Spectrogram",
    "scoring": "Scoring",
    "evaluation": "Evaluation",
    "localizing": "Localizing a video",
    "exported": "An exported model",
}
COMMANDS = {
    "whole_set": "python -m benchmarks.whole_set --pack PACK --json benchmarks/results/whole_set.json",
    "eval_command": "python -m benchmarks.eval_command --pack PACK --json benchmarks/results/eval_command.json",
    "precision": "python -m benchmarks.precision --json benchmarks/results/precision.json",
    "precision_resnet18": "python -m benchmarks.precision --encoders resnet18 "
    "--json benchmarks/results/precision_resnet18.json",
    "precision_steady": "python -m benchmarks.precision --encoders resnet18 --seeds 5 "
    "--json benchmarks/results/precision_steady.json",
    "gpu": "python -m benchmarks --device cuda --json benchmarks/results/gpu.json",
    "cpu": "python -m benchmarks --json benchmarks/results/cpu.json",
    "epoch": "python -m benchmarks.epoch --pack PACK --out RUN --json benchmarks/results/epoch.json",
    "schedule": "python -m benchmarks.epoch --pack PACK --out RUN --epochs 20 --json benchmarks/results/schedule.json",
}
EPOCH = {
    "clips_per_second": "clips a second, end to end",
    "waited": "share of the time that the GPU waits for data",
    "steps": "steps that were measured",
    "wall_seconds": "seconds of the whole training, with its start, compilation and saving",
    "whole_clips_per_second": "clips a second of that",
    "minutes_of_the_schedule": "minutes for the paper's schedule at this rate",
    "reference_clips_per_second": "clips a second of the published recipe's step without data, same run",
    "ratio": "times as fast",
    "main_gib": "GiB of host memory, training process",
    "largest_other_gib": "GiB of host memory, largest other process",
    "other_processes": "other processes",
    "gpu_gib": "GiB of GPU memory",
}


def write() -> None:
    PAGE.write_text(text(PAGE.read_text(encoding="utf-8")), encoding="utf-8")


def text(page: str, results: Path = RESULTS) -> str:
    """The page with what was measured between its marks."""
    for name, command in COMMANDS.items():
        path = results / f"{name}.json"
        found = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else None
        if found is None:
            made = f"Nothing is kept of it yet. To measure: `{command}`"
        else:
            made = f"{_head(found, command)}\n\n{TABLES.get(name, _comparisons)(found)}"
        first, last = marks(name)
        before, _, rest = page.partition(first)
        page = f"{before}{first}\n\n{made}\n\n{last}{rest.partition(last)[2]}"
    return page


def marks(name: str) -> tuple[str, str]:
    """What stands around a table on the page."""
    return f"<!-- measured: {name} -->", f"<!-- end: {name} -->"


def _head(found: dict[str, Any], command: str) -> str:
    about = found["hardware"]
    gpu = f"{about['gpu']}, " if about["gpu"] else ""
    cores = f"{about['cores']} core{'s' if about['cores'] != 1 else ''}"
    where = f"{gpu}{about['cpu']} ({cores}), torch {about['torch']}, commit {about['commit']}"
    return f"`{found.get('command', command)}`\n\nMeasured on: {where}."


def _comparisons(found: dict[str, Any]) -> str:
    lines = [
        [
            f"**{NAMES[one['name']]}**: {one['what']}",
            one["ours"],
            one["reference"],
            f"{number(one['ours_rate'])} {one['unit']}/s",
            f"{number(one['reference_rate'])} {one['unit']}/s",
            f"**{one['ratio']:.1f}**",
            ", ".join(f"{name}: {number(value)}" for name, value in one["extra"].items()) or "-",
        ]
        for one in found["results"]
    ]
    return table(["work", "ours", "reference", "ours", "reference", "times as fast", "besides"], lines)


def _epochs(found: dict[str, Any]) -> str:
    numbers = found["numbers"]
    lines = [[words, number(numbers[key])] for key, words in EPOCH.items() if key in numbers]
    if shares := found.get("waited_by_epoch"):
        lines.insert(2, ["the same of each epoch after the first", " ".join(number(share) for share in shares)])
    return table(["", "measured"], lines)


def _named(found: dict[str, Any]) -> str:
    return table(
        ["", "measured"], [[name.replace("_", " "), number(value)] for name, value in found["numbers"].items()]
    )


def _precision(found: dict[str, Any]) -> str:
    """Means over seeds, and each seed behind them; and how far AP is from that of the first way, seed by seed."""

    def cell(values: list[float]) -> str:
        each = ", ".join(f"{100 * value:.1f}" for value in values)
        return f"{100 * statistics.mean(values):.2f} ({each})"

    first, *_ = found["numbers"].values()

    def more(values: list[float]) -> str:
        gaps = [100 * (value - base) for value, base in zip(values, first["ap"], strict=True)]
        if values is first["ap"] or len(gaps) < 2:
            return "-"
        return f"{statistics.mean(gaps):+.1f} ± {statistics.stdev(gaps) / len(gaps) ** 0.5:.1f}"

    lines = [
        [way, *(cell(of[name]) for name in ("ap", "max_f1", "loc_acc")), more(of["ap"])]
        for way, of in found["numbers"].items()
    ]
    return table(["trained in", "AP", "max-F1", "LocAcc", "AP more (± standard error)"], lines)


TABLES: dict[str, Callable[[dict[str, Any]], str]] = {
    "epoch": _epochs,
    "schedule": _epochs,
    "whole_set": _named,
    "eval_command": _named,
    "precision": _precision,
    "precision_resnet18": _precision,
    "precision_steady": _precision,
}


def number(value: float) -> str:
    """Three digits, or all that come before the point.

    >>> number(12345.6), number(0.012345), number(2.0)
    ('12,346', '0.0123', '2')
    """
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def table(header: list[str], lines: list[list[str]]) -> str:
    """A table of Markdown, with numbers in all columns but the first."""
    rule = [":---"] + ["---:"] * (len(header) - 1)
    return "\n".join("| " + " | ".join(line) + " |" for line in [header, rule, *lines])


if __name__ == "__main__":
    argparse.ArgumentParser(prog="python -m benchmarks.page", description="Write docs/performance.md.").parse_args()
    write()
