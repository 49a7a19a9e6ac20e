"""`earsight localize`: where the sound comes from, in videos, in folders, or in a picture with a sound."""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import tyro

from earsight.cli.screen import clock, columns, note, progress, say, say_json
from earsight.cli.settings import Device, Force, Json, Many, require, word
from earsight.config import need
from earsight.errors import UsageError

if TYPE_CHECKING:
    from earsight.localize import Localizer, Settings, Summary, Timeline
    from earsight.object_prior import ObjectPrior


@dataclass(frozen=True, kw_only=True)
class Localize:
    """Show where the sound comes from, in videos and folders of them, or in a picture with a sound."""

    weights: Annotated[Path | None, tyro.conf.Positional, word("WEIGHTS")] = None
    """Weights file, folder of a run, or exported folder."""
    inputs: Annotated[Many, word("INPUT")] = ()
    """Video files or folders."""
    image: Annotated[Path | None, word("FILE")] = None
    """A picture, to go with --audio."""
    audio: Annotated[Path | None, word("FILE")] = None
    """A sound, to go with --image; with one video, what is heard in place of its own sound."""
    out: Annotated[Path, word("DIR", "-o", default=None)] = Path("localized")
    """Folder for what is written."""
    every: Annotated[float, word("SECONDS", default=None)] = 0.2
    """Time between two answers of a video."""
    window: Annotated[float | None, word("SECONDS")] = None
    """Sound heard around each time, at most and by default as much as the model hears; less is repeated to fill it."""
    smooth: Annotated[float, word("SECONDS", default=None)] = 0.5
    """Steady maps, confidences and verdicts over this time; 0 for every answer as it comes."""
    start: Annotated[float | None, word("SECONDS")] = None
    """Where in the video to begin; for a picture, the middle of what is heard of its sound. Without it, a loud part
    near the middle of the sound; train and eval hear from the list's start on."""
    end: Annotated[float | None, word("SECONDS")] = None
    """Where in the video to end; not for pictures."""
    format: Annotated[str, word("KINDS", default=None)] = "mp4,png,json"
    """What to write: overlay video (mp4), contact sheet and confidence over time (png), timeline (json), maps (npz)."""
    overlay: Annotated[float, word("STRENGTH", default=None)] = 0.65
    """How opaque the heat is where it is hottest, from 0 to 1."""
    boxes: Annotated[int, word("N", default=None)] = 5
    """Most boxes to draw, largest first; the timeline has the five largest."""
    object_prior: Annotated[float | None, word("ALPHA")] = None
    """Add to the maps where objects are (OGL): ALPHA is the share of the model's own map. Published: 0.9 and 0.4."""
    object_fusion: Literal["slavc", "ezvsl"] = "slavc"
    """How both are added: scores on fixed scales (SLAVC, with 0.9), or each map stretched (EZ-VSL, with 0.4)."""
    object_weights: Annotated[str, word("imagenet|FILE", default=None)] = "imagenet"
    """The network that sees objects: ImageNet's, a file with weights of a ResNet-18, or a run of the method ogl."""
    batch_size: int = 8
    """Frames at a time; changes the speed and nothing else."""
    device: Device = "auto"
    force: Force = False
    json: Json = False


def run(settings: Localize) -> int:
    """Localize every input; exit code 1 when one of them could not be, each of which is named on stderr.

    Ctrl-C ends in order: what was finished by then is kept, marked as partial, and the exit code is 130.
    """
    from earsight.localize import Localizer, Summary, graceful_interrupt, localize_pair, localize_paths

    weights, inputs, image, audio = need_weights_first(settings), settings.inputs, settings.image, settings.audio
    alone = (image is None) != (audio is None) and not (image is None and inputs)  # a video may be heard with --audio
    need(not alone, "--image and --audio together", "one of them", "Give both.")
    need(
        (image is None) != (len(inputs) == 0),
        "videos or folders, or --image and --audio",
        "both" if inputs else "none",
        "For example: earsight localize WEIGHTS clip.mp4",
    )
    prior = asked_prior(settings)
    chosen = localization(settings)  # what is wrong with any setting is said before a model is loaded
    localizer = Localizer.load(weights, settings.device, prior)
    if localizer.threshold is None and prior is not None and prior.alpha < 1:
        note("no threshold was calibrated with the object prior, so there is a confidence but no verdict")
    elif localizer.threshold is None:
        why = f" ({localizer.meta['uncalibrated']})" if localizer.meta.get("uncalibrated") else ""
        note(f"these weights carry no calibrated threshold, so there is a confidence but no verdict{why}")
    for known in localizer.notes:
        note(known)
    if image is not None and audio is not None:
        summary = Summary((localize_pair(localizer, image, audio, settings.out, chosen),))
    else:
        pace = Pace()
        with progress("localizing") as report, graceful_interrupt() as asked:  # ends after the frames at hand
            summary = localize_paths(
                localizer,
                inputs,
                settings.out,
                chosen,
                sound=audio,
                progress=lambda name, done, total: report(done, total, pace(Path(name).name, done, total)),
                stop=asked,
            )
    return present(summary, localizer, settings)


def localization(settings: Localize) -> Settings:
    """The settings of localization that the flags ask for."""
    from earsight.localize import Settings

    names = [field.name for field in fields(Settings) if field.name != "formats"]
    chosen = Settings(formats=settings.format, **{name: getattr(settings, name) for name in names})
    if settings.image is not None:
        chosen.refuse_span()
    return chosen


def present(summary: Summary, localizer: Localizer, settings: Localize) -> int:
    """Print what was done and what was not; the exit code says whether all was."""
    if settings.json:
        values = summary.to_json()
        done = [{**line, **counts(one)} for line, one in zip(values["done"], summary.done, strict=True)]
        say_json({**values, "done": done})
    elif summary.done:
        say(columns([(one.source, found(one), ", ".join(map(str, one.files))) for one in summary.done]))
    for one in summary.done:
        for told in one.notes:
            if told not in localizer.notes:
                note(f"note: {one.source}: {told}")
    if summary.skipped:
        count, names = len(summary.skipped), ", ".join(path.name for path in summary.skipped[:3])
        more = f" and {count - 3} more" if count > 3 else ""
        note(f"skipped {count} file{'s' * (count > 1)} of other kinds than media: {names}{more}")
    for failed in summary.failures:
        note(f"failed: {failed.path}: {failed.reason}")
    if summary.failures:
        note(f"{len(summary.failures)} of {len(summary.failures) + len(summary.done)} inputs failed")
    if summary.stopped:
        note("stopped by the user: what was finished is kept and marked as partial")
        for path in summary.left:
            note(f"not begun: {path}")
        return 130
    return int(bool(summary.failures))


def need_weights_first(settings: Localize) -> Path:
    """The weights; a command without them is refused, also where it begins with a media file or a folder of them."""
    from earsight.media.accept import kind_of
    from earsight.onnxfile import is_export

    weights = settings.weights
    kind = None if weights is None else kind_of(weights)
    if weights is None or kind:
        pair = (("--image", settings.image), ("--audio", settings.audio))
        words = [word for flag, path in pair if path for word in (flag, str(path))]
        rest = shlex.join([*([str(weights)] if weights else []), *map(str, settings.inputs), *words])
        got = f"{weights} is a {kind}" if weights else "got none"
        raise UsageError(
            f"Expected weights first, but {got}: earsight localize WEIGHTS {rest or 'VIDEO'}. "
            "Weights are a file, the folder of a run, or an exported folder."
        )
    if is_export(weights):
        return weights
    if weights.is_dir():
        from earsight.header import find_weights

        find_weights(weights)  # what is wrong with it is said before what else is missing
    require("train", "torch", "torchvision")
    return weights


def asked_prior(settings: Localize) -> ObjectPrior | None:
    """The object prior that flags ask for; where they ask for none, torch is not imported for it."""
    asked = (settings.object_prior, settings.object_fusion, settings.object_weights)
    if asked == (None, "slavc", "imagenet"):
        return None
    require("train", "torch", "torchvision")
    from earsight.object_prior import ObjectPrior

    return ObjectPrior.asked(*asked)


class Pace:
    """Words for how fast an input goes and how long it will still take.

    >>> clock = iter([0.0, 10.0])
    >>> pace = Pace(lambda: next(clock))
    >>> pace("a.mp4", 0.0, 60.0), pace("a.mp4", 20.0, 60.0)
    ('a.mp4', 'a.mp4, 2.0 times as fast as it plays, 0:20 left')
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock, self._name, self._began = clock, "", 0.0

    def __call__(self, name: str, done: float, total: float) -> str:
        now = self._clock()
        if name != self._name:
            self._name, self._began = name, now
        spent = now - self._began
        if spent < 2 or done <= 0:  # too early to tell
            return name
        left = clock(max(0.0, total - done) * spent / done)
        return f"{name}, {done / spent:.1f} times as fast as it plays, {left} left"


def found(timeline: Timeline) -> str:
    """What was found, in words."""
    visible, silent, count = counts(timeline).values()
    if timeline.partial:
        return f"partial, {count} times answered"
    if count == 1:
        return f"{timeline.items[0].verdict}, confidence {timeline.items[0].confidence:.3f}"
    words = "not calibrated" if timeline.threshold is None else f"visible source at {visible} of {count} times"
    return words + (f", silent at {silent}" if silent else "")


def counts(timeline: Timeline) -> dict[str, int]:
    """Moments with a visible source, silent ones, and all."""
    from earsight.localize.timeline import VISIBLE

    visible = sum(item.verdict == VISIBLE for item in timeline.items)
    return {"visible": visible, "silent": sum(item.silent for item in timeline.items), "moments": len(timeline.items)}
