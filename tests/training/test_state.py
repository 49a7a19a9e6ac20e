"""Training states: what was saved comes back, and nothing else does."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from earsight.errors import CheckpointError
from earsight.training.state import load_state, save_pickle


@pytest.mark.parametrize("bits", [0x01, 0x10, 0xFF])
def test_a_changed_byte_is_refused_or_changes_nothing(tmp_path: Path, bits: int) -> None:
    path = tmp_path / "state.pt"
    weights = torch.arange(64.0)
    save_pickle(path, {"position": {"epoch": 3, "step": 7}, "model": {"weight": weights}})
    data = path.read_bytes()
    refused = 0
    for place in range(len(data)):
        changed = bytearray(data)
        changed[place] ^= bits
        path.write_bytes(changed)
        try:
            position, values = load_state(path)
        except CheckpointError:
            refused += 1
            continue
        assert (position.epoch, position.step) == (3, 7)
        assert torch.equal(values["model"]["weight"], weights)
    assert refused > weights.nbytes
