"""The maps and the confidence of DMC in both its forms, and the plateau they must not have."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch.nn.functional import cosine_similarity

from earsight.methods.dmc import Model, Original, agreement, distance, log_odds, reach, route, soft_kmeans
from earsight.predict import predict
from earsight.protocols import get
from earsight.types import Batch, Maps
from tiny import take_step
from tiny.dmc_small import FORMS, make_batch, make_model, vectors


def with_truth(batch: Batch) -> Batch:
    return replace(batch, truth=torch.rand(len(batch), 32, 32, generator=torch.Generator().manual_seed(1)))


def localize(model: Model, batch: Batch) -> Maps:
    with torch.no_grad():
        return model.eval().localize(batch.frames, batch.waveforms)


@pytest.mark.parametrize("changes", FORMS)
def test_neither_the_order_of_a_batch_nor_its_other_clips_change_anything(changes: dict[str, Any]) -> None:
    batch, order = make_batch(), torch.tensor([3, 1, 4, 0, 2])
    rows = tuple(batch.rows[i] for i in order.tolist())
    mixed = Batch(batch.frames[order], batch.waveforms[order], batch.index[order], rows)
    losses = []
    for one in (batch, mixed):
        model = make_model(**changes)
        torch.manual_seed(3)
        losses.append(take_step(model, one).loss)
    torch.testing.assert_close(losses[1], losses[0], rtol=1e-4, atol=1e-5)
    together = localize(model, batch)
    for i in range(5):
        with torch.no_grad():
            alone = model.localize(batch.frames[i : i + 1], batch.waveforms[i : i + 1])
        torch.testing.assert_close(alone.dense[0], together.dense[i], rtol=0, atol=1e-4)


@pytest.mark.parametrize("changes", FORMS)
def test_the_native_map_is_the_share_of_the_chosen_clusters(changes: dict[str, Any]) -> None:
    model, batch = make_model(**changes).eval(), make_batch()
    maps = localize(model, batch)
    with torch.no_grad():
        places, times = vectors(model, batch)
        if isinstance(model.clustering, Original):
            project = model.clustering.project
            u, w = (model.clustering.in_spaces(project, x) for x in (places, times))
            seen = route(u)
            best = torch.stack(
                [cosine_similarity(seen.centres[:, k], w[:, k].mean(1), dim=1) for k in range(u.shape[1])]
            )
            share = torch.stack([seen.logits[i].softmax(0)[best[:, i].argmax()] for i in range(5)])
        else:
            c, project = model.config, model.clustering
            seen = soft_kmeans(project.image(places), c.visual_clusters, start=c.start)
            heard = soft_kmeans(project.audio(times), c.audio_clusters, start=c.start)
            nearest = distance(seen.centres, heard.centres).argmin(1)
            share = torch.stack([
                seen.logits[i].softmax(0)[nearest[i].unique()].sum(0) for i in range(5)  # type: ignore[no-untyped-call]
            ])  # fmt: skip
    torch.testing.assert_close(maps.native.flatten(1), share, rtol=1e-3, atol=1e-4)
    assert maps.native_bounds == (0.0, 1.0)
    assert maps.bounds is None


def test_the_dense_map_is_how_much_nearer_the_chosen_centre_is() -> None:
    model, batch = make_model().eval(), make_batch()
    maps = localize(model, batch)
    torch.testing.assert_close(maps.native, (30 * maps.dense).sigmoid())
    with torch.no_grad():
        u = model.clustering.image(vectors(model, batch)[0])  # type: ignore[operator]
        centres = soft_kmeans(u, 2, rounds=3).centres
    first, second = distance(centres, u).unbind(1)
    torch.testing.assert_close(maps.dense.flatten(1).abs(), (first - second).abs(), rtol=1e-3, atol=1e-4)


def test_almost_binary_assignments_are_tied_where_the_dense_map_is_not() -> None:
    """At the published size of features, half of a picture cannot be told by its native map."""
    random = torch.Generator().manual_seed(0)
    low, high = torch.randn(70, 8, generator=random), 5 + torch.randn(126, 8, generator=random)
    seen = soft_kmeans(torch.cat((low, high))[None], 2)
    odds = log_odds(seen.logits, torch.tensor([[False, True]])).view(1, 14, 14)
    maps = Maps(odds.sigmoid(), odds / 30)
    assert (maps.native == 1).sum() == 126
    assert len(maps.dense.flatten().unique()) > 190  # type: ignore[no-untyped-call]
    protocol = get("exact:size=14")
    kept = [int(predict(Maps(x, x), protocol).mask.sum()) for x in (maps.native, maps.dense)]
    assert kept == [126, 98]


@pytest.mark.parametrize("changes", FORMS)
def test_confidence_is_what_was_trained_and_has_spread_where_the_highest_share_has_none(
    changes: dict[str, Any],
) -> None:
    model, batch = make_model(**changes).eval(), make_batch()
    maps = localize(model, batch)
    with torch.no_grad():
        image, audio = model.embed_images(batch.frames), model.embed_sounds(batch.waveforms)
    trained = agreement if "form" in changes else (lambda seen, heard: -reach(seen, heard).sqrt())
    assert maps.confidence is not None
    torch.testing.assert_close(maps.confidence, trained(image["centres"], audio["centres"]))
    assert maps.confidence.std() > 1e-4


@pytest.mark.parametrize("changes", FORMS)
def test_clustering_runs_in_float32_under_half_precision(changes: dict[str, Any]) -> None:
    model, batch = make_model(**changes), with_truth(make_batch())
    given: list[torch.dtype] = []
    for layer in model.clustering.children():
        layer.register_forward_pre_hook(lambda _, args: given.extend(x.dtype for x in args))
    with torch.autocast("cpu", torch.bfloat16):
        step = take_step(model, batch)
    assert given == [torch.float32] * 2
    assert step.loss.dtype == torch.float32
    assert step.maps is not None
    assert step.maps.dense.dtype == step.maps.native.dtype == torch.float32
    step.loss.backward()
    assert all(p.grad is not None and torch.isfinite(p.grad).all() for p in model.parameters())


@pytest.mark.parametrize("changes", FORMS)
def test_ground_truth_can_pull_at_the_maps_of_a_step(changes: dict[str, Any]) -> None:
    model, batch = make_model(**changes), with_truth(make_batch())
    assert take_step(model, make_batch()).maps is None
    step = take_step(model, batch)
    assert step.maps is not None
    assert batch.truth is not None
    model.supervised_loss(step.maps, batch.truth, "squared").backward()  # type: ignore[no-untyped-call]
    gradient = next(model.image.parameters()).grad
    assert gradient is not None
    assert torch.isfinite(gradient).all()
    assert gradient.abs().max() > 0
