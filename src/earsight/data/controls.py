"""Controls: the same pictures with a sound that is not theirs. A model that listens must do worse on them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Literal

import numpy as np

from earsight.data.clips import ClipSet, Derived
from earsight.errors import UsageError

Audio = Literal["real", "shuffled", "silent"]


class Shuffled(Derived):
    """Each picture with the sound of another clip of the set, the same one every time."""

    def __init__(self, whole: ClipSet, seed: int = 0) -> None:
        super().__init__(whole.name, whole.rows, whole)
        self.sound_of = other_sounds(
            [row.label for row in whole.rows], seed, [row.sound or row.id for row in whole.rows]
        )

    def parts(self, index: int) -> tuple[int, int | None]:
        return index, self.sound_of[index]


class Silent(Derived):
    """Each picture with silence as long as its own sound."""

    def __init__(self, whole: ClipSet) -> None:
        super().__init__(whole.name, whole.rows, whole)

    def parts(self, index: int) -> tuple[int, int | None]:
        return index, None


def with_audio(clip_set: ClipSet, audio: Audio) -> ClipSet:
    """The set itself ("real"), or the control of that name."""
    if audio == "real":
        return clip_set
    if audio == "shuffled":
        return Shuffled(clip_set)
    if audio == "silent":
        return Silent(clip_set)
    raise UsageError(f"Expected audio real, shuffled or silent, but got '{audio}'.")


def other_sounds(labels: Sequence[str], seed: int = 0, sounds: Sequence[str] | None = None) -> list[int]:
    """For each clip, which clip's sound it hears: never its own, each sound used once, fixed by the seed.

    Clips are put in a random order, grouped by label, and the sounds are moved along by the size of the largest group.
    So every clip hears another label unless one label holds more than half of the clips. `sounds` names the recordings,
    where several clips share one: such clips change places with others until none hears its own, if that is possible.

    >>> other_sounds(["dog", "cat"])
    [1, 0]
    """
    count = len(labels)
    if count < 2:
        raise UsageError(
            f"Expected at least 2 clips to shuffle their sounds, but got {count}. Measure more clips, "
            "or the real sound alone (--audio real)."
        )
    random = np.random.default_rng(seed)
    names, group = np.unique(np.array(labels, dtype=np.str_), return_inverse=True)
    order = np.lexsort((random.permutation(count), random.permutation(len(names))[group]))
    largest = int(np.bincount(group).max())
    heard = np.empty(count, dtype=np.int64)
    heard[order] = np.roll(order, largest if largest < count else 1)
    found = [int(i) for i in heard]
    if sounds is not None:
        _part_recordings(found, sounds)
    return found


def _part_recordings(heard: list[int], sounds: Sequence[str]) -> None:
    """Let clips that hear their own recording through another clip change sounds with the next clip that may."""
    count = len(heard)
    for i in range(count):
        if sounds[heard[i]] != sounds[i]:
            continue
        for j in chain(range(i + 1, count), range(i)):
            if sounds[heard[j]] != sounds[i] and sounds[heard[i]] != sounds[j]:
                heard[i], heard[j] = heard[j], heard[i]
                break
