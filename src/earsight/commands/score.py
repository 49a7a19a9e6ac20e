"""`earsight score`: maps of any program on a set, with the same table and report card as `earsight eval`."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from earsight import protocols
from earsight.commands.evaluate import need_universal, refuse_report, tell
from earsight.commands.screen import progress
from earsight.config import need
from earsight.data.audit import leaks
from earsight.data.clips import open_set
from earsight.errors import UsageError
from earsight.escape import visible
from earsight.evaluation import Evaluation, center_prior
from earsight.mapfile import open_maps
from earsight.protocols import Protocol
from earsight.score import called, match, need_confidence, score_file

CENTER = "center-prior"
"""In place of maps: the centre prior alone, with the ceiling of each protocol."""


def run(
    maps: Path,
    on: str,
    *,
    data: Path | None = None,
    protocol: Sequence[str] = ("exact", "official", "paper"),
    level: float | None = None,
    bounds: tuple[float, float] | None = None,
    shuffled: Path | None = None,
    silent: Path | None = None,
    only: Path | None = None,
    trained_on: str = "",
    allow_missing: bool = False,
    ignore_extra: bool = False,
    name: str = "",
    out: Path | None = None,
    force: bool = False,
    json: bool = False,
) -> int:
    """Score `maps`, and those of the controls where they are given; a report goes to `out`. Reads no media."""
    refuse_report(out, force)
    how = protocols_of(protocol, level)
    about_maps: dict[str, object] = {"--bounds": bounds, "--shuffled": shuffled, "--silent": silent, "--name": name}
    about_maps |= {"--trained-on": trained_on, "--allow-missing": allow_missing, "--ignore-extra": ignore_extra}
    unused = [flag for flag, value in about_maps.items() if value and str(maps) == CENTER]
    if unused:
        raise UsageError(
            f"Expected {CENTER} alone, which has no maps, but got {unused[0]} with it. Leave {unused[0]} out."
        )
    clip_set = open_set(on, data, only=only)
    ignore_extra = ignore_extra or only is not None  # the maps of the others are there, and not wanted
    given = {"real": maps, "shuffled": shuffled, "silent": silent} if str(maps) != CENTER else {}
    files = {audio: open_maps(path, bounds) for audio, path in given.items() if path is not None}
    for file in files.values():  # what is wrong with any of them is said before the work on the first
        match(file, clip_set, allow_missing=allow_missing, ignore_extra=ignore_extra, data=data)
        need_confidence(file, how)
    leak = leaks(trained_on, data, clip_set, must=True) if trained_on else None
    given_name = visible(name.strip())
    name = given_name or (called(files["real"]) if files else "")
    found: list[Evaluation] = []
    for audio, file in files.items():
        with progress(f"{name} on {clip_set.name}, {audio} audio") as report_progress:
            found += score_file(
                file,
                clip_set,
                how,
                audio=audio,
                name=name,
                allow_missing=allow_missing,
                ignore_extra=ignore_extra,
                warnings=(leak,) if leak else (),
                progress=report_progress,
                data=data,
            )
    if trained_on:
        found = [replace(one, training={"on": trained_on}) for one in found]
    missing = found[0].failures if found else ()
    found += [center_prior(clip_set, one, missing) for one in how]
    command = _command(
        maps, on, data, protocol, level, bounds, shuffled, silent, only, trained_on, allow_missing, ignore_extra,
        given_name,
    )  # fmt: skip
    tell(found, out, json=json, force=force, extra={"command": command})
    return 0


def protocols_of(specs: Sequence[str], level: float | None) -> list[Protocol]:
    """The protocols asked for, each once, with the universal level filled in."""
    need(len(specs) > 0, "at least one protocol after --protocol", "none", f"Known: {', '.join(protocols.PROTOCOLS)}.")
    asked = [protocols.get(spec) for spec in specs]
    need_universal(asked, level)
    return list(dict.fromkeys(protocols.at_level(one, level) for one in asked))


def _command(
    maps: Path,
    on: str,
    data: Path | None,
    protocol: Sequence[str],
    level: float | None,
    bounds: tuple[float, float] | None,
    shuffled: Path | None,
    silent: Path | None,
    only: Path | None,
    trained_on: str,
    allow_missing: bool,
    ignore_extra: bool,
    name: str,
) -> str:
    """What to type for the same numbers."""
    words = ["earsight", "score", str(maps), "--on", on]
    words += ["--data", str(data)] if data is not None else []
    words += ["--protocol", *protocol]
    words += ["--level", str(level)] if level is not None else []
    words += ["--bounds", *map(str, bounds)] if bounds is not None else []
    words += ["--shuffled", str(shuffled)] if shuffled is not None else []
    words += ["--silent", str(silent)] if silent is not None else []
    words += ["--only", str(only)] if only is not None else []
    words += ["--trained-on", trained_on] if trained_on else []
    words += ["--name", name] if name else []
    words += ["--allow-missing"] * allow_missing + ["--ignore-extra"] * (ignore_extra and only is None)
    return shlex.join(words)
