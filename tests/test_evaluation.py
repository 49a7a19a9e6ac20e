"""Facts about evaluation, with a model that listens perfectly and a set of three kinds of halves."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from earsight import registry
from earsight.config import Inputs
from earsight.data.clips import ClipSet
from earsight.errors import DataError, MediaError
from earsight.evaluation import center_prior
from earsight.methods.base import Method
from earsight.metrics import loc_acc
from earsight.model_evaluation import QUEUED, EvalSettings, PendingMaps, evaluate, evaluate_all, joined
from earsight.predict import predict
from earsight.protocols import get
from earsight.types import Batch, Clip, Maps, Row, Step

INPUTS = Inputs(image_size=16, resize=16, rate=1000, seconds=0.1, window=16, hop=8)
SMALL = replace(get("exact"), size=16)
HALVES = ((0.0, 0.0, 0.5, 1.0), (0.5, 0.0, 1.0, 1.0), (0.0, 0.0, 1.0, 0.5))


class Halves(ClipSet):
    """Class c lights up half c of colour channel c and sounds as the constant c + 1; in a negative it stays dark."""

    def __init__(self, count: int = 30, broken: tuple[int, ...] = ()) -> None:
        rows = []
        for i in range(count):
            c = i % 3
            kind = "positive" if i < count // 2 else ("easy", "hard")[i % 2]
            rows.append(Row(f"clip{i:03d}", f"class{c}", kind, (HALVES[c],) if kind == "positive" else ()))
        super().__init__("halves:test", rows)
        self.broken = broken

    def read(self, index: int, rate: int, seconds: float, draw: int = 0) -> Clip:
        if index in self.broken:
            raise MediaError(f"{self.rows[index].id}.mp4", "ends too early.", "Copy it again.")
        sound, frame = index % 3, np.zeros((3, 16, 16), dtype=np.uint8)
        for c, (x0, y0, x1, y1) in enumerate(HALVES):
            if c != sound or self.rows[index].positive:
                frame[c, int(y0 * 16) : int(y1 * 16), int(x0 * 16) : int(x1 * 16)] = 200 + index
        waveform = np.full(round(rate * seconds), sound + 1, dtype=np.float32)
        return Clip(self.rows[index].id, frame, waveform, rate, seconds / 2)


class Listener(Method):
    """Shows the colour channel that the sound names, or their mean when there is no sound."""

    def __init__(self) -> None:
        super().__init__(INPUTS)
        self.frozen = nn.BatchNorm1d(1).eval()
        self.seen_modes: set[bool] = set()

    def loss(self, batch: Batch, counts: list[int]) -> Step:
        return Step(torch.zeros(()))

    def localize(self, frames: Tensor, waveforms: Tensor) -> Maps:
        self.seen_modes.add(self.training)
        named = waveforms.mean(1).round().long()
        channels = torch.cat([frames.float().mean(1, keepdim=True), frames.float()], 1)
        dense = channels[torch.arange(len(frames)), named]
        return Maps(dense, dense, (0.0, 255.0))


def test_a_perfect_listener_gets_perfect_numbers() -> None:
    result = evaluate(Listener(), Halves(), SMALL)
    assert result.n == 30
    assert result.metrics["loc_acc"] == result.metrics["ap"] == result.metrics["max_f1"] == 1
    assert result.metrics["auroc"] == 1
    assert result.floor == pytest.approx(2 / 3)
    assert result.ceiling == 1
    assert result.records.id.tolist() == [row.id for row in Halves().rows]
    assert result.records.area[:15].tolist() == [128] * 15


def test_shuffled_and_silent_audio_take_the_numbers_away() -> None:
    for audio in ("shuffled", "silent"):
        result = evaluate(Listener(), Halves(), SMALL, EvalSettings(audio=audio))  # type: ignore[arg-type]
        assert result.audio == audio
        assert result.metrics["loc_acc"] < 0.5


@pytest.mark.parametrize("audio", ["real", "shuffled", "silent"])
def test_batch_size_never_changes_a_record(audio: str) -> None:
    results = [
        evaluate(Listener(), Halves(), get("exact"), EvalSettings(batch_size=b, audio=audio)) for b in (1, 7, 64)
    ]  # type: ignore[arg-type]
    for other in results[1:]:
        assert other.to_json() == results[0].to_json()
        np.testing.assert_array_equal(other.records.ciou, results[0].records.ciou)
        np.testing.assert_array_equal(other.records.confidence, results[0].records.confidence)


def test_scoring_beside_the_model_changes_no_record_and_keeps_the_maps(monkeypatch: pytest.MonkeyPatch) -> None:
    alone = evaluate(Listener(), Halves(), SMALL, EvalSettings(batch_size=4, keep_maps=True))
    monkeypatch.setitem(QUEUED, "cpu", 2)  # as with a GPU
    beside = evaluate(Listener(), Halves(), SMALL, EvalSettings(batch_size=4, keep_maps=True))
    assert beside.to_json() == alone.to_json()
    assert beside.records.id.tolist() == alone.records.id.tolist()
    assert beside.maps is not None
    assert alone.maps is not None
    assert np.array_equal(beside.maps.dense, alone.maps.dense)


@pytest.mark.parametrize("beside", [0, 2])
@pytest.mark.parametrize("at", [0, 7])
def test_a_model_that_has_diverged_is_told(beside: int, at: int, monkeypatch: pytest.MonkeyPatch) -> None:
    class Diverged(Listener):
        calls = 0

        def localize(self, frames: Tensor, waveforms: Tensor) -> Maps:
            self.calls += 1
            maps = super().localize(frames, waveforms)
            return maps.each(lambda x: x * torch.nan) if self.calls > at else maps

    monkeypatch.setitem(QUEUED, "cpu", beside)
    with pytest.raises(
        DataError, match=r"Expected finite maps, but got NaN or infinity in .* training may have diverged"
    ):
        evaluate(Diverged(), Halves(), SMALL, EvalSettings(batch_size=4))  # eight batches


@pytest.mark.slow
def test_worker_processes_never_change_a_record() -> None:
    alone = evaluate(Listener(), Halves(), SMALL, EvalSettings(batch_size=4))
    assert evaluate(Listener(), Halves(), SMALL, EvalSettings(batch_size=4, workers=2)).to_json() == alone.to_json()


def test_the_model_is_evaluated_in_eval_mode_and_gets_its_modes_back() -> None:
    model = Listener().train()
    model.frozen.eval()
    evaluate(model, Halves(), SMALL)
    assert model.seen_modes == {False}
    assert model.training
    assert not model.frozen.training


def test_progress_counts_clips() -> None:
    calls: list[tuple[int, int]] = []
    evaluate_all(Listener(), Halves(), [SMALL], EvalSettings(batch_size=16), lambda *counts: calls.append(counts))
    assert calls == [(16, 30), (30, 30)]


def test_kept_maps_belong_to_the_records() -> None:
    result = evaluate(Listener(), Halves(broken=(3,)), SMALL, EvalSettings(batch_size=4, keep_maps=True))
    assert result.maps is not None
    assert result.maps.dense.shape == (29, 16, 16)
    np.testing.assert_array_equal(predict(result.maps, SMALL).confidence, result.records.confidence)
    assert evaluate(Listener(), Halves(), SMALL).maps is None


def test_clips_that_cannot_be_read_are_named_and_not_replaced() -> None:
    result = evaluate(Listener(), Halves(broken=(2,)), SMALL, EvalSettings(batch_size=1))
    assert result.n == 29
    assert result.failures == (("clip002", "clip002.mp4: ends too early. Copy it again."),)
    assert "clip002" not in result.records.id


def test_the_reason_does_not_say_the_id_again(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = Halves.read

    def read(self: Halves, index: int, rate: int, seconds: float, draw: int = 0) -> Clip:
        if index == 3:
            raise MediaError(self.rows[index].id, "has no picture.")
        return whole(self, index, rate, seconds, draw)

    monkeypatch.setattr(Halves, "read", read)
    assert evaluate(Listener(), Halves(), SMALL).failures == (("clip003", "has no picture."),)


def test_too_many_unreadable_clips_stop_with_their_names() -> None:
    with pytest.raises(
        DataError, match=r"at most 5% of the 30 clips of halves:test .* 3 among .*clip000.*ends too early"
    ):
        evaluate(Listener(), Halves(broken=(0, 5, 6)), SMALL, EvalSettings(batch_size=30))
    assert evaluate(Listener(), Halves(broken=(0, 5, 6)), SMALL, EvalSettings(max_failed=0.1)).n == 27


def test_nothing_but_unreadable_clips_is_told_with_the_reasons() -> None:
    with pytest.raises(
        DataError, match=r"halves:test that can be read, but got none: 2 failed \(clip000: .*ends too early"
    ):
        evaluate(Listener(), Halves(2, broken=(0, 1)), SMALL, EvalSettings(max_failed=1))


def test_an_empty_set_is_refused() -> None:
    with pytest.raises(DataError, match="clips to evaluate in halves:test, but got none"):
        evaluate(Listener(), Halves(0), SMALL)
    with pytest.raises(DataError, match="clips to evaluate in halves:test, but got none"):
        center_prior(Halves(0), SMALL)


def without_boxes(count: int) -> Halves:
    """Halves of which the first `count` positives have no ground truth."""
    halves = Halves()
    halves.rows = tuple(replace(row, boxes=() if i < count else row.boxes) for i, row in enumerate(halves.rows))
    return halves


def test_positives_without_any_ground_truth_are_refused() -> None:
    for work in (center_prior, lambda clips, how: evaluate(Listener(), clips, how)):
        with pytest.raises(DataError, match="Expected boxes for the positives of halves:test, but got none for all 15"):
            work(without_boxes(15), SMALL)


def test_some_positives_without_ground_truth_are_warned_of() -> None:
    assert evaluate(Listener(), without_boxes(0), SMALL).warnings == ()
    (told,) = evaluate(Listener(), without_boxes(3), SMALL).warnings
    assert told == "3 of 15 positives have no ground truth, and count as not found."


def test_the_result_is_plain_json() -> None:
    result = evaluate(Listener(), Halves(), SMALL, EvalSettings(name="listener"))
    plain = json.loads(json.dumps(result.to_json(), allow_nan=False))
    assert plain["kinds"] == {"positive": 15, "easy": 7, "hard": 8}
    assert plain["protocol"]["hash"] == SMALL.hash
    assert plain["list_hash"] == Halves().list_hash()
    assert plain["model"] == "listener"
    positives = evaluate(Listener(), Halves(1), SMALL)  # a single negative: most numbers are undefined
    assert positives.to_json()["metrics"]["ap"] is None


def test_every_metric_of_the_folder_is_measured() -> None:
    result = evaluate(Listener(), Halves(), SMALL)
    measured = set(result.metrics)
    assert measured >= {"loc_acc", "auc", "ap", "max_f1", "auroc", "false_alarm_at_90"}
    for name in registry.names("metric"):
        assert set(registry.load("metric", name).compute(result.records, SMALL)) <= measured


def test_several_protocols_in_one_pass_give_what_each_gives_alone() -> None:
    protocols = [SMALL, get("official"), get("paper"), get("adaptive")]
    together = evaluate_all(Listener(), Halves(broken=(3,)), protocols, EvalSettings(batch_size=7, sizes=True))
    for one, protocol in zip(together, protocols, strict=True):
        assert one.to_json() == evaluate(Listener(), Halves(broken=(3,)), protocol, EvalSettings(sizes=True)).to_json()
        assert one.rows == 30
        assert one.records.by_size.shape == (29, 9)


class Listed(ClipSet):
    def read(self, index: int, rate: int, seconds: float, draw: int = 0) -> Clip:
        raise AssertionError("the centre prior reads no media")


@pytest.mark.slow
def test_centre_prior_and_ceiling_on_the_real_list(shared: Path) -> None:
    listed = json.loads((shared / "metadata" / "vggss.json").read_text())
    rows = [Row(item["file"], item["class"], boxes=tuple(map(tuple, item["bbox"]))) for item in listed]
    result = center_prior(Listed("vggss", rows), get("exact"))
    assert result.n == 5158
    assert round(100 * result.metrics["loc_acc"], 2) == 34.16
    assert round(100 * result.ceiling, 2) == 50.54
    assert round(100 * loc_acc.auc(loc_acc.best_ciou(result.records.area, get("exact"))), 2) == 49.47
    whole = replace(get("exact"), level=0.0)  # keeps every pixel
    everywhere = center_prior(Listed("vggss", rows), whole).metrics
    assert round(100 * everywhere["loc_acc"], 2) == 21.95


def test_the_centre_prior_stands_beside_a_model_on_the_same_clips() -> None:
    result = evaluate(Listener(), Halves(broken=(2,)), SMALL)
    prior = center_prior(Halves(), SMALL, result.failures)
    assert prior.records.id.tolist() == result.records.id.tolist()
    assert (prior.n, prior.rows, prior.failures) == (29, 30, result.failures)


def test_the_centre_prior_knows_nothing_about_visibility() -> None:
    result = center_prior(Halves(), get("exact"))
    assert result.audio == "none"
    assert result.metrics["auroc"] == 0.5


class Cut(Listener):
    """As the listener, but its paper draws what a ReLU leaves of the map."""

    def localize(self, frames: Tensor, waveforms: Tensor) -> Maps:
        dense = super().localize(frames, waveforms).dense
        return Maps((dense - 300).relu(), dense, (0.0, 255.0), native_bounds=(0.0, 10.0))


def test_kept_maps_hold_both_maps_with_their_bounds() -> None:
    for model, bounds in ((Cut(), (0.0, 10.0)), (Listener(), (0.0, 255.0))):
        maps = evaluate(model, Halves(), SMALL, EvalSettings(batch_size=7, keep_maps=True)).maps
        assert maps is not None
        assert maps.native.shape == maps.dense.shape == (30, 16, 16)
        assert (maps.bounds, maps.native_bounds) == ((0.0, 255.0), bounds)
        assert (maps.native is maps.dense) == (not isinstance(model, Cut))


def test_a_plateau_is_measured_where_the_native_map_is_asked_for() -> None:
    native, dense = evaluate_all(Cut(), Halves(), [replace(SMALL, map="native"), SMALL])
    assert dense.metrics["loc_acc"] == 1
    assert set(dense.records.predicted[:15].tolist()) == {128}
    assert set(native.records.predicted.tolist()) == {256}  # all is 0, so the whole picture is not below the median
    assert native.to_json()["protocol"]["map"] == "native"
    assert dense.to_json()["protocol"] | {"map": "native", "hash": ""} == native.to_json()["protocol"] | {"hash": ""}


def batch_of_maps(count: int, seed: int, *, native: bool = False) -> Maps:
    draw = torch.Generator().manual_seed(seed)
    dense, other, own = (torch.rand(shape, generator=draw) for shape in ((count, 3, 4),) * 2 + ((count,),))
    return Maps(other if native else dense, dense, (0.0, 1.0), own if native else None, (0.0, 2.0) if native else None)


@pytest.mark.parametrize("native", [False, True])
def test_maps_arrive_in_full_precision_with_the_places_of_their_clips(native: bool) -> None:
    maps = batch_of_maps(2, 0, native=native)
    there, index = PendingMaps(maps.each(torch.Tensor.double), torch.tensor([4, 9])).result()
    assert index == [4, 9]
    assert there.dense.dtype == np.float32
    assert np.array_equal(there.dense, maps.dense.numpy())
    assert (there.native is there.dense) is not native


def test_maps_that_arrive_do_not_change_with_those_that_were_made() -> None:
    maps = batch_of_maps(1, 0)
    made = PendingMaps(maps, torch.tensor([0]))
    wanted = maps.dense.clone()
    maps.dense.zero_()
    assert np.array_equal(made.result()[0].dense, wanted.numpy())


@pytest.mark.parametrize("native", [False, True])
def test_batches_are_joined_in_order(native: bool) -> None:
    parts = [batch_of_maps(2, 0, native=native).arrays(), batch_of_maps(3, 1, native=native).arrays()]
    whole = joined(parts)
    assert whole is not None
    assert np.array_equal(whole.dense, np.concatenate([part.dense for part in parts]))
    assert np.array_equal(whole.native, np.concatenate([part.native for part in parts]))
    assert (whole.native is whole.dense) is not native
    assert (whole.bounds, whole.native_bounds) == (parts[0].bounds, parts[0].native_bounds)
    assert (whole.confidence is None) is not native


def test_nothing_joined_is_none() -> None:
    assert joined([]) is None


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device here")
def test_maps_of_a_gpu_have_arrived_when_they_are_handed_out() -> None:
    maps = batch_of_maps(2, 0, native=True)
    made = PendingMaps(maps.each(torch.Tensor.cuda), torch.tensor([1, 2]).cuda())
    there, index = made.result()
    assert np.array_equal(there.native, maps.native.numpy())
    assert index == [1, 2]
