"""What weights say of their training: for reports, and to look for test clips in it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from earsight import protocols, registry
from earsight.data.audit import leaks
from earsight.data.clips import ClipSet, open_set, with_split
from earsight.errors import EarsightError
from earsight.protocols import Protocol

if TYPE_CHECKING:
    from earsight.checkpoint import Weights


def training_of(loaded: Weights, file: Path) -> dict[str, Any]:
    """What a report keeps of how weights were trained; nothing when they do not say it."""
    training, job = loaded.meta.get("training", {}), _job(loaded)
    if not job:
        return {}
    optim = job.get("optim", {})
    best = optim.get("keep") == "best" or file.name == "best.safetensors"
    return {
        "on": _whole_name(job["on"], "train"),
        "list_hash": training.get("list_hash"),
        "clips": training.get("clips"),
        "limit": job.get("limit", 0),
        "supervised": bool(job.get("supervision", {}).get("weight", 0)),
        "val": _whole_name(job.get("val", ""), "val"),
        "epoch": "best" if best else "last",
        "epochs": optim.get("epochs"),
        "seed": optim.get("seed"),
    }


def threshold_of(loaded: Weights, protocol: Protocol) -> float | None:
    """The calibrated threshold, where it is one of this protocol's confidences."""
    calibration = loaded.meta.get("calibration")
    if not calibration or protocol != protocols.get(loaded.meta.get("protocol", "exact")):
        return None
    return float(calibration["threshold"])


def _job(loaded: Weights) -> dict[str, Any]:
    """How the weights were trained; nothing when they name no set."""
    job: dict[str, Any] = loaded.meta.get("training", {}).get("job", {})
    return job if job.get("on") else {}


def _whole_name(spec: str, role: str) -> str:
    """The set with its split, where earsight knows it."""
    if not spec or not registry.may_import(spec.partition(":")[0]):
        return spec
    try:
        return with_split(spec, role)
    except EarsightError:
        return spec


def leaks_of(loaded: Weights, data: Path | None, clip_set: ClipSet) -> tuple[str, ...]:
    """What the list that the weights were trained on shares with the set, as a warning; nothing when unknown."""
    job = _job(loaded)
    if not job:
        return ()
    module = job["on"].partition(":")[0]
    if not registry.may_import(module):
        told = (
            f"Trained on {job['on']}, which was not looked at for clips of {clip_set.name}: it is a module, and is not "
            f"run because a file says so. If you know it, set {registry.MODULES}={module}."
        )
        return (told,)
    folder = Path(job["data"]) if job.get("data") else data
    warnings = _changed(loaded, folder), leaks(job["on"], folder, clip_set)
    return tuple(warning for warning in warnings if warning)


def _changed(loaded: Weights, folder: Path | None) -> str | None:
    """A warning where the training list is the user's own and no longer the one that the weights were trained on."""
    job, hash = _job(loaded), loaded.meta["training"].get("list_hash")
    if not hash or not hasattr(registry.load("set", job["on"].partition(":")[0]), "missing"):
        return None
    try:
        now = open_set(job["on"], folder, role="train", limit=job.get("limit", 0))
    except EarsightError:  # of which `leaks` tells
        return None
    if now.list_hash() == hash:
        return None
    return f"{now.name} is no longer the list that was trained on: test clips that were in it cannot be counted"
