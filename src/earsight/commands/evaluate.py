"""`earsight eval`: weights on sets, in one table beside the controls and priors that give its numbers a meaning."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import get_args

from earsight import protocols, registry, report
from earsight.checkpoint import find_weights, load_weights
from earsight.commands.screen import note, progress, say, say_json
from earsight.config import need
from earsight.data.clips import open_set
from earsight.data.controls import Audio
from earsight.device import pick_device
from earsight.errors import UsageError
from earsight.evaluate import Evaluation, center_prior, evaluate
from earsight.gallery import tiles
from earsight.plots import Tile


def run(
    weights: Sequence[Path],
    on: Sequence[str],
    *,
    data: Path | None = None,
    protocol: str = "",
    audio: str = "real",
    batch_size: int = 64,
    device: str = "auto",
    workers: int = 0,
    limit: int = 0,
    out: Path | None = None,
    force: bool = False,
    json: bool = False,
) -> int:
    """Evaluate every weights file on every set; a report goes to `out`. Without `protocol`, each file's own is used."""
    need(len(weights) > 0, "at least one weights file or run", "none", "For example: earsight eval RUN --on toybox")
    need(len(on) > 0, "at least one set after --on", "none", f"Known: {', '.join(registry.names('set'))}.")
    need(workers >= 0, "workers of at least 0", workers)
    if out is not None and not force and (out / "metrics.json").exists():  # said before the work, not after it
        raise UsageError(f"Expected a folder without a report, but {out} has one. Use --force to replace it.")
    device = pick_device(device)
    sets = [open_set(spec, data, limit=limit) for spec in on]
    names = model_names(weights)
    found: list[Evaluation] = []
    pictures: list[Tile] = []
    for path, name in zip(weights, names, strict=True):
        loaded = load_weights(path, device)
        how = protocols.get(protocol or loaded.meta.get("protocol", "exact"))
        for clip_set in sets:
            for control in get_args(Audio) if audio == "all" else (audio,):
                with progress(f"{name} on {clip_set.name}, {control} audio") as report_progress:
                    show = out is not None and control == "real" and not pictures  # of the first model and set
                    found.append(
                        evaluate(
                            loaded.model,
                            clip_set,
                            how,
                            batch_size=batch_size,
                            device=device,
                            audio=control,
                            workers=workers,
                            progress=report_progress,
                            keep_maps=show,
                            name=name,
                        )
                    )
                if show:
                    calibration = loaded.meta.get("calibration")
                    threshold = calibration["threshold"] if calibration else None
                    pictures = tiles(found[-1], clip_set, loaded.model, threshold)
                    found[-1] = replace(found[-1], maps=None)
    # One centre prior for each set and protocol, whatever the number of models.
    found += [center_prior(clip_set, how) for clip_set in sets for how in dict.fromkeys(e.protocol for e in found)]
    for id, reason in dict(failure for e in found for failure in e.failures).items():
        note(f"not read, and not counted: {id}: {reason}")
    if json:
        say_json({"evaluations": [e.to_json() for e in found]})
    else:
        say(page(found))
    if out is not None:
        report.write_report(out, found, tiles=pictures, force=force)
        note(f"report: {out}")
    return 0


def page(evaluations: Sequence[Evaluation]) -> str:
    """The table, and under it what each set was measured with."""
    measured = dict.fromkeys(f"{e.set_name}: protocol {e.protocol}, list {e.list_hash}" for e in evaluations)
    return "\n".join([report.table(report.lines(evaluations)), "", "Values in percent.", *measured])


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
