"""The same generated clips twice: as a pack, which ours reads, and as JPEG and WAV files, which the reference reads."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import scipy.io.wavfile

from benchmarks.big_pack import SPEC, make
from earsight.data.manifest import folder_name
from earsight.data.pack import Packed


class Media(NamedTuple):
    """A pack's clips, and the folder with frames/ID.jpg and audio/ID.wav of the very same bytes and samples."""

    clips: Packed
    files: Path


@contextmanager
def media(rows: int, split: str = "train") -> Iterator[Media]:
    """Make them in a temporary folder."""
    with TemporaryDirectory() as folder:
        root = Path(folder)
        make(root / "pack", rows, split=split)
        yield unpacked(Packed(root / "pack" / folder_name(f"{SPEC}:{split}")), root / "files")


def unpacked(clips: Packed, files: Path) -> Media:
    """Write the clips of a pack as files."""
    (files / "frames").mkdir(parents=True)
    (files / "audio").mkdir()
    for i, row in enumerate(clips.rows):
        stored = clips.stored(i)
        (files / "frames" / f"{row.id}.jpg").write_bytes(stored.frame.tobytes())
        scipy.io.wavfile.write(files / "audio" / f"{row.id}.wav", clips.manifest.settings.rate, stored.wave)
    return Media(clips, files)
