"""Every method trains on a device that is not the CPU: what it makes lies where its model and its batches lie."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

import tiny
from earsight import registry
from earsight.header import WEIGHTS
from earsight.training import loop
from tiny import any_method
from tiny.elsewhere import DEVICE, elsewhere

METHODS = registry.names("method")


def test_tensors_of_two_devices_do_not_meet_there(monkeypatch: pytest.MonkeyPatch) -> None:
    with elsewhere(monkeypatch) as there:
        x = torch.ones(2, 3, device=there, requires_grad=True)
        y = (2 * x).sum() + torch.tensor(1.0)  # single numbers may come from the CPU
        y.backward()
        assert (y.device, float(y.detach()), x.grad is not None and x.grad.tolist()) == (DEVICE, 13.0, [[2.0] * 3] * 2)
        assert x.detach()[torch.tensor([1])].device == DEVICE  # and so may positions
        assert x.detach().cpu().device.type == "cpu"
        here = torch.ones(2, 3)
        for meets in (lambda: x + here, lambda: torch.cat([x, here]), lambda: here[torch.ones(1, device=there).long()],
                      lambda: torch.stack([y, torch.tensor(2.0)])):  # fmt: skip
            with pytest.raises(RuntimeError, match="on the same device"):
                meets()


WAYS: dict[str, list[dict[str, Any]]] = {
    "coarse_to_fine": [{"labels": "classes", "categories": 8}, {"labels": "clusters"}],
    "dmc": [{}, {"form": "original"}, {"start": "farthest"}],
    "dsol": [{"first_clustering": 1}, {"mixtures": 1}, {"variant": "audioset", "first_clustering": 1, "mixtures": 1}],
}
"""Settings with which a method takes ways of its own; all others have the settings of their first preset."""


@pytest.mark.slow
@pytest.mark.parametrize(("name", "changes"), [(name, way) for name in METHODS for way in WAYS.get(name, [{}])])
def test_a_method_trains_is_measured_and_resumes_where_it_is_put(
    name: str, changes: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = replace(any_method.settings(name), **changes)
    on = "toybox" if changes.get("labels") == "classes" else "tiny.tones"  # which has none
    job = tiny.job(method=name, settings=settings, on=on, limit=24, epochs=3, keep="both")
    with elsewhere(monkeypatch) as there:
        assert loop.run(job, tmp_path / "run", there, resume=False, force=False).name == WEIGHTS
        (tmp_path / "run" / WEIGHTS).unlink()
        loop.run(job, tmp_path / "run", there, resume=True, force=False)
    assert (tmp_path / "run" / WEIGHTS).exists()
