"""Localization for people with a video, or a picture and a sound: where the sound comes from, or that it is unseen."""

from __future__ import annotations

from earsight.localize.localizer import Localization, Localizer
from earsight.localize.paths import Failed, Summary, graceful_interrupt, localize_pair, localize_paths
from earsight.localize.settings import FORMATS, Settings
from earsight.localize.timeline import Moment, Timeline
from earsight.localize.video import localize_video

__all__ = [
    "FORMATS",
    "Failed",
    "Localization",
    "Localizer",
    "Moment",
    "Settings",
    "Summary",
    "Timeline",
    "graceful_interrupt",
    "localize_pair",
    "localize_paths",
    "localize_video",
]
