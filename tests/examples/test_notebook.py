"""The notebook runs from top to bottom, shows what it promises, and holds nothing of the machine it was run on."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
FILE = EXAMPLES / "localize.ipynb"
RUNNER = Path(__file__).with_name("notebook.py")


def stored() -> dict[str, Any]:
    return json.loads(FILE.read_text(encoding="utf-8"))


def shown(outputs: list[dict[str, Any]]) -> str:
    """All that the cells print and show, as text."""
    parts = [line for one in outputs for line in one.get("text", [])]
    return "".join(parts + [line for one in outputs for kind in one.get("data", {}).values() for line in kind])


@pytest.mark.slow
def test_every_cell_runs_and_shows_what_it_promises(tmp_path: Path) -> None:
    shutil.copytree(EXAMPLES, tmp_path / "examples")
    notebook = tmp_path / "examples" / FILE.name
    done = subprocess.run([sys.executable, RUNNER, notebook], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    cells = [shown(outputs) for outputs in json.loads(done.stdout)]
    model, film, bell, values, frog, unseen, many, timeline, arrays = cells
    assert "toys.safetensors" in model
    assert "these weights know drawn toys of the built-in set only" in model
    assert "Note: these weights know drawn toys of the built-in set only" in timeline
    assert "(3, 240, 240) uint8" in film
    for cell, verdict in ((bell, "visible source"), (frog, "visible source"), (unseen, "no visible source")):
        assert cell.count("data:image/jpeg;base64,") == 1
        assert f'alt="{verdict}"' in cell
    boxes = [re.findall(r"box \((\d+), (\d+), (\d+), (\d+)\)", cell) for cell in (bell, frog, unseen)]
    (left, *_), (_, top, *_) = (map(int, found[0]) for found in boxes[:2])
    assert left < 40  # the bell is at the left, the frog below the middle
    assert top > 80
    assert boxes[2] == []
    assert values.startswith("visible source 0.")
    assert re.findall(r" s  (.*?) +0\.", many) == ["visible source"] * 3 + ["no visible source"]
    assert timeline.count("data:image/jpeg;base64,") == 6
    assert timeline.count("data:image/png;base64,") == 1
    assert "24 moments" in timeline
    assert "'maps': (24, 7, 7)" in arrays
    assert "'verdict': 'visible source'" in arrays
    assert sorted(one.name for one in notebook.parent.iterdir()) == sorted(one.name for one in EXAMPLES.iterdir())


def test_its_outputs_are_stored_without_errors_and_are_small() -> None:
    code = [cell for cell in stored()["cells"] if cell["cell_type"] == "code"]
    assert [cell["execution_count"] for cell in code] == list(range(1, len(code) + 1))
    assert all(cell["outputs"] for cell in code)
    kinds = {one["output_type"] for cell in code for one in cell["outputs"]}
    assert kinds == {"stream", "execute_result"}
    assert not [one for cell in code for one in cell["outputs"] if one.get("name") == "stderr"]
    assert FILE.stat().st_size < 400_000


def test_it_names_no_place_on_a_machine() -> None:
    for cell in stored()["cells"]:
        text = re.sub(r"base64,[\w+/=]+", "", "".join(cell["source"]) + shown(cell.get("outputs", [])))
        assert not re.search(r"(?<![\w.<])/\w+/|[A-Z]:\\|~/|https?://", text), text[:300]


def test_what_it_links_to_is_there() -> None:
    text = "".join("".join(cell["source"]) for cell in stored()["cells"] if cell["cell_type"] == "markdown")
    links = re.findall(r"\]\((.*?)\)", text)
    assert links
    assert all((EXAMPLES / link).is_file() for link in links)


@pytest.mark.slow
def test_its_weights_are_made_of_a_run_of_the_demo(tmp_path: Path) -> None:
    import numpy as np
    import torch

    from earsight.checkpoint import save_weights
    from earsight.config import Inputs
    from earsight.encoders.base import Encoders
    from earsight.localize import Localizer
    from earsight.methods import slavc

    torch.manual_seed(0)
    inputs = Inputs(image_size=32, resize=36, rate=8000, seconds=1.0, window=128, hop=64)
    config = slavc.Config(encoders=Encoders("small", "small", weights="random", width=4), dim=8)
    known = {"protocol": "exact", "calibration": {"threshold": 0.5}}
    save_weights(tmp_path / "weights.safetensors", slavc.Model(config, inputs), "slavc", config, known)
    script = shutil.copy(EXAMPLES / "make_toys.py", tmp_path)
    subprocess.run([sys.executable, script, tmp_path], check=True, timeout=300)
    picture = np.random.default_rng(0).integers(0, 256, (40, 60, 3), dtype=np.uint8)
    one, other = (
        Localizer.load(tmp_path / name, "cpu").localize(picture, np.ones(8000), 8000)
        for name in ("weights.safetensors", "toys.safetensors")
    )
    np.testing.assert_allclose(other.map, one.map, atol=5e-3)
    assert (tmp_path / "toys.safetensors").stat().st_size < (tmp_path / "weights.safetensors").stat().st_size / 3
