"""Pairs over two tables: pictures by name, sounds by name, and a list of which go together and from when.

Any picture may go with any sound, in training with another one on every visit, so the tables are sets of their own:
pictures without sound, and sounds with a picture of one pixel. Both are files in folders (`FileTable`), or lie in a
pack (data/pack.py) as SET:photos_LIST and SET:sounds_LIST.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from zlib import crc32

import numpy as np

from earsight.data.clips import ClipSet, Files, Limited, sound_window
from earsight.data.layout import file_names, find_file
from earsight.data.manifest import MANIFEST, Part, Settings, folder_name
from earsight.errors import MediaError, UsageError
from earsight.types import F32, I16, Clip, Row, Sound

SILENCE, NOISE = "silence", "noise"
"""Sounds that are in no table, since they are made up."""
LOUDNESS = 0.1
"""Root of the mean square of noise; recordings have about that."""
Choose = Callable[[Row, tuple[str, float], int], tuple[str, float]]
"""From a row, its listed sound and start, and the number of a visit, to the sound and start of that visit."""


class PairSet(ClipSet):
    """Pictures, each with a window of a sound. The middle of the window is the moment of the picture.

    Args:
        name: "set:split".
        rows: what is known of the clips; `picture` names the picture.
        listed: name of the sound of each clip, and where its window begins, in seconds.
        tables: the pictures and the sounds.
        length: seconds that every sound lasts, and from the beginning of a window to its end.
        choose: for training lists, which sound a visit has in place of the listed one.
    """

    def __init__(
        self,
        name: str,
        rows: Sequence[Row],
        listed: Sequence[tuple[str, float]],
        tables: tuple[ClipSet, ClipSet],
        length: tuple[float, float],
        choose: Choose | None = None,
    ) -> None:
        super().__init__(name, rows)
        self._listed, self._choose = tuple(listed), choose
        self._length, self._window = length
        self.tables = self._pictures, self._sounds = tables
        self._at = [{row.id: i for i, row in enumerate(table.rows)} for table in tables]

    def heard(self, index: int, draw: int) -> tuple[str, float]:
        """Name of the sound that a clip has on visit `draw`, and where its window begins."""
        listed = self._listed[index]
        return listed if self._choose is None else self._choose(self.rows[index], listed, draw)

    def read(self, index: int, rate: int, seconds: float, draw: int = 0) -> Clip:
        row = self.rows[index]
        picture = self._pictures.read(self._place(0, row.picture), rate, 0.0).frame
        return Clip(row.id, picture, *self.hear(index, rate, seconds, draw))

    def hear(self, index: int, rate: int, seconds: float, draw: int = 0) -> Sound:
        self.check_audio_spec(rate, seconds)
        name, start = self.heard(index, draw)
        if name in (SILENCE, NOISE):
            wave: F32 | I16 = synthetic(name, self.rows[index].picture, round(self._length * rate))
        else:
            wave = self._sounds.hear(self._place(1, name), rate, self._length).waveform
        first, last, time = sound_window(len(wave), start + self._window / 2, rate, seconds)
        return Sound(wave[first:last], rate, time)

    def _place(self, table: int, name: str) -> int:
        place = self._at[table].get(name)
        if place is None:
            raise MediaError(name, f"is not in {self.tables[table].name}.", "Prepare the pack again.")
        return place

    def files(self, index: int) -> Files | None:
        """The files of a clip's picture and listed sound; None for tables without files."""
        if not isinstance(self._pictures, FileTable) or not isinstance(self._sounds, FileTable):
            return None
        return self._pictures.find(self.rows[index].picture), self._sounds.find(self.heard(index, 0)[0])

    def failed_clips(self) -> dict[int, str]:
        pictures, sounds = ({t.rows[i].id: why for i, why in t.failed_clips().items()} for t in self.tables)
        if self._choose is not None:
            sounds = {}  # other visits have other sounds
        names = zip((row.picture for row in self.rows), (sound for sound, _ in self._listed), strict=True)
        found = {i: pictures.get(picture) or sounds.get(sound) for i, (picture, sound) in enumerate(names)}
        return {i: reason for i, reason in found.items() if reason}

    def check_audio_spec(self, rate: int, seconds: float) -> None:
        self._sounds.check_audio_spec(rate, min(seconds, self._length))

    def changed(self) -> str:
        return self._pictures.changed() or self._sounds.changed()


class FileTable(ClipSet):
    """Pictures or sounds by name, as files in folders.

    Args:
        name: what the table is called in a pack.
        rows: named like the files, without their endings.
        folders: where a file is looked for, first one first.
        side: for pictures to be packed, of the square that each is squeezed into, since training cuts squares out of
            pictures: a cut of a wide picture might not hold what sounds.
    """

    def __init__(self, name: str, rows: Sequence[Row], folders: Sequence[Path], side: int = 0) -> None:
        super().__init__(name, rows)
        self.folders, self._side = tuple(folders), side
        self._kind = "picture" if ":photos_" in name else "sound"

    def find(self, name: str) -> Path | None:
        return find_file(self.folders, name, self._kind)

    def read(self, index: int, rate: int, seconds: float, draw: int = 0) -> Clip:
        from earsight.media.read import read_audio, read_image

        name = self.rows[index].id
        path = self.find(name)
        if path is None:
            where = f"Expected {file_names(name, self._kind)} in {' or '.join(map(str, self.folders))}."
            raise MediaError(name, f"has no {self._kind}.", where)
        if self._kind == "sound":
            wave = read_audio(path, rate, 0.0, seconds)
            return Clip(name, np.zeros((3, 1, 1), np.uint8), wave, rate, len(wave) / rate / 2)
        picture = read_image(path)
        if self._side:
            from earsight.data.view import resized

            picture = resized(picture, self._side, self._side).numpy()
        return Clip(name, picture, np.zeros(0, np.float32), rate, 0.0)


def synthetic(kind: str, picture: str, samples: int) -> I16:
    """Silence, or white noise that is another for every picture: int16 (samples,).

    >>> synthetic("silence", "000000000042", 8).tolist() == [0] * 8
    True
    """
    if kind == SILENCE:
        return np.zeros(samples, np.int16)
    seed = int(picture) if picture.isdecimal() else crc32(picture.encode())
    noise = np.random.default_rng(seed).standard_normal(samples) * (LOUDNESS * 32768)
    return np.clip(np.round(noise), -32768, 32767).astype(np.int16)


def table_names(set: str, name: str) -> tuple[str, str]:
    """What the tables of a list are called in a pack.

    >>> table_names("coco_esc", "train")
    ('coco_esc:photos_train', 'coco_esc:sounds_train')
    """
    return f"{set}:photos_{name}", f"{set}:sounds_{name}"


def table_folders(pack: Path, set: str, name: str) -> list[Path]:
    """Where the tables of a list lie in a pack."""
    return [pack / folder_name(spec) for spec in table_names(set, name)]


def packed_tables(pack: Path, set: str, name: str, flags: str) -> tuple[ClipSet, ClipSet]:
    """The tables of a list in a pack that `earsight data prepare SET:NAME` with these flags made."""
    from earsight.data.pack import Packed

    for folder in table_folders(pack, set, name):
        if not (folder / MANIFEST).is_file():
            raise UsageError(
                f"Expected photos and sounds of the {name} list of {set} in the pack {pack}, but got none that are "
                f"finished. Run: earsight data prepare {set}:{name} {flags} --out {pack}"
            )
    photos, sounds = (
        Packed(pack / folder_name(spec), spec, f"{set}:{name} {flags}") for spec in table_names(set, name)
    )
    return photos, sounds


def parts(tables: tuple[ClipSet, ClipSet], settings: Settings, limit: int) -> list[Part]:
    """Two tables as parts of a pack: at most `limit` pictures (0: all), and all sounds."""
    pictures, sounds = tables
    few = Limited(pictures, limit) if limit else pictures
    return [Part(pictures.name, few, settings, limit), Part(sounds.name, sounds, settings)]
