"""What a card works out about a group: intervals, audio drops, references, and whose warning it is."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from earsight.evaluation import Evaluation, measure
from earsight.metrics import interactive
from earsight.metrics.base import TITLES, hits
from earsight.report.bootstrap import drawn, paired
from earsight.report.card import Card
from earsight.report.groups import MOST_CLASSES, by_class, by_kind, by_picture, by_size, choices, details, groups, lines

Make = Callable[..., Evaluation]


def card(*evaluations: Evaluation) -> Card:
    (group,) = groups(evaluations)
    return Card.of(group, draws=30)


def test_numbers_stand_beside_what_gives_them_a_meaning(make: Make) -> None:
    model, centre = make(), make("none", ciou=0.4, model="centre prior")
    found = {one.title: one for one in card(centre, model).headlines(model)}
    assert list(found) == ["AP", "max-F1", "LocAcc (cIoU@0.5)", "AUC", "AUROC"]
    beside = {title: {r.label: (r.value, r.bound) for r in one.references} for title, one in found.items()}
    assert beside["AP"] == {"random confidence": (hits(model.records, model.protocol).mean(), "")}
    assert beside["max-F1"] == {"floor": (model.floor, "low")}
    assert beside["LocAcc (cIoU@0.5)"] == {
        "centre prior": (centre.metrics["loc_acc"], ""),
        "ceiling": (model.ceiling, "high"),
    }
    assert beside["AUROC"] == {"chance": (0.5, "")}
    for one in found.values():
        assert one.interval[0] <= one.value <= one.interval[1]
        assert one.sentence.endswith(".")


def test_what_is_undefined_says_why(make: Make) -> None:
    model = make(kinds=("positive",))
    found = {one.title: one for one in card(model).headlines(model)}
    assert list(found) == ["LocAcc (cIoU@0.5)", "AUC", "AP", "max-F1", "AUROC"]
    assert math.isnan(found["AUROC"].value)
    assert found["AUROC"].sentence == "Undefined: the list has no clips without a visible source."
    model = make(kinds=("easy",))
    found = {one.title: one for one in card(model).headlines(model)}
    assert all(one.sentence == "Undefined: the list has no clips with a visible source." for one in found.values())


def test_an_audio_drop_is_measured_on_the_clips_of_both(make: Make) -> None:
    model, silent = make(), make("silent", ciou=0.5, sure=0.0)
    fewer = replace(silent, records=silent.records.where(np.arange(silent.n) < 150))
    drop = card(model, fewer).drops["slavc"]["silent"]
    both = model.records.where(np.arange(model.n) < 150)
    expected = (
        hits(both, model.protocol)[both.positives].mean() - hits(fewer.records, model.protocol)[both.positives].mean()
    )
    assert drop["loc_acc"].value == pytest.approx(expected)
    assert drop["loc_acc"].low > 0
    assert set(drop) == {"loc_acc", "ap"}


def test_what_is_drawn_for_all_at_once_is_what_each_would_give(make: Make) -> None:
    real, silent, centre = make(), make("silent", ciou=0.5, sure=0.1), make("none", ciou=0.4, model="centre prior")
    shuffled = make("shuffled", ciou=0.55)
    fewer = replace(shuffled, records=shuffled.records.where(np.arange(shuffled.n) % 9 > 0))
    found = card(real, silent, fewer, centre)
    for e in (real, silent, fewer, centre):
        assert found.intervals[e.model, e.audio] == drawn([e.records], e.protocol, tuple(TITLES), 30)[0].intervals()
    for control in (silent, fewer):
        for name, drop in found.drops["slavc"][control.audio].items():
            alone = paired(real.records, control.records, real.protocol, (name,), draws=30)[name]
            assert (drop.value, drop.low, drop.high) == (alone.value, alone.low, alone.high)


def test_a_warning_names_its_model_unless_it_is_about_all(make: Make) -> None:
    models = [make(model="good", rows=400), make(model="bad", ciou=0.95, sure=-2.0, rows=400)]
    told = card(*models).all_warnings
    assert told[0].startswith("200 of 400 clips are missing")
    assert told[1].startswith("bad: max-F1 is only")
    assert len(told) == 2
    assert card(models[1]).all_warnings[1].startswith("max-F1 is only")


def test_tables_by_size_and_kind_leave_out_what_was_not_measured(make: Make) -> None:
    (group,) = groups([make(kinds=("positive", "easy", "hard"))])
    assert [row["size"] for row in by_size(group)] == ["small", "medium", "large", "huge"]
    assert sum(int(row["clips"]) for row in by_size(group)) == 67
    assert [(row["kind"], row["clips"]) for row in by_kind(group)] == [("easy", "67"), ("hard", "66")]
    (group,) = groups([make(kinds=("positive", "unknown"))])
    assert by_kind(group) == []
    for one in (make(kinds=("easy",)), make("none", model="centre prior")):
        assert "By size of the source" not in details(*groups([one]))
    assert details(*groups([make("none", model="centre prior")])) == {}


def test_a_table_by_class_has_the_ceiling_of_each_and_is_left_out_where_classes_are_many(make: Make) -> None:
    def labelled(count: int) -> Evaluation:
        e = make()
        label = np.array([f"class{i % count:03d}" for i in range(e.n)])
        records = replace(e.records, label=label)
        return replace(e, records=records, metrics=measure(records, e.protocol))

    (group,) = groups([labelled(4)])
    rows = by_class(group)
    assert sum(int(row["clips"]) for row in rows) == int(group.models[0].records.positives.sum())
    assert all({"class", "LocAcc", "ceiling", "pointing"} <= set(row) for row in rows)
    assert "By class of the sound" in details(group)
    for count in (1, MOST_CLASSES * 3):
        (group,) = groups([labelled(count)])
        assert by_class(group) == []


def test_pictures_with_several_sounds_have_a_table_and_a_column(make: Make) -> None:
    def paired(audio: str = "real", model: str = "slavc") -> Evaluation:
        e = make(audio, model=model)
        ids = np.array([f"photo{i // 4:03d}+sound{i}" for i in range(e.n)])
        records = replace(e.records, id=ids)
        return replace(e, records=records, metrics=measure(records, e.protocol), set_name="pairs:test")

    (group,) = groups([paired(), paired("shuffled")])
    rows = by_picture(group)
    assert [row["model"] for row in rows] == ["slavc", "slavc, shuffled audio", "ceiling (top_half)"]
    assert rows[0]["pictures"] == str(len(interactive.units(group.models[0].records))) != "0"
    found = lines([paired(), make()])
    assert [list(line) == list(found[0]) for line in found] == [True] * len(found)
    assert {line["set"]: line["IIoU"] == "-" for line in found} == {"pairs:test": False, "set:test": True}
    assert all("IIoU" not in line for line in lines([make()]))


def test_every_choice_of_a_protocol_is_told_with_what_it_decides(make: Make) -> None:
    rows = choices(make().protocol)
    assert {row["choice"] for row in rows} == set(make().to_json()["protocol"]) - {"name", "hash"}
    assert all(row["what it decides"] for row in rows)


def test_evaluations_of_parts_of_a_list_stand_together_with_their_own_hashes(make: Make) -> None:
    (group,) = groups([make(), make("silent", list_hash="def", full_list_hash="abc", count=190)])
    assert (group.full_list_hash, group.lists) == ("abc", "abc (200 clips), def (190 clips)")
    assert groups([make()])[0].lists == "abc"


def test_groups_with_the_same_name_are_told_apart_by_their_list(make: Make) -> None:
    found = groups([make(), make(list_hash="def")])
    assert [group.name for group in found] == ["set-test-abc", "set-test-def"]
