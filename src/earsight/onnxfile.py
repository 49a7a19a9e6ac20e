"""Localization models as ONNX files: what they say of themselves, and how they are run. No torch here."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy.typing as npt

from earsight.config import Inputs, from_json, need
from earsight.errors import CheckpointError, EarsightError, UsageError, how_to_install
from earsight.files import local_path, parse_json
from earsight.header import unusable
from earsight.judging import Bounds, Found, pairs
from earsight.resampling import squeezed
from earsight.types import F32, U8

FORMAT = 1
KEY = "earsight"
"""Of the file's metadata, under which earsight's JSON is."""
SUFFIX = ".onnx"
SEEN, KNOWN = "seen_", "known_"
"""Before the numbers of the outputs that hold what was made of pictures alone, and of the inputs that take it back."""
INSTALL = f"Install them, {how_to_install('onnx')}"


class OnnxModel:
    """A session of onnxruntime with the settings that its file carries.

    Args:
        path: what `earsight export` wrote.
        device: "auto", "cpu" or "cuda"; the last needs onnxruntime-gpu, and "auto" takes it where it is.
        threads: that one answer is computed by; 0 for one for each core.
    """

    def __init__(self, path: Path, device: str = "auto", threads: int = 0) -> None:
        self._session = _opened(local_path(path), device, threads)
        header = _parsed(self._session.get_modelmeta().custom_metadata_map.get(KEY), path)
        self.meta: dict[str, Any] = header
        self.name: str = header["method"]
        self.inputs: Inputs = _inputs(header["inputs"], path)
        self._bounds, self._native = (_bounds(header.get(key), path) for key in ("bounds", "native_bounds"))
        self._given = {one.name for one in self._session.get_inputs()}
        gives = [one.name for one in self._session.get_outputs()]
        self._asked = [name for name in gives if not name.startswith(SEEN)]
        self._keeps = [name for name in gives if name.startswith(SEEN)]
        self._last: tuple[bytes, dict[str, Any]] = b"", {}
        """The picture of the last question that had only one, and what was made of it."""
        needed = {"frames", "waveforms", "picture", "sound"}
        if not self._given <= needed or "dense" not in self._asked:
            raise CheckpointError(
                f"Expected a model from {', '.join(sorted(needed))} to dense, but got other names in {path}. "
                "Write it again: earsight export WEIGHTS"
            )
        self._given |= {one.name for one in self._session.get_overridable_initializers()}

    def see(self, picture: U8) -> U8:
        """What the model sees of a picture (3, H, W): uint8 (3, S, S)."""
        return squeezed(picture, self.inputs.image_size)

    def localize(
        self,
        frames: U8,
        waveforms: F32,
        picture: npt.ArrayLike | None = None,
        sound: npt.ArrayLike | None = None,
    ) -> Found:
        """Answers for pictures uint8 (P, 3, S, S) and sounds float32 (M, N).

        Each picture goes with the sound at its place, unless `picture` (B,) and `sound` (B,) say which goes with which:
        one picture with a hundred sounds is then looked at once, and not again when the last question was about it too.
        """
        seen, heard = pairs(len(frames), len(waveforms), picture, sound)
        feeds = {"frames": frames, "waveforms": waveforms, "picture": seen, "sound": heard}
        wanted = self._asked
        if self._keeps and len(frames) == 1:
            last, known = self._last
            if last == (now := frames.tobytes()):  # no picture at all, then, but what was made of it
                feeds["frames"] = frames[:0]
                feeds |= known
            else:
                wanted = [*self._asked, *self._keeps]
        values = self._session.run(wanted, {name: feeds[name] for name in feeds if name in self._given})
        out = dict(zip(wanted, values, strict=True))
        if len(wanted) > len(self._asked):
            self._last = now, {KNOWN + name.removeprefix(SEEN): out[name] for name in self._keeps}
        same = "native" not in out
        own = self._bounds if same else self._native
        return Found(out["dense"], out["dense" if same else "native"], self._bounds, own, out.get("confidence"))


def is_onnx(path: Path | str) -> bool:
    """Whether a path names an ONNX file.

    >>> is_onnx("model.onnx"), is_onnx("run/weights.safetensors")
    (True, False)
    """
    return Path(path).suffix.lower() == SUFFIX


def _runtime() -> Any:
    try:
        import onnxruntime
    except ImportError as error:
        raise UsageError(
            f"Expected onnxruntime, to localize with an ONNX file, but it is not here ({error}). {INSTALL}"
        ) from error
    return onnxruntime


def _opened(path: Path, device: str, threads: int) -> Any:
    """A session that runs the file."""
    runtime = _runtime()
    if not path.is_file():
        raise CheckpointError(f"Expected an ONNX file, but there is nothing at {path}. Check the path.")
    options = runtime.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 3  # what it warns of is not for the people who use a file
    # Threads that wait for work without sleeping would take the cores from decoding and drawing.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    try:
        return runtime.InferenceSession(str(path), options, providers=_providers(runtime, device))
    except EarsightError:
        raise
    except Exception as error:  # onnxruntime's errors have no common class
        reason = " ".join(str(error).split())[:200]
        raise CheckpointError(
            f"Expected an ONNX model, but {path} cannot be run ({reason}). Write it again: earsight export WEIGHTS"
        ) from error


def _providers(runtime: Any, device: str) -> list[str]:
    need(device.split(":")[0] in ("auto", "cpu", "cuda"), "device auto, cpu or cuda", device)
    has = "CUDAExecutionProvider" in runtime.get_available_providers()
    do = "Install onnxruntime-gpu in place of onnxruntime, or use --device cpu."
    need(has or not device.startswith("cuda"), "a GPU that onnxruntime can use for device cuda", "none", do)
    return [*(["CUDAExecutionProvider"] if has and device != "cpu" else []), "CPUExecutionProvider"]


def _parsed(text: str | None, path: Path) -> dict[str, Any]:
    do = "Write it again: earsight export WEIGHTS"
    if text is None:
        raise CheckpointError(f"Expected a file that earsight exported, but {path} says nothing of earsight. {do}")
    try:
        header = parse_json(text)
    except ValueError as error:
        raise CheckpointError(f"Expected JSON in the metadata of {path}, but got: {error}. {do}") from error
    if not isinstance(header, dict) or header.get("format") != FORMAT:
        got = header.get("format") if isinstance(header, dict) else type(header).__name__
        raise CheckpointError(f"Expected an export of format {FORMAT}, but {path} has {got}. {do}")
    kinds = {"method": str, "inputs": dict, "versions": dict}
    wrong = unusable(header, kinds)
    if wrong:
        raise CheckpointError(f"Expected {', '.join(kinds)} in {path}, but got no usable {', '.join(wrong)}. {do}")
    return header


def _inputs(values: dict[str, Any], path: Path) -> Inputs:
    try:
        return from_json(Inputs, values)
    except EarsightError as error:
        raise CheckpointError(
            f"Expected input settings in {path}, but got: {error} Write it again: earsight export WEIGHTS"
        ) from error


def _bounds(given: Any, path: Path) -> Bounds:
    try:
        return None if given is None else (float(given[0]), float(given[1]))
    except (TypeError, ValueError, LookupError) as error:
        raise CheckpointError(
            f"Expected two numbers as bounds in {path}, but got {given!r:.40}. Write it again: earsight export WEIGHTS"
        ) from error
