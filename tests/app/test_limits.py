"""Limits of the page are checked before it starts."""

from __future__ import annotations

from typing import Any

import pytest

from earsight.app.limits import PageLimits
from earsight.errors import UsageError


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"megabytes": 0}, r"Expected an upload limit from 0\.001 to 10000 MB, but got 0"),
        ({"seconds": 0}, r"Expected a longest clip from 0\.1 to 3600 seconds, but got 0"),
        ({"pixels": 0}, "Expected pixels from 256 to 64000000, but got 0"),
        ({"queue": 0}, "Expected a queue from 1 to 10000, but got 0"),
        ({"run_seconds": 0}, r"Expected a run time from 0\.1 to 86400 seconds, but got 0"),
        ({"memory": 0}, r"Expected memory from 0\.1 to 1000 GB, but got 0"),
        ({"keep": 0}, "Expected a keep time from 1 second to a week, but got 0"),
        ({"every": 0}, r"Expected every from 0\.05 to 60 seconds, but got 0"),
        ({"seconds": 3600}, "Expected at most 3000 answers for the longest clip, but got 18000. Use a larger --every"),
    ],
)
def test_senseless_limits_are_refused(change: dict[str, Any], says: str) -> None:
    with pytest.raises(UsageError, match=says):
        PageLimits(**change)


def test_decoders_get_the_same_limits() -> None:
    media = PageLimits(megabytes=2, seconds=7, pixels=1000, run_seconds=30).media
    assert (media.max_bytes, media.max_seconds, media.max_pixels, media.max_decode_seconds) == (2_000_000, 7, 1000, 30)
