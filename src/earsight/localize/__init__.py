"""Localization for people with a video, or a picture and a sound: where the sound comes from, or that it is unseen."""

from __future__ import annotations

from earsight.localize.files import FORMATS, USUAL
from earsight.localize.localizer import Localizer
from earsight.localize.pair import localize_pair
from earsight.localize.paths import Failed, Skipped, Summary, localize_paths
from earsight.localize.settings import Drawing
from earsight.localize.stopping import patient
from earsight.localize.timeline import Moment, Timeline
from earsight.localize.video import localize_video

__all__ = [
    "FORMATS",
    "USUAL",
    "Drawing",
    "Failed",
    "Localizer",
    "Moment",
    "Skipped",
    "Summary",
    "Timeline",
    "localize_pair",
    "localize_paths",
    "localize_video",
    "patient",
]
