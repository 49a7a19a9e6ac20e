"""`earsight list` and `earsight doctor`: what there is, and whether it works, tried out and not only looked up."""

from __future__ import annotations

import importlib
import importlib.metadata
import inspect
import math
import os
import platform
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Annotated, Literal

import tyro

from earsight import registry
from earsight.cli.screen import columns, say, say_json
from earsight.cli.settings import EXTRAS, Json, missing, require
from earsight.errors import EarsightError, how_to_install
from earsight.recipes import RECIPES

Kind = Literal["methods", "encoders", "samplers", "sets", "metrics", "protocols", "recipes", "presets", "tables"]
State = Literal["ok", "optional", "broken"]
MARKS = {"ok": "✓", "optional": "-", "broken": "✗"}
NEEDED = ("numpy", "av", "pillow", "tyro", "rich", "matplotlib", "safetensors", "onnxruntime")
USES = {
    "app": "the page in the browser, earsight app",
    "export": "exporting models, earsight export",
    "log": "training curves in TensorBoard",
    "train": "training, evaluation of weights, packs",
}
"""What each extra is for."""
_MODULES = {"pillow": "PIL"}  # what is imported, where it has another name than what is installed
_ROOM = 2e9  # bytes of free disk below which runs and packs soon fail


@dataclass(frozen=True)
class Check:
    """One thing looked at: "ok", "optional" (missing, and fine without), or "broken"."""

    name: str
    state: State
    detail: str


@dataclass(frozen=True, kw_only=True)
class List:
    """Names that other commands take, each with one line about it."""

    kind: Annotated[Kind, tyro.conf.Positional]
    """What to list."""
    json: Json = False


@dataclass(frozen=True, kw_only=True)
class Doctor:
    """Check that everything earsight needs is here and works."""

    json: Json = False


def run(settings: List | Doctor) -> int:
    return run_list(settings) if isinstance(settings, List) else run_doctor(settings)


def run_list(settings: List) -> int:
    kind = settings.kind
    rows = entries(kind)
    if settings.json:
        more = {
            name: {
                "method": recipe.method,
                "on": recipe.on,
                "train": recipe.train.replace("NAME", name),
                "evaluate": recipe.evaluate,
            }
            for name, recipe in (RECIPES if kind == "recipes" else {}).items()
        }
        say_json([{"name": name, "summary": summary, **more.get(name, {})} for name, summary in rows])
    elif kind == "recipes":
        say(recipes())
    elif rows:
        say(columns(rows))
    return 0


def entries(kind: str) -> list[tuple[str, str]]:
    """Name and summary of everything of a kind. Only presets need torch.

    >>> [name for name, _ in entries("sets") if name == "toybox"]
    ['toybox']
    """
    if kind == "protocols":
        return _protocols()
    if kind == "tables":
        from earsight.report.published import tables

        return tables()
    if kind == "recipes":
        return [(name, recipe.source) for name, recipe in RECIPES.items()]
    if kind == "presets":
        require("train", "torch", "torchvision")
        return [
            (f"{method} {name}", (inspect.getdoc(function) or "").split("\n")[0])
            for method in registry.names("method")
            for name, function in sorted(registry.load("method", method).PRESETS.items())
        ]
    one = kind.removesuffix("s")
    return [(name, registry.summary(one, name)) for name in registry.names(one)]


def recipes() -> str:
    """All recipes by what they train on and how they are measured, each with its source."""
    groups: dict[str, dict[str, list[tuple[str, str]]]] = {}
    for name, recipe in RECIPES.items():
        head = f"trained on {recipe.on}: {recipe.train}"
        groups.setdefault(head, {}).setdefault(recipe.evaluate, []).append((f"    {name}", recipe.source))
    return "\n\n".join(
        "\n".join([head, *(f"  {command}\n{columns(rows)}" for command, rows in commands.items())])
        for head, commands in groups.items()
    )


def _protocols() -> list[tuple[str, str]]:
    """Each protocol by what sets it apart from `exact`."""
    from earsight.protocols import PROTOCOLS

    plain = asdict(PROTOCOLS["exact"])
    rows = []
    for name, protocol in sorted(PROTOCOLS.items()):
        differs = [f"{key} {value}" for key, value in asdict(protocol).items() if key != "name" and value != plain[key]]
        choices = ("threshold", "level", "confidence", "ciou", "gamma")
        words = [f"{key} {plain[key]}" for key in choices] if name == "exact" else ["as exact, but", *differs]
        rows.append((name, f"{protocol.hash}  {', '.join(words).replace('but,', 'but')}"))
    return rows


def run_doctor(settings: Doctor) -> int:
    """Run every check; exit code 1 when something needed is broken."""
    found = list(checks())
    broken = [check.name for check in found if check.state == "broken"]
    if settings.json:
        say_json({"ok": not broken, "checks": [asdict(check) for check in found]})
    else:
        say(columns([(MARKS[check.state], check.name, check.detail) for check in found]))
        say(f"\nNot working: {', '.join(broken)}." if broken else "\nAll is well.")
    return int(bool(broken))


def checks() -> Iterator[Check]:
    version = platform.python_version()
    yield Check("python", "ok" if sys.version_info >= (3, 11) else "broken", f"{version} on {platform.platform()}")
    for name in NEEDED:
        yield tried(name, partial(_version, name))
    for extra, modules in EXTRAS.items():
        gone = missing(modules)
        for name in modules:
            if name in gone:
                yield Check(name, "optional", f"not installed: {USES[extra]} ({how_to_install(extra)})")
            else:  # what is installed for training has to work
                yield tried(name, partial(_version, name), otherwise="broken" if extra == "train" else "optional")
    there = [extra for extra, modules in EXTRAS.items() if not missing(modules)]
    yield Check("extras", "ok", f"installed: {', '.join(there) or 'none'}")
    yield tried("ffmpeg", _ffmpeg)
    yield tried("libx264", _encoder, otherwise="optional")
    yield Check("cores", "ok", f"{os.cpu_count()}")
    yield tried("memory", _memory, otherwise="optional")
    yield tried("disk", _disk)
    yield tried("video round trip", _video)
    if not missing(["torch"]):
        yield tried("gpu", _gpu, otherwise="optional")
        yield tried("imagenet weights", _imagenet, otherwise="optional")
        yield tried("training step", _training)


def tried(name: str, look: Callable[[], str], otherwise: State = "broken") -> Check:
    """The outcome of a check, whatever it raises: a broken installation raises nearly any class there is."""
    try:
        return Check(name, "ok", look())
    except Exception as error:
        return Check(name, otherwise, " ".join(f"{error}".split()) or type(error).__name__)


def _version(name: str) -> str:
    importlib.import_module(_MODULES.get(name, name))
    return importlib.metadata.version(name)


def _ffmpeg() -> str:
    import av

    libraries = (f"{name} {'.'.join(map(str, version))}" for name, version in sorted(av.library_versions.items()))
    return ", ".join(libraries)


def _encoder() -> str:
    import av

    if "libx264" not in av.codecs_available:
        raise EarsightError("not in this PyAV: overlay videos are written as MPEG-4 part 2, which browsers do not play")
    return "overlay videos are H.264"


def _gpu() -> str:
    import torch

    if not torch.cuda.is_available():
        raise EarsightError("none that CUDA can use: training and evaluation run on the CPU")
    names = [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]
    return f"{', '.join(names)}, CUDA {torch.version.cuda}"


def _memory() -> str:
    total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return f"{total / 1e9:.1f} GB"


def _disk() -> str:
    free = shutil.disk_usage(Path.cwd()).free
    if free < _ROOM:
        raise EarsightError(f"{free / 1e9:.1f} GB free in {Path.cwd()}: too little for a run; make room")
    return f"{free / 1e9:.1f} GB free in {Path.cwd()}"


def _imagenet() -> str:
    import torch

    from earsight.encoders.start_weights import IMAGENET_URL
    from earsight.files import sha256

    file = Path(torch.hub.get_dir()) / "checkpoints" / IMAGENET_URL.rsplit("/", 1)[-1]
    if not file.is_file():
        raise EarsightError(f"not cached: downloaded when first needed; offline, put {IMAGENET_URL} at {file}")
    digits = file.stem.rpartition("-")[2]
    if not sha256(file).startswith(digits):
        raise EarsightError(f"{file} is damaged or another file: its sha256 does not begin with {digits}; delete it")
    return str(file)


def _video() -> str:
    """Write a second of video with sound, read it back, and compare."""
    import numpy as np

    from earsight.media.read import read_clip
    from earsight.media.write import VideoWriter, write_wav

    with tempfile.TemporaryDirectory() as folder:
        sound, video = Path(folder) / "tone.wav", Path(folder) / "clip.mp4"
        tone = 0.5 * np.sin(np.arange(16000) / 16000 * 2 * np.pi * 440)
        write_wav(sound, tone.astype(np.float32), 16000)
        with VideoWriter(video, 64, 48, Fraction(10), sound_from=sound) as writer:
            for i in range(10):
                writer.write(np.full((3, 48, 64), 20 * i, np.uint8), i / 10)
        clip = read_clip(video, 0.5, 16000, 0.5)
    if clip.frame.shape != (3, 48, 64) or abs(float(clip.frame.mean()) - 100) > 8:
        raise EarsightError(
            f"a written frame comes back wrong ({clip.frame.shape}, mean {clip.frame.mean():.0f} for 100)"
        )
    loud = float(np.sqrt(np.mean(np.square(clip.waveform)))) if len(clip.waveform) else 0.0
    if abs(loud - 0.5 / 2**0.5) > 0.05:
        raise EarsightError(f"written sound comes back wrong (level {loud:.2f} for 0.35)")
    return "a clip with sound written and read back"


def _training() -> str:
    """One step of a tiny model on made-up clips, as the trainer takes it."""
    import torch

    from earsight.config import Inputs
    from earsight.encoders.base import Encoders
    from earsight.methods.slavc import Config, Model
    from earsight.types import Batch

    inputs = Inputs(image_size=32, resize=32, rate=4000, seconds=0.5, window=128, hop=64)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = Model(Config(encoders=Encoders("small", "small", weights="random", width=4), dim=8), inputs)
        frames = torch.randint(0, 256, (4, 3, 32, 32), dtype=torch.uint8)
        batch = Batch(frames, torch.randn(4, inputs.samples) * 0.1, torch.arange(4))
        optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
        step = model.train().loss(batch, [4])
        step.loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        model.after_step()
    loss = float(step.loss.detach())
    if not math.isfinite(loss):
        raise EarsightError(f"the loss of a tiny model is {loss}")
    return f"a tiny SLAVC takes a step (loss {loss:.3f})"
