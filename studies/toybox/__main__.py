"""python -m studies.toybox: train what is not trained yet, measure it, and write docs/results-toybox.md."""

from __future__ import annotations

import argparse
import multiprocessing
import os
import sys
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path

from earsight.device import pick_device
from studies.toybox import page, tables, trials
from studies.toybox.work import work


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
    device = pick_device(args.device)
    todo = [trial for group in args.only for trial in trials.GROUPS[group](args.seeds)]
    threads = max(1, (os.cpu_count() or 1) // args.jobs)
    failed: list[str] = []
    with ProcessPoolExecutor(args.jobs, multiprocessing.get_context("spawn")) as pool:
        runs = {pool.submit(work, trial, args.out, device, args.object_weights, threads): trial.key for trial in todo}
        for number, run in enumerate(as_completed(runs), 1):
            error = run.exception()
            failed += [f"{runs[run]}: {error}"] if error else []
            sys.stderr.write(f"{number}/{len(todo)} {runs[run]}{' FAILED' if error else ''}\n")
    for line in failed:
        sys.stderr.write(f"failed: {line}\n")
    if failed or args.no_page:
        return int(bool(failed))
    tables.collect(todo, args.out, tables.RESULTS)
    page.write()
    return 0


if __name__ == "__main__":
    sys.exit(main())
