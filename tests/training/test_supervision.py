"""Semi-supervised training: what the ground truth of some clips does to the weights, and which clips those are."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn.functional import binary_cross_entropy, interpolate

import tiny
from earsight.config import Inputs, Supervision
from earsight.data.clips import open_set
from earsight.data.sets.toybox import Toybox
from earsight.encoders.base import Encoders
from earsight.errors import UsageError
from earsight.losses import supervised
from earsight.methods.slavc import Config, Model
from earsight.training.loop import train
from earsight.training.plan import annotated, unknown_names
from earsight.training.step import Supervised
from earsight.types import Batch, Maps, Row, Step


def make_batch(annotated: list[bool]) -> Batch:
    random = torch.Generator().manual_seed(0)
    n = len(annotated)
    frames = torch.randint(0, 256, (n, 3, 32, 32), generator=random, dtype=torch.uint8)
    waves = torch.rand(n, tiny.INPUTS.samples, generator=random) - 0.5
    truth = torch.zeros(n, 32, 32)
    truth[:, 8:24, 4:16] = 1
    return Batch(frames, waves, torch.arange(n), tuple(Row(str(i)) for i in range(n)), truth, torch.tensor(annotated))


def gradients(settings: Supervision, batch: Batch) -> tuple[Step, dict[str, Tensor]]:
    torch.manual_seed(0)
    model = Model(tiny.config(visual_dropout=0.0), tiny.INPUTS)
    step = Supervised(model, settings)(batch)
    step.loss.backward()
    return step, {name: p.grad for name, p in model.named_parameters() if p.grad is not None}


@pytest.mark.parametrize("form", ["own", "squared", "unscaled", "bce"])
def test_the_term_has_a_gradient_that_reaches_encoders_and_projections(form: Any) -> None:
    batch = make_batch([True, True, False, True])
    _, without = gradients(Supervision(), batch)
    step, with_it = gradients(Supervision(weight=1.0, form=form), batch)
    assert step.logs["loss_supervised"] > 0
    assert without.keys() == with_it.keys()
    moved = [name for name in without if not torch.allclose(without[name], with_it[name], atol=1e-7)]
    for part in ("online.image.", "online.audio.", "online.image_heads.loc.", "online.audio_heads.avc."):
        assert any(name.startswith(part) for name in moved), part


def test_the_published_binary_cross_entropy_equals_the_hand_computed_value() -> None:
    normalised = torch.tensor([[[0.0, 1.0], [1 / 3, 2 / 3]]])
    maps = Maps(normalised, 4 * normalised - 2, (-2.0, 2.0))
    truth = torch.tensor([[[0.0, 1.0], [0.0, 0.0]]])
    assert supervised(maps, truth, "bce").item() == pytest.approx(0.376019, abs=1e-6)
    assert supervised(maps, truth, "squared").item() == pytest.approx((1 / 9 + 4 / 9) / 4, abs=1e-6)


def test_the_papers_form_is_content_with_the_sum_of_both_cosines() -> None:
    """Per clip: the squared difference of the two cosines' sum from 0 and 1; here the mean of a map of four places."""
    model = Model(Config(encoders=Encoders("small", "small", weights="random", width=4), dim=4), Inputs())
    mean, truth = torch.tensor([[[0.0, 0.5], [-1.0, 1.0]]]), torch.tensor([[[0.0, 1.0], [0.0, 1.0]]])
    maps = Maps(mean, mean, (-1.0, 1.0))
    assert model.supervised_loss(maps, truth, "unscaled").item() == pytest.approx((0 + 0 + 4 + 1) / 4)
    alone = Model(Config(encoders=model.config.encoders, dim=4, infer="loc"), Inputs())
    assert alone.supervised_loss(maps, truth, "unscaled").item() == pytest.approx((0 + 0.25 + 1 + 0) / 4)


def test_maps_without_bounds_are_scaled_by_their_own_extremes() -> None:
    dense = torch.tensor([[[0.0, 1.0], [1 / 3, 2 / 3]]])
    truth = torch.tensor([[[0.0, 1.0], [0.0, 0.0]]])
    free = supervised(Maps(dense, 7 * dense + 3), truth, "squared")
    assert free.item() == pytest.approx(supervised(Maps(dense, dense, (0.0, 1.0)), truth, "squared").item(), abs=1e-6)


@pytest.mark.parametrize("form", ["squared", "unscaled", "bce"])
def test_a_flat_map_gives_finite_gradients(form: Any) -> None:
    dense = torch.zeros(2, 3, 3, requires_grad=True)
    supervised(Maps(dense, dense), torch.ones(2, 6, 6), form).backward()  # type: ignore[no-untyped-call]
    assert dense.grad is not None
    assert torch.isfinite(dense.grad).all()


@pytest.mark.parametrize("clips", [1, 4])
def test_the_gradient_of_the_cross_entropy_is_that_of_twice_the_digits(clips: int) -> None:
    """The extremes of a stretched map are 0 and 1 whatever it is, and rounding there must not become gradient."""
    torch.manual_seed(0)
    values, truth = 0.4 * torch.rand(clips, 7, 7) - 0.2, torch.zeros(clips, 56, 56)
    truth[:, 15:38, 8:30] = 1
    dense, slow = values.clone().requires_grad_(), values.double().requires_grad_()
    supervised(Maps(dense, dense, (-1.0, 1.0)), truth, "bce").backward()  # type: ignore[no-untyped-call]
    large = interpolate(slow[:, None], (56, 56), mode="bicubic")[:, 0]
    binary_cross_entropy((large - large.min()) / (large.max() - large.min()), truth.double()).backward()
    assert dense.grad is not None
    assert slow.grad is not None
    assert (dense.grad - slow.grad).norm() < 1e-2 * slow.grad.norm()


def test_clips_that_are_not_annotated_add_nothing_whatever_their_truth_holds() -> None:
    batch = make_batch([True, False, True, False])
    step, _ = gradients(Supervision(weight=1.0), batch)
    assert batch.truth is not None
    other = batch.truth.clone()
    other[1] = 1 - other[1]
    again, _ = gradients(Supervision(weight=1.0), replace(batch, truth=other))
    assert torch.equal(step.loss, again.loss)


def test_the_mean_runs_over_annotated_clips_or_over_the_batch() -> None:
    batch = make_batch([True, False, False, False])
    alone, _ = gradients(Supervision(weight=1.0), batch)
    diluted, _ = gradients(Supervision(weight=1.0, over="batch"), batch)
    assert diluted.logs["loss_supervised"].item() == pytest.approx(alone.logs["loss_supervised"].item() / 4)


def test_a_batch_without_annotated_clips_trains_as_without_the_term() -> None:
    batch = make_batch([False] * 4)
    step, found = gradients(Supervision(weight=1.0), batch)
    plain, wanted = gradients(Supervision(), batch)
    assert torch.equal(step.loss, plain.loss)
    assert all(torch.equal(found[name], value) for name, value in wanted.items())


def test_a_method_without_maps_in_training_is_told_so() -> None:
    class Blind(Model):
        def loss(self, batch: Batch, counts: list[int]) -> Step:
            return replace(super().loss(batch, counts), maps=None)

    step = Supervised(Blind(tiny.config(), tiny.INPUTS), Supervision(weight=1.0))
    with pytest.raises(UsageError, match=r"Expected a method whose training step makes maps, but this one makes none"):
        step(make_batch([True, True]))


def test_a_smaller_share_is_part_of_a_larger_one() -> None:
    clips = Toybox("train")
    some, more, all_of_them = (annotated(clips, Supervision(1.0, share=share)) for share in (0.1, 0.5, 1.0))
    assert 0.07 < sum(some) / len(clips) < 0.13
    assert 0.45 < sum(more) / len(clips) < 0.55
    assert all(all_of_them)
    assert all(b for a, b in zip(some, more, strict=True) if a)


def test_a_file_names_the_clips_that_may_be_annotated(tmp_path: Path) -> None:
    clips = open_set("tiny.tones:val")
    (tmp_path / "ids.txt").write_text("val-0\nval-1\nval-3\nsomebody-else\n")
    which = annotated(clips, Supervision(1.0, ids=str(tmp_path / "ids.txt")))
    assert [row.id for row, yes in zip(clips.rows, which, strict=True) if yes] == ["val-0", "val-3"], "1 is a negative"


def test_a_set_without_boxes_is_told_so(tmp_path: Path) -> None:
    (tmp_path / "ids.txt").write_text("nobody\n")
    wanted = r"Expected annotated clips in tiny.tones:train, but none may be used: 64 of 64 have boxes. Train on a set"
    with pytest.raises(UsageError, match=wanted):
        annotated(open_set("tiny.tones:train"), Supervision(1.0, ids=str(tmp_path / "ids.txt")))


def test_names_that_are_no_clips_are_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    clips, ids = open_set("tiny.tones:train"), tmp_path / "ids.txt"
    settings = Supervision(1.0, ids=str(ids))
    ids.write_text("".join(f"nobody-{i}\n" for i in range(5)))
    told = rf"raise --supervision.share\. Of the names, 5 of 5 in {ids} are not in tiny.tones:train: 'nobody-0', "
    with pytest.raises(UsageError, match=told + r"'nobody-1', 'nobody-2', \.\.\.\.$"):
        annotated(clips, settings)
    ids.write_text("train-0\ntrain-1\n")
    assert unknown_names(clips, settings) == unknown_names(clips, Supervision(1.0)) == ""
    ids.write_text("train-0\nsome\x1b[2Jbody\ntrain-1\n")
    train(replace(tiny.job(epochs=1, val="", limit=16), supervision=settings), tmp_path / "run", device="cpu")
    told = f"of the names whose ground truth may be used, 2 of 3 in {ids} are not in tiny.tones:train: "
    assert told + "'some\\x1b[2Jbody', 'train-1'\n" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"weight": -1.0}, "Expected a weight of at least 0, but got -1.0"),
        ({"share": 0.0}, "Expected a share above 0 and at most 1, but got 0.0"),
        ({"share": 0.5}, "Expected a weight above 0 where annotated clips are chosen, but got 0.0. Add --supervision"),
        ({"form": "l1"}, "Expected form own or squared or unscaled or bce, but got 'l1'"),
    ],
)
def test_wrong_settings_are_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        Supervision(**changes)


def test_a_run_with_ground_truth_ends_elsewhere_and_logs_the_term(tmp_path: Path) -> None:
    from earsight.checkpoint import load_weights
    from earsight.training.log import LOG, read_log

    job = tiny.job(epochs=1, val="")
    plain = load_weights(train(job, tmp_path / "plain", device="cpu")).model.state_dict()
    helped = replace(job, supervision=Supervision(weight=1.0, share=0.5))
    weights = load_weights(train(helped, tmp_path / "helped", device="cpu"))
    assert not all(torch.equal(value, plain[name]) for name, value in weights.model.state_dict().items())
    assert all("loss_supervised" in row for row in read_log(tmp_path / "helped" / LOG) if "loss" in row)
    assert weights.meta["training"]["job"]["supervision"]["share"] == 0.5
