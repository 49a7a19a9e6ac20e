"""The published lists of the field: their names and hashes, and where each is found or fetched.

They were published with SLAVC (VGG-SS by Chen et al. 2021). A list is looked for in the data folder, in metadata/
inside it, in the folder $EARSIGHT_METADATA, and is else downloaded once. A list of the user's own is taken whatever its
hash; the parsers of data/lists.py see to it that it is of the right kind.
"""

from __future__ import annotations

import os
from pathlib import Path

from earsight import download
from earsight.errors import DataError, UsageError

BASE = "https://raw.githubusercontent.com/stoneMo/SLAVC/main/metadata/"
LISTS = {
    "flickr_10k.txt": "773429321cd7690710660446b4aab9157ef75fe9a1f6b788649989a8066a77b1",
    "flickr_144k.txt": "5368914670a8e41f27591a7d6818abe74132aefd199a2a3b1861aeafa2e20b99",
    "flickr_sup_train.txt": "af87c3a35d584d8792686fe8de5b21adaf331330b6e2b80c7d4998f60d4f9030",
    "flickr_test.csv": "e5c04bd722fc73a2daafcdafe9e10068d198c5df168300db4e05aa61b4ef71ed",
    "flickr_test_plus_silent.csv": "45a0d32b64a9ef9e567d3eaf4a4a29683cdb0f7f4e1924a0e26cde24fa298643",
    "vggss.json": "ae300b4a259267e6fe839970d495862edd70bfe3da63d925bcdb34054ed3b15e",
    "vggss_10k.txt": "9a19023b17aedc79001bbcb69ccd5c96f6af2f7b8ef1b12fa92a76050a0ae43e",
    "vggss_144k.txt": "a9a02f704e8bb2d746c43860e5830e7589e9311de5bd067459484ec5bb4bd529",
    "vggss_heard.txt": "db900e2df283236b3e5485ae95a4a09f0904f8da184fc7da6f1ab1d24f6c5aa2",
    "vggss_heard_test.csv": "70a01c6828e7b84531823616ebb2e32e75bbaf5e44c715fa366b61111ab33c4e",
    "vggss_test.csv": "971081929d45caf21a148a6ca968822d96e8316331d0cc0bafb1783acb4d2c35",
    "vggss_test_plus_silent.csv": "905a009428e16d1108e5af112d8e682dbe1702a2ed897b3d56753ff587018e4e",
    "vggss_unheard_test.csv": "11883813db359df63e1a28f69bb53e1ceef7f5b8d68e0149de5792540acb9e17",
}
"""File name and sha256 of every list that can be fetched."""
_LARGEST = 64 << 20


def places(data: Path | None) -> list[Path]:
    """The folders in which a list of the user's own is looked for, first one first."""
    if data is not None and not data.is_dir():
        raise DataError(f"Expected the folder of the data, but got {data}, which is none. Check --data.")
    found = [] if data is None else [data, data / "metadata"]
    own = os.environ.get("EARSIGHT_METADATA")
    if own:
        folder = Path(own).expanduser()
        if not folder.is_dir():
            raise UsageError(
                f"Expected EARSIGHT_METADATA to name a folder of lists, but got {own}, which is none. "
                "Correct it, or take it out of the environment."
            )
        found.append(folder)
    return found


def find_local(name: str, data: Path | None) -> Path | None:
    """The list `name` on this machine, or None; nothing is downloaded."""
    return next((folder / name for folder in places(data) if (folder / name).is_file()), None)


def find(name: str, data: Path | None) -> Path:
    """The list `name`: the user's own where there is one, else the published one, fetched once."""
    local = find_local(name, data)
    if local is not None:
        return local
    try:
        return download.fetch(BASE + name, LISTS[name], name, download.cache_folder() / "metadata", max_bytes=_LARGEST)
    except DataError as error:
        also = ", ".join(str(folder) for folder in places(data)) or "the --data folder"
        raise DataError(f"{error} A {name} in one of these is taken as well: {also}.") from error
