"""Training states: what was saved comes back, and nothing else does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from earsight.errors import CheckpointError
from earsight.training.state import HASHES, PREVIOUS, STATE, load_state, read_state, save_state

VALUES: dict[str, Any] = {"optimizer": {}, "rng": {}, "lists": {}, "training": {}}


def save(out: Path, epoch: int) -> None:
    save_state(out, VALUES | {"position": {"epoch": epoch, "step": 7}, "model": {"weight": torch.arange(64.0)}})


@pytest.mark.parametrize("bits", [0x01, 0x10, 0xFF])
def test_a_changed_byte_is_refused(tmp_path: Path, bits: int) -> None:
    save(tmp_path, 3)
    path = tmp_path / STATE
    data = path.read_bytes()
    for place in range(0, len(data), 7):
        changed = bytearray(data)
        changed[place] ^= bits
        path.write_bytes(changed)
        with pytest.raises(CheckpointError, match=r"its sha256 is none of those in state\.sha256"):
            read_state(path)
    path.write_bytes(data)
    saved = read_state(path)
    assert (saved.position.epoch, saved.position.step) == (3, 7)
    assert torch.equal(saved.values["model"]["weight"], torch.arange(64.0))


def test_of_two_states_the_newest_counts_and_the_one_before_it_stays(tmp_path: Path) -> None:
    assert load_state(tmp_path) is None
    for epoch in (1, 2, 3, 4):
        save(tmp_path, epoch)
    assert len((tmp_path / HASHES).read_text().split()) == 3
    assert [read_state(tmp_path / name).position.epoch for name in (STATE, PREVIOUS)] == [4, 3]
    (tmp_path / STATE).write_bytes(b"torn")
    saved = load_state(tmp_path)
    assert saved is not None
    assert (saved.position.epoch, saved.path) == (3, tmp_path / PREVIOUS)
    assert "is damaged, so the run goes on from the state before it" in saved.note


def test_states_without_their_hashes_are_refused(tmp_path: Path) -> None:
    save(tmp_path, 1)
    (tmp_path / HASHES).unlink()
    with pytest.raises(CheckpointError, match=r"Expected a training state, but .* cannot be read"):
        load_state(tmp_path)


def test_nothing_but_tensors_and_plain_values_is_read(tmp_path: Path) -> None:
    save_state(tmp_path, VALUES | {"position": {}, "model": {"weight": Path("a")}})
    with pytest.raises(CheckpointError, match=r"Expected a training state, but .* cannot be read"):
        load_state(tmp_path)
