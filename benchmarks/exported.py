"""An exported model against its weights: from nothing to the first answer, a whole command, and a batch."""

from __future__ import annotations

import itertools
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from benchmarks.measure import How, Result, compare
from earsight.checkpoint import save_weights
from earsight.config import Inputs
from earsight.data.toys.video import write_film
from earsight.encoders.base import Encoders
from earsight.export import example_pictures, example_sounds, export_onnx
from earsight.localize import Localizer
from earsight.localize.localizer import Model
from earsight.methods import slavc
from earsight.onnxfile import OnnxModel
from earsight.types import F32, U8

ANSWER = (
    "import sys, numpy; from earsight import Localizer; "
    "Localizer.load(sys.argv[1], 'cpu').localize(numpy.zeros((240, 320, 3), numpy.uint8), numpy.ones(9), 22050)"
)


def run(how: How) -> Result:
    """On a CPU, whatever the device: that is where models are shipped to."""
    inputs, rounds, warm = Inputs(), how.count(5, 1), how.count(1, 0)
    config = slavc.Config(encoders=Encoders(*2 * ("small" if how.quick else "resnet18",), weights="random"))
    with TemporaryDirectory() as folder:
        weights, exported, film = (Path(folder) / name for name in ("a.safetensors", "exported", "film.mp4"))
        save_weights(weights, slavc.Model(config, inputs), "slavc", config, {"protocol": "exact"})
        export_onnx(weights, exported)
        write_film(film)
        answers = [partial(python, "-c", ANSWER, model) for model in (exported, weights)]
        start = compare(*answers, rounds=rounds, warm=warm)

        def command(model: Path) -> None:
            flags = ("--end", 2, "--format", "json", "--out", folder, "--device", "cpu", "--force")
            python("-m", "earsight", "localize", model, film, *flags)

        whole = compare(lambda: command(exported), lambda: command(weights), rounds=how.count(3, 1), warm=warm)
        by_onnx, by_torch = OnnxModel(exported, "cpu", threads=1), Localizer.load(weights, "cpu").model
    seen, heard = np.repeat(example_pictures(inputs.image_size), 2, axis=0), example_sounds(inputs)
    batch = compare(lambda: by_onnx.localize(seen, heard), lambda: by_torch.localize(seen, heard), rounds=rounds)
    many = compare(_many_sounds(by_onnx, seen, heard), _many_sounds(by_torch, seen, heard), rounds=rounds)
    return Result(
        "exported",
        f"{'small encoders' if how.quick else 'ResNet-18 pair'}, one answer of a new process",
        "exported, no torch",
        "weights, torch",
        1,
        "answers",
        *start,
        {
            "ratio of `localize` on 2 s of video": whole[1] / whole[0],
            "ratio of a batch in a running process": batch[1] / batch[0],
            "the same for one picture with six sounds": many[1] / many[0],
        },
    )


def _many_sounds(model: Model, seen: U8, heard: F32) -> Callable[[], object]:
    """One picture with all sounds; another picture each time, because the last one is remembered."""
    others = itertools.cycle([seen[:1], seen[-1:]])
    return lambda: model.localize(next(others), heard, [0] * len(heard), range(len(heard)))


def python(*words: object) -> None:
    """Run Python in a new process."""
    done = subprocess.run([sys.executable, *map(str, words)], capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(done.stderr)
