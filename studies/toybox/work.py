"""Train and measure one trial. What is there already is not made again."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path

import torch

from earsight import protocols
from earsight.checkpoint import WEIGHTS, Weights, load_weights
from earsight.data.clips import ClipSet, open_set
from earsight.evaluate import evaluate_all
from earsight.files import write_text
from earsight.methods.base import Method, build
from earsight.models.encoders import no_start_weights
from earsight.object_prior import ObjectPrior
from earsight.train.folder import BEST_WEIGHTS
from earsight.train.loop import train
from earsight.types import Maps
from studies.toybox.trials import Trial

ALPHA = 0.9
DONE = "measured.json"


def work(trial: Trial, out: Path, device: str, object_weights: str, threads: int) -> str:
    """Leave the records of every measurement in the trial's folder; returns its key."""
    torch.set_num_threads(threads)
    folder = out / trial.key
    if (folder / DONE).exists():
        return trial.key
    job = trial.job
    if hasattr(job.config, "weights"):  # a method that is such a network and nothing else
        job = replace(job, config=replace(job.config, weights=object_weights))
    train(job, folder / "run", device=device, resume=(folder / "run" / "run.json").exists())
    made: list[str] = []
    for epoch, file in (("last", WEIGHTS), ("best", BEST_WEIGHTS)):
        if not (folder / "run" / file).exists():
            continue
        loaded = load_weights(folder / "run" / file, device)
        for name, model in forms(trial, loaded, object_weights, device):
            for test in trial.tests:
                made += measure(folder, model, test, [epoch, *name, test.partition(":")[2]], device)
    hardware = torch.cuda.get_device_name() if device == "cuda" else "CPU"
    write_text(folder / DONE, json.dumps({"files": made, "hardware": hardware}) + "\n")
    return trial.key


def forms(trial: Trial, loaded: Weights, object_weights: str, device: str) -> Iterator[tuple[list[str], Method]]:
    """The model as it is, as it infers otherwise, and with the object prior."""
    yield [], loaded.model
    for infer in trial.infers:
        with no_start_weights():
            other = build(loaded.name, replace(loaded.config, infer=infer), loaded.inputs)
        other.load_state_dict(loaded.model.state_dict())
        yield [infer], other.eval()
    if trial.prior:
        # SLAVC's fusion needs bounds; a method without any is joined by EZ-VSL's, which has another published weight.
        fixed = an_answer(loaded.model, device).bounds is not None
        prior = ObjectPrior(ALPHA, weights=object_weights) if fixed else ObjectPrior(0.4, "ezvsl", object_weights)
        yield ["ogl" if fixed else "ogl_minmax"], prior.added_to(loaded).model


def an_answer(model: Method, device: str) -> Maps:
    """The maps of a black picture and silence, to see what a model's maps have."""
    size = model.inputs.image_size
    with torch.inference_mode():
        return model.eval().localize(
            torch.zeros(1, 3, size, size, dtype=torch.uint8, device=device),
            torch.zeros(1, model.inputs.samples, device=device),
        )


@cache
def opened(test: str) -> ClipSet:
    """A test set, whose clips are then made once for all measurements of a process."""
    return open_set(test)


def measure(folder: Path, model: Method, test: str, name: list[str], device: str) -> list[str]:
    """Records under the exact protocol, of the native map, with masks of the right size, and by the own confidence."""
    wanted = {"exact": "exact", "native": "exact:map=native", "adaptive": "adaptive"}
    if an_answer(model.to(device), device).confidence is not None:
        wanted["own"] = "exact:confidence=native"
    results = evaluate_all(model, opened(test), [protocols.get(spec) for spec in wanted.values()], device=device)
    files = []
    for key, result in zip(wanted, results, strict=True):
        files.append("-".join([*name, key]))
        result.records.write(folder / f"{files[-1]}.parquet")
    return files
