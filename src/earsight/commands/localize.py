"""`earsight localize`: where the sound comes from, in videos, in folders, or in a picture with a sound."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from earsight.commands.screen import columns, note, progress, say, say_json
from earsight.config import need
from earsight.localize import Localizer, Summary, Timeline, localize_pair, localize_paths
from earsight.localize.timeline import VISIBLE
from earsight.object_prior import ObjectPrior


def run(
    weights: Path,
    inputs: Sequence[Path] = (),
    *,
    image: Path | None = None,
    audio: Path | None = None,
    out: Path,
    every: float = 0.2,
    window: float | None = None,
    start: float | None = None,
    end: float | None = None,
    format: str = "mp4,png,json",
    object_prior: float | None = None,
    object_fusion: str = "slavc",
    object_weights: str = "imagenet",
    batch_size: int = 16,
    device: str = "auto",
    force: bool = False,
    json: bool = False,
) -> int:
    """Localize every input; exit code 1 when one of them could not be, each of which is named on stderr."""
    need((image is None) == (audio is None), "--image and --audio together", "one of them", "Give both.")
    need(
        (image is None) != (len(inputs) == 0),
        "videos or folders, or --image and --audio",
        "both" if inputs else "none",
        "For example: earsight localize WEIGHTS clip.mp4",
    )
    formats = tuple(one.strip() for one in format.split(",") if one.strip())
    prior = ObjectPrior.asked(object_prior, object_fusion, object_weights)
    localizer = Localizer.load(weights, device, prior)
    if localizer.threshold is None and prior is not None and prior.alpha < 1:
        note("no threshold was calibrated with the object prior, so there is a confidence but no verdict")
    elif localizer.threshold is None:
        note("these weights carry no calibrated threshold, so there is a confidence but no verdict")
    if image is not None and audio is not None:
        need(end is None and window is None, "--end and --window with videos only", "them with --image")
        single = localize_pair(localizer, image, audio, out, time=start, formats=formats, force=force)
        summary = Summary((single,))
    else:
        with progress("localizing") as report:
            summary = localize_paths(
                localizer,
                inputs,
                out,
                every=every,
                window=window,
                start=start or 0.0,
                end=end,
                formats=formats,
                batch_size=batch_size,
                progress=lambda name, done, total: report(done, total, Path(name).name),
                force=force,
            )
    if json:
        say_json(plain(summary))
    elif summary.done:
        say(columns([(one.source, found(one), ", ".join(map(str, one.files))) for one in summary.done]))
    for left in summary.skipped:
        note(f"skipped: {left.path}: {left.reason}")
    for failed in summary.failures:
        note(f"failed: {failed.path}: {failed.reason}")
    if summary.failures:
        note(f"{len(summary.failures)} of {len(summary.failures) + len(summary.done)} inputs failed")
    return int(bool(summary.failures))


def found(timeline: Timeline) -> str:
    """What was found, in words."""
    visible, silent, count = counts(timeline).values()
    if count == 1:
        return f"{timeline.items[0].label}, confidence {timeline.items[0].confidence:.3f}"
    words = "not calibrated" if timeline.threshold is None else f"visible source at {visible} of {count} times"
    return words + (f", silent at {silent}" if silent else "")


def counts(timeline: Timeline) -> dict[str, int]:
    """Moments with a visible source, silent ones, and all."""
    visible = sum(item.verdict == VISIBLE for item in timeline.items)
    return {"visible": visible, "silent": sum(item.silent for item in timeline.items), "moments": len(timeline.items)}


def plain(summary: Summary) -> dict[str, Any]:
    """The summary as plain values, each input with its counts."""
    values = summary.to_json()
    done = [{**line, **counts(one)} for line, one in zip(values["done"], summary.done, strict=True)]
    return {**values, "done": done}
