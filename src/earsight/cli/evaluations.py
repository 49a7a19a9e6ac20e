"""Evaluations as commands print and write them, and what weights say of their training."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from earsight import protocols, registry
from earsight.cli.screen import note, say, say_json
from earsight.data.clips import ClipSet, open_set, with_split
from earsight.errors import EarsightError, UsageError
from earsight.escape import visible
from earsight.evaluation import ALIKE, NO_POSITIVES, Evaluation, alike
from earsight.files import refuse_existing
from earsight.protocols import Protocol
from earsight.report.groups import lines
from earsight.report.tables import table

if TYPE_CHECKING:
    from earsight.checkpoint import Weights
    from earsight.cli.evaluate import Eval
    from earsight.cli.score import Score
    from earsight.report.figures import Tile

SHOWN = 10
"""Unreadable clips that are named on the screen."""


def present(
    evaluations: Sequence[Evaluation], settings: Eval | Score, command: str, tiles: Mapping[str, Sequence[Tile]] = {}
) -> None:
    """Print the table or JSON, name what is missing and what to be wary of, and write the report card."""
    failed = dict(failure for e in evaluations for failure in e.failures)
    for id, reason in list(failed.items())[:SHOWN]:
        note(f"not read, and not counted: {id}: {reason}")
    if len(failed) > SHOWN:
        note(f"not read, and not counted: {len(failed) - SHOWN} more; --json and the report name all of them")
    for warning in dict.fromkeys(warning for e in evaluations for warning in e.warnings):
        note(f"warning: {warning}")
    if any(alike(e) for e in evaluations if e.audio == "real"):
        note(f"warning: {ALIKE}")
    if not all(e.records.positives.any() for e in evaluations):
        note(f"warning: {NO_POSITIVES}")
    if settings.json:
        say_json({"evaluations": [e.to_json() for e in evaluations]})
    else:
        say(page(evaluations))
    if (out := settings.out) is not None:
        from earsight.report.write import Attachments, write_report

        attached = Attachments(tiles, command=command)
        write_report(out, evaluations, attached, force=settings.force, note=note)
        note(f"report: {out / 'report.html'}")


def page(evaluations: Sequence[Evaluation]) -> str:
    """The table, and under it what each set was measured with."""
    measured = dict.fromkeys(
        visible(
            f"{e.set_name}: protocol {e.protocol}, {e.protocol.map} maps thresholded, list {e.list_hash} ({e.n} clips)"
        )
        for e in evaluations
    )
    return "\n".join([table(lines(evaluations)), "", "Values in percent.", *measured])


def refuse_report(settings: Eval | Score) -> None:
    """Raise when there is a report in the folder that may not be replaced, or when none can be written there."""
    if (out := settings.out) is None:
        return
    if not settings.force and (out / "metrics.json").exists():
        raise UsageError(f"Expected a folder without a report, but {out} has one. Use --force to replace it.")
    refuse_existing([out / name for name in ("report.html", "metrics.json", "table.md")], settings.force)


def need_universal(asked: Sequence[Protocol], level: float | None) -> None:
    """Refuse a level that no protocol would use."""
    if level is not None and not any(one.threshold == "universal" for one in asked):
        raise UsageError(
            f"Expected the protocol universal with --level, but got {', '.join(one.name for one in asked)}. "
            "Add --protocol universal, or write exact:threshold=absolute,level=SCORE."
        )


def training_of(loaded: Weights, file: Path) -> dict[str, Any]:
    """What a report keeps of how weights were trained; nothing when they do not say it."""
    from earsight.training.folder import BEST_WEIGHTS

    training, job = loaded.meta.get("training", {}), _job(loaded)
    if not job:
        return {}
    optim = job.get("optim", {})
    best = optim.get("keep") == "best" or file.name == BEST_WEIGHTS
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
    from earsight.data.audit import leaks

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
