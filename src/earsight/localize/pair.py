"""One picture with one sound, localized: an overlay picture and the answer as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from earsight.config import need
from earsight.files import local_path
from earsight.localize.draw import captioned, drawn
from earsight.localize.files import check_formats, make_way, outputs, write_json
from earsight.localize.given import loud_file_time, picture_of, sound_of, track_notes
from earsight.localize.glances import answers
from earsight.localize.localizer import Localizer
from earsight.localize.mapsfile import MapsFile
from earsight.localize.notebook import strip
from earsight.localize.seen import Seen
from earsight.localize.settings import Drawing
from earsight.localize.steady import steadied
from earsight.localize.timeline import Timeline
from earsight.media.accept import AnyPath
from earsight.media.read import probe
from earsight.media.write import write_png


def localize_pair(
    localizer: Localizer,
    image: AnyPath,
    audio: AnyPath,
    out: AnyPath,
    *,
    time: float | None = None,
    formats: str | Sequence[str] = ("png", "json"),
    drawing: Drawing | None = None,
    force: bool = False,
    name: str | None = None,
) -> Timeline:
    """Localize a sound file in a picture file and write the answer into the folder `out`.

    Args:
        time: where in the sound the picture belongs, in seconds; by default in a loud stretch near the middle.
        formats: which of "png" (overlay), "json" and "npz" (map) to write, also as one text ("png,json"); "mp4" is for
            videos, and beside others it makes nothing here.
        drawing: how the overlay is drawn.
        force: replace files that are there.
        name: what the outputs are called; by default like the picture.
    """
    chosen = check_formats(formats)
    seen, heard = local_path(image), local_path(audio)
    return pair_one(localizer, seen, heard, Path(out), time, chosen, drawing, force, name, look=True)


def pair_one(
    localizer: Localizer,
    image: Path,
    audio: Path,
    out: Path,
    time: float | None,
    formats: tuple[str, ...],
    drawing: Drawing | None = None,
    force: bool = False,
    name: str | None = None,
    look: bool = False,
) -> Timeline:
    """`localize_pair` with formats that were checked; with `look`, the answer has a picture to show itself."""
    chosen = [one for one in formats if one != "mp4"]
    do = "Add one of them, for example png,json; a film needs a video."
    need(bool(chosen), "png, json or npz for a picture with a sound", "mp4 alone", do)
    files = outputs(out, name or image.stem, chosen)
    picture = picture_of(image)
    when = loud_file_time(audio, localizer.inputs) if time is None else time
    heard = sound_of(audio, None, localizer.inputs, when)
    make_way(files.values(), force)
    glance = answers(localizer, [(when, localizer.model.see(picture), heard)])
    (settled,) = steadied(glance, 0.0, localizer.threshold)
    seen = Seen.of(settled, localizer.protocol, picture.shape[1], picture.shape[2])
    shown = drawn(picture, seen, localizer.protocol, drawing or Drawing())
    timeline = Timeline(
        source=str(image),
        sound=str(audio),
        weights=localizer.name,
        protocol=localizer.protocol.name,
        threshold=localizer.threshold,
        every=None,
        window=localizer.inputs.seconds,
        smooth=0.0,
        width=picture.shape[2],
        height=picture.shape[1],
        items=(seen.moment,),
        files=tuple(files.values()),
        notes=(*localizer.notes, *track_notes(probe(audio))),
        strip=strip([(seen.moment, shown)]) if look else (),
    )
    if "json" in files:
        write_json(files["json"], timeline.to_json())
    if "npz" in files:
        with MapsFile(files["npz"]) as maps:
            maps.add(seen.score)
            maps.write(timeline)
    if "png" in files:
        write_png(files["png"], captioned(shown, seen.moment, localizer.notes))
    return timeline


def refuse_span(end: float | None, window: float | None) -> None:
    """Refuse settings that only a video can follow."""
    do = "Leave them out for a picture with a sound; --start says where in the sound it belongs."
    need(end is None and window is None, "--end and --window with videos only", "them with a picture", do)
