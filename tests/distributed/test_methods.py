"""Every method does in two processes what it does in one, with and without ground truth."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from earsight import registry
from tiny import any_method, parity, processes


@pytest.mark.slow
@pytest.mark.parametrize("name", registry.names("method"))
@pytest.mark.parametrize("weight", [0.0, 1.0])
def test_two_processes_have_the_loss_gradient_and_state_of_one(tmp_path: Path, name: str, weight: float) -> None:
    stages = any_method.stages(name)
    if not stages:
        pytest.skip("nothing to learn")
    for stage in range(stages):
        one = any_method.steps(name, (parity.CLIPS,), 3, stage, weight)
        assert one.gradient
        for two in processes.together(tmp_path / str(stage), 2, any_method.steps, name, (5, 3), 3, stage, weight):
            assert two.loss == pytest.approx(one.loss, rel=1e-5)
            assert two.gradient.keys() == one.gradient.keys()
            for key, wanted in one.gradient.items():
                assert (two.gradient[key] - wanted).norm() <= 1e-3 * wanted.norm() + 1e-5, key
            for key, wanted in one.state.items():
                torch.testing.assert_close(
                    two.state[key], wanted, rtol=1e-3, atol=1e-5, msg=lambda m, k=key: f"{k}: {m}"
                )
