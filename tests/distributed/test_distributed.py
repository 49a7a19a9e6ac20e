"""What processes say to each other: gathering, batch norm, waiting, and what happens when one of them fails."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest
import torch

from earsight import distributed
from earsight.errors import TrainingError
from earsight.training.log import read_log
from tiny import parity, processes


def test_one_process_needs_no_talk() -> None:
    x = torch.ones(3, 2)
    assert (distributed.world(), distributed.rank(), distributed.sizes(3)) == (1, 0, [3])
    assert distributed.gather(x, [3]) is x
    assert distributed.on_rank0(lambda: 5) == 5
    assert distributed.all_gather_object("a") == ["a"]
    assert not distributed.start("cpu")
    norm = torch.nn.BatchNorm2d(2)
    assert distributed.whole_batch_norms(norm, "cpu") is norm
    assert type(norm) is torch.nn.BatchNorm2d


def test_dropout_keeps_the_mean_and_draws_the_same_for_any_split() -> None:
    x = torch.ones(8, 50, 4)
    torch.manual_seed(0)
    whole = distributed.dropout(x, 0.75, [8])
    torch.manual_seed(0)
    part = distributed.dropout(x[:5], 0.75, [5, 3])
    assert torch.equal(part, whole[:5])
    assert set(whole.unique().tolist()) == {0.0, 4.0}
    assert whole.mean() == pytest.approx(1, abs=0.1)
    assert distributed.dropout(x, 0.0, [8]) is x


@pytest.mark.slow
def test_gathering_leaves_the_gradients_of_others_alone(tmp_path: Path) -> None:
    for grad in processes.together(tmp_path, 2, parity.shared_gradient):
        assert grad.tolist() == [1.0] * 4


@pytest.mark.slow
def test_batch_norm_over_processes_is_that_of_one_even_far_from_zero(tmp_path: Path) -> None:
    out, grad, mean, var = parity.norms()
    first, second = processes.together(tmp_path, 2, parity.norms)
    torch.testing.assert_close(torch.cat([first[0], second[0]]), out, rtol=1e-3, atol=1e-3)
    torch.testing.assert_close(torch.cat([first[1], second[1]]), grad, rtol=1e-3, atol=1e-3)
    for part in (first, second):
        torch.testing.assert_close(part[2], mean)
        torch.testing.assert_close(part[3], var, rtol=1e-3, atol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"settings": parity.tiny.config("paper"), "weight_decay": 1e-4, "batch_size": 9},
        {"limit": 24, "batch_size": 999},
    ],
)
def test_a_run_in_two_processes_ends_with_the_weights_of_one(tmp_path: Path, changes: dict[str, object]) -> None:
    work = partial(parity.whole_run, epochs=1, **changes)
    one = processes.together(tmp_path / "1", 1, work, tmp_path / "one")[0]
    two = processes.together(tmp_path / "2", 2, work, tmp_path / "two")[0]
    assert one["position"]["total_steps"] == two["position"]["total_steps"]
    start = parity.first_weights(changes.get("settings"))
    for name, wanted in one["model"].items():
        if wanted.is_floating_point():
            apart, moved = (two["model"][name] - wanted).norm(), (wanted - start[name]).norm()
            assert apart <= 0.02 * moved + 1e-6, f"{name}: {apart:.2e} apart, moved {moved:.2e}"
    assert torch.equal(one["rng"]["cpu"], two["rng"]["cpu"])
    logs = [[(row["step"], row["loss"]) for row in read_log(tmp_path / n / "log.jsonl") if "loss" in row]
            for n in ("one", "two")]  # fmt: skip
    assert [step for step, _ in logs[0]] == [step for step, _ in logs[1]]
    assert [loss for _, loss in logs[1]] == pytest.approx([loss for _, loss in logs[0]], rel=1e-2)


@pytest.mark.slow
def test_stages_that_replace_and_freeze_modules_give_the_weights_of_one_process(tmp_path: Path) -> None:
    one = processes.together(tmp_path / "1", 1, parity.run_two_stages, tmp_path / "one")[0]
    two = processes.together(tmp_path / "2", 2, parity.run_two_stages, tmp_path / "two")[0]
    assert two["position"]["stage"] == 1
    for name, wanted in one["model"].items():
        torch.testing.assert_close(two["model"][name], wanted, rtol=1e-2, atol=1e-3, msg=lambda m, n=name: f"{n}: {m}")


@pytest.mark.slow
def test_a_part_that_no_loss_depends_on_is_left_alone_as_in_one_process(tmp_path: Path) -> None:
    assert processes.together(tmp_path, 2, parity.run_explodes, tmp_path / "run", 99) == ["", ""]


@pytest.mark.slow
def test_a_loss_that_is_not_finite_stops_all_processes_and_names_the_clips_of_all(tmp_path: Path) -> None:
    first, second = processes.together(tmp_path, 2, parity.run_explodes, tmp_path / "run", 3)
    assert "at step 4 it is nan" in first
    assert first.count("train-") == 8
    assert first.partition("Clips")[2] == second.partition("Clips")[2]


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("c++") is None, reason="no C++ compiler")
def test_compiled_encoders_train_in_two_processes(tmp_path: Path) -> None:
    settings = parity.tiny.config(targets=False, infer_with="online")  # one branch takes half the time to compile
    work = partial(parity.whole_run, settings=settings, epochs=1, val="", limit=24)
    plain = processes.together(tmp_path / "1", 2, work, tmp_path / "plain")[0]
    compiled = processes.together(tmp_path / "2", 2, partial(work, compile=True), tmp_path / "compiled")[0]
    assert compiled["model"].keys() == plain["model"].keys()
    for name, wanted in plain["model"].items():
        torch.testing.assert_close(compiled["model"][name], wanted, rtol=1e-2, atol=2e-3)


@pytest.mark.slow
def test_features_come_in_the_order_of_the_set_from_one_process_and_from_two(tmp_path: Path) -> None:
    features, places = parity.extract("tiny.tones")
    assert places.tolist() == list(range(64))
    for got, at in processes.together(tmp_path, 2, parity.extract, "tiny.tones"):
        assert torch.equal(got, features)
        assert torch.equal(at, places)


@pytest.mark.slow
@pytest.mark.parametrize("clips", [8, 20])
def test_a_process_without_a_batch_of_its_own_gets_the_features_of_all(tmp_path: Path, clips: int) -> None:
    features, places = parity.extract("tiny.tones", clips)  # one batch, or three, for two processes
    assert places.tolist() == list(range(clips))
    for got, at in processes.together(tmp_path, 2, parity.extract, "tiny.tones", clips):
        assert torch.equal(got, features)
        assert torch.equal(at, places)


@pytest.mark.slow
def test_features_of_unreadable_clips_are_missing_and_move_no_others(tmp_path: Path) -> None:
    features, places = parity.extract("tiny.tones:torn")
    assert [i for i in range(64) if features[i].isnan().any()] == [3, 17]
    assert [i for i in range(64) if places[i] != i] == [3, 17]
    for got, at in processes.together(tmp_path, 2, parity.extract, "tiny.tones:torn"):
        assert torch.equal(got.nan_to_num(9), features.nan_to_num(9))
        assert torch.equal(at, places)


@pytest.mark.slow
def test_clips_that_any_process_cannot_read_are_listed_by_the_first(tmp_path: Path) -> None:
    for failures in processes.together(tmp_path, 2, parity.run_torn, tmp_path / "run", "tiny.tones:torn", 8):
        assert set(failures) == {"torn-3", "torn-17"}
    assert (tmp_path / "run" / "failures.jsonl").read_text().count("torn.") == 2


@pytest.mark.slow
@pytest.mark.parametrize(
    ("on", "batch_size", "message"),
    [
        ("tiny.tones:torn", 2, "two readable clips or more in every batch, and one for each process, but got ["),
        ("tiny.tones:shreds", 8, "Expected at most 5% of 64 training clips to be unreadable, but "),
    ],
)
def test_unreadable_clips_stop_all_processes_with_the_same_message(
    tmp_path: Path, on: str, batch_size: int, message: str
) -> None:
    first, second = processes.together(tmp_path, 2, parity.run_torn, tmp_path / "run", on, batch_size)
    assert first == second
    assert message in first


@pytest.mark.slow
@pytest.mark.parametrize(
    ("rank", "where"),
    [(0, "begin"), (0, "evaluate_all"), (0, "random_state"), (0, "save_weights"), (1, "require_clips"),
     (0, "require_clips")],
)  # fmt: skip
def test_an_error_in_one_process_ends_all(tmp_path: Path, rank: int, where: str) -> None:
    codes = processes.finish(processes.group(tmp_path, 2, parity.fails_in, rank, where, tmp_path / "run"))
    assert codes == [1, 1]


@pytest.mark.slow
def test_every_process_learns_why_the_first_one_stopped(tmp_path: Path) -> None:
    assert processes.together(tmp_path, 2, parity.told_by_first) == [
        "OSError: no space left",
        "TrainingError: Expected the first process to go on, but it stopped with OSError: no space left",
    ]


@pytest.mark.slow
def test_a_killed_process_ends_the_other(tmp_path: Path) -> None:
    members = processes.group(tmp_path, 2, parity.whole_run, tmp_path / "run")
    while not (tmp_path / "run" / "state.pt").exists():
        assert members[1].is_alive()
        members[1].join(0.05)
    assert members[1].pid is not None
    os.kill(members[1].pid, signal.SIGKILL)
    assert processes.finish(members) == [1, -signal.SIGKILL]


@pytest.mark.slow
def test_torchrun_starts_trains_and_resumes(tmp_path: Path) -> None:
    """The way users start it: each process reads its place from the environment."""
    script = tmp_path / "script.py"
    script.write_text(
        "import sys, torch, tiny\nfrom pathlib import Path\nfrom earsight.training.loop import train\n"
        "torch.set_num_threads(1)\ntrain(tiny.job(epochs=1), Path(sys.argv[1]), device='cpu', resume=True)\n"
        "assert not torch.distributed.is_initialized()\n"
    )
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", str(script)]
    path = os.pathsep.join([str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH", "")])
    for _ in range(2):
        done = subprocess.run([*command, str(tmp_path / "run")], env=os.environ | {"PYTHONPATH": path}, timeout=300,
                              capture_output=True, text=True)  # fmt: skip
        assert done.returncode == 0, done.stderr
        assert "Traceback" not in done.stderr
    rows = [row["step"] for row in read_log(tmp_path / "run" / "log.jsonl") if "loss" in row]
    assert rows == [2, 4, 6, 8]


def test_a_connection_that_another_process_closed_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def closed(*_: object) -> None:
        raise RuntimeError("Connection closed by peer")

    monkeypatch.setattr(distributed, "world", lambda: 2)
    monkeypatch.setattr(distributed.dist, "all_gather_object", closed)
    with pytest.raises(TrainingError, match=r"Expected all 2 processes to go on, but another one stopped"):
        distributed.all_gather_object(1)
