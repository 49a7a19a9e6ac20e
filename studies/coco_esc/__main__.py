"""python -m studies.coco_esc: train what is not trained yet, measure it, and write docs/results-coco-esc.md."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from benchmarks.hardware import commit

from earsight.device import pick_device
from earsight.errors import EarsightError
from earsight.recipes.coco_esc import OPTIM
from studies import crew
from studies.coco_esc import page, results, trials
from studies.trial import Trial
from studies.work import How, need_same, work


def parser() -> argparse.ArgumentParser:
    ask = argparse.ArgumentParser(prog="python -m studies.coco_esc", description=__doc__)
    ask.add_argument("--pack", required=True, help="pack of coco_esc, or its folder")
    ask.add_argument("--image-weights", default="imagenet", help="ResNet-18 from ImageNet: imagenet, or a file")
    ask.add_argument("--out", type=Path, default=Path("runs/coco_esc"), help="folder of all runs; goes on where it was")
    ask.add_argument("--only", nargs="*", default=list(trials.GROUPS), choices=list(trials.GROUPS), metavar="GROUP")
    ask.add_argument("--names", nargs="*", default=[], help="only trials of these names, for example slavc ezvsl")
    ask.add_argument("--seeds", type=int, default=3, help="how many seeds")
    ask.add_argument("--epochs", type=int, default=OPTIM.epochs)
    ask.add_argument("--batch", type=int, default=OPTIM.batch_size)
    ask.add_argument("--lr", type=float, default=OPTIM.lr)
    ask.add_argument("--val-every", type=int, default=OPTIM.val_every, help="epochs between validations")
    ask.add_argument("--precision", default="", choices=["", "fp32", "bf16"], help="bf16 on a GPU by default")
    ask.add_argument("--jobs", type=int, default=1, help="runs at the same time")
    ask.add_argument(
        "--minutes",
        type=float,
        default=float("inf"),
        help="begin no run that would not end in this time, by those before it",
    )
    ask.add_argument("--device", default="auto", choices=["auto", "cpu", "cuda"])
    ask.add_argument("--commit", default="", help="of this code, where git cannot tell")
    ask.add_argument("--keep-weights", default="", help=f"folder for the weights of {trials.KEPT}")
    ask.add_argument(
        "--keep-runs", action="store_true", help="leave weights and states of measured runs where they are"
    )
    ask.add_argument("--limit", type=int, default=0, help="clips of each set, for trying it out")
    ask.add_argument("--small", action="store_true", help="small encoders and pictures, for trying it out")
    ask.add_argument("--results", type=Path, default=results.RESULTS, help="where the numbers go")
    ask.add_argument("--page", type=Path, default=page.PAGE, help="where the page goes")
    ask.add_argument("--no-page", action="store_true", help="train and measure only")
    return ask


def main(argv: Sequence[str] | None = None) -> int:
    args = parser().parse_args(argv)
    device = pick_device(args.device)
    budget = trials.Budget(
        data=args.pack, weights=args.image_weights, device=device, epochs=args.epochs, batch=args.batch, lr=args.lr,
        every=args.val_every, seeds=tuple(range(args.seeds)), limit=args.limit, small=args.small,
        precision=args.precision or ("bf16" if device == "cuda" else "fp32"),
    )  # fmt: skip
    how = How(
        device, args.image_weights, max(1, (os.cpu_count() or 1) // args.jobs), args.commit or commit(),
        plain=("exact", "adaptive"), others=("exact",), limit=args.limit, clean=not args.keep_runs,
        keep=args.keep_weights, kept=(trials.KEPT,) if args.keep_weights else (),
    )  # fmt: skip
    todo = [trial for group in args.only for trial in trials.GROUPS[group](budget)]
    todo = [trial for trial in todo if not args.names or trial.name in args.names]
    try:
        failed = run(todo, args.out, how, args.jobs, 60 * args.minutes)
    except EarsightError as error:
        say(str(error))
        return 2
    if not args.no_page:
        # All that was ever measured is told, whatever was asked for now.
        say("drawing the intervals of all numbers (a minute or more on a CPU; --no-page leaves it for later)")
        results.collect(trials.every(), args.out, args.results)
        page.write(args.results, args.page)
    return int(failed)


def run(todo: Sequence[Trial], out: Path, how: How, jobs: int, seconds: float) -> bool:
    """Train and measure what is not measured yet, a line for each; returns whether any failed."""
    for trial in todo:
        if results.finished(out, trial):
            need_same(out / trial.key, trial.job)
    left = [trial for trial in todo if not results.finished(out, trial)]
    say(f"{len(left)} of {len(todo)} runs to do, {jobs} at a time, on {how.device}")
    began, clips, done, failed = time.monotonic(), 0, 0, 0
    for trial, told, error in crew.do(left, partial(work, out=out, how=how), jobs, seconds, alike):
        passed = time.monotonic() - began
        if error:
            failed += 1
            say(f"{passed:5.0f} s  {trial.key} FAILED: {error}")
        else:
            done, clips = done + 1, clips + told.clips
            say(f"{passed:5.0f} s  {done}/{len(left)} {trial.key}: {told}")
    passed = time.monotonic() - began
    say(f"{done} runs in {passed:.0f} s, {failed} failed, {len(left) - done - failed} to do")
    say(f"{clips} clips, {clips / passed:.0f} a second in all")
    return failed > 0


def alike(trial: Trial) -> tuple[str, int, bool]:
    """Runs that are alike in this take about as long."""
    return trial.job.method, trial.job.optim.batch_size, trial.controls


def say(text: str) -> None:
    sys.stderr.write(text + "\n")
    sys.stderr.flush()


if __name__ == "__main__":
    sys.exit(main())
