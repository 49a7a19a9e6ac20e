"""What a metric is: a function of per-clip records. Records merge over processes, and their order never matters.

A file in metrics/ defines RANGE (lowest and highest value), HIGHER_IS_BETTER (one entry per number) and
`compute(records, protocol) -> dict[str, float]`. Numbers are fractions; what is undefined is NaN.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from earsight.errors import DataError
from earsight.types import POSITIVE, Row

if TYPE_CHECKING:
    from earsight.protocols import Protocol

F64 = npt.NDArray[np.float64]
Strings = npt.NDArray[np.str_]
Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Records:
    """One line per clip, as columns of equal length.

    Args:
        id: name of the clip, unique.
        kind: "positive", or the kind of negative.
        label: class of the sound; empty when unknown.
        area: sum of the ground-truth map at the protocol's size.
        confidence: how sure the model is that the source is visible; never NaN.
        ciou: overlap with the ground truth; NaN for negatives, which have none.
    """

    id: Strings
    kind: Strings
    label: Strings
    area: F64
    confidence: F64
    ciou: F64

    def __post_init__(self) -> None:
        for field in fields(self):
            kind = np.str_ if field.name in ("id", "kind", "label") else np.float64
            object.__setattr__(self, field.name, np.asarray(getattr(self, field.name), dtype=kind))
        lengths = {field.name: getattr(self, field.name).shape for field in fields(self)}
        if len(set(lengths.values())) > 1 or self.id.ndim != 1:
            raise ValueError(f"Expected columns of one length, but got {lengths}.")
        names, counts = np.unique(self.id, return_counts=True)
        if len(names) < len(self.id):
            raise DataError(
                f"Expected one record per clip, but got '{names[counts.argmax()]}' {counts.max()} times. "
                "Remove the duplicates, or give the clips names of their own."
            )
        bad = ~np.isfinite(self.confidence) | (self.positives & ~np.isfinite(self.ciou))
        if bad.any():
            raise DataError(
                f"Expected finite confidence and cIoU, but got NaN or infinity for {bad.sum()} clips "
                f"('{self.id[bad][0]}' first). Check the weights: training may have diverged."
            )

    @classmethod
    def of(cls, rows: Sequence[Row], area: F64, confidence: F64, ciou: F64) -> Records:
        """Records of these rows; the cIoU of negatives becomes NaN."""
        positive = np.array([row.positive for row in rows], dtype=bool)
        id, kind, label = (np.array([getattr(row, name) for row in rows], np.str_) for name in ("id", "kind", "label"))
        return cls(id, kind, label, area, confidence, np.where(positive, ciou, np.nan))

    @classmethod
    def concat(cls, parts: Sequence[Records]) -> Records:
        """The parts one after another, as several processes or batches made them."""
        return cls(*(np.concatenate([getattr(part, field.name) for part in parts]) for field in fields(cls)))

    def __len__(self) -> int:
        return len(self.id)

    @property
    def positives(self) -> Bools:
        positives: Bools = self.kind == POSITIVE
        return positives

    def where(self, keep: npt.NDArray[Any]) -> Records:
        """The records that a mask or an index selects."""
        return Records(*(getattr(self, field.name)[keep] for field in fields(self)))

    def sorted_by_id(self) -> Records:
        return self.where(np.argsort(self.id, kind="stable"))

    def to_table(self) -> Any:
        """As a pyarrow Table."""
        import pyarrow

        return pyarrow.table({field.name: getattr(self, field.name).tolist() for field in fields(self)})

    @classmethod
    def from_table(cls, table: Any) -> Records:
        """From a pyarrow Table with these columns; others are ignored."""
        names = [field.name for field in fields(cls)]
        missing = [name for name in names if name not in table.column_names]
        if missing:
            raise DataError(f"Expected records with {', '.join(names)}, but got no {', '.join(missing)}.")
        return cls(*(np.array(table[name].to_pylist()) for name in names))

    def write(self, path: Path) -> None:
        """As a Parquet file."""
        import pyarrow.parquet

        pyarrow.parquet.write_table(self.to_table(), path)

    @classmethod
    def read(cls, path: Path) -> Records:
        """From a Parquet file."""
        import pyarrow.parquet

        return cls.from_table(pyarrow.parquet.read_table(path))


def hits(records: Records, protocol: Protocol) -> Bools:
    """Which clips are positives found in the right place: cIoU >= gamma (> where the protocol is strict)."""
    found = records.ciou > protocol.gamma if protocol.strict_hits else records.ciou >= protocol.gamma
    return records.positives & found


def precision_recall(records: Records, protocol: Protocol, thresholds: F64) -> tuple[F64, F64]:
    """Precision and recall when every clip with confidence >= threshold claims a visible source.

    TP: a positive found in the right place; FP: a negative, or a positive in the wrong place; FN: a positive that makes
    no claim. A claim in the wrong place is no FN, so recall is 1 at the lowest threshold. 0/0 counts as 1.
    """

    def claims(of: Bools) -> F64:
        ordered = np.sort(records.confidence[of])
        return (len(ordered) - np.searchsorted(ordered, thresholds, side="left")).astype(np.float64)

    tp = claims(hits(records, protocol))
    everything = claims(np.ones(len(records), dtype=bool))
    missed = records.positives.sum() - claims(records.positives)
    return ratio(tp, everything), ratio(tp, tp + missed)


def ratio(over: F64, under: F64) -> F64:
    """over / under, and 1 where both are 0."""
    return np.where(under > 0, over / np.maximum(under, 1), 1.0)


def distinct_descending(records: Records) -> F64:
    """Every distinct confidence, highest first: equal confidences make one step of a curve, not several."""
    return np.unique(records.confidence)[::-1]
