"""python -m studies.toybox: train what is not trained yet, measure it, and write docs/results-toybox.md."""

from __future__ import annotations

import argparse
import os
import sys
from functools import partial
from pathlib import Path

from benchmarks.hardware import commit

from earsight.device import pick_device
from studies import crew
from studies.toybox import page, tables, trials
from studies.work import How, work


def main() -> int:
    ask = argparse.ArgumentParser(prog="python -m studies.toybox", description=__doc__)
    ask.add_argument("--out", type=Path, default=Path("runs/toybox"), help="folder of all runs; goes on where it was")
    ask.add_argument("--only", nargs="*", default=list(trials.GROUPS), choices=list(trials.GROUPS))
    ask.add_argument("--seeds", nargs="*", type=int, default=list(trials.SEEDS))
    ask.add_argument("--jobs", type=int, default=1, help="runs at the same time")
    ask.add_argument("--device", default="auto", choices=["auto", "cpu", "cuda"])
    ask.add_argument("--object-weights", default="imagenet", help="ResNet-18 that sees objects: imagenet, or a file")
    ask.add_argument("--no-page", action="store_true", help="train and measure only")
    args = ask.parse_args()
    todo = [
        trials.with_objects(trial, args.object_weights)
        for group in args.only
        for trial in trials.GROUPS[group](args.seeds)
    ]
    threads = max(1, (os.cpu_count() or 1) // args.jobs)
    how = How(pick_device(args.device), args.object_weights, threads, commit())
    failed: list[str] = []
    for number, (trial, told, error) in enumerate(crew.do(todo, partial(work, out=args.out, how=how), args.jobs), 1):
        failed += [f"{trial.key}: {error}"] if error else []
        sys.stderr.write(f"{number}/{len(todo)} {trial.key}: {'FAILED' if error else told}\n")
    for line in failed:
        sys.stderr.write(f"failed: {line}\n")
    if failed or args.no_page:
        return int(bool(failed))
    tables.collect(todo, args.out, tables.RESULTS)
    page.write()
    return 0


if __name__ == "__main__":
    sys.exit(main())
