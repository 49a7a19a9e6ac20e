"""The order of an epoch: what samplers may say, and batches in which no label comes too often."""

from __future__ import annotations

import hashlib
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch

import tiny
from earsight.data.sampler import BatchSampler, class_aware_order, need_classes
from earsight.errors import UsageError
from earsight.training.loop import train
from earsight.types import Row
from tiny import killing, processes

COUNTS = {"car": 212, "person": 209, "dog": 144, "cow": 65, "sheep": 58, "keyboard": 11}
LABELS = [name for name, count in COUNTS.items() for _ in range(count)]
HOW = {"batch_size": 32, "per_class": 6}


def batches(epoch: int, seed: int = 0) -> list[list[int]]:
    order = class_aware_order(LABELS, seed, epoch, **HOW)
    return [one.tolist() for one in order.reshape(-1, 32)]


@pytest.mark.parametrize("epoch", range(5))
def test_no_batch_has_a_label_too_often_or_a_clip_twice(epoch: int) -> None:
    made = batches(epoch)
    assert len(made) == len(LABELS) // 32
    for batch in made:
        assert max(Counter(LABELS[i] for i in batch).values()) <= 6
        assert len(set(batch)) == 32


def test_all_clips_come_in_turn_and_rare_ones_again() -> None:
    seen = Counter(i for epoch in range(60) for batch in batches(epoch) for i in batch)
    assert set(seen) == set(range(len(LABELS)))
    often = {name: np.mean([seen[i] for i, label in enumerate(LABELS) if label == name]) for name in COUNTS}
    assert often["keyboard"] > often["cow"] > often["car"]


def test_labels_keep_their_shares_where_nothing_is_too_frequent() -> None:
    labels = ["a"] * 60 + ["b"] * 30 + ["c"] * 10
    order = class_aware_order(labels, 0, 0, batch_size=20, per_class=15)
    assert sorted(order.tolist()) == list(range(100))
    for batch in order.reshape(-1, 20).tolist():
        counts = Counter(labels[i] for i in batch)
        assert (abs(counts["a"] - 12), abs(counts["b"] - 6), abs(counts["c"] - 2)) <= (1, 1, 1)


def plain_order(labels: list[str], seed: int, epoch: int, *, batch_size: int, per_class: int) -> list[int]:
    """Class-aware batches as they are defined, every label in a queue of its own: slow with many labels."""
    names = sorted(set(labels))
    clips = [[i for i, label in enumerate(labels) if label == name] for name in names]
    random = np.random.default_rng((seed, epoch, 1))
    waiting = [random.permutation(one).tolist() for one in clips]
    passes = [0] * len(names)
    order: list[int] = []
    for _ in range(len(labels) // batch_size):
        batch: list[int] = []
        taken: list[list[int]] = [[] for _ in names]
        ties = [random.random() for _ in names]
        while len(batch) < batch_size:
            turns = [(passes[i] + 1 - len(waiting[i]) / len(one), ties[i], i) for i, one in enumerate(clips)]
            i = min(turn for turn in turns if len(taken[turn[2]]) < min(per_class, len(clips[turn[2]])))[2]
            if not waiting[i]:
                passes[i] += 1
                again = random.permutation(clips[i]).tolist()
                waiting[i] = [one for one in again if one in taken[i]] + [one for one in again if one not in taken[i]]
            taken[i].append(waiting[i].pop())
            batch.append(taken[i][-1])
        order += random.permutation(batch).tolist()
    return order


MIXED = [*np.random.default_rng(5).permutation(["x"] * 70 + ["y"] * 20 + ["z"] * 3), "w"]


@pytest.mark.parametrize(
    ("labels", "batch_size", "per_class", "digest"),
    [
        (["a"] * 6 + ["b"] * 2, 4, 2, "e846e54e1f26f02c"),
        (["a"] * 5 + ["b"] * 9 + ["c"] * 200, 16, 8, "0d271ff3396bf27f"),  # rare clips come again within an epoch
        (["a"] * 3 + ["b"] * 3 + ["c"] * 500, 8, 6, "1385edc95c5a8672"),
        ([f"c{i}" for i in range(200)], 32, 1, "28bf11f8e4b9b820"),  # more labels than a batch has clips
        (MIXED, 16, 12, "bd5ee54abfa9479d"),
    ],
)
def test_batches_are_those_of_the_plain_definition(
    labels: list[str], batch_size: int, per_class: int, digest: str
) -> None:
    how = {"batch_size": batch_size, "per_class": per_class}
    for seed, epoch in ((0, 0), (3, 2)):
        assert class_aware_order(labels, seed, epoch, **how).tolist() == plain_order(labels, seed, epoch, **how)
    found = class_aware_order(labels, 0, 0, **how).astype("<i8").tobytes()
    assert hashlib.sha256(found).hexdigest().startswith(digest)  # runs of earlier versions go on as they were begun


def test_the_order_is_a_function_of_seed_and_epoch() -> None:
    assert batches(3) == batches(3)
    assert batches(3) != batches(4)
    assert batches(3) != batches(3, seed=1)


def test_a_resumed_epoch_and_several_processes_see_the_same_batches() -> None:
    rows = [Row(str(i), label) for i, label in enumerate(LABELS)]
    for per_class in (0, 6):
        sampler = BatchSampler(rows, 32, per_class=per_class)
        whole = sampler.batches(2)
        assert sampler.batches(2, first_step=5) == whole[5:]
        parts = [sampler.batches(2, rank=rank, world=2) for rank in (0, 1)]
        assert [one + two for one, two in zip(*parts, strict=True)] == whole
        labels = Counter(LABELS[request.clip] for request in whole[3])
        assert (max(labels.values()) <= 6) == bool(per_class)


def sampling(monkeypatch: pytest.MonkeyPatch, order: Callable[..., Any]) -> None:
    """Let `tests.own` be a sampler."""
    module = ModuleType("tests.own")
    module.order = order  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "tests.own", module)


ROWS = [Row(f"clip{i}") for i in range(6)]


def test_a_sampler_may_repeat_clips_and_leave_others_out_and_sees_those_that_can_be_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[tuple[list[str], int, int]] = []

    def order(rows: Sequence[Row], seed: int, epoch: int) -> list[int]:
        asked.append(([row.id for row in rows], seed, epoch))
        return [2, 2, 0, 1]

    sampling(monkeypatch, order)
    sampler = BatchSampler(ROWS, 2, 9, sampler="tests.own", unreadable={1, 4})
    assert [[request.clip for request in batch] for batch in sampler.batches(3)] == [[3, 3], [0, 2]]
    assert (sampler.clips, sampler.steps) == (4, 2)
    assert asked[-1] == (["clip0", "clip2", "clip3", "clip5"], 9, 3)


@pytest.mark.parametrize(
    ("order", "message"),
    [
        ([0, 6], r"Expected positions from 0 to 5 from the sampler tests\.own, but got \[6\]"),
        ([-1, 2], r"Expected positions from 0 to 5 from the sampler tests\.own, but got \[-1\]"),
        ([0.0, 1.0], r"Expected positions of rows \(int64, 1-D\) from the sampler tests\.own, but got float64 \(2,\)"),
        ([[0], [1]], r"Expected positions of rows \(int64, 1-D\) .*, but got int64 \(2, 1\)"),
    ],
)
def test_what_is_no_order_is_refused(order: Any, message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    sampling(monkeypatch, lambda rows, seed, epoch: order)
    with pytest.raises(UsageError, match=message):
        BatchSampler(ROWS, 2, sampler="tests.own")


def test_every_epoch_has_as_many_clips_as_the_first(monkeypatch: pytest.MonkeyPatch) -> None:
    sampling(monkeypatch, lambda rows, seed, epoch: range(4 + epoch))
    sampler = BatchSampler(ROWS, 2, sampler="tests.own")
    message = r"Expected 4 clips in every epoch from the sampler tests\.own, as in the first, but got 5 in epoch 2\."
    with pytest.raises(UsageError, match=message):
        sampler.batches(1)


def test_an_unknown_sampler_is_refused() -> None:
    with pytest.raises(UsageError, match=r"Unknown sampler 'shufle', did you mean 'shuffle'\? Known: shuffle\."):
        BatchSampler(ROWS, 2, sampler="shufle")


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (["a", "", ""], "Expected a label for every clip of x with --optim.per-class, but got none for 2 of 3. Train"),
        (["a", "a", "b"], "at most 1 clips of each, but got 2 of x, which give 2. Raise --optim.per-class, or lower"),
    ],
)
def test_what_cannot_be_done_is_refused(labels: list[str], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        need_classes(labels, "x", 3, 1)


def test_a_set_without_labels_is_refused_before_the_folder_is_touched(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"Expected a label for every clip of tiny\.tones:train"):
        train(tiny.job(per_class=2), tmp_path / "run", device="cpu")
    assert not (tmp_path / "run").exists()


@pytest.mark.slow
def test_a_killed_run_with_class_aware_batches_ends_with_the_same_bits(tmp_path: Path) -> None:
    job = tiny.job(on="toybox:train", val="", limit=32, per_class=4, save_every=3, save_epochs=2)
    straight = train(job, tmp_path / "straight", device="cpu")
    killed = tmp_path / "killed"
    processes.finish([processes.start(killing.resume_until_write, job, killed, "state.pt", 3, "before")])
    assert not (killed / "weights.safetensors").exists()
    train(job, killed, device="cpu", resume=True)
    one, two = (killing.contents(path.parent)[0] for path in (straight, killed / "weights.safetensors"))
    assert all(torch.equal(one[name], two[name]) for name in one)
