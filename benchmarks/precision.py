"""Half precision against full: SLAVC on a packed toybox, trained both ways with several seeds, and its numbers.

python -m benchmarks.precision --device cuda --json benchmarks/results/precision.json
"""

from __future__ import annotations

import statistics
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

import torch

from benchmarks.hardware import hardware
from benchmarks.telling import keep, parser, told
from earsight import protocols
from earsight.checkpoint import load_weights
from earsight.config import Optim
from earsight.data.clips import open_set
from earsight.data.manifest import Part, Settings
from earsight.data.packing import pack
from earsight.encoders.base import Encoders
from earsight.model_evaluation import EvalSettings, evaluate
from earsight.recipes import RECIPES
from earsight.recipes.toybox import INPUTS
from earsight.training.loop import train

WAYS: dict[str, dict[str, Any]] = {
    "fp32": {},
    "bf16": {"precision": "bf16"},
    "bf16, compiled, as a graph": {"precision": "bf16", "compile": True, "graph": True},
}
SHOWN = ("ap", "max_f1", "loc_acc")
STEADY: dict[str, Any] = {"lr": 5e-4, "schedule": "cosine"}
"""For a ResNet-18 pair from random weights: at the rate of the small encoders, seeds end 30 points of AP apart."""


class Run(NamedTuple):
    """One training: how, with which encoders and seed, on which device, and where the pack and the runs are."""

    way: str
    encoders: str
    seed: int
    device: str
    folder: Path


def numbers(run: Run) -> dict[str, float]:
    """Train, and measure on the extended test set."""
    torch.set_num_threads(1)
    job = RECIPES["slavc_toybox"]()
    if run.encoders != "small":
        job = replace(job, config=replace(job.config, encoders=Encoders(weights="random")))
        job = replace(job, optim=replace(job.optim, **STEADY))
    optim: Optim = replace(job.optim, seed=run.seed, val_every=0, **WAYS[run.way])
    out = run.folder / f"{run.way}-{run.encoders}-{run.seed}".replace(", ", "-").replace(" ", "_")
    weights = train(replace(job, optim=optim, data=str(run.folder / "pack")), out, device=run.device)
    model = load_weights(weights, run.device).model
    clips = open_set("toybox:extended", run.folder / "pack")
    found = evaluate(model, clips, protocols.get("exact"), EvalSettings(device=run.device))
    return {name: found.metrics[name] for name in SHOWN}


def main(argv: Sequence[str] | None = None) -> None:
    words = parser("precision", "Half precision against full.")
    words.add_argument("--seeds", type=int, default=3)
    words.add_argument("--ways", nargs="*", default=list(WAYS), choices=list(WAYS))
    words.add_argument("--encoders", choices=("small", "resnet18"), default="small", help="resnet18 has the fast stem")
    words.add_argument("--jobs", type=int, default=9, help="runs at a time")
    given = words.parse_args(argv)
    with tempfile.TemporaryDirectory() as folder:
        settings = Settings(size=INPUTS.resize, rate=INPUTS.rate, seconds=INPUTS.seconds)
        for split in ("train", "val", "extended"):
            part = Part(f"toybox:{split}", open_set(f"toybox:{split}"), settings)
            pack(part, Path(folder) / "pack", workers=given.jobs)
        every = [(way, seed) for way in given.ways for seed in range(given.seeds)]
        runs = [Run(way, given.encoders, seed, given.device, Path(folder)) for way, seed in every]
        with ProcessPoolExecutor(given.jobs, get_context("spawn")) as pool:
            found = list(pool.map(numbers, runs))
    table = {}
    for way in given.ways:
        rows = [row for run, row in zip(runs, found, strict=True) if run.way == way]
        table[way] = {name: [round(row[name], 5) for row in rows] for name in SHOWN}
        means = "  ".join(f"{name} {100 * statistics.mean(values):.2f}" for name, values in table[way].items())
        print(f"{way}: {means}  (mean of {given.seeds} seeds)")
    command = told("precision", sys.argv[1:] if argv is None else argv)
    keep({"hardware": hardware(given.device, given.commit), "command": command, "numbers": table}, given.json)


if __name__ == "__main__":
    main()
