"""Facts about protocols: names, hashes, changes."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from earsight.config import from_json, to_json
from earsight.errors import UsageError
from earsight.protocols import PROTOCOLS, Protocol, at_level, get


def test_hash_follows_the_arithmetic_and_not_the_name() -> None:
    assert len({p.hash for p in PROTOCOLS.values()}) == len(PROTOCOLS)
    assert replace(get("exact"), name="mine").hash == get("exact").hash
    assert replace(get("exact"), gamma=0.75).hash != get("exact").hash
    assert str(get("exact")) == f"exact ({get('exact').hash})"


@pytest.mark.parametrize("name", sorted(PROTOCOLS))
def test_protocols_survive_json(name: str) -> None:
    protocol = at_level(get(name), 0.5)
    assert from_json(Protocol, to_json(protocol)) == protocol


def test_an_unknown_protocol_suggests_the_nearest() -> None:
    with pytest.raises(UsageError, match="Unknown protocol 'offical', did you mean 'official'"):
        get("offical")


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"size": 0}, "size of at least 1"),
        ({"size": 4097}, "a size of at most 4096 pixels, but got 4097"),
        ({"gamma": 1.5}, "gamma between 0 and 1"),
        ({"level": 1.0}, "level of top_half"),
        ({"upsample": "nearest"}, "upsample bicubic or bilinear, but got 'nearest'"),
        ({"threshold": "median"}, "threshold top_half or adaptive or absolute or universal"),
        ({"confidence": "mean"}, "confidence max or peak or top_quarter_mean or native"),
        ({"ciou": "box"}, "ciou union or no_miss"),
        ({"f1": "best"}, "f1 all or official"),
        ({"map": "sparse"}, "map dense or native, but got 'sparse'"),
    ],
)
def test_wrong_settings_are_refused(setting: dict[str, object], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        replace(get("exact"), **setting)  # type: ignore[arg-type]


def test_a_spec_may_change_settings_and_the_hash_follows() -> None:
    changed = get("exact:threshold=absolute,level=0.4,strict=true,size=112")
    assert (changed.threshold, changed.level, changed.strict, changed.size) == ("absolute", 0.4, True, 112)
    assert changed.name == "exact:threshold=absolute,level=0.4,strict=true,size=112"
    assert changed.hash != get("exact").hash


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("exact:treshold=absolute", "Unknown setting of a protocol 'treshold', did you mean 'threshold'"),
        ("exact:level=high", "Expected a number for level, but got 'high'. For example: exact:level=0.5."),
        ("exact:strict=maybe", "Expected true or false for strict, but got 'maybe'. For example: exact:strict=false."),
        ("exact:size=big", "Expected a number for size, but got 'big'. For example: exact:size=224."),
        ("exact:", "Expected settings behind 'exact:', but got none. Write exact, or for example exact:gamma=0.5."),
        ("exact:,", "Unknown setting of a protocol ''"),
        ("exact:level=0.4,", "Unknown setting of a protocol ''"),
        ("exact:threshold=half", "threshold top_half or adaptive or absolute or universal, but got 'half'"),
        ("exact:name=mine", "Unknown setting of a protocol 'name'"),
        ("exact:threshold=absolute,level=nan", "level of absolute that is a number, but got nan"),
    ],
)
def test_a_wrong_spec_is_told(spec: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        get(spec)


def test_the_map_that_is_thresholded_is_a_choice_with_a_hash_of_its_own() -> None:
    assert get("exact").map == "dense"
    assert get("exact:map=native").map == "native"
    assert get("exact:map=native").hash != get("exact").hash
    assert get("exact:map=dense").hash == get("exact").hash


def test_the_hashes_that_reports_were_made_with_stay() -> None:
    assert {name: get(name).hash for name in ("exact", "official", "paper")} == {
        "exact": "46aa6a15",
        "official": "6e9357a3",
        "paper": "e727353c",
    }


def test_universal_takes_its_level_from_outside() -> None:
    assert math.isnan(get("universal").level)
    assert at_level(get("universal"), 0.7).level == 0.7
    assert at_level(get("exact"), 0.7) == get("exact")
    assert at_level(get("universal:level=0.6"), 0.7).level == 0.6
    for level in (None, math.nan):
        with pytest.raises(UsageError, match="Expected a level for the protocol universal, but got none"):
            at_level(get("universal"), level)
