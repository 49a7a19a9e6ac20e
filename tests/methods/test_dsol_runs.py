"""Whole runs of DSOL: what they log, and that they go on after a kill anywhere with the bits of one left alone."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import pytest
import torch

from earsight.training.loop import train
from tiny import killing, processes
from tiny.dsol_steps import job


def test_a_run_alternates_and_its_log_tells_of_the_clusters(tmp_path: Path) -> None:
    train(job(mixtures=1), tmp_path, device="cpu")
    log = killing.contents(tmp_path)[2]
    kinds = {row["epoch"]: "C" if "right_by_image" in row else "M" if "loss_names" in row else "L" for row in log[:-2]}
    assert "".join(kinds.values()) == "LCCLCC"
    assert all("loss_names" in row for row in log[-2:])
    assert [("nmi_before" in row) for row in log if "right_by_image" in row] == [
        row["epoch"] > 2 for row in log if "right_by_image" in row
    ]
    state = torch.load(tmp_path / "state.pt", weights_only=True)
    assert state["training"]["labels"].shape == (24,)
    assert state["position"]["stage"] == 1


@pytest.mark.slow
@pytest.mark.parametrize("changes", [{}, {"mixtures": 2}])
def test_killed_after_every_state_a_run_ends_with_the_bits_of_one_left_alone(
    tmp_path: Path, changes: dict[str, Any]
) -> None:
    """Between the inner passes and inside them: what was clustered and drawn is not clustered and drawn again."""
    run = job(**changes)
    assert processes.finish([processes.start(killing.resume, run, tmp_path / "straight")]) == [0]
    out, visited = tmp_path / "run", set()
    codes: list[int | None] = [-signal.SIGKILL]
    while codes == [-signal.SIGKILL]:
        process = processes.start(killing.resume_until_write, run, out, "state.pt", 1, "after")
        codes = processes.finish([process])
        if codes != [0]:
            state = torch.load(out / "state.pt", weights_only=True)
            position = state["position"]
            visited.add((position["stage"], int(state["training"]["passes"]), position["step"]))
    assert codes == [0]
    passes = 6 if changes else 4
    inside = {(0, passed) for passed in range(passes)} | {(1, passed) for passed in range(changes.get("mixtures", 0))}
    assert {(stage, passed) for stage, passed, step in visited if step} == inside, "a state inside every pass"
    got, wanted = killing.contents(out), killing.contents(tmp_path / "straight")
    assert got[0].keys() == wanted[0].keys()
    assert all(torch.equal(got[0][key], value) for key, value in wanted[0].items())
    assert got[2] == wanted[2]


@pytest.mark.slow
def test_a_state_that_is_not_reached_is_made_again_with_the_same_clusters(tmp_path: Path) -> None:
    """Killed while the state after a clustering is written, the run clusters again, to the same labels."""
    run = job()
    assert processes.finish([processes.start(killing.resume, run, tmp_path / "straight")]) == [0]
    for states in (3, 2, 2):  # the start's state and the one at step 2 are there, the one after clustering is not
        process = processes.start(killing.resume_until_write, run, tmp_path / "run", "state.pt", states, "torn")
        assert processes.finish([process]) == [-signal.SIGKILL]
    assert processes.finish([processes.start(killing.resume, run, tmp_path / "run")]) == [0]
    one, two = (torch.load(tmp_path / name / "state.pt", weights_only=True) for name in ("run", "straight"))
    assert torch.equal(one["training"]["labels"], two["training"]["labels"])
    assert all(torch.equal(value, two["model"][key]) for key, value in one["model"].items())
