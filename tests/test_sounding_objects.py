"""The pieces of DSOL against values computed by hand, slow loops, and the traps of the published code."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor, nn

from earsight.sounding_objects import (
    Heads,
    agreement,
    class_maps,
    clustering_logs,
    draw,
    grow,
    match_loss,
    naming_loss,
    object_of,
    overlay,
    silent_loss,
    tagging_loss,
    tile,
)
from earsight.types import Row

COSINES = torch.tensor([[[1.0, 0.0, -1.0, 0.5]]])
FOUND = torch.sigmoid(5 * COSINES)


def test_maps_and_their_loss_equal_the_hand_computed_values() -> None:
    torch.testing.assert_close(FOUND.flatten(), torch.tensor([0.99331, 0.5, 0.00669, 0.92414]), atol=1e-5, rtol=0)
    nothing = torch.zeros(0, 1, 4)
    assert match_loss(5 * COSINES, nothing).item() == pytest.approx(0.00672, abs=1e-5)
    assert match_loss(nothing, 5 * COSINES).item() == pytest.approx(5.00672, abs=1e-5)
    assert match_loss(5 * COSINES, 5 * COSINES).item() == pytest.approx((0.00672 + 5.00672) / 2, abs=1e-5)


def test_the_match_loss_stays_finite_where_a_probability_is_rounded_to_one() -> None:
    sure = torch.full((1, 2, 2), 200.0, requires_grad=True)
    loss = match_loss(sure, sure)
    assert torch.sigmoid(sure.detach()).max() == 1
    assert loss.item() == pytest.approx(100)
    loss.backward()  # type: ignore[no-untyped-call]
    assert sure.grad is not None
    assert torch.isfinite(sure.grad).all()


def test_an_object_is_a_sum_over_its_places_divided_by_all_places() -> None:
    features = torch.tensor([[[[4.0, 8.0, 12.0, 16.0]]]])
    assert object_of(features, FOUND, 0.05).item() == 7.0  # 28 / 4, where a mean over the mask would be 9.33
    assert object_of(features, FOUND, 0.95).item() == 1.0


def test_the_published_level_keeps_nearly_everything_at_the_start() -> None:
    """0.05 on sigmoid(5 cos) is a cosine above -0.589."""
    edge = math.log(0.05 / 0.95) / 5
    assert edge == pytest.approx(-0.589, abs=1e-3)
    features = torch.ones(1, 1, 1, 2)
    found = torch.sigmoid(5 * torch.tensor([[[edge - 0.01, edge + 0.01]]]))
    assert object_of(features, found, 0.05).item() == 0.5


def test_a_mask_grows_to_four_neighbours_from_its_inner_places_only() -> None:
    centre, corner = torch.zeros(1, 3, 3, dtype=torch.bool), torch.zeros(1, 3, 3, dtype=torch.bool)
    centre[0, 1, 1] = corner[0, 0, 0] = True
    plus = torch.tensor([[[0, 1, 0], [1, 1, 1], [0, 1, 0]]]).bool()
    assert torch.equal(grow(centre), plus)
    assert torch.equal(grow(corner), corner)
    assert centre.sum() == 1, "the mask itself is left as it is"


@pytest.mark.parametrize("size", [(1, 1), (1, 4), (2, 2), (5, 6)])
def test_growing_equals_a_slow_loop(size: tuple[int, int]) -> None:
    mask = torch.rand(3, *size, generator=torch.Generator().manual_seed(0)) > 0.7
    wanted = mask.clone()
    height, width = size
    for b in range(3):
        for y in range(1, height - 1):
            for x in range(1, width - 1):
                if mask[b, y, x]:
                    for dy, dx in ((-1, 0), (1, 0), (0, -1), (0, 1)):
                        wanted[b, y + dy, x + dx] = True
    assert torch.equal(grow(mask), wanted)


def test_stage_two_equals_the_hand_computed_values() -> None:
    features = torch.tensor([[1.0, 0.0], [0.0, 1.0]]).T.reshape(1, 2, 1, 2)
    dictionary, found = torch.tensor([[2.0, 0.0], [0.0, 2.0]]), torch.tensor([[[0.9, 0.1]]])
    scores = torch.einsum("bchw,kc->bkhw", features, dictionary) * found[:, None]
    logits = scores.mean((2, 3))
    torch.testing.assert_close(logits, torch.tensor([[0.9, 0.1]]))
    heard = torch.tensor([[200.0, 0.0]])  # the teacher is sure: (1, 0)
    named = naming_loss(logits, heard)
    assert named.item() == pytest.approx(0.18555, abs=1e-5)
    assert named.item() * 2 == pytest.approx(0.37110, abs=1e-5)  # over the clips alone
    own = torch.logit(torch.tensor([[[0.9, 0.5], [0.1, 0.2]]]))
    other = torch.logit(torch.tensor([[[0.1, 0.2], [0.3, 0.4]]]))
    matched = silent_loss(own, other)
    assert matched.item() == pytest.approx(0.20218, abs=1e-5)
    assert (named + 0.5 * matched).item() == pytest.approx(0.28664, abs=1e-5)
    maps = class_maps(scores)
    torch.testing.assert_close(maps[0, :, 0, 0], torch.tensor([0.99550, 0.00450]), atol=1e-5, rtol=0)
    torch.testing.assert_close(maps[0, :, 0, 1], torch.tensor([0.35434, 0.64566]), atol=1e-5, rtol=0)


def test_the_naming_loss_is_torchs_divergence_with_its_default_mean() -> None:
    torch.manual_seed(0)
    seen, heard = torch.randn(5, 7), torch.randn(5, 7)
    with pytest.warns(UserWarning, match="divides the total loss by both the batch size and the support size"):
        wanted = nn.KLDivLoss()(torch.log_softmax(seen, 1), torch.softmax(heard, 1))
    torch.testing.assert_close(naming_loss(seen, heard), wanted)


def test_the_tagging_loss_equals_a_slow_loop() -> None:
    seen, heard = torch.tensor([[0.2, 0.6]]), torch.tensor([[0.7, 0.0]])
    wanted = [math.e / (math.e + 1), 1 / (math.e + 1)]  # a softmax of (1, 0)
    terms = [-(w * math.log(p) + (1 - w) * math.log(1 - p)) for w, p in zip(wanted, (0.2, 0.6), strict=True)]
    assert tagging_loss(seen, heard).item() == pytest.approx(sum(terms) / 2, abs=1e-6)


def test_a_quarter_of_the_other_scene_is_its_best_place() -> None:
    other = torch.full((1, 4, 4), -30.0)
    other[0, 3, 0] = 3.0
    wanted = 0.25 * math.log1p(math.exp(3)) / 2
    assert silent_loss(torch.full((1, 4, 4), 30.0), other).item() == pytest.approx(wanted, abs=1e-5)


def scenes_of(labels: list[int], seed: int = 0, index: Tensor | None = None) -> tuple[Tensor, Tensor, Tensor]:
    torch.manual_seed(seed)
    return draw(torch.arange(len(labels)) if index is None else index, torch.tensor(labels))


def test_a_scene_has_four_clips_with_four_labels_of_which_two_are_heard() -> None:
    labels = [0, 0, 0, 1, 1, 2, 2, 3, 4, 4]
    for seed in range(10):
        pictures, sounds, silent = scenes_of(labels, seed)
        for own in range(len(labels)):
            assert len({labels[i] for i in pictures[own].tolist()}) == 4
            assert sounds[own, 0] == own
            assert len(set(sounds[own].tolist())) == 2
            assert set(sounds[own].tolist()) < set(pictures[own].tolist())
            assert silent[own] != own


def test_neither_clip_that_is_heard_is_seen_in_the_silent_scene() -> None:
    labels = list(range(12)) * 4
    pictures, sounds, silent = scenes_of(labels)
    for own in range(len(labels)):
        assert not set(sounds[own].tolist()) & set(pictures[silent[own]].tolist())


def test_a_clip_is_heard_from_every_quarter() -> None:
    pictures, _, _ = scenes_of(list(range(40)))
    places = {pictures[own].tolist().index(own) for own in range(40)}
    assert places == {0, 1, 2, 3}


@pytest.mark.parametrize("labels", [[0, 0], [0, 1, 1], [-1, -1, 2, 3, 3], [5, 5, 5, 5, 5]])
def test_batches_with_few_labels_still_give_scenes(labels: list[int]) -> None:
    pictures, _, silent = scenes_of(labels)
    assert pictures.shape == (len(labels), 4)
    for own in range(len(labels)):
        seen = set(pictures[own].tolist())
        assert len(seen) == min(4, len(labels)), "no clip twice while there are others"
        assert len({labels[i] for i in seen}) >= min(4, len(set(labels)))
        assert silent[own] != own


def test_scenes_do_not_depend_on_the_order_of_the_batch() -> None:
    labels = torch.tensor([0, 1, 2, 3, 0, 1, 2, 3])
    order = torch.tensor([3, 1, 7, 0, 4, 2, 6, 5])
    index = torch.tensor([10, 11, 12, 13, 14, 15, 16, 17])
    torch.manual_seed(1)
    plain = draw(index, labels)
    torch.manual_seed(1)
    mixed = draw(index[order], labels[order])
    for one, two in zip(plain, mixed, strict=True):
        assert torch.equal(index[one][order], index[order][two])


def test_tiles_lie_where_they_should_and_are_halved_by_means() -> None:
    frames = torch.randint(0, 256, (4, 3, 6, 6), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    tiled = tile(frames, torch.tensor([[2, 0, 3, 1]]))
    assert tiled.dtype == torch.float32
    assert tiled.shape == (1, 3, 6, 6)
    small = frames.float().unfold(2, 2, 2).unfold(3, 2, 2).mean((4, 5))
    torch.testing.assert_close(tiled[0, :, :3, :3], small[2])
    torch.testing.assert_close(tiled[0, :, :3, 3:], small[0])
    torch.testing.assert_close(tiled[0, :, 3:, :3], small[3])
    torch.testing.assert_close(tiled[0, :, 3:, 3:], small[1])


def test_pictures_of_odd_size_keep_their_size() -> None:
    assert tile(torch.zeros(4, 3, 7, 7, dtype=torch.uint8), torch.tensor([[0, 1, 2, 3]])).shape == (1, 3, 7, 7)


def test_two_waveforms_are_averaged() -> None:
    waves = torch.tensor([[1.0, -1.0], [0.0, 0.5], [0.5, 0.5]])
    assert overlay(waves, torch.tensor([[0, 1], [2, 0]])).tolist() == [[0.5, -0.25], [0.75, -0.25]]


def test_heads_are_drawn_anew_in_the_same_parameters() -> None:
    torch.manual_seed(0)
    heads = Heads(64, 32, 50)
    before, weight = heads.image.weight.detach().clone(), heads.image.weight
    with torch.no_grad():
        heads.image.bias.fill_(3)
    heads.draw()
    assert heads.image.weight is weight
    assert not torch.equal(before, weight)
    assert heads.image.bias.abs().max() == 0
    assert float(weight.detach().std()) == pytest.approx(0.01, rel=0.05)


def test_a_clustering_is_logged_with_the_numbers_that_are_defined() -> None:
    labels, before = torch.tensor([0, 0, 1, 1, -1]), torch.tensor([1, 1, 0, 0, 0])
    rows = [Row(f"clip{i}", label) for i, label in enumerate(("dog", "dog", "cat", "cat", ""))]
    logs = clustering_logs(agreement(labels, before, rows))
    assert {name: value.item() for name, value in logs.items()} == {"clusters": 2, "nmi_before": 1, "nmi_classes": 1}
    assert list(clustering_logs(agreement(labels, torch.zeros(0), [Row("a")] * 5))) == ["clusters"]
    assert clustering_logs(torch.zeros(0)) == {}
