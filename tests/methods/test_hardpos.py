"""HardPos against LVS, which it is without neighbours, against a slow loop, and how neighbours are found and kept."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from earsight.config import Inputs, from_json, to_json
from earsight.encoders.base import Encoders
from earsight.errors import DataError, TrainingError, UsageError
from earsight.losses import all_pairs, paired
from earsight.methods import hardpos, lvs
from earsight.methods.base import Stage
from earsight.methods.hardpos import Config, Model, drawn, nearest, paper, read_features, with_near
from earsight.methods.lvs import mean_above, paper_loss, published_loss
from earsight.types import Batch, Row
from tiny import take_step
from tiny.lent import Lent

INPUTS = Inputs(image_size=32, resize=36, rate=8000, seconds=0.5, window=128, hop=64)
SMALL = Config(encoders=Encoders("small", "small", weights="random", width=4), neighbours=2, warmup=0)
STAGE = Stage("main", 4)


def make_model(**changes: Any) -> Model:
    torch.manual_seed(0)
    return Model(replace(SMALL, **changes), INPUTS)


def lvs_model(config: Config) -> lvs.Model:
    torch.manual_seed(0)
    names = lvs.Config.__dataclass_fields__
    return lvs.Model(lvs.Config(**{name: getattr(config, name) for name in names}), INPUTS)


def make_batch(clips: int = 6) -> Batch:
    random = torch.Generator().manual_seed(0)
    frames = torch.randint(0, 256, (clips, 3, 32, 32), generator=random, dtype=torch.uint8)
    waves = torch.rand(clips, INPUTS.samples, generator=random) - 0.5
    return Batch(frames, waves, torch.arange(clips), tuple(Row(f"clip{i}") for i in range(clips)))


def features(model: Model, pictures: Tensor, sounds: Tensor) -> tuple[Tensor, Tensor]:
    return model.embed_images(pictures)["places"], model.embed_sounds(sounds)["sound"]


def with_neighbours(batch: Batch, pictures: Tensor, sounds: Tensor) -> Batch:
    return replace(batch, neighbour_pictures=batch.frames[pictures], neighbour_sounds=batch.waveforms[sounds])


class Clips(Lent):
    """The clips of a batch as the training list; `broken` ones cannot be read. Counts how often all were read."""

    def __init__(self, batch: Batch, epoch: int = -1, broken: tuple[int, ...] = ()) -> None:
        super().__init__(batch, stage=STAGE, epoch=epoch)
        self.broken, self.passes = broken, 0
        self.rows: Sequence[Row] = batch.rows

    def forget(self, parameters: Iterable[nn.Parameter]) -> None:
        raise AssertionError("no parameter is drawn again")

    def extract(self, fn: Callable[[Batch], Tensor]) -> Tensor:
        self.passes += 1
        found = super().extract(fn)
        found[list(self.broken)] = torch.nan
        return found


FORMS: list[dict[str, Any]] = [
    {},
    {"background": True},
    {"published_diagonal": True, "background": True},
    {"form": "paper"},
    {"form": "paper", "background": True, "responses": "sum"},
]


@pytest.mark.parametrize("changes", FORMS)
def test_without_neighbours_it_is_lvs_to_the_last_bit(changes: dict[str, Any]) -> None:
    model = make_model(neighbours=0, **changes)
    base = lvs_model(model.config)
    clips = Clips(make_batch())
    for clips.epoch in (-1, 0):
        model.on_epoch(clips)
    assert clips.passes == 0
    assert model.neighbours(0) is None
    assert all(len(found) == 0 for found in model.training_state().values())
    got, wanted = take_step(model, make_batch()), take_step(base, make_batch())
    assert torch.equal(got.loss, wanted.loss)
    assert got.logs.keys() == wanted.logs.keys()
    got.loss.backward()
    wanted.loss.backward()
    for mine, theirs in zip(model.parameters(), base.parameters(), strict=True):
        assert mine.grad is not None
        assert theirs.grad is not None
        assert torch.equal(mine.grad, theirs.grad)


def test_neighbours_equal_to_the_sample_give_four_times_its_response() -> None:
    own = torch.tensor([0.6, 0.2, 0.9])
    pairs = torch.rand(3, 3)
    pairs.diagonal().copy_(own)
    four = with_near(pairs, 3 * own, "sum")
    torch.testing.assert_close(four.diagonal(), 4 * own)
    rest = ~torch.eye(3, dtype=torch.bool)
    torch.testing.assert_close(four[rest], pairs[rest])
    torch.testing.assert_close(with_near(pairs, 3 * own, "mean"), pairs)


@pytest.mark.parametrize("responses", ["sum", "mean"])
@pytest.mark.parametrize("form", ["code", "paper"])
def test_the_step_of_clips_that_are_their_own_neighbours_has_four_times_the_response(responses: str, form: str) -> None:
    model = make_model(responses=responses, form=form)
    batch, same = make_batch(), torch.arange(6)
    image, audio = features(model, batch.frames, batch.waveforms)
    cosines = all_pairs(image, audio).flatten(2)
    pairs = mean_above(cosines, 0.65, 0.03)
    times = 4 if responses == "sum" else 1
    pairs = pairs + (times - 1) * torch.diag(pairs.diagonal())
    wanted = paper_loss(pairs, None, cosines.mean(2)) if form == "paper" else published_loss(pairs, None, 0.07, False)
    step = take_step(model, with_neighbours(batch, same, same))
    assert step.loss.item() == pytest.approx(wanted.item(), rel=1e-4, abs=1e-7)
    assert step.logs["near"].item() == pytest.approx(step.logs["source"].item(), abs=1e-5)


@pytest.mark.parametrize("background", [False, True])
def test_the_step_equals_a_slow_loop_over_four_responses(background: bool) -> None:
    model = make_model(background=background)
    batch = make_batch()
    pictures, sounds = torch.tensor([3, 2, 5, 0, 1, 4]), torch.tensor([1, 0, 4, 5, 2, 3])
    near = with_neighbours(batch, pictures, sounds)
    assert near.neighbour_pictures is not None
    assert near.neighbour_sounds is not None
    image, audio = features(
        model, torch.cat([near.frames, near.neighbour_pictures]), torch.cat([near.waveforms, near.neighbour_sounds])
    )

    def response(picture: int, sound: int) -> float:
        values = paired(image[picture : picture + 1], audio[sound : sound + 1]).flatten().tolist()
        mask = [1 / (1 + math.exp(-(v - 0.65) / 0.03)) for v in values]
        return float(sum(m * v for m, v in zip(mask, values, strict=True)) / sum(mask))

    total = 0.0
    for i in range(6):
        like = i + 6  # the neighbour's picture, and its sound, in the second half
        four = [response(i, i), response(like, i), response(i, like), response(like, like)]
        candidates = [sum(four) / 4] + [response(i, j) for j in range(6) if j != i]
        if background:
            values = paired(image[i : i + 1], audio[i : i + 1]).flatten().tolist()
            mask = [1 - 1 / (1 + math.exp(-(v - 0.4) / 0.03)) for v in values]
            candidates.append(sum(m * v for m, v in zip(mask, values, strict=True)) / sum(mask))
        exponents = [math.exp(score / 0.07) for score in candidates]
        total -= math.log(exponents[0] / sum(exponents))
    step = take_step(model, near)
    assert step.loss.item() == pytest.approx(total / 6, rel=1e-4)
    assert ("background" in step.logs) == background


def test_gradients_reach_the_neighbours() -> None:
    """The four responses depend on each of the four features."""
    image, audio, like, alike = (torch.rand(1, 4, *s).requires_grad_() for s in ((2, 2), (), (2, 2), ()))
    model = make_model()
    three = model.response(like, audio) + model.response(image, alike) + model.response(like, alike)
    four = with_near(model.response(image, audio)[None], three, "sum")
    four.sum().backward()  # type: ignore[no-untyped-call]
    for part in (image, audio, like, alike):
        assert part.grad is not None
        assert part.grad.abs().sum() > 0


def test_added_responses_leave_the_cross_entropy_nothing_to_learn_and_averaged_ones_do() -> None:
    """Untrained cosines are all alike; four of them added are then far above any other candidate."""
    alike = torch.full((128, 128), 0.5)
    three = torch.full((128,), 1.5)
    assert published_loss(with_near(alike, three, "sum"), None, 0.07, False).item() < 1e-6
    averaged = published_loss(with_near(alike, three, "mean"), None, 0.07, False)
    assert averaged.item() == pytest.approx(math.log(128), abs=1e-4)


def slow_nearest(features: Tensor, k: int, broken: tuple[int, ...] = ()) -> list[set[int]]:
    unit = nn.functional.normalize(features.double(), dim=1)
    out = []
    for i in range(len(unit)):
        others = [j for j in range(len(unit)) if j != i and j not in broken]
        out.append(set(sorted(others, key=lambda j: -float(unit[i] @ unit[j]))[:k]))
    return out


@pytest.mark.parametrize("at_once", [1, 100, 2**26])
def test_neighbours_are_the_nearest_others_however_few_scores_fit_in_memory(
    at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hardpos, "SCORES_AT_ONCE", at_once)
    features = torch.randn(33, 5, generator=torch.Generator().manual_seed(0))
    found = nearest(features, 4)
    assert found.shape == (33, 4)
    assert [set(row) for row in found.tolist()] == slow_nearest(features, 4)
    assert all(i not in row for i, row in enumerate(found.tolist()))


def test_long_features_are_not_everybodys_neighbours() -> None:
    features = torch.tensor([[1.0, 0.0], [1.0, 0.1], [90.0, 90.0], [0.0, 1.0]])
    assert (features @ features.T)[:2].argmax(1).tolist() == [2, 2]
    assert nearest(features, 1)[:2, 0].tolist() == [1, 0]


def test_clips_that_cannot_be_read_are_nobodys_neighbours() -> None:
    features = torch.randn(12, 3, generator=torch.Generator().manual_seed(1))
    broken = (2, 7)
    features[list(broken)] = torch.nan
    found = nearest(features, 3).tolist()
    assert not {2, 7} & {j for row in found for j in row}
    kept = [row for i, row in enumerate(found) if i not in broken]
    wanted = [row for i, row in enumerate(slow_nearest(features.nan_to_num(0), 3, broken)) if i not in broken]
    assert [set(row) for row in kept] == wanted


def test_a_short_list_has_as_many_neighbours_as_it_has_others() -> None:
    assert nearest(torch.rand(5, 3), 20).shape == (5, 4)
    with pytest.raises(
        DataError, match="Expected at least two clips with features to find neighbours among, but got 1 of"
    ):
        nearest(torch.tensor([[1.0], [torch.nan]]), 1)


def test_a_clips_neighbour_is_a_function_of_epoch_and_clip() -> None:
    neighbours = torch.randint(0, 1000, (200, 5), generator=torch.Generator().manual_seed(0))
    first = drawn(neighbours, 0, 0)
    assert first.dtype == torch.int64
    assert torch.equal(first, drawn(neighbours, 0, 0))
    torch.manual_seed(123)
    assert torch.equal(first[:50], drawn(neighbours[:50], 0, 0))  # whatever else is in the list
    assert not torch.equal(first, drawn(neighbours, 1, 0))
    assert not torch.equal(first, drawn(neighbours, 0, 1))
    assert all(int(x) in row for x, row in zip(first, neighbours.tolist(), strict=True))
    places = torch.stack([drawn(torch.arange(5).expand(200, 5), epoch, 0) for epoch in range(20)])
    counts = places.flatten().bincount(minlength=5)
    assert counts.min() > 0.15 * places.numel()


def test_mining_finds_pictures_by_pictures_and_sounds_by_sounds() -> None:
    model, batch = make_model(neighbours=1, features="start"), make_batch(6)
    # Clips 0 and 3 look alike, clips 0 and 5 sound alike.
    batch.frames[3] = batch.frames[0]
    batch.waveforms[5] = batch.waveforms[0]
    model.eval().on_epoch(Clips(batch))
    near = model.neighbours(0)
    assert near is not None
    assert (int(near.pictures[0]), int(near.pictures[3])) == (3, 0)
    assert (int(near.sounds[0]), int(near.sounds[5])) == (5, 0)


def test_broken_clips_are_never_brought_along() -> None:
    model = make_model(neighbours=3)
    model.on_epoch(Clips(make_batch(), broken=(1,)))
    for epoch in range(10):
        near = model.neighbours(epoch)
        assert near is not None
        assert 1 not in near.pictures
        assert 1 not in near.sounds


@pytest.mark.parametrize(
    ("changes", "wanted"),
    [
        ({}, [1, 1, 1, 1]),
        ({"remine": 2}, [1, 0, 1, 0]),
        ({"warmup": 1}, [0, 1, 1, 1]),
        ({"warmup": 2}, [0, 0, 1, 1]),
        ({"warmup": 1, "remine": 2}, [0, 1, 0, 1]),
        ({"features": "start"}, [1, 0, 0, 0]),
        ({"features": "start", "warmup": 2}, [1, 0, 0, 0]),
    ],
)
def test_neighbours_are_found_when_the_settings_say(changes: dict[str, Any], wanted: list[int]) -> None:
    """Before the first epoch and after each of three."""
    model = make_model(**changes)
    moments = [Clips(make_batch(), epoch=epoch) for epoch in range(-1, 3)]
    for clips in moments:
        model.on_epoch(clips)
    assert [clips.passes for clips in moments] == wanted
    assert [model.neighbours(epoch) is not None for epoch in range(4)] == [e >= model.config.warmup for e in range(4)]


def test_pictures_are_compared_by_their_source_once_the_model_is_trained_and_by_all_of_them_before() -> None:
    batch = make_batch()
    image, audio = features(make_model().eval(), batch.frames, batch.waveforms)
    cosines = paired(image, audio).flatten(1)
    mask = torch.sigmoid((cosines.double() - 0.65) / 0.03)
    source = (image.flatten(2) * mask[:, None]).sum(2) / mask.sum(1, keepdim=True)
    for chosen, seen in (("own", source.float()), ("start", image.mean((2, 3)))):
        got = make_model(features=chosen).eval().describe(batch)
        torch.testing.assert_close(got, torch.cat([seen, audio], 1), rtol=1e-4, atol=1e-5)


def test_a_resumed_model_draws_the_same_neighbours() -> None:
    model, again = make_model(), make_model()
    model.on_epoch(Clips(make_batch()))
    state = model.training_state()
    assert {name: (tuple(x.shape), x.dtype) for name, x in state.items()} == {
        "near_pictures": ((6, 2), torch.int32),
        "near_sounds": ((6, 2), torch.int32),
    }
    again.load_training_state(state)
    one, two = model.neighbours(3), again.neighbours(3)
    assert one is not None
    assert two is not None
    assert torch.equal(one.pictures, two.pictures)
    assert torch.equal(one.sounds, two.sounds)
    assert not set(model.state_dict()) & set(state)  # weights files know nothing of the training list


def test_training_without_mined_neighbours_is_refused() -> None:
    with pytest.raises(TrainingError, match=r"Expected neighbours of every clip, but got none. Call `on_epoch`"):
        make_model().neighbours(0)


def save_features(path: Path, **changes: Any) -> str:
    """Features of clips a to d and one that is not in the training list, in another order than there."""
    values = {
        "ids": np.array(["d", "other", "c", "b", "a"]),
        "pictures": np.array([[0, 1.0], [1, 0], [0.1, 1], [1, 0.1], [1, 0]]),
        "sounds": np.array([[1.0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 1, 0.1], [1, 0, 0.1]]),
    }
    np.savez(path, **{**values, **changes})
    return str(path)


def test_features_of_a_file_are_found_by_name_and_only_the_training_list_gives_neighbours(tmp_path: Path) -> None:
    path = save_features(tmp_path / "features.npz")
    model = make_model(features="file", file=path, neighbours=1)
    clips = Clips(make_batch(4))
    clips.rows = [Row(name) for name in "abcd"]
    for clips.epoch in (-1, 0):
        model.on_epoch(clips)
    assert clips.passes == 0
    near = model.neighbours(0)
    assert near is not None
    assert near.pictures.tolist() == [1, 0, 3, 2]
    assert near.sounds.tolist() == [3, 2, 1, 0]


def test_a_file_that_does_not_fit_is_refused_with_what_was_expected(tmp_path: Path) -> None:
    rows = [Row(name) for name in "abcd"]
    with pytest.raises(DataError, match=r"Expected an .npz file with ids, pictures and sounds, but got .*nothing.npz"):
        read_features(str(tmp_path / "nothing.npz"), rows)
    for name, content in (("text.npz", b"hello"), ("torn.npz", b"PK\x03\x04 torn"), ("empty.npz", b"")):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(DataError, match=r"Expected an .npz file with ids, pictures and sounds"):
            read_features(str(tmp_path / name), rows)
    np.savez(tmp_path / "half.npz", ids=np.array(["a"]))
    with pytest.raises(DataError, match=r"Expected an .npz file with ids, pictures and sounds, but got .*half.npz"):
        read_features(str(tmp_path / "half.npz"), rows)
    np.save(tmp_path / "one.npy", np.zeros((4, 2)))
    with pytest.raises(DataError, match=r"Expected an .npz file with ids, pictures and sounds"):
        read_features(str(tmp_path / "one.npy"), rows)
    with pytest.raises(DataError, match=r"Expected an .npz file with ids, pictures and sounds, .*invalid maximum char"):
        read_features(save_features(tmp_path / "odd.npz", ids=np.frombuffer(5 * b"\xff\xff\xff\xff", "<U1")), rows)
    with pytest.raises(DataError, match=r"one row for each of its ids, but got float64 .3, 2. and"):
        read_features(save_features(tmp_path / "few.npz", pictures=np.zeros((3, 2))), rows)
    with pytest.raises(DataError, match=r"as numbers .* but got <U1"):
        read_features(save_features(tmp_path / "words.npz", pictures=np.full((5, 2), "x")), rows)
    more = [*rows, Row("e")]
    with pytest.raises(
        DataError, match=r"Expected features of every training clip in .*, but got none of 1, among them e"
    ):
        read_features(save_features(tmp_path / "features.npz"), more)


def test_ground_truth_pulls_at_the_maps_of_the_clips_and_not_of_their_neighbours() -> None:
    model, batch = make_model(), make_batch()
    order = torch.arange(6).roll(1)
    near = with_neighbours(batch, order, order)
    assert take_step(model, near).maps is None
    step = take_step(model, replace(near, truth=torch.zeros(6, 32, 32), supervised=torch.ones(6, dtype=torch.bool)))
    assert step.maps is not None
    assert step.maps.dense.requires_grad
    both = [torch.cat([x, x[order]]) for x in (batch.frames, batch.waveforms)]
    image, audio = features(model, both[0], both[1])
    torch.testing.assert_close(step.maps.dense, paired(image[:6], audio[:6]))


def test_the_defaults_are_lvs_without_background_and_the_preset_adds_responses() -> None:
    assert (Config().background, Config().form, Config().responses) == (False, "code", "mean")
    base = lvs.Config(background=False)
    assert all(getattr(Config(), name) == getattr(base, name) for name in lvs.Config.__dataclass_fields__)
    preset = paper()
    assert replace(Config(), form="paper", responses="sum") == preset.config
    assert (preset.optim.batch_size, preset.optim.weight_decay, preset.optim.lr) == (16, 1e-4, 1e-4)
    assert from_json(Config, to_json(preset.config)) == preset.config


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"neighbours": -1}, "Expected neighbours of at least 0, but got -1"),
        ({"warmup": -1}, "Expected warmup of at least 0, but got -1"),
        ({"remine": 0}, "Expected remine of at least 1 epoch, but got 0"),
        ({"features": "file"}, "Expected a file together with features 'file' and only then, but got features 'file'"),
        ({"file": "x.npz"}, "Expected a file together with features 'file' and only then, but got features 'own'"),
        ({"features": "others"}, "Expected features own or start or file, but got 'others'"),
        ({"responses": "max"}, "Expected responses mean or sum, but got 'max'"),
        ({"temperature": 0.0}, "Expected a positive temperature, but got 0.0"),
    ],
)
def test_bad_settings_are_refused_with_what_was_expected(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        replace(SMALL, **changes)


def test_a_feature_file_that_names_a_clip_twice_is_refused(tmp_path: Path) -> None:
    np.savez(tmp_path / "f.npz", ids=["a", "b", "a"], pictures=np.ones((3, 2)), sounds=np.ones((3, 2)))
    with pytest.raises(DataError, match=r"Expected each clip once in .*f\.npz, but got 1 ids again"):
        read_features(str(tmp_path / "f.npz"), [Row("a"), Row("b")])
