"""`earsight score`: maps of any program on a set, with the same table and report card as `earsight eval`."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from earsight import protocols
from earsight.cli.evaluate import need_own_metrics, present, protocols_of, refuse_report
from earsight.cli.screen import progress
from earsight.cli.settings import Force, Json, Switch, command_line, word
from earsight.config import need
from earsight.escape import visible

if TYPE_CHECKING:
    from earsight.evaluation import Evaluation

CENTER = "center-prior"
"""In place of maps: the centre prior alone, with the ceiling of each protocol."""


@dataclass(frozen=True, kw_only=True)
class Score:
    """Measure maps of any program on a set, without its pictures and sounds: the same report card as eval."""

    maps: Annotated[Path, tyro.conf.Positional, word("MAPS", default=None)]
    """An .npz file, or a folder of ID.npy files; any resolution, one map a clip. The word center-prior for
    what pointing at the middle of every picture scores."""
    on: Annotated[str, word("SET", default=None)]
    """Test set, NAME or NAME:SPLIT (earsight list sets)."""
    data: Annotated[Path | None, word("DIR")] = None
    """Folder with the set's lists, for sets that need them."""
    protocol: Annotated[tuple[str, ...], word("NAME", default=None)] = ("exact", "official", "paper")
    """Evaluation protocols (earsight list protocols)."""
    level: Annotated[float | None, word("SCORE")] = None
    """Pixel threshold of the protocol `universal`."""
    metric: Annotated[tuple[str, ...], word("MODULE")] = ()
    """Measure with metrics of your own too, importable modules (docs/add-a-metric.md)."""
    bounds: Annotated[tuple[float, float] | None, word("LOW HIGH")] = None
    """Lowest and highest value that a map can have in theory, for example -1 1 for cosines; else as the file says."""
    shuffled: Annotated[Path | None, word("MAPS")] = None
    """Maps of the same pictures with other clips' sounds: tells how much the model listens."""
    silent: Annotated[Path | None, word("MAPS")] = None
    """Maps of the same pictures with silence."""
    only: Annotated[Path | None, word("FILE")] = None
    """Measure only the clips whose pictures this file names, one a line: a clean list of earsight data audit."""
    trained_on: Annotated[str, word("SET")] = ""
    """Training list of the model, to look for test clips in it."""
    allow_missing: Switch = False
    """Go on when maps are missing: they are counted and named, and the numbers are of the rest."""
    ignore_extra: Switch = False
    """Go on when there are maps of clips that the set does not have: they are counted and named."""
    name: Annotated[str, word("NAME")] = ""
    """What to call the model in tables; by default the file's name."""
    out: Annotated[Path | None, word("DIR", "-o")] = None
    """Write the report card here: a web page, numbers, records, table, plots."""
    force: Force = False
    json: Json = False


def run(settings: Score) -> int:
    """Score the maps, and those of the controls where they are named; a report goes to `out`. Reads no media."""
    from earsight.data.clips import open_set
    from earsight.evaluation import center_prior
    from earsight.mapfile import open_maps
    from earsight.score_file import ScoreSettings, called, match, need_confidence, score_file

    refuse_report(settings)
    need_own_metrics(settings.metric)
    known = f"Known: {', '.join(protocols.PROTOCOLS)}."
    need(len(settings.protocol) > 0, "at least one protocol after --protocol", "none", known)
    how = protocols_of(settings.protocol, settings.level)
    if str(settings.maps) == CENTER:
        about_maps = ("bounds", "shuffled", "silent", "name", "trained_on", "allow_missing", "ignore_extra")
        for flag in (f"--{name.replace('_', '-')}" for name in about_maps if getattr(settings, name)):
            need(False, f"{CENTER} alone, which has no maps", f"{flag} with it", f"Leave {flag} out.")
    clip_set = open_set(settings.on, settings.data, only=settings.only)
    allowed = ScoreSettings(
        allow_missing=settings.allow_missing,
        # Where only some clips are wanted, the maps of the others are there.
        ignore_extra=settings.ignore_extra or settings.only is not None,
        data=settings.data,
        metrics=settings.metric,
    )
    named = {"real": settings.maps, "shuffled": settings.shuffled, "silent": settings.silent}
    paths = {} if str(settings.maps) == CENTER else {audio: path for audio, path in named.items() if path is not None}
    files = {audio: open_maps(path, settings.bounds) for audio, path in paths.items()}
    for file in files.values():  # what is wrong with any of them is said before the work on the first
        match(file, clip_set, allowed)
        need_confidence(file, how)
    leak = ""
    if settings.trained_on:
        from earsight.data.audit import leaks

        leak = leaks(settings.trained_on, settings.data, clip_set, must=True) or ""
    settings = replace(settings, name=visible(settings.name.strip()))
    name = settings.name or (called(files["real"]) if files else "")
    found: list[Evaluation] = []
    for audio, file in files.items():
        with progress(f"{name} on {clip_set.name}, {audio} audio") as report:
            one = replace(allowed, audio=audio, name=name, warnings=(leak,) if leak else ())
            found += score_file(file, clip_set, how, one, report)
    if settings.trained_on:
        found = [replace(one, training={"on": settings.trained_on}) for one in found]
    failures = found[0].failures if found else ()
    found += [center_prior(clip_set, one, failures, settings.metric) for one in how]
    present(found, settings, command_line(replace(settings, out=None, force=False, json=False)))
    return 0
