"""Every kind of DSOL's passes does in two processes what it does in one, and all processes have the same labels."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from tiny import dsol_steps, parity, processes


@pytest.mark.slow
@pytest.mark.parametrize("variant", ["music", "audioset"])
@pytest.mark.parametrize("kind", ["match", "classify", "mix"])
@pytest.mark.parametrize("weight", [0.0, 1.0])
def test_two_processes_have_the_loss_gradient_and_state_of_one(
    tmp_path: Path, kind: str, variant: str, weight: float
) -> None:
    one = dsol_steps.steps(kind, (parity.CLIPS,), variant, weight)
    assert one.gradient
    for two in processes.together(tmp_path, 2, dsol_steps.steps, kind, (5, 3), variant, weight):
        assert two.loss == pytest.approx(one.loss, rel=1e-4)
        assert two.gradient.keys() == one.gradient.keys()
        for key, wanted in one.gradient.items():
            assert (two.gradient[key] - wanted).norm() <= 1e-3 * wanted.norm() + 1e-5, key
        for key, wanted in one.state.items():
            torch.testing.assert_close(two.state[key], wanted, rtol=1e-3, atol=1e-5, msg=lambda m, k=key: f"{k}: {m}")


@pytest.mark.slow
def test_two_processes_run_both_stages_with_the_same_labels(tmp_path: Path) -> None:
    one, two = processes.together(tmp_path / "group", 2, dsol_steps.run, tmp_path / "run")
    assert torch.equal(one["training"]["labels"], two["training"]["labels"])
    assert one["training"]["labels"].min() >= 0
    assert all(torch.equal(value, two["model"][key]) for key, value in one["model"].items())
