"""Which warnings stand on a report card, and which do not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from earsight.evaluation import Evaluation
from earsight.protocols import get
from earsight.report.bootstrap import Difference
from earsight.report.card import ALIKE, warnings_of

Make = Callable[..., Evaluation]


def lost(value: float, low: float, high: float) -> Difference:
    return Difference(value, low, high, 0.1, 200, 0)


def test_a_good_model_on_a_whole_list_has_none(make: Make) -> None:
    drops = {"shuffled": {"loc_acc": lost(0.2, 0.1, 0.3), "ap": lost(0.2, 0.1, 0.3)}}
    assert warnings_of(make(), (0.3, (0.25, 0.35)), drops) == ()


def test_warnings_of_the_evaluation_come_first_and_once(make: Make) -> None:
    e = make(warnings=("3 of 9 test clips are in the training list.",) * 2, rows=400)
    assert warnings_of(e, None, {})[0] == "3 of 9 test clips are in the training list."
    assert len(warnings_of(e, None, {})) == 2


def test_a_useless_confidence_is_told(make: Make) -> None:
    (told,) = warnings_of(make(ciou=0.95, sure=-2.0), None, {})
    assert told.startswith("max-F1 is only 0.00 points above its floor: accepting every clip does as well")


def test_equal_confidences_are_told_instead_of_the_floor(make: Make) -> None:
    e = make()
    e = replace(e, records=replace(e.records, confidence=np.ones(e.n)), metrics={**e.metrics, "max_f1": e.floor})
    assert warnings_of(e, None, {}) == (ALIKE,)


@pytest.mark.parametrize(("high", "told"), [(0.99, 1), (0.1, 0)])
def test_localization_no_better_than_the_middle_is_told(make: Make, high: float, told: int) -> None:
    found = warnings_of(make(), (0.05, (0.01, high)), {})
    assert len(found) == told
    assert all("is not above the centre prior (5.00, 95% interval 1.00 to 99.00)" in one for one in found)


def test_a_model_that_does_not_listen_is_told(make: Make) -> None:
    small, unsure, sure = lost(0.004, 0.001, 0.007), lost(0.05, -0.01, 0.11), lost(0.05, 0.02, 0.08)
    (told,) = warnings_of(make(), None, {"shuffled": {"loc_acc": small, "ap": unsure}})
    assert told == (
        "With another clip's sound it loses +0.40 points of LocAcc and +5.00 points of AP, which could be chance: "
        "nothing shows that it listens."
    )
    (told,) = warnings_of(make(), None, {"shuffled": {"loc_acc": small, "ap": small}})
    assert told.startswith("With another clip's sound it loses only +0.40 points of LocAcc")
    gain = lost(-0.05, -0.11, 0.01)
    (told,) = warnings_of(make(), None, {"silent": {"loc_acc": gain}})
    assert told == "With silence it loses nothing (-5.00 points of LocAcc): it does not seem to listen."
    assert warnings_of(make(), None, {"silent": {"loc_acc": sure, "ap": small}}) == ()
    undefined = lost(float("nan"), float("nan"), float("nan"))
    assert warnings_of(make(), None, {"silent": {"loc_acc": undefined, "ap": undefined}}) == ()


@pytest.mark.parametrize(("rows", "told"), [(202, 0), (203, 1), (0, 0)])
def test_more_than_one_percent_missing_is_told(make: Make, rows: int, told: int) -> None:
    found = warnings_of(make(rows=rows), None, {})
    assert len(found) == told
    assert all(one == "3 of 203 clips are missing (1.5%): the numbers are of the rest." for one in found)


def test_what_a_list_cannot_measure_is_told(make: Make) -> None:
    assert "The kind of 100 negatives is unknown" in warnings_of(make(kinds=("positive", "unknown")), None, {})[0]
    assert "Every clip has a visible source" in warnings_of(make(kinds=("positive",)), None, {})[0]
    assert "No clip has a visible source" in warnings_of(make(kinds=("easy",)), None, {})[0]
    assert "looks at the size of the ground truth" in warnings_of(make(protocol=get("adaptive")), None, {})[0]
