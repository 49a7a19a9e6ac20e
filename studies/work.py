"""Train and measure one trial. What is there already is not made again."""

from __future__ import annotations

import gc
import json
import shutil
from collections.abc import Iterator
from contextlib import redirect_stderr
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import torch

from earsight import protocols
from earsight.checkpoint import Weights, load_weights
from earsight.cli.screen import flat
from earsight.data.clips import ClipSet, open_set
from earsight.data.controls import Audio
from earsight.encoders.base import no_start_weights
from earsight.errors import UsageError
from earsight.files import write_text
from earsight.header import WEIGHTS
from earsight.methods.base import Method, build
from earsight.model_evaluation import EvalSettings, evaluate_all
from earsight.object_prior import ObjectPrior
from earsight.training.folder import BEST, BEST_WEIGHTS, load_job
from earsight.training.job import Job
from earsight.training.log import LOG, read_log
from earsight.training.loop import train
from earsight.training.state import PREVIOUS, STATE
from earsight.types import Maps
from studies.trial import INFERS, Trial

ALPHA = 0.9
DONE = "measured.json"
SAID = "said.txt"
PATHS = ("data", "config.encoders.weights", "config.weights")
"""Settings that say where something lies."""
SPECS = {"exact": "exact", "own": "exact:confidence=native", "native": "exact:map=native", "adaptive": "adaptive"}
"""Protocols by the last word of a file of records."""


@dataclass(frozen=True)
class How:
    """How trials are made.

    Args:
        device: "cpu" or "cuda".
        object_weights: the ResNet-18 that sees objects: "imagenet", or a file.
        threads: of each process.
        commit: of this code.
        plain: protocols (of SPECS) for the last epoch's own maps with the real sound.
        others: protocols for everything else. Where a method has a confidence of its own, that is measured too.
        limit: clips of each test set; 0 for all.
        clean: whether weights and states are removed once a trial is measured.
        keep: folder for the weights of trials; each has a folder of its name there.
        kept: keys of the trials whose weights go there.
    """

    device: str
    object_weights: str = "imagenet"
    threads: int = 1
    commit: str = ""
    plain: tuple[str, ...] = ("exact", "native", "adaptive")
    others: tuple[str, ...] = ("exact", "native", "adaptive")
    limit: int = 0
    clean: bool = False
    keep: str = ""
    kept: tuple[str, ...] = ()


class Pace(NamedTuple):
    """Clips that a trial was trained on, the seconds that took, and of them those spent waiting for data."""

    clips: int
    seconds: float
    waited: float

    def __str__(self) -> str:
        if not self.clips:
            return "nothing to train"
        rate, share = self.clips / self.seconds, self.waited / self.seconds
        return f"{self.clips} clips, {rate:.0f} a second, {share:.0%} of the time waiting for data"


def work(trial: Trial, out: Path, how: How) -> Pace:
    """Leave the records of every measurement in the trial's folder."""
    torch.set_num_threads(how.threads)
    folder = out / trial.key
    if not (folder / DONE).exists():
        folder.mkdir(parents=True, exist_ok=True)
        with (folder / SAID).open("a", encoding="utf-8") as said, redirect_stderr(said):
            done = _made(trial, folder, how)
        write_text(folder / DONE, json.dumps(done) + "\n")
        _let_go(how.device)
    need_same(folder, trial.job)
    if how.clean:
        for name in (STATE, PREVIOUS, BEST, BEST_WEIGHTS, WEIGHTS):
            (folder / "run" / name).unlink(missing_ok=True)
    return pace(folder)


def _made(trial: Trial, folder: Path, how: How) -> dict[str, Any]:
    train(trial.job, folder / "run", device=how.device, resume=(folder / "run" / "run.json").exists())
    _let_go(how.device)
    made: list[str] = []
    for epoch, file in (("last", WEIGHTS), ("best", BEST_WEIGHTS)):
        if not (folder / "run" / file).exists():
            continue
        loaded = load_weights(folder / "run" / file, how.device)
        for name, audio, model in forms(trial, loaded, how, epoch):
            for test in trial.tests:
                clips = opened(test, trial.job.data, how.limit)
                wanted = how.plain if [epoch, *name] == ["last"] else how.others
                made += measure(folder, model, clips, [epoch, *name, test.partition(":")[2]], how.device, wanted, audio)
    if trial.key in how.kept:
        there = Path(how.keep) / trial.key.replace("/", "-")
        shutil.copytree(folder / "run", there, ignore=shutil.ignore_patterns("*.pt"), dirs_exist_ok=True)
    hardware = torch.cuda.get_device_name() if how.device == "cuda" else "CPU"
    return {"files": made, "hardware": hardware, "commit": how.commit}


def _let_go(device: str) -> None:
    """Give back the memory that nothing uses: others work on the same GPU. A graph keeps its own from all else."""
    if device == "cuda":
        gc.collect()
        torch.cuda.empty_cache()


def need_same(folder: Path, job: Job) -> None:
    """Refuse to take a trial with other settings for this one; its data and start may lie elsewhere by now."""
    begun, now = flat(load_job(folder / "run").to_json()), flat(job.to_json())
    changed = sorted(name for name in now if begun.get(name) != now[name] and name not in PATHS)
    if changed:
        raise UsageError(
            f"Expected the settings that {folder} was trained with, but got other {', '.join(changed)}. "
            "Give the same, or another --out."
        )


def done_of(folder: Path) -> dict[str, Any]:
    done: dict[str, Any] = json.loads((folder / DONE).read_text(encoding="utf-8"))
    return done


def pace(folder: Path) -> Pace:
    """How fast the trial in a folder was trained, over all pieces in which that was done."""
    rows = [row for row in read_log(folder / "run" / LOG) if "clips_per_second" in row]
    clips = round(sum(row["clips_per_second"] * row["seconds"] for row in rows))
    return Pace(clips, sum(row["seconds"] for row in rows), sum(row["waited"] for row in rows))


def forms(trial: Trial, loaded: Weights, how: How, epoch: str) -> Iterator[tuple[list[str], Audio, Method]]:
    """The model as it is; of the last epoch also with other sounds, inferring otherwise, and with the object prior."""
    yield [], "real", loaded.model
    if epoch != "last":
        return
    if trial.controls:
        yield ["shuffled"], "shuffled", loaded.model
        yield ["silent"], "silent", loaded.model
    for infer in trial.infers:
        with no_start_weights():
            other = build(loaded.name, replace(loaded.config, **INFERS[infer]), loaded.inputs)
        other.load_state_dict(loaded.model.state_dict())
        yield [infer], "real", other.eval()
    if trial.prior:
        prior, form = prior_for(loaded.model, how)
        yield [form], "real", prior.added_to(loaded).model


def prior_for(model: Method, how: How) -> tuple[ObjectPrior, str]:
    """SLAVC's fusion needs bounds; a method without any is joined by EZ-VSL's, which has another published weight."""
    if an_answer(model, how.device).bounds is not None:
        return ObjectPrior(ALPHA, weights=how.object_weights), "ogl"
    return ObjectPrior(0.4, "ezvsl", how.object_weights), "ogl_minmax"


def an_answer(model: Method, device: str) -> Maps:
    """The maps of a black picture and silence, to see what a model's maps have."""
    size = model.inputs.image_size
    with torch.inference_mode():
        return model.eval().localize(
            torch.zeros(1, 3, size, size, dtype=torch.uint8, device=device),
            torch.zeros(1, model.inputs.samples, device=device),
        )


@cache
def opened(test: str, data: str, limit: int) -> ClipSet:
    """A test set, whose clips are then made once for all measurements of a process."""
    return open_set(test, Path(data) if data else None, limit=limit)


def measure(
    folder: Path, model: Method, clips: ClipSet, name: list[str], device: str, wanted: tuple[str, ...], audio: Audio
) -> list[str]:
    """Records under each of these protocols, and by the own confidence where there is one."""
    own = an_answer(model.to(device), device).confidence is not None
    keys = (*wanted, *(["own"] if own else []))
    asked = [protocols.get(SPECS[key]) for key in keys]
    files = []
    for key, result in zip(
        keys, evaluate_all(model, clips, asked, EvalSettings(device=device, audio=audio)), strict=True
    ):
        files.append("-".join([*name, key]))
        result.records.write(folder / f"{files[-1]}.csv")
    return files
