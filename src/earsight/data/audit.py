"""Test clips in a training list: the same clip, or another part of the same video.

What counts is the picture: a test set's pictures are compared by name with the clips of the training list, each once,
however many sounds it is paired with. Sets say which video a clip is cut from (`video_of`); elsewhere it is its id.
Names are compared as they are written. Where that finds nothing, or next to nothing, though the names of files would
match, the lists are refused: "clean" would be a false answer.
"""

from __future__ import annotations

import filecmp
import re
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from earsight import registry
from earsight.data.clips import ClipSet, open_set
from earsight.data.files import read_names
from earsight.data.manifest import find, is_pack
from earsight.errors import DataError, EarsightError, UsageError
from earsight.media.accept import CLIPS, PICTURES
from earsight.types import Row

VideoOf = Callable[[str], str]
SAME_CLIP, SAME_VIDEO = "same clip", "same video"
RARE = 10
"""Lists are refused when more than so many times the clips match by the names of files alone."""


@dataclass(frozen=True)
class Overlap:
    """What a training list and a test list share.

    Args:
        same_clip: test clips that are in the training list.
        same_video: other test clips with a training clip from the same video: test id, training ids.
        clean_train: training clips from videos that the test list does not have.
        clean_test: test clips from videos that the training list does not have.
        pairs: everything shared, as test id, training id, "same clip" or "same video".
    """

    same_clip: tuple[str, ...]
    same_video: tuple[tuple[str, tuple[str, ...]], ...]
    clean_train: tuple[str, ...]
    clean_test: tuple[str, ...]
    pairs: tuple[tuple[str, str, str], ...]

    @property
    def shared(self) -> int:
        """Test clips that were trained on, or whose video was."""
        return len(self.same_clip) + len(self.same_video)

    @property
    def tested(self) -> int:
        return len(self.same_clip) + len(self.same_video) + len(self.clean_test)


def overlap(train_ids: Iterable[str], test_ids: Iterable[str], video_of: VideoOf = str) -> Overlap:
    """Compare two lists of clips; `video_of` names the video that a clip is cut from.

    >>> found = overlap(["a_1", "b_1", "c_1"], ["a_1", "b_9", "d_1"], lambda id: id[0])
    >>> found.same_clip, found.same_video, found.clean_train, found.clean_test
    (('a_1',), (('b_9', ('b_1',)),), ('c_1',), ('d_1',))
    """
    train, test = tuple(dict.fromkeys(train_ids)), tuple(dict.fromkeys(test_ids))
    known, parts = set(train), defaultdict[str, list[str]](list)
    for id in train:
        parts[video_of(id)].append(id)
    tested = {video_of(id) for id in test}
    same_clip, same_video, clean, pairs = [], [], [], []
    for id in test:
        others = [part for part in parts.get(video_of(id), ()) if part != id]
        if id in known:
            same_clip.append(id)
            pairs.append((id, id, SAME_CLIP))
        elif others:
            same_video.append((id, tuple(others)))
        else:
            clean.append(id)
        pairs += [(id, other, SAME_VIDEO) for other in others]
    return Overlap(
        tuple(same_clip),
        tuple(same_video),
        tuple(id for id in train if video_of(id) not in tested),
        tuple(clean),
        tuple(pairs),
    )


@dataclass(frozen=True)
class Listing:
    """The clips of a list by name, without anything on disk but the list.

    Args:
        name: of the list.
        ids: names of the recordings that are seen.
        video_of: names the video of a clip, where the set can tell.
        tests: sets to compare it with unless others are named.
        module: name of the set that gave the clips their names; empty for a file, whose author did.
        within: the folder that names begin in, where they are those of files in a folder of the user's.
    """

    name: str
    ids: tuple[str, ...]
    video_of: VideoOf | None = None
    tests: tuple[str, ...] = ()
    module: str = ""
    within: Path | None = None


def listing(spec: str, data: Path | None = None, *, role: str = "test") -> Listing:
    """The list behind a set's name, or behind a text file with one id a line."""
    path = Path(spec)
    if path.is_file() or ("+" not in spec and (path.suffix in (".txt", ".csv") or len(path.parts) > 1)):
        return Listing(path.name, tuple(read_names(path)))
    name, _, split = spec.partition("+")[0].partition(":")
    module = registry.load("set", name)
    video_of: VideoOf | None = getattr(module, "video_of", None)
    split = split or module.DEFAULTS.get(role, "")
    by_ids = hasattr(module, "ids") and split in module.SPLITS and "+" not in spec
    if by_ids and not (data is not None and is_pack(data) and find(data, f"{name}:{split}")):
        # Negatives are named VIDEO+AUDIO there.
        ids = dict.fromkeys(str(id).partition("+")[0] for id in module.ids(split, data))
        return Listing(f"{name}:{split}", tuple(ids), video_of, tuple(module.TESTS), name)
    clip_set = open_set(spec, data, role=role)
    tests = getattr(module, "TESTS", None)
    if tests is None:  # a set of its own: what it is measured on
        measured = dict.fromkeys(module.DEFAULTS.get(role, "") for role in ("val", "test"))
        tests = [f"{name}:{test}" for test in measured if test not in ("", split)]
    return Listing(clip_set.name, pictures(clip_set.rows), video_of, tuple(tests), name, _within(clip_set))


def pictures(rows: Sequence[Row]) -> tuple[str, ...]:
    """Names of the recordings that are seen, each once."""
    return tuple(dict.fromkeys(row.picture or row.id for row in rows))


def audit(train: Listing, test: Listing) -> Overlap:
    """Compare two lists by what either says of its videos; refused where they do not write names in one way."""
    video_of = test.video_of or train.video_of or str
    found = overlap(_told_apart(train, test, video_of), test.ids, video_of)
    if not train.module or train.module != test.module:
        _need_one_spelling(train, test, found.shared, video_of)
    return found


def _told_apart(train: Listing, test: Listing, video_of: VideoOf) -> Sequence[str]:
    """The training list's names; the whole path of a file that only has the name of one in the test set's folder."""
    if train.within is None or test.within is None or train.module != test.module or train.within == test.within:
        return train.ids
    file_of = getattr(registry.load("set", train.module), "file_of", None)
    if file_of is None:
        return train.ids
    tested = defaultdict[str, list[Path]](list)
    for id in test.ids:
        tested[video_of(id)].append(file_of(id, test.within))

    def name(id: str) -> str:
        file, others = file_of(id, train.within), tested.get(video_of(id), [])
        return str(file) if others and not any(_same_file(file, other) for other in others) else id

    return [name(id) for id in train.ids]


def _same_file(one: Path, other: Path) -> bool:
    """Whether two files hold the same; those that cannot be read may well do."""
    try:
        return filecmp.cmp(one, other, shallow=False)
    except OSError:
        return True


def _need_one_spelling(train: Listing, test: Listing, shared: int, video_of: VideoOf) -> None:
    """Refuse lists where one has the other's names with folders before them or endings behind them."""
    for plainer in (_without_ending, _last, lambda name: _last(_without_ending(name))):
        for one, other in ((train, test), (test, train)):
            plain = {plainer(name): name for name in one.ids if plainer(name) != name}
            if not plain:
                continue
            again = overlap(plain, other.ids, video_of)
            if again.shared <= RARE * shared:
                continue
            right, found, _ = min(again.pairs, key=lambda pair: pair[2] != SAME_CLIP)
            raise DataError(
                f"Expected names of clips in {one.name} as {other.name} writes them, such as '{right}', but got "
                f"'{plain[found]}': {again.shared} clips of {other.name} match without folders and endings, and "
                f"{shared} as they are written. Write both lists in the same way."
            )


def _without_ending(name: str) -> str:
    """A name without the ending of a media file.

    >>> _without_ending("a/b_1.MP4"), _without_ending("b@0.5")
    ('a/b_1', 'b@0.5')
    """
    start, dot, ending = name.rpartition(".")
    return start if start and dot + ending.lower() in CLIPS | PICTURES else name


def _last(name: str) -> str:
    """A name without folders."""
    return name.replace("\\", "/").rpartition("/")[2]


def _looks(name: str) -> str:
    """How a name is built, to tell lists that name clips in different ways.

    >>> _looks("zpWuikVorYg_000032"), _looks("else_000001"), _looks("else_1.mp4")
    ('a_000000', 'a_000000', 'a_0.a')
    """
    return re.sub(r"[^\W_]+", lambda word: "0" * len(word[0]) if word[0].isdecimal() else "a", name)


def leaks(train_spec: str, data: Path | None, test_set: ClipSet, *, must: bool = False) -> str | None:
    """One line on the test clips that a model has been trained on, or None when there are none.

    A training list that cannot be opened is told in that line too: a report must say that nobody looked. With `must` it
    is an error, as for a name that was typed.
    """
    try:
        try:
            train = listing(train_spec, data, role="train")
        except UsageError:  # the folder is the test set's; a set that is made up on the fly has none and refuses it
            if data is None:
                raise
            train = listing(train_spec, None, role="train")
        test = _listing_of(test_set)
        found = audit(train, test)
    except EarsightError as error:
        if must:
            raise
        return f"Test clips in the training list {train_spec} could not be checked: {error}"
    clips, videos = len(found.same_clip), len(found.same_video)
    if clips:
        more = f", {videos} more share{'s' * (videos == 1)} a video with it" if videos else ""
        verb = "is" if clips == 1 else "are"
        return f"{clips} of {found.tested} test clips {verb} in the training list {train.name}{more}"
    if videos:
        verb = "shares" if videos == 1 else "share"
        return f"{videos} of {found.tested} test clips {verb} a video with the training list {train.name}"
    if not train.module and not set(map(_looks, train.ids)).intersection(map(_looks, test.ids)):
        return (
            f"No test clip is in the training list {train.name}, but that may name clips in another way: "
            f"'{train.ids[0]}' there, '{test.ids[0]}' in {test.name}"
        )
    return None


def _listing_of(clip_set: ClipSet) -> Listing:
    """The pictures of a set that is open, as the set that named them tells their videos.

    A set of your own is opened by its module's name, which need not be what it calls itself.
    """
    packed = getattr(clip_set.origin, "manifest", None)
    name = (clip_set.origin.name if packed is None else packed.set).partition(":")[0]
    known = name in registry.names("set") or ("." in name and registry.may_import(name))
    if not known:
        name = type(clip_set.origin).__module__
    module = registry.load("set", name) if known else sys.modules.get(name)
    video_of: VideoOf | None = getattr(module, "video_of", None)
    return Listing(clip_set.name, pictures(clip_set.rows), video_of, (), name, _within(clip_set))


def _within(clip_set: ClipSet) -> Path | None:
    """The folder that names of clips begin in, where they mean nothing outside of it."""
    folder: Path | None = getattr(clip_set.origin, "within", None)
    return None if folder is None else folder.resolve()
