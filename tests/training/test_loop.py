"""What a run does with bad losses and bad clips, and that its settings do what they say."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torchvision.models import resnet18

import tiny
from earsight.checkpoint import load_weights
from earsight.config import Inputs, Supervision
from earsight.data.clips import ClipSet, Some
from earsight.device import pick_device
from earsight.encoders.base import Encoders
from earsight.errors import DataError, MediaError, TrainingError, UsageError
from earsight.header import WEIGHTS, read_header
from earsight.methods.base import Stage
from earsight.training import loop, step
from earsight.training.log import read_log
from earsight.training.loop import train
from earsight.types import Maps
from tiny import any_method, explodes, tones, two_stages


def run(out: Path, **changes: Any) -> dict[str, Any]:
    """The saved state of a short run."""
    train(tiny.job(**{"epochs": 1, "val": "", "limit": 32, **changes}), out, device="cpu")
    values: dict[str, Any] = torch.load(out / "state.pt", weights_only=True)
    return values


def assert_same(one: dict[str, Any], two: dict[str, Any]) -> None:
    assert one["model"].keys() == two["model"].keys()
    assert all(torch.equal(value, two["model"][name]) for name, value in one["model"].items())
    assert torch.equal(one["rng"]["cpu"], two["rng"]["cpu"])


def test_the_weights_file_holds_all_that_is_needed_to_use_it(tmp_path: Path) -> None:
    path = train(tiny.job(epochs=1), tmp_path / "run", device="cpu")
    weights = load_weights(path)
    assert (weights.name, weights.inputs) == ("slavc", tiny.INPUTS)
    assert weights.config == tiny.config()
    assert not weights.model.training
    header = read_header(path)
    assert header["calibration"]["set"] == "tiny.tones:val"
    assert header["training"] | {"job": 0, "list_hash": 0} == {
        "job": 0, "list_hash": 0, "clips": 64, "steps": 8, "unreadable": 0, "processes": 1,
    }  # fmt: skip


def test_two_runs_are_equal_to_the_bit_and_another_seed_is_not(tmp_path: Path) -> None:
    one, two, other = run(tmp_path / "1"), run(tmp_path / "2"), run(tmp_path / "3", seed=1)
    assert_same(one, two)
    assert not torch.equal(
        one["model"]["online.image_heads.loc.weight"], other["model"]["online.image_heads.loc.weight"]
    )


@pytest.mark.slow
def test_reading_in_two_workers_changes_no_bit(tmp_path: Path) -> None:
    assert_same(run(tmp_path / "0"), run(tmp_path / "2", workers=2))


def test_validation_changes_no_bit_of_training(tmp_path: Path) -> None:
    plain, looking = run(tmp_path / "0", epochs=2), run(tmp_path / "1", epochs=2, val="tiny.tones:val")
    assert_same(plain, looking)


def test_how_often_states_are_saved_changes_no_bit(tmp_path: Path) -> None:
    assert_same(run(tmp_path / "0", save_every=1), run(tmp_path / "1", save_every=1000))
    assert_same(run(tmp_path / "2"), run(tmp_path / "3", save_epochs=2))


def test_a_loss_that_is_not_finite_stops_and_names_step_and_clips(tmp_path: Path) -> None:
    with pytest.raises(TrainingError, match=r"Expected a finite loss, but at step 4 it is nan \(half \d") as caught:
        run(tmp_path, method="tiny.explodes", settings=explodes.Config(), limit=64)
    told = str(caught.value).partition("Clips of that batch: ")[2].partition(". ")[0].split(", ")
    assert len(set(told)) == 8
    assert all(name.startswith("train-") for name in told)
    # The state is the last one that was finite, and the log agrees with it.
    state = torch.load(tmp_path / "state.pt", weights_only=True)
    assert state["position"]["total_steps"] == 2
    assert [row["step"] for row in read_log(tmp_path / "log.jsonl")] == [2]
    assert not (tmp_path / "weights.safetensors").exists()


def test_unreadable_clips_are_left_out_and_listed(tmp_path: Path) -> None:
    state = run(tmp_path, on="tiny.tones:torn", limit=0)
    rows = [json.loads(line) for line in (tmp_path / "failures.jsonl").read_text().splitlines()]
    assert rows == [{"id": f"torn-{i}", "reason": f"torn-{i}: the file is torn. Record it again."} for i in (17, 3)]
    assert state["position"]["total_steps"] == 8
    assert read_header(tmp_path)["training"]["unreadable"] == 2


def test_a_list_without_a_readable_clip_cannot_be_looked_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def torn(self: tones.Tones, index: int, *args: Any) -> Any:
        raise MediaError(self.rows[index].id, "the file is torn.")

    monkeypatch.setattr(tones.Tones, "read", torn)
    job = tiny.job(method="coarse_to_fine", settings=any_method.settings("coarse_to_fine"), limit=16, val="")
    message = r"Expected clips of tiny\.tones:train that can be read, but got none of 16: train-0: the file is torn"
    with pytest.raises(DataError, match=message):
        train(job, tmp_path, device="cpu")


def test_too_many_unreadable_clips_stop_the_run(tmp_path: Path) -> None:
    message = r"Expected at most 5% of 64 training clips to be unreadable, but \d+ are: shreds-\d+: the file is torn"
    with pytest.raises(DataError, match=message):
        run(tmp_path / "some", on="tiny.tones:shreds", limit=0)
    run(tmp_path / "all", on="tiny.tones:shreds", limit=0, max_failed=0.5)


def test_a_batch_without_two_readable_clips_stops_the_run(tmp_path: Path) -> None:
    message = r"Expected two readable clips or more in every batch, .* but got \[1\] of 2: torn-\d+: the file is torn"
    with pytest.raises(DataError, match=message):
        run(tmp_path, on="tiny.tones:torn", limit=0, batch_size=2)


def test_a_batch_larger_than_the_set_is_made_smaller(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    state = run(tmp_path, limit=0, batch_size=999)
    told = capsys.readouterr().err
    assert "batches of 64 clips, not 999: tiny.tones:train has no more" in told
    assert "64 clips, 1 batch of 64 an epoch" in told
    assert state["position"]["total_steps"] == 1
    assert '"batch_size": 999' in (tmp_path / "run.json").read_text()
    assert read_header(tmp_path)["training"]["job"]["optim"]["batch_size"] == 64


def test_weights_say_what_a_model_knows_where_its_set_says_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run(tmp_path / "plain", limit=16)
    assert "knows" not in read_header(tmp_path / "plain")
    monkeypatch.setattr(tones, "KNOWS", "tones alone", raising=False)
    run(tmp_path / "known", limit=16)
    assert read_header(tmp_path / "known")["knows"] == "tones alone"
    run(tmp_path / "toys", on="toybox", limit=16)
    assert read_header(tmp_path / "toys")["knows"] == "drawn toys of the built-in set only"


def test_a_run_without_validation_prints_the_loss_of_each_epoch(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run(tmp_path, epochs=2)
    lines = [line for line in capsys.readouterr().err.splitlines() if line.startswith("epoch ")]
    losses = [row["loss"] for row in read_log(tmp_path / "log.jsonl") if row["step"] in (4, 8)]
    assert [line.partition(" (")[0] for line in lines] == [f"epoch {n}: loss {x:.4f}" for n, x in enumerate(losses, 1)]


def test_one_clip_has_no_negatives_to_train_with(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"Expected at least two clips to train on, but got 1 in tiny\.tones:train\."):
        run(tmp_path, limit=1)


def test_a_limit_under_the_batch_size_makes_one_smaller_batch(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run(tmp_path, limit=4)
    assert "4 clips, 1 batch of 4 an epoch" in capsys.readouterr().err
    assert '"batch_size": 8' in (tmp_path / "run.json").read_text()


def test_half_precision_stays_close_to_full(tmp_path: Path) -> None:
    # A bf16 cosine is off by up to 2^-9, which a temperature of 0.03 turns into 7 % of a loss for some starting weights
    # (torch 2.15 draws others than 2.11 from the same seed); with 0.3 it was at most 0.3 % for all that were tried.
    settings = tiny.config(temperature=0.3)
    full = run(tmp_path / "32", settings=settings)
    half = run(tmp_path / "16", settings=settings, precision="bf16")
    assert all(half["model"][name].dtype == value.dtype for name, value in full["model"].items())
    losses = [[row["loss"] for row in read_log(tmp_path / name / "log.jsonl")] for name in ("32", "16")]
    assert losses[1] == pytest.approx(losses[0], rel=0.01)
    assert losses[0] != losses[1]


def test_gradients_are_clipped_to_the_norm_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    norms: list[float] = []

    class Watched(torch.optim.Adam):
        def step(self, closure: Any = None) -> Any:
            grads = [p.grad for group in self.param_groups for p in group["params"]]
            norms.append(float(torch.cat([g.flatten() for g in grads]).norm()))
            return super().step(closure)

    monkeypatch.setattr(step.torch.optim, "Adam", Watched)  # type: ignore[attr-defined]
    run(tmp_path / "free")
    free, norms[:] = list(norms), []
    assert min(free) > 0.01
    run(tmp_path / "clipped", clip_norm=0.01)
    assert norms == pytest.approx([0.01] * 4, rel=1e-3)


@pytest.mark.parametrize(("schedule", "first", "last"), [("constant", 1e-3, 1e-3), ("cosine", 1e-3, 0.006e-3)])
def test_the_learning_rate_follows_its_schedule(tmp_path: Path, schedule: str, first: float, last: float) -> None:
    run(tmp_path, schedule=schedule, save_every=1, epochs=5)
    rates = [row["lr"] for row in read_log(tmp_path / "log.jsonl")]
    assert len(rates) == 20
    assert rates[0] == first
    assert rates[-1] == pytest.approx(last, rel=0.05)


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("c++") is None, reason="no C++ compiler")
def test_compiled_encoders_have_the_same_keys_and_nearly_the_same_weights(tmp_path: Path) -> None:
    settings = tiny.config(targets=False, infer_with="online")  # one branch takes half the time to compile
    plain = run(tmp_path / "plain", settings=settings)
    compiled = run(tmp_path / "compiled", settings=settings, compile=True)
    assert plain["model"].keys() == compiled["model"].keys()
    for name, value in plain["model"].items():
        torch.testing.assert_close(compiled["model"][name], value, rtol=1e-2, atol=5e-3)


def test_each_stage_has_its_own_optimizer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[tuple[int, float]] = []
    real = loop.make_optimizer

    def make(parameters: Any, settings: Any, lr: float) -> torch.optim.Optimizer:
        optimizer = real(parameters, settings, lr)
        made.append((sum(p.numel() for group in optimizer.param_groups for p in group["params"]), lr))
        return optimizer

    monkeypatch.setattr(loop, "make_optimizer", make)
    state = run(tmp_path, method="tiny.two_stages", settings=two_stages.Config())
    body, old_head, new_head = 4 * 3 * 25 + 8, 5, 16 + 8 + 5
    assert made == [(body + old_head, 1e-3), (new_head, 0.01)]
    assert (state["position"]["stage"], state["position"]["total_steps"]) == (1, 20)
    assert [row["epoch"] for row in read_log(tmp_path / "log.jsonl")] == [0, 0, 1, 1, 0, 0, 1, 1, 2, 2]
    assert state["model"]["centre"].abs().sum() > 0


def test_a_frozen_part_does_not_move(tmp_path: Path) -> None:
    state = run(tmp_path / "run", method="tiny.two_stages", settings=two_stages.Config(first=1))
    other = run(tmp_path / "more", method="tiny.two_stages", settings=two_stages.Config(first=1, second=5))
    assert torch.equal(state["model"]["body.0.weight"], other["model"]["body.0.weight"])
    assert not torch.equal(state["model"]["head.0.weight"], other["model"]["head.0.weight"])
    assert two_stages.Model(two_stages.Config(), Inputs()).stages(9) == (Stage("coarse", 2), Stage("fine", 3, lr=0.01))


def test_a_stage_begins_once_and_what_it_found_is_no_part_of_the_weights(tmp_path: Path) -> None:
    made: list[two_stages.Model] = []

    class Kept(two_stages.Model):
        def __init__(self, config: two_stages.Config, inputs: Inputs) -> None:
            super().__init__(config, inputs)
            made.append(self)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(two_stages, "Model", Kept)
        train(tiny.job(method="tiny.two_stages", settings=two_stages.Config(), val=""), tmp_path, device="cpu")
    assert made[0].begun == ["coarse", "fine"]
    saved = torch.load(tmp_path / "state.pt", weights_only=True)
    assert saved["training"]["places"].shape == (64,)
    assert not any("places" in name for name in made[0].state_dict())


def test_a_method_with_nothing_to_learn_is_measured_and_written(tmp_path: Path) -> None:
    from earsight.methods.slavc import Model

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Model, "stages", lambda self, epochs: ())
        weights = load_weights(train(tiny.job(), tmp_path, device="cpu"))
    assert weights.meta["training"]["steps"] == 0
    assert weights.meta["metrics"]["tiny.tones:val"]["loc_acc"] >= 0
    assert weights.meta["calibration"]["negatives"] == 32


def test_the_last_and_the_best_epoch_can_both_be_kept(tmp_path: Path) -> None:
    from earsight.training.log import LOG, read_log

    both = load_weights(train(tiny.job(keep="both", lr=0.03), tmp_path / "both", device="cpu"))
    best = load_weights(tmp_path / "both" / "best.safetensors")
    aps = [row["val"]["ap"] for row in read_log(tmp_path / "both" / LOG) if "val" in row]
    assert both.meta["metrics"]["tiny.tones:val"]["ap"] == pytest.approx(aps[-1])
    assert best.meta["metrics"]["tiny.tones:val"]["ap"] == pytest.approx(max(aps))
    last = load_weights(train(tiny.job(lr=0.03), tmp_path / "last", device="cpu"))
    early = load_weights(train(tiny.job(keep="best", lr=0.03), tmp_path / "early", device="cpu"))
    for one, other in ((both, last), (best, early)):
        wanted = other.model.state_dict()
        assert all(torch.equal(value, wanted[name]) for name, value in one.model.state_dict().items())


def test_without_a_terminal_progress_is_one_line_an_epoch(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    train(tiny.job(epochs=2, limit=32), tmp_path / "run", device="cpu")
    out, err = capsys.readouterr()
    assert out == ""
    assert "training slavc on tiny.tones:train: 32 clips, 4 batches of 8 an epoch, on cpu" in err
    assert err.count(" clips/s, ") == err.count("of the time waiting for data)") == 2
    assert sys.stderr.isatty() is False


def test_a_new_run_tells_what_its_picture_encoder_starts_from(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    torch.save(resnet18().state_dict(), tmp_path / "start.pth")
    settings = tiny.config(encoders=Encoders(weights=str(tmp_path / "start.pth")))
    job = tiny.job(settings=settings, epochs=1, limit=8, val="", save_every=1)
    train(job, tmp_path / "run", device="cpu")
    assert capsys.readouterr().err.count("the picture encoder starts from file start.pth, sha256 ") == 1
    (tmp_path / "run" / WEIGHTS).unlink()
    (tmp_path / "start.pth").unlink()  # a run that goes on does not need it any more
    train(job, tmp_path / "run", device="cpu", resume=True)
    assert "starts from" not in capsys.readouterr().err


def test_an_unknown_device_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError, match="Expected device auto, cpu or cuda, but got tpu"):
        pick_device("tpu")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(UsageError, match=r"Expected a CUDA GPU for device cuda, but got none\. Use --device cpu"):
        pick_device("cuda")
    assert pick_device("auto") == "cpu"


def test_what_cannot_work_is_refused_before_the_folder_is_touched(tmp_path: Path) -> None:
    for job, told in (
        (tiny.job(on="tiny.tones:trian"), "Expected a split of tiny.tones"),
        (replace(tiny.job(), protocol="exact:confidence=native"), "Expected a method with a confidence of its own"),
    ):
        with pytest.raises(UsageError, match=told):
            train(job, tmp_path / "run", device="cpu")
        assert not (tmp_path / "run").exists()


def only(monkeypatch: pytest.MonkeyPatch, of: str, at: Sequence[int]) -> None:
    """Let a split of the tiny set hold these clips alone."""

    def opened(split: str, data: Path | None = None) -> ClipSet:
        return Some(tones.Tones(split), at) if split == of else tones.Tones(split)

    monkeypatch.setattr(tones, "open", opened)


def test_a_validation_list_without_positives_is_refused_at_the_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    only(monkeypatch, "val", [1, 2, 5])
    with pytest.raises(UsageError, match=r"Expected positives to validate on, but got none among 3 clips of tiny"):
        train(tiny.job(), tmp_path / "run", device="cpu")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("torn", "at", "told"),
    [
        (None, [0, 3, 4, 7], "no calibration: tiny.tones:val has no negatives, so no confidence can be called too low"),
        (
            1,
            [*range(0, 64, 4), *range(3, 64, 4), 1],
            "has no negatives that can be read, so no confidence",
        ),
        (
            0,
            [*range(1, 64, 4), *range(2, 64, 4), 0],
            "has no positives that can be read, so no confidence",
        ),
    ],
)
def test_without_both_kinds_a_run_ends_uncalibrated(
    torn: int | None, at: list[int], told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    only(monkeypatch, "val", at)
    monkeypatch.setitem(tones.TORN, "val", () if torn is None else (torn,))
    header = read_header(train(tiny.job(epochs=1, limit=0), tmp_path / "run", device="cpu"))
    assert header["calibration"] is None
    err = capsys.readouterr().err
    assert told in err
    assert ("AP -  max-F1 -  LocAcc -  on tiny.tones:val" in err) == (torn == 0)


def test_a_threshold_that_no_positive_reaches_is_not_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from earsight.methods.slavc import Model

    def alike(self: Model, frames: torch.Tensor, waveforms: torch.Tensor) -> Maps:
        maps = torch.zeros(len(frames), 2, 2)
        return Maps(maps, maps, (-1.0, 1.0))

    monkeypatch.setattr(Model, "localize", alike)
    header = read_header(train(tiny.job(epochs=1), tmp_path / "run", device="cpu"))
    told = "at --false-alarm 0.1 no threshold accepts any positive of tiny.tones:val"
    assert header["calibration"] is None
    assert header["uncalibrated"].startswith(told)
    assert f"warning: no calibration: {told}, so every verdict would be 'no visible source'" in capsys.readouterr().err


def test_a_run_says_how_many_clips_have_their_ground_truth_used(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    job = replace(tiny.job(epochs=1, val="", limit=16), supervision=Supervision(1.0))
    train(job, tmp_path, device="cpu")
    assert "ground truth of 16 of 16 clips is used" in capsys.readouterr().err
