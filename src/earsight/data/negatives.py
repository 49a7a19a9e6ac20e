"""Negatives: pictures with a sound that nothing in them makes, built by the paper's recipe or taken from a list.

The recipe: clips that are known to have no visible source come first (`real`). The rest are pictures of positives with
the sound of another positive: a share of the same class (`hard`), the others of another class (`easy`). Where classes
are not known the kind is `unknown`; it is never guessed.

A set with the negatives of a csv file is opened as SET+FILE (`extend`).
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from earsight.config import need
from earsight.data.clips import ClipSet, Derived, Files
from earsight.data.layout import Listed
from earsight.data.lists import LABEL, UNKNOWN, Pair, check_rows, kind_of, negative_rows, read_pairs, some
from earsight.errors import DataError, UsageError
from earsight.files import write_csv
from earsight.types import Row

REAL, HARD, EASY = "real", "hard", "easy"
KINDS = (REAL, HARD, EASY, UNKNOWN)


def wanted(count: int, same_class: float, real: int, *, classes: bool = True) -> dict[str, int]:
    """How many of each kind the recipe asks for.

    >>> wanted(5158, 0.25, 379)
    {'real': 379, 'hard': 1195, 'easy': 3584}
    """
    rest = count - real
    if not classes:
        return {REAL: real, UNKNOWN: rest}
    hard = round(rest * same_class)
    return {REAL: real, HARD: hard, EASY: rest - hard}


def build(
    rows: Sequence[Row],
    *,
    count: int,
    same_class: float = 0.25,
    real: Sequence[str] = (),
    seed: int = 0,
    video_of: Callable[[str], str] = str,
) -> list[Pair]:
    """Negatives for the positives in `rows`: the `real` ones in their order, then hard and easy pairs in random order.

    Each picture is used once before any is used again. A pair occurs once, and never joins two parts of one video
    (`video_of`), nor a picture with a recording that it is heard with in any clip, where the sound's source may well be
    seen. Where there are no pairs left of a kind, as in a class with a single clip, there are fewer of it: compare with
    `wanted`. The order of `rows` changes nothing.
    """
    positives = sorted((row for row in rows if row.positive), key=lambda row: row.id)
    labelled = [row for row in positives if row.label]
    need(len(positives) >= 2, "at least 2 positives to pair anew", len(positives), "Name another set or split.")
    need(count >= 1, "a count of at least 1", count)
    need(0 <= same_class <= 1, "same_class of 0 to 1", same_class)
    need(seed >= 0, "a seed of at least 0", seed)
    need(len(real) <= count, f"at most {count} real negatives", len(real), "Raise the count.")
    known = {row.id for row in positives}
    both = [id for id in real if id in known]
    need(not both, "real negatives that are no positives of the set", some(both), "Take them off the list.")
    twice = [id for id, times in Counter(real).items() if times > 1]
    need(not twice, "each real negative once", f"{some(twice)} twice", "Take it off the list.")
    if same_class > 0 and not labelled:
        raise UsageError(
            f"Expected classes to choose {same_class:.0%} of the pairs by, but got a set without any. "
            "Pass --same-class 0; the kind of every pair is then unknown."
        )
    ask = wanted(count, same_class, len(real), classes=bool(labelled))
    paired = _pairs(labelled or positives, ask.get(HARD, 0), ask.get(EASY, ask.get(UNKNOWN, 0)), seed, video_of)
    return [*(Pair(id, id, REAL) for id in real), *paired]


def _pairs(rows: list[Row], hard: int, easy: int, seed: int, video_of: Callable[[str], str]) -> list[Pair]:
    """Random pairs, round by round; in a round each picture is used at most once, and for hard pairs first."""
    random = np.random.default_rng(seed)
    labels, videos = [row.label for row in rows], [video_of(row.id) for row in rows]
    classes, parts, recordings = _places(labels), _places(videos), _places(row.sound or row.id for row in rows)
    own = _own_recordings(rows)
    heard: list[list[int]] = [[] for _ in rows]  # sounds that each picture already goes with
    # Without classes all are equal here, and pairs of "the same class" are then simply pairs.
    plan = [(HARD, hard, True), (EASY, easy, False)] if rows[0].label else [(UNKNOWN, easy, True)]
    left = {kind: number for kind, number, _ in plan}
    found: list[Pair] = []
    while any(left.values()):
        before = len(found)
        fresh = random.permutation(len(rows)).tolist()
        for kind, _, same in plan:
            skipped: list[int] = []
            for at, picture in enumerate(fresh):
                if not left[kind]:
                    skipped += fresh[at:]
                    break
                barred = {*parts[videos[picture]], *heard[picture]}
                barred.update(clip for one in own[picture] for clip in recordings.get(one, ()))
                sound = _draw(random, len(rows), classes[labels[picture]], same, barred)
                if sound is None:
                    skipped.append(picture)
                    continue
                heard[picture].append(sound)
                found.append(Pair(rows[picture].id, rows[sound].id, kind))
                left[kind] -= 1
            fresh = skipped
        if len(found) == before:
            break
    return [found[i] for i in random.permutation(len(found))]


def _places(values: Iterable[str]) -> dict[str, list[int]]:
    """Where in a list each value stands."""
    found: dict[str, list[int]] = {}
    for place, value in enumerate(values):
        found.setdefault(value, []).append(place)
    return found


def _draw(random: np.random.Generator, count: int, alike: list[int], same: bool, barred: set[int]) -> int | None:
    """One of `count` clips that is not `barred`: of those `alike` (sorted), or else of the others; None if all are.

    Clips are counted, never listed: a list of many clips has as many pairs to draw.
    """
    ranks = []  # of the barred clips among those that are drawn from
    for clip in barred:
        rank = bisect_left(alike, clip)
        if (rank < len(alike) and alike[rank] == clip) == same:
            ranks.append(rank if same else clip - rank)
    free = (len(alike) if same else count - len(alike)) - len(ranks)
    if free == 0:
        return None
    drawn = int(random.integers(free))
    for rank in sorted(ranks):
        drawn += rank <= drawn
    if same:
        return alike[drawn]
    return drawn + bisect_right(range(len(alike)), drawn, key=lambda place: alike[place] - place)


def _own_recordings(rows: list[Row]) -> list[list[str]]:
    """The recordings that belong to each clip's picture: all it is heard with in any clip, and the picture's own."""
    own: dict[str, set[str]] = {}
    for row in rows:
        picture = row.picture or row.id
        own.setdefault(picture, {picture}).add(row.sound or row.id)
    return [sorted(own[row.picture or row.id]) for row in rows]


def alone(rows: Iterable[Row]) -> list[str]:
    """Classes with a single positive: no hard pair can be made of them.

    >>> alone([Row("a", "dog"), Row("b", "dog"), Row("c", "cat")])
    ['cat']
    """
    counts = Counter(row.label for row in rows if row.positive and row.label)
    return sorted(label for label, number in counts.items() if number == 1)


def counts(negatives: Iterable[Pair]) -> dict[str, int]:
    """How many there are of each kind, in the usual order of kinds."""
    number = Counter(negative.kind for negative in negatives)
    return {kind: number[kind] for kind in (*KINDS, *sorted(set(number) - set(KINDS))) if number[kind]}


def write(path: Path, negatives: Iterable[Pair]) -> None:
    """A csv file with columns video, audio, label (as published) and kind."""
    write_csv(path, ("video", "audio", "label", "kind"), ((n.video, n.audio, LABEL, n.kind) for n in negatives))


def read(path: Path, labels: Mapping[str, str]) -> list[Pair]:
    """The pairs of a csv file with columns video and audio; a column `kind` is believed, else kinds are worked out."""
    if not path.exists():
        raise DataError(
            f"Expected a csv file of negatives, but got {path}, which is not there. "
            "Write one with earsight data negatives."
        )
    return [
        pair._replace(kind=kind_of(pair, labels.get(pair.video, ""), labels.get(pair.audio, "")))
        for pair in read_pairs(path, published=False)
    ]


def extend(base: ClipSet, path: Path) -> ClipSet:
    """The positives of `base`, then one clip for each pair in the csv file, labelled with the class of its sound."""
    there = sum(not row.positive for row in base.rows)
    if there:
        raise UsageError(
            f"Expected a set of positives to add negatives to, but got {base.name}, which has {there} negatives "
            "already. Name a split without them."
        )
    labels = {row.id: row.label for row in base.rows}
    pairs = read(path, labels)
    # Real negatives are recordings of their own, which sets that find recordings by name can read.
    ours = [pair for pair in pairs if pair.video != pair.audio or not isinstance(base, Listed)]
    strange = [id for pair in ours for id in dict.fromkeys(pair[:2]) if id not in labels]
    if strange:
        raise DataError(
            f"Expected negatives made of clips of {base.name}, but got {some(strange)} in {path}. "
            "Name the set that they were built for, or build negatives for this one."
        )
    name = f"{base.name}+{path.name}"
    rows = check_rows([*base.rows, *negative_rows(pairs, lambda id: labels.get(id, ""))], name)
    return Listed(name, rows, base.layout) if isinstance(base, Listed) else WithNegatives(name, rows, base)


class WithNegatives(Derived):
    """A set with more rows, which show the picture of one of its clips and let the sound of another be heard.

    In the `rows` that are given these name clips of the set; in those that are kept, the recordings of these clips.
    """

    def __init__(self, name: str, rows: Sequence[Row], base: ClipSet) -> None:
        at = {row.id: i for i, row in enumerate(base.rows)}
        self._parts, named = [(i, i) for i in range(len(base))], list(base.rows)
        for row in rows[len(base) :]:
            part = at[row.picture], at[row.sound]
            seen, heard = (base.rows[i] for i in part)
            named.append(replace(row, picture=seen.picture or seen.id, sound=heard.sound or heard.id))
            self._parts.append(part)
        super().__init__(name, named, base)

    def files(self, index: int) -> Files | None:
        seen, heard = (self._whole.files(part) for part in self.parts(index))
        return None if seen is None or heard is None else (seen[0], heard[1])

    def parts(self, index: int) -> tuple[int, int]:
        return self._parts[index]
