"""`earsight eval`: weights on sets, in one table beside the controls and priors that give its numbers a meaning."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, get_args

from earsight import protocols, registry
from earsight.cli.screen import note, progress, say, say_json
from earsight.cli.settings import (
    Data,
    Device,
    Force,
    Json,
    Many,
    command_line,
    gc_frozen,
    need_once,
    require,
    word,
)
from earsight.config import need
from earsight.errors import EarsightError, UsageError
from earsight.escape import visible
from earsight.files import refuse_existing

if TYPE_CHECKING:
    import torch

    from earsight.checkpoint import Weights
    from earsight.cli.score import Score
    from earsight.data.clips import ClipSet
    from earsight.evaluation import Evaluation, Failures
    from earsight.model_evaluation import EvalSettings
    from earsight.object_prior import ObjectPrior
    from earsight.protocols import Protocol
    from earsight.report.figures import Tile

SHOWN = 10
"""Unreadable clips that are named on the screen."""


@dataclass(frozen=True, kw_only=True)
class Eval:
    """Measure weights on sets: one table with controls, centre prior, floor and ceiling."""

    weights: Annotated[Many, word("WEIGHTS")]
    """Weights files or folders of runs."""
    on: Annotated[tuple[str, ...], word("SET", default=None)]
    """Test sets, NAME or NAME:SPLIT (earsight list sets)."""
    data: Data = None
    protocol: Annotated[tuple[str, ...], word("NAME")] = ()
    """Evaluation protocols (earsight list protocols); by default the one the weights were made with."""
    level: Annotated[float | None, word("SCORE")] = None
    """Pixel threshold of the protocol `universal`; by default the one stored with the weights."""
    metric: Annotated[tuple[str, ...], word("MODULE")] = ()
    """Measure with metrics of your own too, importable modules (docs/add-a-metric.md)."""
    audio: Literal["all", "real", "shuffled", "silent"] = "all"
    """Which sound is heard: a model that listens does worse with another clip's sound, or with none."""
    batch_size: int | None = None
    """Clips at a time; changes the speed and nothing else. By default what suits the device."""
    device: Device = "auto"
    workers: int | None = None
    """Processes that read clips; 0 reads in this one. By default 0 on a CPU, and one a core on a GPU, at most 12."""
    limit: Annotated[int, word("N")] = 0
    """Use at most this many clips of each set."""
    only: Annotated[Path | None, word("FILE")] = None
    """Measure only the clips whose pictures this file names, one a line: a clean list of earsight data audit."""
    max_failed: float = 0.05
    """Share of a set's clips that may be missing or unreadable; they are counted and named, never replaced."""
    object_prior: Annotated[float | None, word("ALPHA")] = None
    """Add to the maps where objects are (OGL): ALPHA is the share of the model's own map. Published: 0.9 and 0.4."""
    object_fusion: Literal["slavc", "ezvsl"] = "slavc"
    """How both are added: scores on fixed scales (SLAVC, with 0.9), or each map stretched (EZ-VSL, with 0.4)."""
    object_weights: Annotated[str, word("imagenet|FILE", default=None)] = "imagenet"
    """The network that sees objects: ImageNet's, a file with weights of a ResNet-18, or a run of the method ogl."""
    save_maps: Annotated[Path | None, word("FILE")] = None
    """Write the maps to this .npz file too, for earsight score or for other programs."""
    out: Annotated[Path | None, word("DIR", "-o")] = None
    """Write the report card here: a web page, numbers, records, table, plots."""
    force: Force = False
    json: Json = False


def run(settings: Eval) -> int:
    """Evaluate every weights file on every set; a report goes to `out`. Without `protocol`, each file's own is used.

    The processes of a torchrun share the clips; the first one prints and writes.
    """
    require("train", "torch", "torchvision")
    from earsight import distributed, mapfile
    from earsight.data.clips import open_set
    from earsight.data.controls import Audio
    from earsight.device import own_device, pick_device
    from earsight.evaluation import center_prior, need_truth
    from earsight.header import find_weights
    from earsight.model_evaluation import evaluate_all
    from earsight.object_prior import ObjectPrior
    from earsight.report.training import leaks_of, threshold_of, training_of

    weights, on, out, save_maps = settings.weights, settings.on, settings.out, settings.save_maps
    need(len(weights) > 0, "at least one weights file or run", "none", "For example: earsight eval RUN --on toybox")
    need(len(on) > 0, "at least one set after --on", "none", f"Known: {', '.join(registry.names('set'))}.")
    prior = ObjectPrior.asked(settings.object_prior, settings.object_fusion, settings.object_weights)
    refuse_report(settings)  # said before the work, not after it
    need_own_metrics(settings.metric)
    refuse_existing([save_maps] if save_maps is not None else [], settings.force)
    if save_maps is not None and len(weights) * len(on) > 1:
        raise UsageError(
            f"Expected one weights file and one set with --save-maps, but got {len(weights)} and {len(on)}. "
            "Save the maps of each with a command of its own."
        )
    chosen = pick_device(settings.device)
    device = own_device(chosen)
    distributed.start(chosen)
    sets = [open_set(spec, settings.data, limit=settings.limit, only=settings.only) for spec in on]
    for line in dict.fromkeys(line for one in sets for line in one.notes):
        note(line)
    need_once("each set once after --on", [one.name for one in sets])
    need_once("each weights file once", list(map(find_weights, weights)))
    for clip_set in sets:  # said before the work on the first
        need_truth(clip_set)
    found: list[Evaluation] = []
    tiles: Mapping[str, Sequence[Tile]] = {}
    for path, name in zip(weights, model_names(weights), strict=True):
        loaded, asked, how = load(path, device, name, prior, settings)
        training = training_of(loaded, find_weights(path))
        for clip_set in sets:
            warnings = (*leaks_of(loaded, settings.data, clip_set), *how.warnings)
            unreadable: Failures = ()
            for audio in get_args(Audio) if settings.audio == "all" else (settings.audio,):
                if audio != settings.audio and audio == "shuffled" and len(clip_set) - len(unreadable) < 2:
                    note(f"{clip_set.name} is not measured with shuffled audio, which needs at least 2 clips")
                    continue
                # Pictures are of the first model and set; they and saved maps are what the real sound gives.
                draws = out is not None and audio == "real" and not tiles
                one_set = replace(
                    how,
                    audio=audio,
                    keep_maps=draws or save_maps is not None,
                    unreadable=unreadable,
                    warnings=warnings,
                )
                with progress(f"{how.name} on {clip_set.name}, {audio} audio") as report, gc_frozen():
                    many = evaluate_all(loaded.model, clip_set, asked, one_set, report)
                unreadable = many[0].failures
                if draws and distributed.rank() == 0:
                    tiles = pictures(many, clip_set, loaded)
                maps = many[0].maps
                wanted = audio in ("real", settings.audio) and distributed.rank() == 0
                if save_maps is not None and maps is not None and wanted:
                    mapfile.write_maps(save_maps, many[0].records.id.tolist(), maps)
                    note(f"maps: {save_maps}; next: {scoring(save_maps, many[0].model, settings)}")
                found += [
                    replace(one, maps=None, training=training, threshold=threshold_of(loaded, one.protocol))
                    for one in many
                ]
    if distributed.rank() == 0:
        # One centre prior for each set and protocol, whatever the number of models.
        hows = list(dict.fromkeys(e.protocol for e in found))
        failed = {e.set_name: e.failures for e in found}
        found += [center_prior(one, how, failed[one.name], settings.metric) for one in sets for how in hows]
        # What changes the speed only is left out.
        again = replace(settings, batch_size=None, device="auto", workers=None, save_maps=None)
        present(found, settings, command_line(replace(again, out=None, force=False, json=False)), tiles)
    return 0


def load(
    path: Path, device: torch.device, name: str, prior: ObjectPrior | None, settings: Eval
) -> tuple[Weights, list[Protocol], EvalSettings]:
    """A model, with the object prior in its maps where one is asked for, and how it is measured with any sound."""
    from earsight.checkpoint import load_weights
    from earsight.model_evaluation import EvalSettings

    weights = load_weights(path, device)
    name = f"{name} ({weights.model.note})" if weights.model.note else name
    if prior is not None:
        weights, name = prior.added_to(weights), f"{name} + {prior.name}"
    names = settings.protocol or (weights.meta.get("protocol", "exact"),)
    asked = protocols_of(names, settings.level, weights.meta.get("universal_level"))
    native = [one.name for one in asked if one.map == "native"]
    if settings.save_maps is not None and native:  # a file holds one map a clip, the dense one
        raise UsageError(
            f"Expected protocols that threshold dense maps with --save-maps, which writes these, but got {native[0]}. "
            "Leave out map=native, or --save-maps."
        )
    how = EvalSettings(
        batch_size=settings.batch_size,
        device=device,
        workers=settings.workers,
        sizes=True,
        max_failed=settings.max_failed,
        together=True,
        metrics=settings.metric,
        name=name,
        warnings=prior.warnings(asked) if prior is not None else (),
    )
    return weights, asked, how


def scoring(path: Path, model: str, settings: Eval) -> str:
    """The command that scores saved maps under the model's whole name."""
    from earsight.cli.score import Score

    (on,) = settings.on
    score = Score(
        maps=path,
        on=on,
        data=settings.data,
        only=settings.only,
        metric=settings.metric,
        name=model,
        allow_missing=settings.limit > 0,
    )
    return command_line(score, on.partition(":")[0])


def present(
    evaluations: Sequence[Evaluation], settings: Eval | Score, command: str, tiles: Mapping[str, Sequence[Tile]] = {}
) -> None:
    """Print the table or JSON, name what is missing and what to be wary of, and write the report card."""
    from earsight.evaluation import ALIKE, NO_POSITIVES, alike

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
        say(page(evaluations, settings.metric))
    if (out := settings.out) is not None:
        from earsight.report.write import Attachments, write_report

        write_report(out, evaluations, Attachments(tiles, command=command), force=settings.force, note=note)
        note(f"report: {out / 'report.html'}")


def page(evaluations: Sequence[Evaluation], metrics: Sequence[str] = ()) -> str:
    """The table, that of the user's own metrics, and under them what each set was measured with."""
    from earsight.report.groups import lines
    from earsight.report.tables import render

    measured = dict.fromkeys(
        visible(
            f"{e.set_name}: protocol {e.protocol}, {e.protocol.map} maps thresholded, list {e.list_hash} ({e.n} clips)"
        )
        for e in evaluations
    )
    own = [_own_numbers(evaluations, metrics), ""] if metrics else []
    return "\n".join([render(lines(evaluations)), "", *own, "Values in percent.", *measured])


def _own_numbers(evaluations: Sequence[Evaluation], metrics: Sequence[str]) -> str:
    """A table of what modules from outside the package measure."""
    from earsight.report.tables import called, percent, render

    known = {number.removesuffix("*") for name in metrics for number in registry.load("metric", name).HIGHER_IS_BETTER}
    numbers = [number for number in evaluations[0].metrics if known & {number, f"{number.partition('/')[0]}/"}]
    return render(
        [
            {"set": e.set_name, "protocol": e.protocol.name, "model": called(e.model, e.audio)}
            | {number: percent(e.metrics.get(number, float("nan"))) for number in numbers}
            for e in evaluations
        ]
    )


def need_own_metrics(names: Sequence[str]) -> None:
    """Refuse, before any work, what is no importable module with a metric."""
    for name in names:
        need("." in name, "a module's dotted name after --metric", name, "earsight's own metrics are always measured.")
        registry.load("metric", name)


def refuse_report(settings: Eval | Score) -> None:
    """Raise when there is a report in the folder that may not be replaced, or when none can be written there."""
    if (out := settings.out) is None:
        return
    if not settings.force and (out / "metrics.json").exists():
        raise UsageError(f"Expected a folder without a report, but {out} has one. Use --force to replace it.")
    refuse_existing([out / name for name in ("report.html", "metrics.json", "table.md")], settings.force)


def protocols_of(names: Sequence[str], level: float | None, stored: float | None = None) -> list[Protocol]:
    """The protocols of these names, each once; the universal level is the one asked for, or stored with weights."""
    asked = [protocols.get(name) for name in names]
    if level is not None and not any(one.threshold == "universal" for one in asked):
        raise UsageError(
            f"Expected the protocol universal with --level, but got {', '.join(one.name for one in asked)}. "
            "Add --protocol universal, or write exact:threshold=absolute,level=SCORE."
        )
    return list(dict.fromkeys(protocols.at_level(one, stored if level is None else level) for one in asked))


def pictures(many: Sequence[Evaluation], clip_set: ClipSet, loaded: Weights) -> Mapping[str, Sequence[Tile]]:
    """Overlays under the first protocol that can be drawn: the adaptive one's masks need the ground truth.

    Without a clip that cannot be read again there are none, and the numbers stay.
    """
    from earsight.report import gallery
    from earsight.report.training import threshold_of

    for one in many:
        if one.protocol.threshold != "adaptive":
            try:
                return gallery.groups(one, clip_set, loaded.model, threshold_of(loaded, one.protocol))
            except EarsightError as error:
                note(f"no pictures of clips: {error}")
                return {}
    return {}


def model_names(weights: Sequence[Path]) -> list[str]:
    """What to call each file in tables: its run or its own name, and the whole path where two are called the same.

    >>> model_names([Path("slavc.safetensors"), Path("ezvsl.safetensors")])
    ['slavc', 'ezvsl']
    """
    names = [path.resolve().name if path.is_dir() else path.stem for path in weights]
    names = [p.resolve().parent.name if name == "weights" else name for p, name in zip(weights, names, strict=True)]
    return [str(p) if names.count(name) > 1 else name for p, name in zip(weights, names, strict=True)]
