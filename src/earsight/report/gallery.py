"""Pictures of what a model answered, drawn for the report: a neutral choice, the best, the worst, the false alarms."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from earsight.data.clips import ClipSet
from earsight.escape import brief
from earsight.evaluation import Evaluation
from earsight.methods.base import Method
from earsight.overlay import stretch
from earsight.predict import predict
from earsight.report.figures import Tile
from earsight.resampling import scaled
from earsight.types import I64

NEUTRAL = "A few of each kind"
LETTERS = 40
"""Of a label in a caption."""


def choices(evaluation: Evaluation, count: int = 8, of_each_kind: int = 2) -> dict[str, list[int]]:
    """Record positions to show under each title: a neutral choice, what went best, what went worst, false alarms.

    The neutral one looks at sizes and kinds only: positives spread from small to large, then some of every negative
    kind. Best and worst go by cIoU, negatives by how sure the model is of a source that is not there. Equal ones stay
    in the order of the list. A title without clips is left out.
    """

    def spread(at: I64, most: int) -> list[int]:
        return list(map(int, at[np.linspace(0, len(at) - 1, min(most, len(at))).round().astype(int)]))

    records = evaluation.records
    positive, negative = np.flatnonzero(records.positives), np.flatnonzero(~records.positives)
    neutral = spread(positive[np.argsort(records.area[positive], kind="stable")], count)
    for kind in np.unique(records.kind[negative]):
        neutral += spread(np.flatnonzero(records.kind == kind), of_each_kind)
    ranked = positive[np.argsort(-records.ciou[positive], kind="stable")]
    half = min(count, max(1, len(ranked) // 2)) if len(ranked) > 1 else 0  # so no clip is among the best and the worst
    sure = negative[np.argsort(-records.confidence[negative], kind="stable")]
    found = {
        NEUTRAL: neutral,
        "Best": ranked[:half].tolist(),
        "Worst": ranked[len(ranked) - half :][::-1].tolist(),
        "Most confident negatives": sure[:count].tolist(),
    }
    return {title: chosen for title, chosen in found.items() if chosen}


def groups(
    evaluation: Evaluation, clip_set: ClipSet, model: Method, threshold: float | None = None
) -> dict[str, list[Tile]]:
    """Overlays of the chosen clips under their titles; needs an evaluation that kept its maps.

    The colours mean the same in every picture. From `threshold` on a source is called visible; without
    one nothing is said of that.
    """
    chosen = choices(evaluation)
    drawn = tiles(evaluation, clip_set, model, sorted({i for some in chosen.values() for i in some}), threshold)
    return {title: [drawn[i] for i in some] for title, some in chosen.items()}


def tiles(
    evaluation: Evaluation, clip_set: ClipSet, model: Method, chosen: Sequence[int], threshold: float | None = None
) -> dict[int, Tile]:
    """Overlays of the records at some positions."""
    if evaluation.maps is None:
        raise ValueError("Expected an evaluation with its maps, but it was made without keep_maps=True.")
    at = {row.id: i for i, row in enumerate(clip_set.rows)}
    low, high = np.quantile(scaled(*evaluation.maps.which(evaluation.protocol.map)), [0.5, 0.98])
    drawn: dict[int, Tile] = {}
    for i in chosen:
        place, sure = at[str(evaluation.records.id[i])], float(evaluation.records.confidence[i])
        row, accepted = clip_set.rows[place], threshold is None or sure >= threshold
        frame = clip_set.read(place, model.inputs.rate, model.inputs.seconds).frame
        prediction = predict(evaluation.maps.one(i), evaluation.protocol, (frame.shape[1], frame.shape[2]))
        heard = brief(row.label, LETTERS) or (row.kind if row.kind in ("silence", "noise") else "the room")
        text = f"hears {heard}" + ("" if threshold is None else ": visible" if accepted else ": no visible source")
        overlap = f"cIoU {evaluation.records.ciou[i]:.2f}"
        detail = overlap if row.positive else f"negative, {brief(row.kind, LETTERS)}"
        mask = prediction.mask[0] if accepted else None
        score = stretch(prediction.score[0], float(low), float(high))
        drawn[i] = Tile(frame, score, f"{text}\n{detail}, confidence {sure:.2f}", mask, row.boxes, row.id)
    return drawn
