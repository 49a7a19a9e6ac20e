"""Run the comparisons and print them: `make bench`, or `python -m benchmarks [--only NAME...] [--device cuda]`."""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import json
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from pathlib import Path

import torch

from benchmarks.hardware import commit, device, hardware
from benchmarks.measure import How, Result, one_thread
from earsight.files import write_text

COMPARISONS = {
    "train_step": "train_step.run",
    "data_path": "data_path.run",
    "data_path_cpu": "data_path.run_on_cpu",
    "jpeg": "jpeg.run",
    "spectrogram": "spectrogram.run",
    "scoring": "scoring.run",
    "evaluation": "evaluation.run",
    "localizing": "localizing.run",
    "exported": "exported.run",
}
"""Where each is; they are imported one by one, so that what one needs and a machine lacks does not stop the others."""
NEEDS = {"localizing": "av", "exported": "onnxscript"}
"""Modules without which a comparison is left out."""


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="Speed, side by side with plain code.")
    parser.add_argument("--only", nargs="+", choices=list(COMPARISONS), default=list(COMPARISONS), metavar="NAME")
    parser.add_argument("--device", type=device, choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--json", type=Path, help="file for the results; others of the same file are kept")
    parser.add_argument("--quick", action="store_true", help="little work and few rounds: rough numbers")
    parser.add_argument("--commit", default=commit(), help="of the code, where there is no checkout to tell")
    given = parser.parse_args(argv)
    about = hardware(given.device, given.commit)
    print(", ".join(f"{name} {value}" for name, value in about.items() if value != ""), flush=True)
    results: list[Result] = []
    for name in given.only:
        if name in NEEDS and importlib.util.find_spec(NEEDS[name]) is None:
            print(f"{name}: left out, {NEEDS[name]} is not installed", flush=True)
            continue
        torch.manual_seed(0)
        # One core for both on a CPU: whatever else runs there would hit threads that wait for each other twice.
        with one_thread() if given.device == "cpu" else nullcontext():
            results.append(comparison(name)(How(given.device, given.quick)))
        print(results[-1].line(), flush=True)
        if given.json is not None:  # at once: a run that is stopped keeps what it has
            write(given.json, about, results)


def comparison(name: str) -> Callable[[How], Result]:
    """The function that measures it."""
    module, _, function = COMPARISONS[name].partition(".")
    run: Callable[[How], Result] = getattr(importlib.import_module(f"benchmarks.{module}"), function)
    return run


def write(path: Path, about: dict[str, object], results: Sequence[Result]) -> None:
    """Results as JSON. Those of other comparisons that are there stay, when they were made on the same machine."""
    kept: dict[str, object] = {}
    if path.is_file():
        before = json.loads(path.read_text(encoding="utf-8"))
        if {**before["hardware"], "commit": ""} == {**about, "commit": ""}:
            kept = {one["name"]: {"commit": before["hardware"].get("commit", ""), **one} for one in before["results"]}
    kept |= {one.name: {**one.to_json(), "commit": about.get("commit", "")} for one in results}
    ordered = [kept[name] for name in COMPARISONS if name in kept]
    write_text(path, json.dumps({"hardware": about, "results": ordered}, indent=1) + "\n")


if __name__ == "__main__":
    main()
