"""`localize_video`, `localize_pair` and `localize_paths` with their settings spelled out."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from earsight.localize import (
    Localizer,
    Settings,
    Summary,
    Timeline,
    localize_pair,
    localize_paths,
    localize_video,
)


def run_video(localizer: Localizer, path: Path, out: Path, **more: Any) -> Timeline:
    calls = {name: more.pop(name) for name in ("sound", "progress", "stop") if name in more}
    return localize_video(localizer, path, out, Settings(**more), **calls)


def run_pair(localizer: Localizer, image: Path, audio: Path, out: Path, **more: Any) -> Timeline:
    return localize_pair(localizer, image, audio, out, Settings(**more))


def run_paths(localizer: Localizer, inputs: Path | Iterable[Path], out: Path, **more: Any) -> Summary:
    calls = {name: more.pop(name) for name in ("sound", "progress", "stop") if name in more}
    return localize_paths(localizer, inputs, out, Settings(**more), **calls)
