"""What a metric is: a function of per-clip records. Records merge over processes, and their order never matters.

A file in metrics/ defines RANGE (lowest and highest value), HIGHER_IS_BETTER (one entry per number) and
`compute(records, protocol) -> dict[str, float]`. Numbers are fractions; what is undefined is NaN.

A bootstrap asks for the numbers of thousands of samples. A file may define `of_counts(records, protocol)` too, a
function that gives some of its numbers from how often each clip is in a sample, int64 (N,); for all others `compute` is
called on the sample's records.

A metric that needs a number per clip from its map defines `per_clip(clip: ClipMap, protocol) -> dict[str, float]` too,
with the same names for every clip. Its `compute` finds them in `records.column(name)`.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields
from functools import cached_property
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from earsight import registry
from earsight.errors import DataError
from earsight.files import write_bytes
from earsight.types import F32, I64, POSITIVE, Row

if TYPE_CHECKING:
    from earsight.protocols import Protocol

F64 = npt.NDArray[np.float64]
Strings = npt.NDArray[np.str_]
Bools = npt.NDArray[np.bool_]
OfCounts = Callable[[I64], dict[str, float]]
"""The numbers of a sample, from how often each clip is in it."""
SIZES = tuple(round(0.1 * i, 1) for i in range(1, 10))
"""Shares of the picture at which predictions of a fixed size are measured."""
TITLES = {"ap": "AP", "max_f1": "max-F1", "loc_acc": "LocAcc", "auc": "AUC", "auroc": "AUROC"}
"""The numbers that tables and curves show, and as what."""


TEXTS = ("id", "kind", "label")
EXTRA = "clip/"
"""What columns of `per_clip` begin with in a file of records."""
LARGEST = 512 << 20
"""Bytes of a file of records; a million clips take less."""


def heading(name: str, gammas: Collection[float] = ()) -> str:
    """What a number is called in tables; LocAcc with the field's word for it, where one gamma is meant.

    >>> heading("loc_acc", {0.5}), heading("loc_acc", {0.5, 0.75}), heading("loc_acc/small", {0.5}), heading("ap")
    ('LocAcc (cIoU@0.5)', 'LocAcc', 'LocAcc small', 'AP')
    """
    family, _, part = name.partition("/")
    if name == "loc_acc" and len(gammas) == 1:
        part = f"(cIoU@{next(iter(gammas)):g})"
    return f"{TITLES.get(family, family)} {part}".rstrip()


def headings(gammas: Collection[float] = (), *, negatives: bool = True) -> dict[str, str]:
    """The main numbers with their headings, in the order in which they lead.

    Without `negatives` LocAcc and AUC come first: the others are about the confidence, which then tells nothing apart.
    """
    first = () if negatives else ("loc_acc", "auc")
    return {name: heading(name, gammas) for name in (*first, *TITLES)}


def without_negatives(numbers: Mapping[str, float | None]) -> bool:
    """Whether numbers are of positives alone: then LocAcc is defined and AUROC is not."""
    known = {name for name in ("loc_acc", "auroc") if (value := numbers.get(name)) is not None and value == value}
    return known == {"loc_acc"}


@dataclass(frozen=True)
class ClipMap:
    """A clip as `per_clip` has it, at the protocol's size. The arrays are gone after the call, and may not be changed.

    Args:
        row: what the set's list says of the clip, boxes included.
        score: float32 (H, W), the map scaled by its bounds.
        mask: bool (H, W), the pixels that the protocol keeps.
        truth: float32 (H, W) in [0, 1], the ground truth; 0 everywhere for negatives.
    """

    row: Row
    score: F32
    mask: Bools
    truth: F32


def _not_given() -> F64:
    return np.zeros(0)


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
        support: pixels with any ground truth; the area unless weights below 1 make it more.
        predicted: pixels that the protocol keeps of the map; NaN when that was not measured.
        by_size: (N, 9), cIoU of the highest 10%, 20%, ... 90% of the pixels, NaN for negatives; (N, 0) when that was
            not measured.
        peak: weight of the ground truth at the pixel with the highest score; NaN for negatives and when that was not
            measured.
        extra: columns that metrics measured with `per_clip`, by name.
    """

    id: Strings
    kind: Strings
    label: Strings
    area: F64
    confidence: F64
    ciou: F64
    support: F64 = field(default_factory=_not_given)
    predicted: F64 = field(default_factory=_not_given)
    by_size: F64 = field(default_factory=_not_given)
    peak: F64 = field(default_factory=_not_given)
    extra: Mapping[str, F64] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in self.names():
            kind = np.str_ if name in TEXTS else np.float64
            object.__setattr__(self, name, np.asarray(getattr(self, name), dtype=kind))
        without = {
            "support": self.area,
            "predicted": np.full(len(self.id), np.nan),
            "by_size": np.zeros((len(self.id), 0)),
            "peak": np.full(len(self.id), np.nan),
        }
        for name, value in without.items():
            if getattr(self, name).shape == (0,):
                object.__setattr__(self, name, value)
        lengths = {name: len(getattr(self, name)) for name in self.names()}
        lengths |= {name: len(values) for name, values in self.extra.items()}
        if len(set(lengths.values())) > 1 or self.id.ndim != 1:
            raise ValueError(f"Expected columns of one length, but got {lengths}.")
        if self.by_size.ndim != 2 or self.by_size.shape[1] not in (0, len(SIZES)):
            raise ValueError(f"Expected by_size (N, {len(SIZES)}) or (N, 0), but got {self.by_size.shape}.")
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
    def of(cls, rows: Sequence[Row], **columns: F64) -> Records:
        """Records of these rows with the other columns by name; the cIoU of negatives becomes NaN.

        The names of columns of `per_clip` begin with `EXTRA`.
        """
        negative = np.array([not row.positive for row in rows], dtype=bool)
        for name in ("ciou", "by_size", "peak"):
            if name in columns:
                columns[name] = columns[name].copy()
                columns[name][negative] = np.nan
        id, kind, label = (np.array([getattr(row, name) for row in rows], np.str_) for name in ("id", "kind", "label"))
        extra = {name.removeprefix(EXTRA): columns.pop(name) for name in list(columns) if name.startswith(EXTRA)}
        return cls(id, kind, label, **columns, extra=extra)

    @classmethod
    def concat(cls, parts: Sequence[Records]) -> Records:
        """The parts one after another, as several processes or batches made them."""
        plain: list[Any] = [np.concatenate([getattr(part, name) for part in parts]) for name in cls.names()]
        names = parts[0].extra if parts else {}
        extra = {name: np.concatenate([part.column(name) for part in parts]) for name in names}
        return cls(*[*plain, extra])

    @classmethod
    def names(cls) -> list[str]:
        """All columns but those of `extra`."""
        return [column.name for column in fields(cls) if column.name != "extra"]

    def __len__(self) -> int:
        return len(self.id)

    @cached_property
    def positives(self) -> Bools:
        positives: Bools = self.kind == POSITIVE
        return positives

    def column(self, name: str) -> F64:
        """A column of `per_clip`, (N,); NaN where it was not measured."""
        return self.extra[name] if name in self.extra else np.full(len(self), np.nan)

    def where(self, keep: npt.NDArray[Any]) -> Records:
        """The records that a mask or an index selects."""
        return Records(*self._selected(keep))

    def _selected(self, keep: npt.NDArray[Any]) -> list[Any]:
        extra = {name: values[keep] for name, values in self.extra.items()}
        return [*(getattr(self, name)[keep] for name in self.names()), extra]

    def drawn(self, index: I64) -> Records:
        """The records at these positions, which may repeat, as a bootstrap draws them. Not checked again."""
        new = object.__new__(Records)
        for column, values in zip(fields(self), self._selected(index), strict=True):
            object.__setattr__(new, column.name, values)
        new.__dict__["positives"] = self.positives[index]  # comparing words thousands of times would be slow
        return new

    def sorted_by_id(self) -> Records:
        return self.where(np.argsort(self.id, kind="stable"))

    def write(self, path: Path) -> None:
        """As a csv file, atomically: a line for each clip, nothing where a number is NaN, by_size/0.1 and so on."""
        plain = [name for name in self.names() if name != "by_size"]
        columns = [getattr(self, name).tolist() for name in plain] + self.by_size.T.tolist()
        columns += [values.tolist() for values in self.extra.values()]
        names = plain + [f"by_size/{size}" for size in SIZES[: self.by_size.shape[1]]]
        names += [f"{EXTRA}{name}" for name in self.extra]
        text = io.StringIO()
        lines = csv.writer(text, lineterminator="\n")
        lines.writerow(names)
        lines.writerows(zip(*([("" if x != x else x) for x in column] for column in columns), strict=True))
        write_bytes(path, text.getvalue().encode("utf-8", "surrogateescape"))  # ids may be names of files

    @classmethod
    def read(cls, path: Path) -> Records:
        """From a csv file with these columns; others are ignored, and those with a default may be missing.

        Whatever is wrong with the file is a ValueError.
        """
        if path.stat().st_size > LARGEST:
            raise ValueError(f"more than {LARGEST >> 20} MiB")
        with path.open(encoding="utf-8", errors="surrogateescape", newline="") as file:
            reader = csv.DictReader(file)
            try:
                known, lines = set(reader.fieldnames or ()), list(reader)
            except csv.Error as error:
                raise ValueError(str(error)) from error
        names = cls.names()
        missing = [f.name for f in fields(cls) if f.default_factory is MISSING and f.name not in known]
        if missing or any(None in line or None in line.values() for line in lines):
            raise ValueError(f"no {', '.join(missing)}" if missing else "lines of other lengths than the first")

        def numbers(name: str) -> F64:
            return np.array([float(line[name] or "nan") for line in lines], np.float64)

        found: dict[str, Any] = {name: numbers(name) for name in names if name in known and name not in TEXTS}
        found |= {name: np.array([line[name] for line in lines], np.str_) for name in TEXTS}
        sizes = [f"by_size/{size}" for size in SIZES]
        if known.issuperset(sizes):
            found["by_size"] = np.stack([numbers(name) for name in sizes], axis=1)
        found["extra"] = {name.removeprefix(EXTRA): numbers(name) for name in sorted(known) if name.startswith(EXTRA)}
        return cls(**found)


def reached(ciou: F64, protocol: Protocol, gamma: float | None = None) -> Bools:
    """Where a cIoU is a hit: >= gamma, or > gamma where the protocol is strict. NaN, a negative's, is none."""
    gamma = protocol.gamma if gamma is None else gamma
    return np.asarray(ciou > gamma if protocol.strict_hits else ciou >= gamma)


def hits(records: Records, protocol: Protocol) -> Bools:
    """Which clips are positives found in the right place."""
    return records.positives & reached(records.ciou, protocol)


def ratio(over: F64, under: F64) -> F64:
    """over / under, and 1 where both are 0."""
    return np.where(under > 0, over / np.maximum(under, 1), 1.0)


def module_of(name: str) -> ModuleType:
    """The metric file that defines a number: "ap", or "loc_acc/small" where "loc_acc/*" or itself is defined."""
    found = {}
    for file in registry.names("metric"):
        module = registry.load("metric", file)
        found.update(dict.fromkeys(module.HIGHER_IS_BETTER, module))
    family = f"{name.partition('/')[0]}/*"
    if name not in found and (family not in found or "/" not in name):
        raise registry.unknown("number", name, sorted(found))
    return found.get(name) or found[family]


def higher_is_better(name: str) -> bool:
    """Whether more of this number is better."""
    better = module_of(name).HIGHER_IS_BETTER
    return bool(better[name] if name in better else better[f"{name.partition('/')[0]}/*"])


def defined(value: float) -> float | None:
    """The number, or None where it is undefined: JSON has no NaN.

    >>> defined(0.5), defined(float("nan"))
    (0.5, None)
    """
    return None if math.isnan(value) else value
