"""What earsight gave before it was rebuilt, kept as small files, and compared with what it gives now.

    python tests/golden/test_golden.py      # writes the files anew; only for a change that is meant to change numbers

Kept are: for every preset of every method its weights, maps, and of each stage the first gradients and the losses of
twenty steps, all in double precision; the numbers of a report on made-up maps; and the answers of a film.
"""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest
import torch
from safetensors.numpy import load_file, save_file
from torch import Tensor

import tiny
from earsight import registry
from earsight.cli import main
from earsight.config import Supervision
from earsight.data.clips import open_set
from earsight.data.toys.video import write_film
from earsight.methods.base import Method, build
from earsight.training.step import wrap
from earsight.types import Batch, Row
from tiny.any_method import settings
from tiny.lent import Lent, beside

HERE = Path(__file__).parent
TOYS = HERE.parents[1] / "examples" / "toys.safetensors"
METHODS = [name for name in registry.names("method") if name not in ("center_prior", "ogl")]
"""All that can be made tiny; OGL is ImageNet's whole network, and held against torchvision's by its own tests."""
CASES = [(name, preset) for name in METHODS for preset in registry.load("method", name).PRESETS]
STEPS = 20
EPOCHS = 3
TORCH, AV = "2.11", "18."
"""Versions that the files were made with: the losses with torch's random numbers, the film's sound by PyAV, which plays
616 samples of padding at its end that 19 leaves out."""


def batch_of(clips: int = 8) -> Batch:
    """Pictures of noise, each with a tone of its own, that are the same with every version of every library."""
    random = np.random.default_rng(5)
    frames = torch.from_numpy(random.integers(0, 256, (clips, 3, 32, 32), dtype=np.uint8))
    time = np.arange(tiny.INPUTS.samples) / tiny.INPUTS.rate
    waves = 0.3 * np.sin(2 * np.pi * np.linspace(200, 3000, clips)[:, None] * time)
    waves = torch.from_numpy((waves + 0.1 * random.standard_normal(waves.shape)).astype(np.float32))
    return Batch(frames, waves, torch.arange(clips), tuple(Row(f"clip{i}") for i in range(clips)))


def made(name: str, preset: str, weights: dict[str, Any] | None = None) -> Method:
    """The method made tiny, in double precision, without dropout, whose numbers a rebuild may draw in another order."""
    torch.manual_seed(0)
    still = {"warmup": 0, "visual_dropout": 0.0, "audio_dropout": 0.0, "dropout": 0.0}
    model = build(name, settings(name, preset, **still), tiny.INPUTS)
    if weights is not None:
        model.load_state_dict({key: torch.from_numpy(value) for key, value in weights.items()})
    return model.double()


@contextmanager
def in_double_precision() -> Iterator[None]:
    """All arithmetic in double precision, also where a method asks for single."""
    single = Tensor.float
    torch.set_default_dtype(torch.float64)
    Tensor.float = Tensor.double  # type: ignore[method-assign]
    try:
        yield
    finally:
        Tensor.float = single  # type: ignore[method-assign]
        torch.set_default_dtype(torch.float32)


def number_of(name: str, value: Tensor) -> float:
    """The product of a gradient with fixed noise: it changes when any of its numbers does."""
    noise = np.random.default_rng(zlib.crc32(repr(tuple(value.shape)).encode())).standard_normal(tuple(value.shape))
    return float((value.double() * torch.from_numpy(np.asarray(noise))).sum())


def outcome(name: str, preset: str, weights: dict[str, Any]) -> dict[str, Any]:
    """Maps; and of every stage the first gradients and the losses of its steps."""
    found: dict[str, Any] = {}
    with in_double_precision():
        for stage in range(len(made(name, preset).stages(EPOCHS))):
            found |= _outcome(made(name, preset, weights), batch_of(), stage)
    return found


def _outcome(model: Method, batch: Batch, stage: int) -> dict[str, Any]:
    model.eval()
    with torch.no_grad():
        maps = model.localize(batch.frames, batch.waveforms)
    found: dict[str, Any] = {"native": maps.native.numpy().copy(), "dense": maps.dense.numpy().copy()}
    if maps.confidence is not None:
        found["confidence"] = maps.confidence.numpy().copy()
    stages = model.stages(EPOCHS)
    for one in stages[: stage + 1]:
        model.start_stage(one)
        torch.manual_seed(1)
        model.on_epoch(Lent(batch, stage=one))
    model.train()
    step_of = wrap(model, Supervision())
    optimizer = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=1e-3)
    batch = beside(model, batch, batch)
    losses = []
    for at in range(STEPS):
        optimizer.zero_grad()
        step = step_of(batch)
        step.loss.backward()  # type: ignore[no-untyped-call]
        if at == 0:
            products = {key: number_of(key, p.grad) for key, p in model.named_parameters() if p.grad is not None}
            found |= {f"gradient.{stage}.{key}": np.array(value) for key, value in products.items()}
        optimizer.step()
        model.after_step()
        losses.append(float(step.loss.detach()))
    return found | {f"losses.{stage}": np.array(losses)}


def file_of(name: str, preset: str) -> Path:
    return HERE / f"{name}-{preset}.safetensors"


RENAMED = {
    "slavc": (r"\b(online|target)\.(image|audio)_(loc|avc)\.", r"\1.\2_heads.\3."),
    "coarse_to_fine": (r"\b(see|hear)s\.", lambda found: {"see": "image", "hear": "audio"}[found[1]] + "_classes."),
    "dmc": (
        r"\bclustering\.(see|hear)\.",
        lambda found: f"clustering.{ {'see': 'image', 'hear': 'audio'}[found[1]] }.",
    ),
    "dsol": (r"^(weights|gradient\.\d)\.(scale|bias)$", r"\1.variant.\2"),
}
"""Parameters that had other names when the files were written."""


def kept(name: str, preset: str) -> dict[str, Any]:
    """A golden file's tensors by today's names of parameters."""
    before, after = RENAMED.get(name, ("^$", ""))
    return {re.sub(before, after, key): value for key, value in load_file(file_of(name, preset)).items()}


@pytest.mark.skipif(not torch.__version__.startswith(TORCH), reason=f"drawn with the random numbers of torch {TORCH}")
@pytest.mark.parametrize(("name", "preset"), CASES)
def test_a_method_gives_what_it_gave(name: str, preset: str) -> None:
    golden = kept(name, preset)
    weights = {key.removeprefix("weights."): value for key, value in golden.items() if key.startswith("weights.")}
    wanted = {key: value for key, value in golden.items() if not key.startswith("weights.")}
    found = outcome(name, preset, weights)
    assert found.keys() == wanted.keys()
    for key, value in wanted.items():
        np.testing.assert_allclose(found[key], value, rtol=1e-5, atol=1e-7, err_msg=key)


def made_up_maps(path: Path) -> None:
    """Maps between good and chance for every clip of the test: noise, and a hill not far from the source."""
    rows, random = open_set("toybox:extended").rows, np.random.default_rng(3)
    y, x = np.mgrid[:14, :14] / 13
    hills = []
    for row in rows:
        x0, y0, x1, y1 = row.boxes[0] if row.boxes else random.uniform(0, 1, 4)
        right, down = random.normal(0, 0.1, 2)
        far = ((x - (x0 + x1) / 2 - right) / (x1 - x0)) ** 2 + ((y - (y0 + y1) / 2 - down) / (y1 - y0)) ** 2
        hills.append(random.uniform(0.2, 1 if row.positive else 0.6) * np.exp(-2 * far))
    maps = (np.stack(hills) + 0.05 * random.standard_normal((len(rows), 14, 14))).astype(np.float16)
    np.savez_compressed(path, id=[row.id for row in rows], maps=maps)


def report_of(folder: Path) -> Any:
    """The numbers of a report on these maps."""
    made_up_maps(folder / "maps.npz")
    assert main(["score", str(folder / "maps.npz"), "--on", "toybox:extended", "--out", str(folder / "report")]) == 0
    return json.loads((folder / "report" / "metrics.json").read_text(encoding="utf-8"))


def answers_of(folder: Path) -> Any:
    """The answers of the film, and its maps."""
    assert main(["localize", str(TOYS), str(HERE / "film.mp4"), "--out", str(folder), "--format", "json,npz"]) == 0
    with np.load(folder / "film.earsight.npz") as held:
        maps = held["maps"]
    return json.loads((folder / "film.earsight.json").read_text(encoding="utf-8")), maps


def numbers_in(value: Any, at: str = "") -> dict[str, float]:
    """All numbers of JSON, by where they are."""
    if isinstance(value, dict):
        return {k: v for key, one in value.items() for k, v in numbers_in(one, f"{at}/{key}").items()}
    if isinstance(value, list):
        return {k: v for i, one in enumerate(value) for k, v in numbers_in(one, f"{at}/{i}").items()}
    return {at: float(value)} if isinstance(value, int | float) else {}


def test_the_numbers_of_a_report_are_what_they_were(tmp_path: Path) -> None:
    wanted = json.loads((HERE / "metrics.json").read_text(encoding="utf-8"))
    assert numbers_in(report_of(tmp_path)) == numbers_in(wanted)


@pytest.mark.skipif(not av.__version__.startswith(AV), reason=f"the end of the sound is where PyAV {AV} has it")
def test_a_film_is_localized_as_it_was(tmp_path: Path) -> None:
    wanted = json.loads((HERE / "film.json").read_text(encoding="utf-8"))
    found, maps = answers_of(tmp_path)
    assert len(found["items"]) == len(wanted["items"])
    for one, other in zip(found["items"], wanted["items"], strict=True):
        assert one["verdict"] == other["verdict"]
        assert one["boxes"] == other["boxes"]
        assert one["confidence"] == pytest.approx(other["confidence"], abs=1e-5)
    np.testing.assert_allclose(maps, load_file(HERE / "film.safetensors")["maps"], atol=1e-5)


def write() -> None:
    """Write all files anew."""
    from tempfile import TemporaryDirectory

    for name, preset in CASES:
        state = made(name, preset).float().state_dict()
        weights = {key: value.numpy() for key, value in state.items()}
        found = outcome(name, preset, weights)
        save_file({f"weights.{key}": value for key, value in weights.items()} | found, file_of(name, preset))
    write_film(HERE / "film.mp4", side=96)
    with TemporaryDirectory() as folder:
        (HERE / "metrics.json").write_text(json.dumps(report_of(Path(folder)), indent=1) + "\n", encoding="utf-8")
        answers, maps = answers_of(Path(folder))
        items = {"items": answers["items"]}
        (HERE / "film.json").write_text(json.dumps(items, indent=1) + "\n", encoding="utf-8")
        save_file({"maps": maps.astype(np.float32)}, HERE / "film.safetensors")


if __name__ == "__main__":
    write()
