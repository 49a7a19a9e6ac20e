"""`earsight eval`: weights on sets, in one table beside the controls and priors that give its numbers a meaning."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, get_args

from earsight import distributed, mapfile, protocols, registry
from earsight.checkpoint import Weights, find_weights, load_weights
from earsight.commands.screen import note, progress, say, say_json
from earsight.commands.trained import leaks_of, threshold_of, training_of
from earsight.config import need, need_workers
from earsight.data.clips import ClipSet, open_set
from earsight.data.controls import Audio
from earsight.device import own_device, pick_device
from earsight.errors import EarsightError, UsageError
from earsight.escape import visible
from earsight.evaluation import Evaluation, Failures, center_prior, evaluate_all, need_truth
from earsight.files import refuse_existing
from earsight.object_prior import ObjectPrior
from earsight.protocols import Protocol
from earsight.report import card, gallery
from earsight.report.figures import Tile
from earsight.report.groups import lines
from earsight.report.tables import table
from earsight.report.write import write_report

SHOWN = 10
"""Unreadable clips that are named on the screen."""


def run(
    weights: Sequence[Path],
    on: Sequence[str],
    *,
    data: Path | None = None,
    protocol: Sequence[str] = (),
    level: float | None = None,
    audio: str = "all",
    batch_size: int | None = None,
    device: str = "auto",
    workers: int | None = None,
    limit: int = 0,
    only: Path | None = None,
    max_failed: float = 0.05,
    object_prior: float | None = None,
    object_fusion: str = "slavc",
    object_weights: str = "imagenet",
    save_maps: Path | None = None,
    out: Path | None = None,
    force: bool = False,
    json: bool = False,
) -> int:
    """Evaluate every weights file on every set; a report goes to `out`. Without `protocol`, each file's own is used.

    `object_prior` is the share of each model's own maps where objects are added to them. The processes of a torchrun
    share the clips; the first one prints and writes.
    """
    need(len(weights) > 0, "at least one weights file or run", "none", "For example: earsight eval RUN --on toybox")
    need(len(on) > 0, "at least one set after --on", "none", f"Known: {', '.join(registry.names('set'))}.")
    if workers is not None:
        need_workers(workers)
    prior = ObjectPrior.asked(object_prior, object_fusion, object_weights)
    refuse_report(out, force)  # said before the work, not after it
    refuse_existing([save_maps] if save_maps is not None else [], force)
    if save_maps is not None and len(weights) * len(on) > 1:
        raise UsageError(
            f"Expected one weights file and one set with --save-maps, but got {len(weights)} and {len(on)}. "
            "Save the maps of each with a command of its own."
        )
    device = pick_device(device)
    where = own_device(device)
    distributed.start(device)
    sets = [open_set(spec, data, limit=limit, only=only) for spec in on]
    for line in dict.fromkeys(line for one in sets for line in one.notes):
        note(line)
    twice = [one.name for i, one in enumerate(sets) if one.name in [other.name for other in sets[:i]]]
    need(not twice, "each set once after --on", f"{twice[0] if twice else ''} twice", "Leave one out.")
    for clip_set in sets:  # said before the work on the first
        need_truth(clip_set)
    found = _Found()
    for path, name in zip(weights, model_names(weights), strict=True):
        loaded = load_weights(path, where)
        name = f"{name} ({loaded.model.remark})" if loaded.model.remark else name
        if prior is not None:
            loaded, name = prior.added_to(loaded), f"{name} + {prior.name}"
        how, training = protocols_of(loaded, protocol, level), training_of(loaded, find_weights(path))
        if save_maps is not None:
            need_dense(how)
        for clip_set in sets:
            told = (*leaks_of(loaded, data, clip_set), *(prior.warnings(how) if prior is not None else ()))
            unreadable: Failures = ()
            for control in get_args(Audio) if audio == "all" else (audio,):
                if control != audio and control == "shuffled" and len(clip_set) - len(unreadable) < 2:
                    note(f"{clip_set.name} is not measured with shuffled audio, which needs at least 2 clips")
                    continue
                # Pictures are of the first model and set; they and saved maps are what the real sound gives.
                show = out is not None and control == "real" and not found.pictures
                with progress(f"{name} on {clip_set.name}, {control} audio") as report_progress:
                    many = evaluate_all(
                        loaded.model,
                        clip_set,
                        how,
                        batch_size=batch_size,
                        device=where,
                        audio=control,
                        workers=workers,
                        progress=report_progress,
                        keep_maps=show or save_maps is not None,
                        sizes=True,
                        max_failed=max_failed,
                        name=name,
                        warnings=told,
                        unreadable=unreadable,
                        together=True,
                    )
                unreadable = many[0].failures
                if show and distributed.rank() == 0:
                    found.pictures = pictures(many, clip_set, loaded)
                if save_maps is not None and control in ("real", audio) and distributed.rank() == 0:
                    save(save_maps, many[0])
                    note(f"maps: {save_maps}; next: {score_line(save_maps, on[0], data, name, limit, only)}")
                found.evaluations += [
                    replace(one, maps=None, training=training, threshold=threshold_of(loaded, one.protocol))
                    for one in many
                ]
    if distributed.rank() == 0:
        # One centre prior for each set and protocol, whatever the number of models.
        hows = list(dict.fromkeys(e.protocol for e in found.evaluations))
        failed = {e.set_name: e.failures for e in found.evaluations}
        found.evaluations += [center_prior(one, how, failed[one.name]) for one in sets for how in hows]
        command = command_line(weights, on, data, protocol, level, audio, limit, only, max_failed, prior)
        tell(found.evaluations, out, json=json, force=force, tiles=found.pictures, extra={"command": command})
    return 0


@dataclass
class _Found:
    evaluations: list[Evaluation] = field(default_factory=list)
    pictures: Mapping[str, Sequence[Tile]] = field(default_factory=dict)


def tell(
    evaluations: Sequence[Evaluation],
    out: Path | None,
    *,
    json: bool,
    force: bool,
    tiles: Mapping[str, Sequence[Tile]] | None = None,
    extra: Mapping[str, Any] | None = None,
) -> None:
    """Print the table or JSON, name what is missing and what to be wary of, and write the report card."""
    failed = dict(failure for e in evaluations for failure in e.failures)
    for id, reason in list(failed.items())[:SHOWN]:
        note(f"not read, and not counted: {id}: {reason}")
    if len(failed) > SHOWN:
        note(f"not read, and not counted: {len(failed) - SHOWN} more; --json and the report name all of them")
    for warning in dict.fromkeys(warning for e in evaluations for warning in e.warnings):
        note(f"warning: {warning}")
    if any(card.alike(e) for e in evaluations if e.audio == "real"):
        note(f"warning: {card.ALIKE}")
    if not all(e.records.positives.any() for e in evaluations):
        note(f"warning: {card.NO_POSITIVES}")
    if json:
        say_json({"evaluations": [e.to_json() for e in evaluations]})
    else:
        say(page(evaluations))
    if out is not None:
        write_report(out, evaluations, tiles=tiles, extra=extra, force=force, note=note)
        note(f"report: {out / 'report.html'}")


def save(path: Path, evaluation: Evaluation) -> None:
    """Write an evaluation's maps for other programs."""
    if evaluation.maps is None:
        raise ValueError("Expected an evaluation with its maps, but it was made without keep_maps=True.")
    mapfile.write_maps(path, evaluation.records.id.tolist(), evaluation.maps)


def score_line(maps: Path, on: str, data: Path | None, name: str, limit: int, only: Path | None = None) -> str:
    """What to type to score saved maps under the model's whole name, of which a file of maps holds nothing.

    >>> score_line(Path("m.npz"), "toybox", None, "run + OGL 0.9", 0)
    "earsight score m.npz --on toybox --name 'run + OGL 0.9'"
    """
    words = ["earsight", "score", str(maps), "--on", on, *(["--data", str(data)] if data is not None else [])]
    words += ["--only", str(only)] if only is not None else []
    return shlex.join([*words, "--name", name, *["--allow-missing"] * bool(limit)])


def protocols_of(loaded: Weights, names: Sequence[str], level: float | None) -> list[Protocol]:
    """The protocols asked for, or the one the weights were made with; each once."""
    given = level if level is not None else loaded.meta.get("universal_level")
    asked = [protocols.get(name) for name in list(names) or [loaded.meta.get("protocol", "exact")]]
    need_universal(asked, level)
    return list(dict.fromkeys(protocols.at_level(one, given) for one in asked))


def need_universal(asked: Sequence[Protocol], level: float | None) -> None:
    """Refuse a level that no protocol would use."""
    if level is not None and not any(one.threshold == "universal" for one in asked):
        raise UsageError(
            f"Expected the protocol universal with --level, but got {', '.join(one.name for one in asked)}. "
            "Add --protocol universal, or write exact:threshold=absolute,level=SCORE."
        )


def need_dense(asked: Sequence[Protocol]) -> None:
    """Refuse to save maps that the numbers beside them are not of: a file holds one map a clip, the dense one."""
    native = [one.name for one in asked if one.map == "native"]
    if native:
        raise UsageError(
            f"Expected protocols that threshold dense maps with --save-maps, which writes these, but got {native[0]}. "
            "Leave out map=native, or --save-maps."
        )


def pictures(many: Sequence[Evaluation], clip_set: ClipSet, loaded: Weights) -> Mapping[str, Sequence[Tile]]:
    """Overlays under the first protocol that can be drawn: the adaptive one's masks need the ground truth.

    Without a clip that cannot be read again there are none, and the numbers stay.
    """
    for one in many:
        if one.protocol.threshold != "adaptive":
            try:
                return gallery.groups(one, clip_set, loaded.model, threshold_of(loaded, one.protocol))
            except EarsightError as error:
                note(f"no pictures of clips: {error}")
                return {}
    return {}


def command_line(
    weights: Sequence[Path],
    on: Sequence[str],
    data: Path | None,
    protocol: Sequence[str],
    level: float | None,
    audio: str,
    limit: int,
    only: Path | None,
    max_failed: float,
    prior: ObjectPrior | None = None,
) -> str:
    """What to type for the same numbers; what changes the speed only is left out."""
    words = ["earsight", "eval", *map(str, weights), "--on", *on]
    words += ["--data", str(data)] if data is not None else []
    words += ["--protocol", *protocol] if protocol else []
    words += ["--level", str(level)] if level is not None else []
    words += ["--audio", audio] if audio != "all" else []
    words += ["--limit", str(limit)] if limit else []
    words += ["--only", str(only)] if only is not None else []
    words += ["--max-failed", str(max_failed)] if max_failed != 0.05 else []
    words += prior.flags if prior is not None else []
    return shlex.join(words)


def refuse_report(out: Path | None, force: bool) -> None:
    """Raise when there is a report in the folder that may not be replaced, or when none can be written there."""
    if out is None:
        return
    if not force and (out / "metrics.json").exists():
        raise UsageError(f"Expected a folder without a report, but {out} has one. Use --force to replace it.")
    refuse_existing([out / name for name in ("report.html", "metrics.json", "table.md")], force)


def page(evaluations: Sequence[Evaluation]) -> str:
    """The table, and under it what each set was measured with."""
    measured = dict.fromkeys(
        visible(
            f"{e.set_name}: protocol {e.protocol}, {e.protocol.map} maps thresholded, list {e.list_hash} ({e.n} clips)"
        )
        for e in evaluations
    )
    return "\n".join([table(lines(evaluations)), "", "Values in percent.", *measured])


def model_names(weights: Sequence[Path]) -> list[str]:
    """What to call each file in tables: its run or its own name, and the whole path where two are called the same.

    >>> model_names([Path("slavc.safetensors"), Path("ezvsl.safetensors")])
    ['slavc', 'ezvsl']
    """
    names = [path.resolve().name if path.is_dir() else path.stem for path in weights]
    names = [p.resolve().parent.name if name == "weights" else name for p, name in zip(weights, names, strict=True)]
    names = [str(p) if names.count(name) > 1 else name for p, name in zip(weights, names, strict=True)]
    files = [find_weights(path).resolve() for path in weights] if len(set(names)) < len(names) else []
    twice = [path for path, file in zip(weights, files, strict=False) if files.count(file) > 1]
    need(not twice, "each weights file once", f"{twice[0] if twice else ''} twice", "Leave one out.")
    return names
