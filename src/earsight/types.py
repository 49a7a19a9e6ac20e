"""The values that cross borders between parts. Shapes are checked once, on construction.

Nothing here imports torch: the tensor types are names for the type checker only.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from torch import Tensor

U8 = npt.NDArray[np.uint8]
I16 = npt.NDArray[np.int16]
I64 = npt.NDArray[np.int64]
F32 = npt.NDArray[np.float32]
Mask = npt.NDArray[np.bool_]
Box = tuple[float, float, float, float]
"""x0, y0, x1, y1 as fractions of width and height, x to the right and y down."""
Bounds = tuple[float, float] | None
"""Lowest and highest value that a map can have in theory; None when it is not bounded."""

POSITIVE = "positive"


def _check(ok: bool, what: str, got: object) -> None:
    if not ok:
        raise ValueError(f"Expected {what}, but got {got}.")


@dataclass(frozen=True)
class Clip:
    """One picture and the sound around it, as they were recorded.

    Args:
        id: name of the clip, unique in its set.
        frame: uint8 (3, H, W), RGB.
        waveform: mono (S,): float32 nominally in [-1, 1], or int16 of which 32768 is 1.0, as packs hold it; S may be 0
            when there is no sound.
        rate: samples per second of `waveform`.
        time: position of the frame inside `waveform`, in seconds from its first sample.
    """

    id: str
    frame: U8
    waveform: F32 | I16
    rate: int
    time: float

    @property
    def sound(self) -> Sound:
        return Sound(self.waveform, self.rate, self.time)

    def __post_init__(self) -> None:
        f, w = self.frame, self.waveform
        shaped = f.ndim == 3 and f.shape[0] == 3 and f.size > 0
        _check(f.dtype == np.uint8 and shaped, "frame uint8 (3, H, W)", (f.dtype, f.shape))
        heard = w.dtype in (np.float32, np.int16) and w.ndim == 1
        _check(heard, "waveform float32 or int16 (S,)", (w.dtype, w.shape))
        _check(self.rate > 0, "a positive rate", self.rate)


def floats(waveform: F32 | I16) -> F32:
    """Samples as float32, of which int16 ones are divided by 32768.

    >>> floats(np.array([-32768, 0, 16384], np.int16)).tolist()
    [-1.0, 0.0, 0.5]
    """
    whole = waveform.dtype == np.int16
    return (waveform.astype(np.float32) / np.float32(32768)) if whole else np.asarray(waveform, np.float32)


class Sound(NamedTuple):
    """What is heard of a clip: its samples as a Clip has them, how many a second, and where among them its frame is."""

    waveform: F32 | I16
    rate: int
    time: float


@dataclass(frozen=True)
class Row:
    """What is known of a clip before it is read: one line of a data set's manifest.

    Args:
        id: name of the clip, unique in its set.
        label: class of the sound; empty when unknown.
        kind: "positive", or the kind of negative ("real", "easy", "hard", ...).
        boxes: where the source is, as fractions of the picture; their union is the ground truth.
        consensus: how many boxes must cover a pixel for full weight (2 where several people annotated).
        picture: name of the recording that is seen; empty when it is `id`.
        sound: name of the recording that is heard; empty when it is `id`.
    """

    id: str
    label: str = ""
    kind: str = POSITIVE
    boxes: tuple[Box, ...] = ()
    consensus: int = 1
    picture: str = ""
    sound: str = ""

    @property
    def positive(self) -> bool:
        return self.kind == POSITIVE


class Neighbours(NamedTuple):
    """For each clip of the training list, int64 (N,): whose picture and whose sound a batch brings along with it."""

    pictures: Tensor
    sounds: Tensor


class Failure(NamedTuple):
    """A clip that could not be read, and why."""

    id: str
    reason: str


@dataclass(frozen=True)
class Batch:
    """Clips on their way from the process that reads them to the device. Until `to`, sounds are as they were read.

    Args:
        frames: uint8 (B, 3, S, S), cropped and flipped.
        waveforms: (B, N), exactly as long as the model hears: float32, or int16 of which 32768 is 1.0 until `to`.
        index: int64 (B,), position of each clip in its set.
        rows: B rows of the set's manifest; none on the way from a worker, which sends positions only.
        truth: float32 (B, S, S) in [0, 1], ground truth through the same crop and flip, 0 where it may not be trained
            on; None when not asked for.
        supervised: bool (B,), which clips have ground truth that may be trained on; None when not asked for.
        neighbour_pictures: uint8 (B, 3, S, S), the picture of each clip's neighbour; None when no neighbours were
            asked for.
        neighbour_sounds: (B, N), likewise, its sound.
        failures: clips of the batch that could not be read, and so are missing from it.
    """

    frames: Tensor
    waveforms: Tensor
    index: Tensor
    rows: tuple[Row, ...] = ()
    truth: Tensor | None = None
    supervised: Tensor | None = None
    neighbour_pictures: Tensor | None = None
    neighbour_sounds: Tensor | None = None
    failures: tuple[Failure, ...] = ()

    def __post_init__(self) -> None:
        b, picture, sound = len(self.index), tuple(self.frames.shape), tuple(self.waveforms.shape)
        _check(tuple(self.index.shape) == (b,), f"index ({b},)", tuple(self.index.shape))
        _check(len(self.rows) in (0, b), f"{b} rows or none", len(self.rows))
        square = len(picture) == 4 and picture[:2] == (b, 3) and picture[2] == picture[3]
        _check(square, f"frames ({b}, 3, S, S)", picture)
        _check(len(sound) == 2 and sound[0] == b, f"waveforms ({b}, N)", sound)
        for name, expected in (("truth", (b, *picture[2:])), ("supervised", (b,)), ("neighbour_pictures", picture),
                               ("neighbour_sounds", sound)):  # fmt: skip
            value: Tensor | None = getattr(self, name)
            if value is not None:
                _check(tuple(value.shape) == expected, f"{name} {expected}", tuple(value.shape))

    def __len__(self) -> int:
        return len(self.index)

    @property
    def ids(self) -> tuple[str, ...]:
        """The names of the clips."""
        return tuple(row.id for row in self.rows)

    def to(self, device: Any) -> Batch:
        """The batch on a device, with sounds as float32."""
        batch = self.each(lambda x: x.to(device, non_blocking=True))
        near = None if batch.neighbour_sounds is None else _floats(batch.neighbour_sounds)
        return replace(batch, waveforms=_floats(batch.waveforms), neighbour_sounds=near)

    def pin_memory(self) -> Batch:
        """The batch in page-locked memory, from where a GPU copies it while it computes; torch's loader calls this."""
        return self.each(lambda x: x.pin_memory())

    def tensors(self) -> dict[str, Tensor]:
        """Those of its parts that are tensors, by name."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: value for name, value in values.items() if hasattr(value, "shape")}

    def each(self, change: Callable[[Tensor], Tensor]) -> Batch:
        """The same of changed tensors."""
        changed: dict[str, Any] = {name: change(value) for name, value in self.tensors().items()}
        return replace(self, **changed)


def _floats(waveforms: Tensor) -> Tensor:
    """Sounds as float32, of which int16 ones are divided by 32768, without rounding."""
    return waveforms if waveforms.is_floating_point() else waveforms.float() / 32768


@dataclass(frozen=True)
class Step:
    """What a method's training step returns.

    Args:
        loss: what is to go down.
        logs: detached scalars to log, on the device of the loss.
        maps: the maps of this process's clips as training sees them, with gradient, for ground truth to pull at; None
            when the method has none, or when the batch has no ground truth.
    """

    loss: Tensor
    logs: Mapping[str, Tensor] = field(default_factory=dict)
    maps: Maps | None = None


@dataclass(frozen=True)
class Maps:
    """A method's answer for B pairs, each independent of the others.

    Args:
        native: (B, h, w), the map the method's paper draws.
        dense: (B, h, w), the same order without plateaus; this is what gets thresholded unless a protocol says native.
        bounds: lowest and highest value `dense` can take in theory, or None when unbounded.
        confidence: (B,), the method's own score for "the source is visible", or None when it has none.
        native_bounds: the bounds of `native`; those of `dense` when both are one map.
    """

    native: Tensor
    dense: Tensor
    bounds: Bounds = None
    confidence: Tensor | None = None
    native_bounds: Bounds = None

    def __post_init__(self) -> None:
        _check_maps(self)

    def each(self, change: Callable[[Tensor], Tensor]) -> Maps:
        """The same of changed tensors: moved, or cut to some of the pairs."""
        dense = change(self.dense)
        native = dense if self.native is self.dense else change(self.native)
        own = None if self.confidence is None else change(self.confidence)
        return Maps(native, dense, self.bounds, own, self.native_bounds)

    def arrays(self) -> MapArrays:
        """The same in numpy: the border between methods and all that is made of their maps."""
        host = self.each(lambda x: x.detach().float().cpu())
        dense = host.dense.numpy()
        native = dense if host.native is host.dense else host.native.numpy()
        own = None if host.confidence is None else host.confidence.numpy()
        return MapArrays(native, dense, self.bounds, own, self.native_bounds)


@dataclass(frozen=True)
class MapArrays:
    """Maps as float32 arrays, of a method, an exported model or a file; for each argument see `Maps`."""

    native: F32
    dense: F32
    bounds: Bounds = None
    confidence: F32 | None = None
    native_bounds: Bounds = None

    def __post_init__(self) -> None:
        _check_maps(self)

    def __len__(self) -> int:
        return len(self.dense)

    def __getitem__(self, part: slice) -> MapArrays:
        """The answers for some of the pairs."""
        dense = self.dense[part]
        native = dense if self.native is self.dense else self.native[part]
        own = None if self.confidence is None else self.confidence[part]
        return MapArrays(native, dense, self.bounds, own, self.native_bounds)

    def which(self, name: Literal["dense", "native"]) -> tuple[F32, Bounds]:
        """The map of that name and its bounds."""
        return (self.native, self.native_bounds) if name == "native" else (self.dense, self.bounds)

    def one(self, i: int) -> MapArrays:
        """The answer for one of the pairs, (1, h, w)."""
        return self[i : i + 1]

    def arrays(self) -> MapArrays:
        return self


def _check_maps(maps: Maps | MapArrays) -> None:
    dense, native = tuple(maps.dense.shape), tuple(maps.native.shape)
    _check(len(dense) == 3 and len(native) == 3, "maps (B, h, w)", (native, dense))
    _check(native[0] == dense[0], f"as many native maps as dense ones ({dense[0]})", native[0])
    if maps.confidence is not None:
        own = tuple(maps.confidence.shape)
        _check(own == dense[:1], f"confidence ({dense[0]},)", own)
    if maps.native is maps.dense and maps.native_bounds is None:
        object.__setattr__(maps, "native_bounds", maps.bounds)
