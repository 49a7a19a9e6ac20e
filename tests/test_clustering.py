"""k-means against slow loops and scikit-learn, and the agreement of labelings against values computed by hand."""

from __future__ import annotations

import math

import pytest
import torch
from sklearn.cluster import KMeans
from sklearn.metrics import normalized_mutual_info_score
from torch import Tensor

from earsight import clustering
from earsight.clustering import kmeans, nmi
from earsight.errors import UsageError


def blobs(k: int = 5, each: int = 40, d: int = 8, seed: int = 0) -> tuple[Tensor, Tensor]:
    random = torch.Generator().manual_seed(seed)
    centres = 5 * torch.randn(k, d, generator=random)
    points = centres.repeat_interleave(each, 0) + 0.3 * torch.randn(k * each, d, generator=random)
    return points, torch.arange(k).repeat_interleave(each)


def spread(points: Tensor, labels: Tensor, centres: Tensor) -> float:
    return float((points - centres[labels]).square().sum())


def test_well_separated_blobs_are_found() -> None:
    points, truth = blobs()
    labels, centres = kmeans(points, 5)
    assert nmi(labels, truth) == pytest.approx(1.0)
    assert centres.shape == (5, 8)
    assert labels.dtype == torch.int64


def test_the_result_is_as_tight_as_scikit_learns() -> None:
    points = torch.randn(400, 6, generator=torch.Generator().manual_seed(3))
    ours = min(spread(points, *kmeans(points, 7, seed)) for seed in range(5))
    theirs = KMeans(7, n_init=5, random_state=0).fit(points.numpy()).inertia_
    assert ours < 1.05 * theirs


def test_every_point_has_its_nearest_centre_and_centres_are_means() -> None:
    points = torch.randn(300, 4, generator=torch.Generator().manual_seed(1))
    labels, centres = kmeans(points, 6, rounds=500)
    for i, point in enumerate(points):
        distances = [(point - centre).square().sum().item() for centre in centres]
        assert distances[int(labels[i])] == pytest.approx(min(distances), abs=1e-4)
    for j in range(6):
        torch.testing.assert_close(centres[j], points[labels == j].mean(0), atol=1e-5, rtol=1e-5)


def test_one_seed_gives_one_clustering() -> None:
    points = torch.randn(200, 4, generator=torch.Generator().manual_seed(2))
    one, two, other = kmeans(points, 9, 0), kmeans(points, 9, 0), kmeans(points, 9, 1)
    assert torch.equal(one[0], two[0])
    assert torch.equal(one[1], two[1])
    assert not torch.equal(one[0], other[0])


def test_the_global_random_state_is_left_alone() -> None:
    before = torch.get_rng_state()
    kmeans(blobs()[0], 5)
    assert torch.equal(torch.get_rng_state(), before)


def test_far_from_the_origin_nothing_is_lost() -> None:
    points, truth = blobs()
    labels, _ = kmeans(points + 3000, 5)
    assert nmi(labels, truth) == pytest.approx(1.0)


def test_rows_with_nan_have_no_label_and_move_no_centre() -> None:
    points, _ = blobs()
    torn = points.clone()
    torn[3], torn[50, 2] = float("nan"), float("nan")
    labels, centres = kmeans(torn, 5)
    readable = torch.ones(len(points), dtype=torch.bool)
    readable[[3, 50]] = False
    alone, same = kmeans(points[readable], 5)
    assert labels[[3, 50]].tolist() == [-1, -1]
    assert torch.equal(labels[readable], alone)
    assert torch.equal(centres, same)


def test_small_chunks_give_the_same_clusters(monkeypatch: pytest.MonkeyPatch) -> None:
    points, _ = blobs()
    whole = kmeans(points, 5)
    monkeypatch.setattr(clustering, "_AT_ONCE", 35)
    parts = kmeans(points, 5)
    assert torch.equal(whole[0], parts[0])
    torch.testing.assert_close(whole[1], parts[1])


def test_an_empty_cluster_starts_again_at_the_farthest_point() -> None:
    points = torch.tensor([[0.0], [1.0], [2.0], [9.0]])
    centres = torch.tensor([[1.0], [100.0], [200.0]])
    labels = clustering._assigned(points, centres)
    assert labels.tolist() == [2, 0, 0, 1]  # 9 first, then 0, the first of the two at distance 1
    assert clustering.means(points, labels, centres).flatten().tolist() == [1.5, 9.0, 0.0]


def test_no_cluster_is_empty_while_there_are_different_points() -> None:
    points = torch.cat([torch.zeros(50, 2), torch.randn(5, 2, generator=torch.Generator().manual_seed(0))])
    for seed in range(20):
        assert len(kmeans(points, 6, seed)[0].unique()) == 6


def test_fewer_different_points_than_clusters_are_no_error() -> None:
    points = torch.tensor([[1.0, 0.0], [0.0, 1.0]]).repeat_interleave(4, 0)
    labels, centres = kmeans(points, 5)
    assert torch.isfinite(centres).all()
    torch.testing.assert_close(centres[labels], points)


def test_as_many_clusters_as_points_gives_each_its_own() -> None:
    points = torch.randn(6, 3, generator=torch.Generator().manual_seed(0))
    assert sorted(kmeans(points, 6)[0].tolist()) == list(range(6))


@pytest.mark.parametrize(
    ("points", "k", "message"),
    [
        (torch.zeros(3, 2), 4, "Expected at least 4 points for 4 clusters, but got 3. Ask for fewer clusters, or add"),
        (torch.full((3, 2), torch.nan), 1, "Expected at least 1 points for 1 clusters, but got 0. Ask for fewer"),
        (torch.zeros(3, 2), 0, "Expected at least 1 cluster, but got 0"),
        (torch.zeros(3), 1, r"Expected points \(n, d\), but got \(3,\)"),
    ],
)
def test_what_cannot_be_clustered_is_refused(points: Tensor, k: int, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        kmeans(points, k)


def test_no_rounds_are_refused() -> None:
    with pytest.raises(UsageError, match="Expected at least 1 round of k-means, but got 0"):
        kmeans(torch.zeros(3, 2), 1, rounds=0)


def test_agreement_equals_the_hand_computed_value() -> None:
    """a = 0011, b = 0001: I = H(a) + H(b) - H(a, b)."""
    h_a, h_b = math.log(2), -(0.75 * math.log(0.75) + 0.25 * math.log(0.25))
    both = -(0.5 * math.log(0.5) + 2 * 0.25 * math.log(0.25))
    got = nmi(torch.tensor([0, 0, 1, 1]), torch.tensor([0, 0, 0, 1]))
    assert got == pytest.approx(2 * (h_a + h_b - both) / (h_a + h_b))


def test_agreement_equals_scikit_learns() -> None:
    random = torch.Generator().manual_seed(0)
    a, b = torch.randint(0, 7, (200,), generator=random), torch.randint(0, 4, (200,), generator=random)
    assert nmi(a, b) == pytest.approx(normalized_mutual_info_score(a.numpy(), b.numpy()))
    assert nmi(a, b) == pytest.approx(nmi(b, a))


def test_clips_without_a_label_do_not_count_in_the_agreement() -> None:
    a, b = torch.tensor([0, 0, 1, 1, -1, 2]), torch.tensor([1, 1, 0, 0, 5, -1])
    assert nmi(a, b) == 1.0
    assert nmi(torch.full((3,), -1), torch.zeros(3, dtype=torch.int64)) == 0.0


def test_two_labelings_with_a_single_label_agree() -> None:
    assert nmi(torch.zeros(4, dtype=torch.int64), torch.zeros(4, dtype=torch.int64)) == 1.0


def test_labelings_of_different_lengths_are_refused() -> None:
    with pytest.raises(UsageError, match=r"Expected two labelings \(n,\) of one length, but got \(3,\), \(2,\)"):
        nmi(torch.zeros(3, dtype=torch.int64), torch.zeros(2, dtype=torch.int64))
