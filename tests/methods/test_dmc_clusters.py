"""Soft k-means and routing against values computed by hand and slow loops, and what breaks the published forms."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from earsight.methods.dmc import distance, log_odds, route, soft_kmeans, squash, starts


def line(*values: float) -> Tensor:
    """One clip of vectors with one channel, (1, N, 1)."""
    return torch.tensor(values, dtype=torch.float32)[None, :, None]


def some(clips: int = 3, vectors: int = 12, channels: int = 5, seed: int = 0) -> Tensor:
    return torch.randn(clips, vectors, channels, generator=torch.Generator().manual_seed(seed))


def published(vectors: Tensor, clusters: int, rounds: int = 4, sharpness: float = 30.0) -> tuple[Tensor, Tensor]:
    """Centres (K, C) and assignments (K, N) of one clip (N, C), vector by vector and without any safeguard."""
    n = len(vectors)
    centres = [vectors[k * (n // clusters)] for k in range(clusters)]
    for _ in range(rounds):
        share = torch.zeros(clusters, n, dtype=vectors.dtype)
        for i in range(n):
            near = [math.exp(-sharpness * max((c - vectors[i]).norm().item(), 1e-5)) for c in centres]
            share[:, i] = torch.tensor([x / sum(near) for x in near])
        centres = [(share[k, :, None] * vectors).sum(0) / share[k].sum() for k in range(clusters)]
    return torch.stack(centres), share


def test_two_groups_on_a_line_are_found() -> None:
    found = soft_kmeans(line(0, 0, 4, 4), 2)
    assert found.centres.flatten().tolist() == [0, 4]
    assert found.logits.softmax(1)[0].tolist() == [[1, 1, 0, 0], [0, 0, 1, 1]]


def test_one_cluster_is_the_mean_and_everything_belongs_to_it() -> None:
    found = soft_kmeans(line(2, 4), 1)
    assert found.centres.item() == 3
    assert found.logits.softmax(1).flatten().tolist() == [1, 1]
    torch.testing.assert_close(soft_kmeans(some(), 1).centres[:, 0], some().mean(1))


@pytest.mark.parametrize("clusters", [1, 2, 3])
def test_soft_kmeans_equals_a_slow_loop(clusters: int) -> None:
    vectors = 0.1 * some().double()  # so near each other that assignments stay soft
    found = soft_kmeans(vectors, clusters)
    for clip in range(3):
        centres, share = published(vectors[clip], clusters)
        torch.testing.assert_close(found.centres[clip], centres)
        torch.testing.assert_close(found.logits.softmax(1)[clip], share)


def test_centres_start_on_the_left_edge_of_14_by_14_places() -> None:
    cells = torch.arange(196.0)[None, :, None]
    assert starts(cells, 2, "raster").flatten().tolist() == [0, 7 * 14]
    assert starts(cells, 4, "raster").flatten().tolist() == [0, 49, 98, 147]


def test_gradients_pass_through_all_rounds() -> None:
    vectors = (0.1 * some(1, 6, 2).double()).requires_grad_()
    assert torch.autograd.gradcheck(lambda x: soft_kmeans(x, 2).centres, vectors)
    whole, last = (torch.autograd.grad(soft_kmeans(vectors, 2, r).centres.square().sum(), vectors)[0] for r in (4, 1))
    assert (whole - last).abs().max() > 1e-3


def test_identical_starts_do_not_tie_the_centres_together() -> None:
    bars = line(0, 5, 5, 0, 5, 5)  # places 0 and 3, where both centres start, are the same
    assert (published(bars[0], 2)[1] == 0.5).all()
    found = soft_kmeans(bars, 2)
    assert found.centres.flatten().tolist() == [0, 5]
    assert found.logits.softmax(1)[0, 1].tolist() == [0, 1, 1, 0, 1, 1]


def test_a_tie_in_one_clip_leaves_the_others_alone() -> None:
    tied, free = line(0, 5, 5, 0, 5, 5), line(0, 1, 2, 3, 4, 5)
    assert starts(torch.cat((tied, free)), 2, "raster")[..., 0].tolist() == [[0, 5], [0, 3]]


@pytest.mark.parametrize("how", ["raster", "farthest"])
def test_a_flat_picture_has_even_assignments_and_a_finite_gradient(how: str) -> None:
    vectors = torch.ones(2, 6, 3, requires_grad=True)
    found = soft_kmeans(vectors, 2, start=how)  # type: ignore[arg-type]
    assert (found.logits.softmax(1) == 0.5).all()
    found.centres.square().sum().backward()  # type: ignore[no-untyped-call]
    assert vectors.grad is not None
    assert torch.isfinite(vectors.grad).all()


def test_fewer_vectors_than_clusters_are_clustered_too() -> None:
    assert torch.isfinite(soft_kmeans(line(1, 2), 3).centres).all()


def test_a_mirrored_picture_is_clustered_the_same_only_when_starts_do_not_depend_on_place() -> None:
    picture = some(20, 16, 3, seed=3).view(20, 4, 4, 3)
    mirrored = picture.flip(2)

    def maps(x: Tensor, how: str) -> Tensor:
        return soft_kmeans(x.flatten(1, 2), 2, start=how).logits.softmax(1).view(20, 2, 4, 4)  # type: ignore[arg-type]

    same = [(maps(picture, how) - maps(mirrored, how).flip(3)).abs().amax((1, 2, 3)) < 1e-3 for how in
            ("raster", "farthest")]  # fmt: skip
    assert not same[0].all()
    assert same[1].all()


def test_farthest_starts_are_the_outermost_vectors() -> None:
    assert starts(line(4, 5, 9, 0, 6), 3, "farthest").flatten().tolist() == [0, 9, 4]


def test_a_centre_that_loses_all_its_vectors_stays_finite() -> None:
    """Weights that all underflow are 0 / 0 in the published form."""
    vectors = 100 * some(200, 12, 2, seed=1)
    naive = vectors[:, [0, 3, 6, 9]]
    for _ in range(4):
        share = (-30 * distance(naive, vectors)).softmax(1)
        naive = share @ vectors / share.sum(2, keepdim=True)
    assert naive.isnan().any()
    assert torch.isfinite(soft_kmeans(vectors, 4).centres).all()


def test_distances_keep_their_digits_far_from_the_origin() -> None:
    a, b = line(1000.0), line(1000.001, 1000.0)
    exact = (a.double() - b.double()).abs().clamp(min=1e-5).flatten()
    torch.testing.assert_close(distance(a, b).flatten().double(), exact, rtol=1e-5, atol=0)


def test_squashed_vectors_have_nearly_length_1_and_a_zero_vector_stays() -> None:
    vectors = torch.tensor([[3.0, 4.0], [0.03, 0.04], [0.0, 0.0]], requires_grad=True)
    out = squash(vectors)
    torch.testing.assert_close(out.norm(dim=1), torch.tensor([1.0, math.tanh(0.5), 0.0]), rtol=1e-4, atol=1e-6)
    out.sum().backward()  # type: ignore[no-untyped-call]
    assert vectors.grad is not None
    assert torch.isfinite(vectors.grad).all()


@pytest.mark.parametrize("rounds", [1, 2, 3])
def test_routing_equals_a_slow_loop(rounds: int) -> None:
    vectors = some(2, 4 * 6, 3).view(2, 4, 6, 3).double()  # 4 spaces, 6 vectors
    found = route(vectors, rounds)
    for clip in range(2):
        u, share = vectors[clip], torch.full((4, 6), 0.25, dtype=torch.float64)
        for at in range(rounds):
            centres = [sum((share[k, i] * u[k, i] for i in range(6)), torch.zeros(3).double()) for k in range(4)]
            if at < rounds - 1:
                agree = torch.tensor([[float(centres[k] @ u[k, i] / centres[k].norm()) for i in range(6)]
                                      for k in range(4)], dtype=torch.float64)  # fmt: skip
                share = agree.exp() / agree.exp().sum(0)
        torch.testing.assert_close(found.centres[clip], torch.stack(centres))  # sums: nothing divides by the weights
        torch.testing.assert_close(found.logits.softmax(1)[clip], share)


def test_log_odds_are_those_of_the_share_in_the_chosen_clusters() -> None:
    logits = some(2, 3, 7)
    chosen = torch.tensor([[True, False, False], [True, False, True]])
    share = torch.stack([logits[0].softmax(0)[0], logits[1].softmax(0)[[0, 2]].sum(0)])
    torch.testing.assert_close(log_odds(logits, chosen).sigmoid(), share)


def test_log_odds_of_two_clusters_are_a_difference_of_distances() -> None:
    vectors = some(1)
    centres = soft_kmeans(vectors, 2, rounds=3).centres  # those that the last round's assignments were made with
    found = log_odds(soft_kmeans(vectors, 2, rounds=4).logits, torch.tensor([[False, True]]))
    far, near = distance(centres, vectors)[0]
    torch.testing.assert_close(found[0], 30 * (far - near), rtol=1e-4, atol=1e-4)
