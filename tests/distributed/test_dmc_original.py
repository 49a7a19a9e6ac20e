"""The original form of DMC does in two processes what it does in one, as all methods do."""

from __future__ import annotations

from pathlib import Path

import pytest

from tiny import any_method, parity, processes


@pytest.mark.slow
def test_two_processes_have_the_loss_and_gradient_of_one(tmp_path: Path) -> None:
    one = any_method.steps("tiny.dmc_original", (parity.CLIPS,))
    for two in processes.together(tmp_path, 2, any_method.steps, "tiny.dmc_original", (5, 3)):
        assert two.loss == pytest.approx(one.loss, rel=1e-5)
        assert two.gradient.keys() == one.gradient.keys()
        for key, wanted in one.gradient.items():
            assert (two.gradient[key] - wanted).norm() <= 1e-3 * wanted.norm() + 1e-5, key
