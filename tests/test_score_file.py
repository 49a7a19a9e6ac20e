"""Scoring files of maps: the same numbers from every form, in any order, and ids that do not fit are named."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from earsight import mapfile
from earsight.data.clips import ClipSet, Some, open_set
from earsight.data.sets import toybox
from earsight.data.truth import truth_map
from earsight.errors import DataError, UsageError
from earsight.evaluation import Evaluation, center_prior
from earsight.mapfile import open_maps
from earsight.protocols import get
from earsight.score_file import ScoreSettings, match, score_file

Array = npt.NDArray[np.float32]
NAMED, PLAIN = ScoreSettings(name="m"), ScoreSettings(sizes=False)
PART, MORE = ScoreSettings(allow_missing=True), ScoreSettings(ignore_extra=True)
ANY = ScoreSettings(allow_missing=True, ignore_extra=True)
PROTOCOLS = [get("exact"), get("official"), get("paper"), get("adaptive")]


@pytest.fixture
def toys(monkeypatch: pytest.MonkeyPatch) -> ClipSet:
    monkeypatch.setattr(toybox, "COUNTS", dict.fromkeys(toybox.COUNTS, 12))
    return open_set("toybox:extended")


@pytest.fixture
def maps(toys: ClipSet) -> Array:
    """Half of the truth and half noise, so that every metric has something to say."""
    noise = np.random.default_rng(0).uniform(size=(len(toys), 16, 16))
    truth = np.stack([truth_map(row.boxes, 16) for row in toys.rows])
    return (truth + noise).astype(np.float32)


def ids_of(clip_set: ClipSet) -> npt.NDArray[np.str_]:
    return np.array([row.id for row in clip_set.rows])


def numbers(found: list[Evaluation]) -> str:
    return json.dumps([e.to_json() for e in found])


def table(path: Path, ids: Any, maps: Array, **more: Any) -> Path:
    np.savez(path, id=np.array(ids, dtype=str), maps=maps, **more)
    return path


def members(path: Path, ids: Any, maps: Array) -> Path:
    with path.open("wb") as file:
        np.savez_compressed(file, **dict(zip(ids, maps, strict=True)))
    return path


def folder(path: Path, ids: Any, maps: Array) -> Path:
    path.mkdir()
    for id, one in zip(ids, maps, strict=True):
        np.save(path / f"{id}.npy", one)
    return path


@pytest.mark.parametrize("form", [members, folder])
def test_every_form_gives_the_same_bytes(form: Callable[..., Path], toys: ClipSet, maps: Array, tmp_path: Path) -> None:
    first = score_file(open_maps(table(tmp_path / "a.npz", ids_of(toys), maps)), toys, PROTOCOLS, NAMED)
    other = score_file(open_maps(form(tmp_path / "b", ids_of(toys), maps)), toys, PROTOCOLS, NAMED)
    assert numbers(first) == numbers(other)
    assert first[0].records.id.tolist() == ids_of(toys).tolist()
    assert 0 < first[0].metrics["loc_acc"] < 1


def test_order_and_batch_size_and_chunks_never_change_a_byte(
    toys: ClipSet, maps: Array, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = ids_of(toys)
    expected = numbers(score_file(open_maps(table(tmp_path / "a.npz", ids, maps)), toys, PROTOCOLS, NAMED))
    mixed = np.random.default_rng(1).permutation(len(ids))
    file = open_maps(table(tmp_path / "b.npz", ids[mixed], maps[mixed]))
    for batch_size in (1, 2, 7, 500):
        assert numbers(score_file(file, toys, PROTOCOLS, ScoreSettings(name="m", batch_size=batch_size))) == expected
    monkeypatch.setattr(mapfile, "BYTES", 3000)
    assert numbers(score_file(file, toys, PROTOCOLS, NAMED)) == expected


def test_each_resolution_is_scored_as_if_it_were_alone(toys: ClipSet, tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    sides = [(7, 7), (16, 9), (224, 224), (300, 5)]
    maps = {row.id: random.normal(size=sides[i % 4]).astype(np.float32) for i, row in enumerate(toys.rows)}
    np.savez(tmp_path / "all.npz", **maps)  # type: ignore[arg-type]
    (together,) = score_file(open_maps(tmp_path / "all.npz"), toys, PROTOCOLS[:1])
    for i in (0, 1, 2, 3):
        np.savez(tmp_path / "one.npz", **{row.id: maps[row.id] for row in toys.rows[i::4]})
        (alone,) = score_file(open_maps(tmp_path / "one.npz"), toys, PROTOCOLS[:1], PART)
        assert alone.records.ciou.tobytes() == together.records.ciou[i::4].tobytes()
        assert alone.records.confidence.tobytes() == together.records.confidence[i::4].tobytes()
        assert alone.records.by_size.tobytes() == together.records.by_size[i::4].tobytes()


def test_perfect_maps_reach_the_ceiling(toys: ClipSet, tmp_path: Path) -> None:
    # Outside the truth no two pixels are equal: a pixel threshold cannot part what is.
    rest = np.linspace(0, 0.5, 224**2, dtype=np.float32).reshape(224, 224)
    maps = np.stack([truth_map(row.boxes, 224) + rest for row in toys.rows])
    protocols = [*PROTOCOLS, get("exact:threshold=absolute,level=0.9,scaling=bounds")]
    found = score_file(open_maps(table(tmp_path / "a.npz", ids_of(toys), maps)), toys, protocols)
    for one in found:
        assert one.metrics["loc_acc"] == one.ceiling
        assert one.metrics["auroc"] == 1
    assert found[0].metrics["loc_acc"] < 1 == found[-1].metrics["loc_acc"] == found[-2].metrics["loc_acc"]


def test_an_evaluation_says_what_was_scored(toys: ClipSet, maps: Array, tmp_path: Path) -> None:
    seen: list[tuple[int, int]] = []
    file = open_maps(table(tmp_path / "my-model.npz", ids_of(toys), maps))
    (one,) = score_file(
        file,
        toys,
        PROTOCOLS[:1],
        ScoreSettings(audio="silent", batch_size=10, warnings=("w",)),
        progress=lambda *n: seen.append(n),
    )
    assert (one.model, one.audio, one.set_name, one.n, one.rows) == ("my-model", "silent", "toybox:extended", 24, 24)
    assert (one.failures, one.warnings) == ((), ("w",))
    assert one.records.by_size.shape == (24, 9)
    assert seen == [(10, 24), (20, 24), (24, 24)]
    (plain,) = score_file(open_maps(folder(tmp_path / "run 3", ids_of(toys), maps)), toys, PROTOCOLS[:1], PLAIN)
    assert plain.model == "run 3"
    assert plain.records.by_size.shape == (24, 0)


def test_missing_maps_are_named_and_counted_only_when_allowed(toys: ClipSet, maps: Array, tmp_path: Path) -> None:
    file = open_maps(table(tmp_path / "a.npz", ids_of(toys)[7:], maps[7:]))
    named = "extended-00000, extended-00001, extended-00002, extended-00003, extended-00004 and 2 more"
    with pytest.raises(
        DataError,
        match=rf"for each of the 24 clips in .*, but got none for 7 clips \({named}\). Add .*--allow-missing",
    ):
        score_file(file, toys, PROTOCOLS)
    (one, *_) = score_file(file, toys, PROTOCOLS, PART)
    assert (one.n, one.rows) == (17, 24)
    assert one.failures == tuple((row.id, "no map") for row in toys.rows[:7])
    assert one.list_hash == Some(toys, range(7, 24)).list_hash()
    assert one.full_list_hash == toys.list_hash()


def test_other_clips_of_a_list_have_another_hash(toys: ClipSet, maps: Array, tmp_path: Path) -> None:
    halves = [
        score_file(
            open_maps(table(tmp_path / "a.npz", ids_of(toys)[at], maps[at])),
            toys,
            PROTOCOLS,
            PART,
        )
        for at in (slice(0, 12), slice(12, 24), slice(0, 24))
    ]
    assert len({found[0].list_hash for found in halves}) == 3
    assert len({one.list_hash for found in halves for one in found}) == 3
    known = halves[0][0].failures
    assert center_prior(toys, PROTOCOLS[0], known).list_hash == halves[0][0].list_hash


def test_extra_maps_are_named_and_left_out_only_when_allowed(toys: ClipSet, maps: Array, tmp_path: Path) -> None:
    exact = score_file(open_maps(table(tmp_path / "m.npz", ids_of(toys), maps)), toys, PROTOCOLS)
    ids, more = ["x", *ids_of(toys)], np.concatenate([np.full_like(maps[:1], np.nan), maps])
    file = open_maps(table(tmp_path / "m.npz", ids, more))
    with pytest.raises(
        DataError,
        match=r"Expected maps of the set's clips only in .*, but got some for 1 clip \(x\). Check .*--ignore-extra",
    ):
        score_file(file, toys, PROTOCOLS)
    found = score_file(file, toys, PROTOCOLS, MORE)
    assert found[0].warnings == ("Maps of clips that are not in the list were left out: 1 clip (x)",)
    assert numbers([replace(one, warnings=()) for one in found]) == numbers(exact)


def test_an_id_that_is_there_twice_is_always_refused(toys: ClipSet, maps: Array, tmp_path: Path) -> None:
    ids = ids_of(toys)
    file = open_maps(table(tmp_path / "a.npz", [*ids, *ids[:2]], np.concatenate([maps, maps[:2]])))
    with pytest.raises(
        DataError,
        match=r"Expected one map for each clip in .*, but got several for 2 clips \(extended-00000, .*Leave out all",
    ):
        score_file(file, toys, PROTOCOLS, ANY)


def test_maps_of_another_set_are_refused_whatever_is_allowed(toys: ClipSet, tmp_path: Path) -> None:
    file = open_maps(table(tmp_path / "a.npz", ["p", "q"], np.zeros((2, 3, 3), np.float32)))
    with pytest.raises(
        DataError,
        match=r"Expected maps of the 24 clips of toybox:extended .*but got only those of others in .* \(p, q\). Check",
    ):
        score_file(file, toys, PROTOCOLS, ANY)


def test_maps_of_another_split_name_it(toys: ClipSet, tmp_path: Path) -> None:
    ids = ids_of(open_set("toybox:test"))
    file = open_maps(table(tmp_path / "a.npz", ids, np.zeros((len(ids), 3, 3), np.float32)))
    told = r"use --on toybox:test \(toybox alone means toybox:extended\)\.$"
    with pytest.raises(DataError, match=rf"others in .* The ids are exactly those of toybox:test: {told}"):
        match(file, toys, ANY)
    part = open_maps(table(tmp_path / "b.npz", ["x", *ids[:5]], np.zeros((6, 3, 3), np.float32)))
    with pytest.raises(DataError, match=rf"others in .* 5 of the 6 ids are of toybox:test: {told}"):
        match(part, toys)


def test_the_ids_of_vgg_ss_test_are_told_from_its_extended_list(
    shared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("earsight.download.fetch", lambda *_a, **_k: pytest.fail("fetched a list"))
    data = shared / "metadata"
    whole, positives = open_set("vggss", data), open_set("vggss:test", data)
    told = r"The ids are exactly those of vggss:test: use --on vggss:test \(vggss alone means vggss:extended\)\."
    file = open_maps(table(tmp_path / "a.npz", ids_of(positives), np.zeros((5158, 2, 2), np.float32)))
    with pytest.raises(DataError, match=rf"but got none for 5158 clips \(.*\)\. {told}$"):
        match(file, whole, ScoreSettings(data=data))
    (one,) = score_file(file, whole, PROTOCOLS[:1], ScoreSettings(allow_missing=True, sizes=False, data=data))
    assert one.warnings == (f"Scored on vggss:extended, of which 5158 clips have no map. {told}".replace("\\", ""),)
    more = open_maps(table(tmp_path / "b.npz", ids_of(whole), np.zeros((10316, 2, 2), np.float32)))
    with pytest.raises(DataError, match=r"got some for 5158 .* exactly those of vggss:extended: use --on vggss:ext"):
        match(more, positives, ScoreSettings(data=data))


def test_ids_are_checked_before_any_map_is_read(toys: ClipSet, maps: Array, tmp_path: Path) -> None:
    maps[:] = np.nan
    file = open_maps(table(tmp_path / "a.npz", ids_of(toys)[1:], maps[1:]))
    with pytest.raises(DataError, match="but got none for 1 clip"):
        score_file(file, toys, PROTOCOLS)
    assert match(file, toys, PART).missing == ("extended-00000",)


def test_a_map_that_is_not_finite_is_named(toys: ClipSet, maps: Array, tmp_path: Path) -> None:
    maps[5, 2, 2] = np.inf
    file = open_maps(table(tmp_path / "a.npz", ids_of(toys), maps))
    with pytest.raises(DataError, match="but got NaN or infinity in the map of 'extended-00005'"):
        score_file(file, toys, PROTOCOLS)


def test_the_files_own_confidence_is_for_protocols_that_ask_for_it(toys: ClipSet, maps: Array, tmp_path: Path) -> None:
    own = np.arange(len(maps), dtype=np.float64)
    native = get("exact:confidence=native")
    file = open_maps(table(tmp_path / "a.npz", ids_of(toys), maps, confidence=own))
    given, plain = score_file(file, toys, [native, get("exact")])
    assert given.records.confidence.tolist() == own.tolist()
    assert plain.records.confidence.tolist() == maps.max(axis=(1, 2)).tolist()
    without = open_maps(table(tmp_path / "b.npz", ids_of(toys), maps))
    with pytest.raises(
        UsageError,
        match=r"Expected a confidence for each map in .*b.npz, since exact:confidence=native .*but got none. Add",
    ):
        score_file(without, toys, [native])


def test_confidences_that_no_protocol_uses_are_warned_of(toys: ClipSet, maps: Array, tmp_path: Path) -> None:
    file = open_maps(table(tmp_path / "a.npz", ids_of(toys), maps, confidence=np.linspace(0, 1, len(toys))))
    for names, own in ((["exact", "paper"], "exact:"), (["exact:gamma=0.4"], "exact:gamma=0.4,")):
        (told,) = score_file(file, toys, [get(name) for name in names])[0].warnings
        assert told.startswith(f"The confidences in {file.path} are not used by {', '.join(names)}. ")
        assert told.endswith(f"--protocol {own}confidence=native")
    both = [get("exact"), get("exact:confidence=native")]
    assert score_file(file, toys, both)[0].warnings == ()


def test_values_outside_the_bounds_are_warned_of(toys: ClipSet, maps: Array, tmp_path: Path) -> None:
    path = table(tmp_path / "a.npz", ids_of(toys), np.clip(maps, 0, 1) + np.float32(5e-4), bounds=np.array([0, 1]))
    assert score_file(open_maps(path), toys, PROTOCOLS[:1])[0].warnings == ()
    maps = np.clip(maps, 0, 1)
    maps[3, 0, 0] = 1.1
    path = table(tmp_path / "a.npz", ids_of(toys), maps, bounds=np.array([0, 1]))
    (one,) = score_file(open_maps(path), toys, PROTOCOLS[:1])
    assert one.warnings == ("Maps have values outside their bounds 0 and 1: 1 clip (extended-00003)",)


def test_bounds_scale_the_confidence_and_nothing_else(toys: ClipSet, maps: Array, tmp_path: Path) -> None:
    path = table(tmp_path / "a.npz", ids_of(toys), maps)
    (raw,) = score_file(open_maps(path), toys, PROTOCOLS[:1])
    (shares,) = score_file(open_maps(path, (-2, 2)), toys, PROTOCOLS[:1])
    assert shares.records.confidence == pytest.approx((raw.records.confidence + 2) / 4)
    np.testing.assert_array_equal(shares.records.ciou, raw.records.ciou)


def test_a_list_without_ground_truth_is_refused(toys: ClipSet, maps: Array, tmp_path: Path) -> None:
    file = open_maps(table(tmp_path / "maps.npz", ids_of(toys), maps))
    toys.rows = tuple(replace(row, boxes=()) for row in toys.rows)
    with pytest.raises(DataError, match="Expected boxes for the positives of toybox:extended, but got none for all 12"):
        score_file(file, toys, PROTOCOLS)


def test_nothing_to_score_with_is_refused(toys: ClipSet, maps: Array, tmp_path: Path) -> None:
    file = open_maps(table(tmp_path / "a.npz", ids_of(toys), maps))
    with pytest.raises(UsageError, match="Expected at least one protocol, but got none"):
        score_file(file, toys, [])
    with pytest.raises(UsageError, match="Expected a batch_size of at least 1, but got 0"):
        score_file(file, toys, PROTOCOLS, ScoreSettings(batch_size=0))


@pytest.mark.slow
def test_a_disc_in_the_middle_of_the_published_list_gives_the_known_number(shared: Path, tmp_path: Path) -> None:
    clip_set = open_set("vggss:test", shared / "metadata")
    at = np.arange(224) - 112
    near = np.argsort(np.hypot(at[:, None], at[None]), axis=None, kind="stable")[: 224**2 // 2]
    disc = np.zeros(224**2, np.uint8)
    disc[near] = 1
    one = io.BytesIO()
    np.save(one, disc.reshape(224, 224))
    with zipfile.ZipFile(tmp_path / "disc.npz", "w", zipfile.ZIP_DEFLATED, compresslevel=1) as file:
        for row in clip_set.rows:
            file.writestr(f"{row.id}.npy", one.getvalue())
    (found,) = score_file(open_maps(tmp_path / "disc.npz"), clip_set, [get("exact")], PLAIN)
    assert found.n == 5158
    assert f"{100 * found.metrics['loc_acc']:.2f}" == "34.16"
    assert f"{100 * found.ceiling:.2f}" == "50.54"
    assert found.metrics["loc_acc"] == pytest.approx(center_prior(clip_set, get("exact")).metrics["loc_acc"], abs=1e-4)
