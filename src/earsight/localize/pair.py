"""One picture with one sound, localized: an overlay picture and the answer as JSON."""

from __future__ import annotations

from pathlib import Path

from earsight.heatmap import overlay, stretch
from earsight.localize.draw import captioned, strength, tint
from earsight.localize.files import check_formats, make_way, outputs, write_json
from earsight.localize.given import loud_file_time, picture_of, silent, sound_of
from earsight.localize.localizer import Localizer, spread
from earsight.localize.timeline import Moment, Timeline
from earsight.media.write import write_png


def localize_pair(
    localizer: Localizer,
    image: Path,
    audio: Path,
    out: Path,
    *,
    time: float | None = None,
    formats: tuple[str, ...] = ("png", "json"),
    force: bool = False,
    name: str | None = None,
) -> Timeline:
    """Localize a sound file in a picture file and write the answer into the folder `out`.

    Args:
        time: where in the sound the picture belongs, in seconds; by default in a loud stretch near the middle.
        formats: which of "png" (overlay) and "json" to write; "mp4" is for videos and makes nothing here.
        force: replace files that are there.
        name: what the outputs are called; by default like the picture.
    """
    chosen = [one for one in check_formats(formats) if one != "mp4"]
    files = outputs(Path(out), name or Path(image).stem, chosen)
    picture = picture_of(Path(image))
    when = loud_file_time(audio, localizer.inputs) if time is None else time
    heard = sound_of(Path(audio), None, localizer.inputs, when)
    make_way(files.values(), force)
    answer = localizer.localize(picture, heard, localizer.inputs.rate)
    moment = Moment.of(when, answer, silent(heard))
    timeline = Timeline(
        source=str(image),
        sound=str(audio),
        weights=localizer.name,
        protocol=localizer.protocol.name,
        threshold=localizer.threshold,
        every=None,
        window=localizer.inputs.seconds,
        width=picture.shape[2],
        height=picture.shape[1],
        items=(moment,),
        files=tuple(files.values()),
    )
    if "json" in files:
        write_json(files["json"], timeline.to_json())
    if "png" in files:
        heat = stretch(answer.map, *spread(answer.map))
        shown = overlay(picture, heat, boxes=moment.boxes, alpha=strength(moment), box_color=tint(moment))
        write_png(files["png"], captioned(shown, moment))
    return timeline
