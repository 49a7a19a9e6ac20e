"""Pairs in a folder without lists: pictures and sounds of the same name, and videos with their own sound.

A name is a path inside the folder without its ending and without folders that only say what kind of file is in them
(`FOLDERS`), so dog/1.jpg belongs to dog/1.wav, and images/dog/1.jpg to audio/dog/1.wav. Nothing is opened: the ending
says what a file is. What is in no pair is counted and named; what could be in several is refused.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path, PurePosixPath

from earsight.data.lists import some
from earsight.errors import DataError
from earsight.files import is_output
from earsight.media.accept import kind_of

FOLDERS = frozenset({"image", "images", "frames", "pictures", "photos", "audio", "sound", "sounds", "video", "videos"})
"""Folders that are no part of a name, in small or large letters."""
Name = tuple[str, ...]


def same_names(
    root: Path, lists: Iterable[str], held_out: Iterable[str]
) -> tuple[list[tuple[str, str]], tuple[str, ...]]:
    """The pairs below `root`, in order of their names, and what is in no pair, in plain words.

    A pair is the picture and the sound as paths inside the folder; of a video, itself twice.

    Hidden files are no part of the folder, and neither are `lists` and what `localize` wrote. Links to folders are not
    followed. Of what has the name of a file that is `held_out`, nothing is used.
    """
    files, links, closed = _below(root)
    by_name = defaultdict[Name, dict[str, list[str]]](lambda: {kind: [] for kind in ("picture", "sound", "video")})
    others: list[str] = []
    results: list[str] = []
    odd: list[str] = []
    for path in sorted(set(files) - set(lists)):
        kind = kind_of(Path(path))
        if is_output(path):
            results.append(path)
        elif path != path.encode("utf-8", "replace").decode():
            odd.append(path)
        elif kind:
            by_name[_name(path)][kind].append(path)
        else:
            others.append(path)
    held = {_name(path) for path in held_out}.intersection(by_name)
    pairs: list[tuple[str, str]] = []
    pictures: list[str] = []
    sounds: list[str] = []
    unclear: list[str] = []
    for name in sorted(by_name.keys() - held):
        seen, heard, both = by_name[name].values()
        if (both and (seen or heard)) or (seen and heard and len(seen) + len(heard) > 2):
            unclear.append(" and ".join([*seen, *heard, *both]))
        elif seen and heard:
            pairs.append((seen[0], heard[0]))
        else:
            pairs += [(video, video) for video in both]
            pictures += seen
            sounds += heard
    if unclear:
        raise DataError(
            f"Expected one picture and one sound of each name in {root}, or one video, but got more of "
            f"{len(unclear)}: {some(unclear)}. Rename or remove what is too much, or write the pairs into "
            "pairs_train.csv (columns image and audio)."
        )
    left = (
        ("picture", "without a sound of the same name", pictures),
        ("sound", "without a picture of the same name", sounds),
        ("file", "neither picture, sound nor video by the ending", others),
        ("file", "written by earsight localize", results),
        ("file", "a name that is not UTF-8", odd),
        ("folder", "a link, which is not followed", links),
        ("folder", "that cannot be listed", closed),
        ("name", "in another list", ["/".join(name) for name in sorted(held)]),
    )
    notes = tuple(
        f"not used: {len(names)} {what}{'s' * (len(names) != 1)} ({why}): {some(names)}"
        for what, why, names in left
        if names
    )
    if not pairs:
        raise DataError(
            f"Expected pictures and sounds of the same name (dog.jpg and dog.wav) or videos in {root}, but got no pair"
            f"{''.join(f'; {note}' for note in notes)}. Rename them, or write the pairs into pairs_train.csv (columns "
            "image and audio)."
        )
    return pairs, notes


def _below(root: Path) -> tuple[list[str], list[str], list[str]]:
    """Paths below a folder: files, links to folders, and folders that cannot be listed."""
    files: list[str] = []
    links: list[str] = []
    closed: list[str] = []

    def refused(error: OSError) -> None:
        closed.append(Path(error.filename).relative_to(root).as_posix())

    for where, folders, names in os.walk(root, onerror=refused):
        inside = PurePosixPath(Path(where).relative_to(root).as_posix())
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        links += [str(inside / name) for name in folders if Path(where, name).is_symlink()]
        files += [str(inside / name) for name in names if not name.startswith(".")]
    return files, links, closed


def _name(path: str) -> Name:
    """What files that belong together have in common.

    >>> _name("dog/1.jpg") == _name("Images/dog/1.JPG") == _name("dog/audio/1.wav")
    True
    """
    *folders, last = PurePosixPath(path).with_suffix("").parts
    return *(folder for folder in folders if folder.lower() not in FOLDERS), last
