"""Pictures of what a model answered: a few clips of every size and of every kind of negative, drawn for the report."""

from __future__ import annotations

import numpy as np
import torch

from earsight.data.clips import ClipSet
from earsight.evaluate import Evaluation
from earsight.heatmap import stretch
from earsight.methods.base import Method
from earsight.plots import Tile
from earsight.protocols import predict
from earsight.types import Maps


def choose(evaluation: Evaluation, positives: int = 8, each_kind: int = 2) -> list[int]:
    """Record positions to show: positives spread over the sizes, from small to large, then some of every negative kind.

    The choice looks at sizes and kinds only, never at how well the model did.
    """
    records = evaluation.records
    found = np.flatnonzero(records.positives)
    by_size = found[np.argsort(records.area[found], kind="stable")]
    chosen = by_size[np.linspace(0, len(by_size) - 1, min(positives, len(by_size))).round().astype(int)].tolist()
    for kind in sorted(set(records.kind[~records.positives].tolist())):
        them = np.flatnonzero(records.kind == kind)
        chosen += them[np.linspace(0, len(them) - 1, min(each_kind, len(them))).round().astype(int)].tolist()
    return [int(i) for i in chosen]


def tiles(evaluation: Evaluation, clip_set: ClipSet, model: Method, threshold: float | None = None) -> list[Tile]:
    """Overlays of chosen clips; needs an evaluation that kept its maps. The colours mean the same in every picture."""
    if evaluation.maps is None:
        raise ValueError("Expected an evaluation with its maps, but it was made without keep_maps=True.")
    at = {row.id: i for i, row in enumerate(clip_set.rows)}
    everything = (evaluation.maps.dense - (evaluation.maps.bounds or (0.0, 1.0))[0]).numpy()
    if evaluation.maps.bounds is not None:
        everything = everything / (evaluation.maps.bounds[1] - evaluation.maps.bounds[0])
    low, high = np.quantile(everything, [0.5, 0.98])
    out: list[Tile] = []
    records = evaluation.records
    for i in choose(evaluation):
        row = clip_set.rows[at[str(records.id[i])]]
        clip = clip_set.read(at[row.id], model.inputs.rate, model.inputs.seconds)
        maps = evaluation.maps
        native = None if maps.confidence is None else maps.confidence[i : i + 1]
        one = Maps(maps.native[i : i + 1], maps.dense[i : i + 1], maps.bounds, native)
        side = (clip.frame.shape[1], clip.frame.shape[2])
        with torch.inference_mode():
            prediction = predict(one, evaluation.protocol, side)
        score = stretch(prediction.score[0].numpy(), float(low), float(high))
        sure = float(records.confidence[i])
        accepted = threshold is None or sure >= threshold
        text = f"hears {row.label or 'the room'}: " + ("visible" if accepted else "no visible source")
        detail = f"cIoU {records.ciou[i]:.2f}" if row.positive else f"negative, {row.kind}"
        caption = f"{text}\n{detail}, confidence {sure:.2f}"
        out.append(Tile(clip.frame, score, caption, prediction.mask[0].numpy() if accepted else None, row.boxes))
    return out
