"""FNAC against values computed by hand, and its settings against what the published code says."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

import tiny
from earsight.config import Inputs
from earsight.errors import UsageError
from earsight.methods import ezvsl
from earsight.methods.fnac import Config, Model, differ, is_sounding, masked, official
from tiny import INPUTS
from tiny.lent import Lent
from tiny.noise import make_batch

SMALL = Config(encoders=tiny.SMALL, dim=8, warmup=0, mask_width=0)


class Epoch(Lent):
    """What a method gets after an epoch."""

    def __init__(self, epoch: int) -> None:
        super().__init__(make_batch(), epoch=epoch)

    def extract(self, fn: Any) -> Tensor:
        raise AssertionError("FNAC needs no look at the training set")


def make_model(**changes: object) -> Model:
    torch.manual_seed(0)
    return Model(replace(SMALL, **changes), INPUTS)  # type: ignore[arg-type]


def make_features(clips: int = 3) -> tuple[Tensor, Tensor]:
    random = torch.Generator().manual_seed(2)
    return torch.randn(clips, 8, 3, 3, generator=random), torch.randn(clips, 8, generator=random)


def test_terms_equal_the_hand_computed_values() -> None:
    """Two orthonormal sounds, temperature 1: nothing to pay for pair scores I, .231059 for pair scores 0."""
    sounds = torch.eye(2)
    assert differ(sounds @ sounds.T, torch.eye(2)).item() == 0
    assert differ(sounds @ sounds.T, torch.zeros(2, 2)).item() == pytest.approx(0.231059, abs=1e-6)


def test_the_model_computes_the_hand_computed_term_from_features() -> None:
    """Pictures of one place: the sound's own direction gives pair scores I, one at right angles to all gives 0."""
    model, sounds = make_model(dim=3, temperature=1.0), torch.eye(3)[:2]
    own = model.step(sounds.view(2, 3, 1, 1), sounds)
    assert float(own.logs["loss_by_sound"]) == pytest.approx(0, abs=1e-6)
    other = model.step(torch.eye(3)[2].expand(2, 3).reshape(2, 3, 1, 1), sounds)
    assert float(other.logs["loss_by_sound"]) == pytest.approx(0.231059, abs=1e-6)


def test_loss_equals_a_slow_version() -> None:
    weights = {"suppress_by_sound": 100.0, "enhance": 10.0, "suppress_by_picture": 1.0}
    tau = 0.5
    model = make_model(temperature=tau, **weights)
    image, audio = make_features()
    n = len(audio)
    places = (image / image.norm(dim=1, keepdim=True)).flatten(2)
    sounds = audio / audio.norm(dim=1, keepdim=True)
    scores, heard, seen, found = (torch.zeros(n, n) for _ in range(4))
    means, sources = [], []
    for i in range(n):
        own = torch.stack([places[i, :, k] @ sounds[i] / tau for k in range(9)])
        scaled = (own - own.min()) / (own.max() - own.min() + 1e-5)
        means.append(sum(places[i, :, k] for k in range(9)) / 9)
        # Divided by all nine places, however few of them sound.
        sources.append(sum(places[i, :, k] * float(scaled[k] > 0.6) for k in range(9)) / 9)
    for i in range(n):
        for j in range(n):
            scores[i, j] = max(places[i, :, k] @ sounds[j] for k in range(9)) / tau
            heard[i, j] = sounds[i] @ sounds[j] / tau
            seen[i, j] = means[i] @ means[j] / tau
            found[i, j] = sources[i] @ sources[j] / tau

    def rows(x: Tensor) -> Tensor:
        return x.exp() / x.exp().sum(1, keepdim=True)

    f1 = (rows(heard) - rows(scores)).abs().sum() / n**2
    f2 = (rows(heard) - rows(found)).abs().sum() / n**2
    f3 = (rows(seen) - rows(scores)).abs().sum() / n**2
    step = model.step(image, audio)
    torch.testing.assert_close(step.logs["loss_by_sound"], f1)
    torch.testing.assert_close(step.logs["loss_enhance"], f2)
    torch.testing.assert_close(step.logs["loss_by_picture"], f3)
    torch.testing.assert_close(step.loss, ezvsl.both_ways(scores).loss + 100 * f1 + 10 * f2 + f3)


def test_a_place_sounds_above_the_level_of_its_own_map() -> None:
    maps = torch.tensor([[[0.0, 10.0], [5.9, 6.1]], [[-1.0, -1.0], [-1.0, -1.0]]])
    assert is_sounding(maps, 0.6).tolist() == [[[False, True], [False, True]], [[False, False], [False, False]]]


@pytest.mark.parametrize("weight", ["suppress_by_sound", "enhance", "suppress_by_picture"])
def test_gradients_flow_to_both_sides_of_every_term(weight: str) -> None:
    """The published code stops no gradient: sounds and pictures move in each term."""
    only = {"suppress_by_sound": 0.0, "enhance": 0.0, "suppress_by_picture": 0.0}
    image, audio = (x.requires_grad_() for x in make_features())

    def gradients(**changes: float) -> list[Tensor]:
        return list(torch.autograd.grad(make_model(temperature=0.5, **changes).step(image, audio).loss, (image, audio)))

    without, with_term = gradients(**only), gradients(**{**only, weight: 100.0})
    assert all(not torch.allclose(a, b) for a, b in zip(without, with_term, strict=True))


def test_warmup_trains_the_contrastive_loss_alone_and_is_remembered() -> None:
    model, (image, audio) = make_model(warmup=2), make_features()
    base = ezvsl.Model(ezvsl.Config(SMALL.encoders, dim=8), INPUTS).step(image, audio).loss
    assert torch.equal(model.step(image, audio).loss, base)
    model.on_epoch(Epoch(0))
    assert torch.equal(model.step(image, audio).loss, base)
    model.on_epoch(Epoch(1))
    after = model.step(image, audio).loss
    assert after > base
    again = make_model(warmup=2)
    again.load_state_dict(model.state_dict())
    assert torch.equal(again.step(image, audio).loss, after)


def test_warmup_gives_exactly_the_gradient_of_the_contrastive_loss() -> None:
    gradients = []
    for model in (make_model(warmup=1), ezvsl.Model(ezvsl.Config(SMALL.encoders, dim=8), INPUTS)):
        image, audio = (x.requires_grad_() for x in make_features())
        gradients.append(torch.autograd.grad(model.step(image, audio).loss, (image, audio)))
    assert all(torch.equal(a, b) for a, b in zip(*gradients, strict=True))


def test_dropout_and_masks_act_in_training_only() -> None:
    model, batch = make_model(visual_dropout=0.5, mask_width=10), make_batch()
    with torch.no_grad():
        one, two = (model.training_features(batch, [4]) for _ in range(2))
        assert not torch.equal(one[0]["places"], two[0]["places"])
        assert not torch.equal(one[1]["sound"], two[1]["sound"])
        model.eval()
        one, two = (model.training_features(batch, [4]) for _ in range(2))
        assert torch.equal(one[0]["places"], two[0]["places"])
        assert torch.equal(one[1]["sound"], two[1]["sound"])


def test_masks_are_one_band_of_frequencies_and_one_of_time() -> None:
    torch.manual_seed(0)
    out = masked(torch.ones(500, 1, 20, 30), 10, [500], swapped=False)[:, 0]
    rows, columns = (out == 0).all(2), (out == 0).all(1)
    assert torch.equal(out == 0, rows[:, :, None] | columns[:, None, :])
    for band in (rows, columns):
        widths = band.sum(1)
        assert (int(widths.min()), int(widths.max())) == (0, 9)
        assert (band.int().diff(dim=1).abs().sum(1) <= 2).all()  # never more than one band
        assert band.any(0).all()  # and anywhere


def test_swapped_ranges_leave_late_times_clear_as_the_published_code_does() -> None:
    torch.manual_seed(0)
    out = masked(torch.ones(500, 1, 20, 40), 10, [500], swapped=True)[:, 0]
    columns = (out == 0).all(1)
    assert columns[:, :28].any(0).all()
    assert not columns[:, 29:].any()  # starts are below 20 and bands have at most 9 columns
    assert (out == 0).all(2).any(1).float().mean() < 0.6  # half of the frequency masks start outside


def test_no_width_is_no_mask() -> None:
    sound = torch.ones(2, 1, 5, 5)
    assert masked(sound, 0, [2], swapped=False) is sound


def test_masks_do_not_depend_on_how_the_batch_is_split(monkeypatch: pytest.MonkeyPatch) -> None:
    from earsight import distributed

    sound = torch.rand(5, 1, 20, 30) + 0.1
    torch.manual_seed(0)
    whole = masked(sound, 10, [5], swapped=False)
    for rank, part in enumerate((slice(0, 3), slice(3, 5))):
        monkeypatch.setattr(distributed, "rank", lambda r=rank: r)
        torch.manual_seed(0)
        assert torch.equal(masked(sound[part], 10, [3, 2], swapped=False), whole[part])


def test_the_preset_is_what_the_published_code_says() -> None:
    preset = official()
    c, o = preset.config, preset.optim
    assert (c.temperature, c.dim, c.visual_dropout, c.audio_dropout) == (0.03, 512, 0.9, 0.0)
    assert (c.suppress_by_sound, c.enhance, c.suppress_by_picture, c.sounding) == (100, 100, 100, 0.6)
    assert (c.warmup, c.mask_width, c.swap_mask_ranges) == (5, 10, True)
    assert (o.optimizer, o.lr, o.weight_decay, o.batch_size, o.epochs) == ("adam", 1e-4, 1e-4, 256, 30)
    assert preset.inputs == Inputs.official()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"visual_dropout": 1.0}, r"Expected visual_dropout in \[0, 1\), but got 1.0"),
        ({"enhance": -1.0}, "Expected enhance of at least 0, but got -1.0"),
        ({"warmup": -1}, "Expected warmup of at least 0, but got -1"),
        ({"sounding": 1.0}, r"Expected sounding in \[0, 1\), but got 1.0"),
        ({"temperature": 0.0}, "Expected a positive temperature, but got 0.0"),
    ],
)
def test_bad_settings_are_refused_with_what_was_expected(changes: dict[str, object], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        replace(SMALL, **changes)  # type: ignore[arg-type]
