"""Exported models: what they say of themselves, and how their ONNX graphs are run. No torch here.

An export may be a stranger's. Its graphs are checked before a runtime reads them (onnxgraph.py); what they compute then
has a limit of memory in onnxruntime's own allocator, and of time by its stop flag, in this process: both cost nothing,
where a process with limits would need its own copy of the runtime. One operator cannot be stopped, but has to fit the
memory.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Mapping
from concurrent.futures import Future, wait
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from earsight.config import Inputs, from_json, need
from earsight.errors import CheckpointError, EarsightError, UsageError
from earsight.files import local_path, read_json
from earsight.header import unusable
from earsight.onnxgraph import need_plain_graph
from earsight.predict import pairs
from earsight.resampling import squeezed
from earsight.types import F32, U8, Bounds, MapArrays

FORMAT = 2
CONFIG = "config.json"
PICTURE, SOUND, COMPARE, WHOLE = "picture.onnx", "sound.onnx", "compare.onnx", "model.onnx"
"""Files of an export: three graphs of a method that compares features, or the whole of another."""
MEMORY = 4 << 30
"""Bytes that all models of a process may take for their values."""
SECONDS = 300.0
"""Time for one graph's answers to one call."""
TICK = 0.2
"""Seconds after which Ctrl-C and the time limit are looked for."""
GRACE = 5.0
"""Seconds that an operator gets to end when its answers are not wanted any more."""
NO_LOG = 4
"""Of onnxruntime's levels: warnings are not for the people who use a file, and errors are raised."""
MOST_SIDE = 1024
"""Longest side of a map."""
AGAIN = "Write it again: earsight export WEIGHTS"
Arrays = dict[str, Any]


class OnnxModel:
    """An exported model, run by onnxruntime with the settings that its folder carries.

    Args:
        path: what `earsight export` wrote.
        device: "auto", "cpu" or "cuda"; the last needs onnxruntime-gpu, and "auto" takes it where it is.
        threads: that one answer is computed by; 0 for one for each core.
    """

    def __init__(self, path: Path, device: str = "auto", threads: int = 0) -> None:
        self._path = local_path(path)
        self.meta: dict[str, Any] = read_config(self._path)
        self.name: str = self.meta["method"]
        self.inputs: Inputs = _inputs(self.meta["inputs"], path)
        self._bounds, self._native = (_bounds(self.meta.get(key), path) for key in ("bounds", "native_bounds"))
        names = (PICTURE, SOUND, COMPARE) if (self._path / COMPARE).is_file() else (WHOLE,)
        self._graphs = {name: _Graph(self._path / name, device, threads) for name in names}
        if "dense" not in self._graphs[names[-1]].outputs:
            raise CheckpointError(f"Expected a graph that gives dense maps, but {path} / {names[-1]} has none. {AGAIN}")
        self._last: tuple[bytes, Arrays] | None = None
        """The picture of the last call that had only one, and its features."""

    def see(self, picture: U8) -> U8:
        """What the model sees of a picture (3, H, W): uint8 (3, S, S)."""
        return squeezed(picture, self.inputs.image_size)

    def localize(
        self, frames: U8, waveforms: F32, picture: npt.ArrayLike | None = None, sound: npt.ArrayLike | None = None
    ) -> MapArrays:
        """Answers for pictures uint8 (P, 3, S, S) and sounds float32 (M, N).

        Each picture goes with the sound at its place, unless `picture` (B,) and `sound` (B,) say which goes with which:
        one picture with a hundred sounds is then encoded once, and not again when the last call was about it too.
        """
        of_picture, of_sound = pairs(len(frames), len(waveforms), picture, sound)
        if WHOLE in self._graphs:
            graph = self._graphs[WHOLE]
            out = graph.run({"pictures": frames[of_picture], "sounds": waveforms[of_sound]})
        else:
            image = self._image_features(frames)
            audio = self._graphs[SOUND].features({"sounds": waveforms})
            rows = {name: x[of_picture] for name, x in image.items()} | {name: x[of_sound] for name, x in audio.items()}
            out = self._graphs[COMPARE].run(rows)
        self._check(out, len(of_picture))
        native, bounds = out["dense"], self._bounds
        if "native" in out:
            native, bounds = out["native"], self._native
        return MapArrays(native, out["dense"], self._bounds, out.get("confidence"), bounds)

    def _image_features(self, frames: U8) -> Arrays:
        key = frames.tobytes() if len(frames) == 1 else b""
        if key and self._last is not None and self._last[0] == key:
            return self._last[1]
        features = self._graphs[PICTURE].features({"pictures": frames})
        if key:
            self._last = key, features
        return features

    def _check(self, out: Arrays, pairs: int) -> None:
        """Refuse answers that are no maps, and no confidences, of so many pairs."""
        for name in [one for one in ("dense", "native", "confidence") if one in out]:
            value, rank = out[name], 1 if name == "confidence" else 3
            shape, kind = np.shape(value), getattr(value, "dtype", type(value).__name__)
            fits = len(shape) == rank and shape[0] == pairs and all(1 <= side <= MOST_SIDE for side in shape[1:])
            if kind != np.float32 or not fits:
                what = f"({pairs},)" if rank == 1 else f"({pairs}, h, w) with sides up to {MOST_SIDE}"
                raise CheckpointError(
                    f"Expected {name} as float32 {what} from {self._path}, but got {kind} {shape}. {AGAIN}"
                )
        if "confidence" in out and not np.isfinite(out["confidence"]).all():
            raise CheckpointError(
                f"Expected finite confidences from {self._path}, but got NaN or infinity. Check the weights."
            )


class _Graph:
    """One graph, run within limits. Inputs and outputs go by their names; inputs that it does not use are left out."""

    def __init__(self, path: Path, device: str, threads: int) -> None:
        self._path, self._runtime = path, _runtime()
        self._session = _opened(self._runtime, path, device, threads)
        self._inputs = [one.name for one in self._session.get_inputs()]
        self.outputs = [one.name for one in self._session.get_outputs()]

    def run(self, inputs: Mapping[str, Any]) -> Arrays:
        """The outputs by name."""
        missing = [name for name in self._inputs if name not in inputs]
        if missing:
            raise CheckpointError(
                f"Expected a graph of {', '.join(inputs)}, but {self._path} asks for {', '.join(missing)}. {AGAIN}"
            )
        return dict(zip(self.outputs, self._run({name: inputs[name] for name in self._inputs}), strict=True))

    def features(self, inputs: Mapping[str, Any]) -> Arrays:
        """The outputs by name, each with a row for each row of the one input."""
        out, (rows,) = self.run(inputs), (len(value) for value in inputs.values())
        for name, value in out.items():
            if np.shape(value)[:1] != (rows,):
                raise CheckpointError(
                    f"Expected {rows} rows of {name} from {self._path}, but got {np.shape(value)}. {AGAIN}"
                )
        return out

    def _run(self, feeds: Mapping[str, Any]) -> list[Any]:
        """The outputs, computed by another thread, so that Ctrl-C and the time limit reach this one."""
        options, answer = self._runtime.RunOptions(), Future[list[Any]]()
        options.log_severity_level = NO_LOG

        def work() -> None:
            try:
                answer.set_result(self._session.run(self.outputs, feeds, options))
            except BaseException as error:  # raised below
                answer.set_exception(error)

        thread = threading.Thread(target=work, daemon=True)
        thread.start()
        fewer = f"Ask about fewer pictures at a time. {AGAIN}"
        try:
            until = time.monotonic() + SECONDS
            while not wait([answer], TICK).done:
                if time.monotonic() > until:
                    raise CheckpointError(
                        f"Expected answers within {SECONDS:g} s, but got none from {self._path}. {fewer}"
                    )
        finally:
            options.terminate = True
            thread.join(GRACE)
        if error := answer.exception():
            reason = " ".join(str(error).split())[-200:]  # first it says where in its own sources it was
            raise CheckpointError(
                f"Expected answers from {self._path} within {MEMORY >> 30} GiB of memory, but got: ...{reason} {fewer}"
            ) from error
        return answer.result()


def is_export(path: Path | str) -> bool:
    """Whether a path is a folder that `earsight export` wrote.

    >>> is_export("run/weights.safetensors")
    False
    """
    return (Path(path) / CONFIG).is_file()


def read_config(path: Path) -> dict[str, Any]:
    """What an exported model says of itself, checked."""
    if not (path / CONFIG).is_file():
        what = "a file" if path.is_file() else "a folder without it" if path.is_dir() else "nothing"
        raise CheckpointError(f"Expected an exported model, a folder with {CONFIG}, but {path} is {what}. {AGAIN}")
    try:
        header = read_json(path / CONFIG)
    except ValueError as error:
        raise CheckpointError(f"Expected JSON in {path / CONFIG}, but got: {error}. {AGAIN}") from error
    if not isinstance(header, dict) or header.get("format") != FORMAT:
        got = header.get("format") if isinstance(header, dict) else type(header).__name__
        raise CheckpointError(f"Expected an export of format {FORMAT}, but {path} has {got}. {AGAIN}")
    kinds = {"method": str, "inputs": dict, "versions": dict}
    wrong = unusable(header, kinds)
    if wrong:
        raise CheckpointError(f"Expected {', '.join(kinds)} in {path}, but got no usable {', '.join(wrong)}. {AGAIN}")
    return header


def _runtime() -> Any:
    try:
        import onnxruntime
    except ImportError as error:
        raise UsageError(
            f"Expected onnxruntime, to localize with an exported model, but it is not here ({error}). "
            "Install it: pip install onnxruntime"
        ) from error
    return onnxruntime


@cache
def _limit_memory() -> None:
    """Let all sessions of this process compute in the memory of one allocator, which has a limit."""
    runtime = _runtime()
    where = runtime.OrtMemoryInfo("Cpu", runtime.OrtAllocatorType.ORT_ARENA_ALLOCATOR, 0, runtime.OrtMemType.DEFAULT)
    try:
        runtime.create_and_register_allocator(where, runtime.OrtArenaCfg({"max_mem": MEMORY}))
    except Exception as error:  # onnxruntime's errors have no common class
        if "already" not in str(error):  # an allocator of the user's own
            raise


def _opened(runtime: Any, path: Path, device: str, threads: int) -> Any:
    """A session that runs the file."""
    if not path.is_file():
        raise CheckpointError(f"Expected an ONNX file, but there is nothing at {path}. Check the path.")
    need_plain_graph(path)
    _limit_memory()
    options = runtime.SessionOptions()
    options.add_session_config_entry("session.use_env_allocators", "1")
    options.intra_op_num_threads = threads
    options.log_severity_level = NO_LOG
    # Threads that wait for work without sleeping would take the cores from decoding and drawing.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    try:
        # Exports have no constants to fold, and before a run nothing is computed, so that nothing goes past the limits.
        given = {"providers": _providers(runtime, device), "disabled_optimizers": ["ConstantFolding"]}
        return runtime.InferenceSession(str(path), options, **given)
    except EarsightError:
        raise
    except Exception as error:  # onnxruntime's errors have no common class
        reason = " ".join(str(error).split())[:200]
        raise CheckpointError(f"Expected an ONNX model, but {path} cannot be run ({reason}). {AGAIN}") from error


def _providers(runtime: Any, device: str) -> list[Any]:
    need(device.split(":")[0] in ("auto", "cpu", "cuda"), "device auto, cpu or cuda", device)
    has = "CUDAExecutionProvider" in runtime.get_available_providers()
    do = "Install onnxruntime-gpu in place of onnxruntime, or use --device cpu."
    need(has or not device.startswith("cuda"), "a GPU that onnxruntime can use for device cuda", "none", do)
    on_gpu = ("CUDAExecutionProvider", {"gpu_mem_limit": MEMORY})
    return [*([on_gpu] if has and device != "cpu" else []), "CPUExecutionProvider"]


def _inputs(values: dict[str, Any], path: Path) -> Inputs:
    try:
        return from_json(Inputs, values)
    except EarsightError as error:
        raise CheckpointError(f"Expected input settings in {path}, but got: {error} {AGAIN}") from error


def _bounds(given: Any, path: Path) -> Bounds:
    if given is None:
        return None
    try:
        low, high = map(float, given)
    except (TypeError, ValueError):
        low = high = math.nan
    if not -math.inf < low < high < math.inf:
        raise CheckpointError(
            f"Expected two numbers as bounds in {path}, the lower first, but got {given!r:.40}. {AGAIN}"
        )
    return low, high
