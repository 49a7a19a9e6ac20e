"""Published lists: the user's own go first, others are fetched once, and what is missing is told."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from earsight.data import lists
from earsight.data.lists import LISTS, find, find_local
from earsight.errors import DataError, UsageError


@pytest.fixture(autouse=True)
def offline(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(lists, "BASE", "http://127.0.0.1:9/")
    monkeypatch.setenv("EARSIGHT_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("EARSIGHT_METADATA", raising=False)


def put(folder: Path, text: str, name: str = "vggss_10k.txt") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(text)
    return folder / name


def test_a_list_of_ones_own_goes_first_whatever_its_hash(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data, other = tmp_path / "data", tmp_path / "other"
    data.mkdir()
    third = put(other, "c")
    monkeypatch.setenv("EARSIGHT_METADATA", str(other))
    assert find("vggss_10k.txt", None) == find("vggss_10k.txt", data) == third
    second = put(data / "metadata", "b")
    assert find("vggss_10k.txt", data) == second
    first = put(data, "a")
    assert find("vggss_10k.txt", data) == find_local("vggss_10k.txt", data) == first


def test_a_list_in_the_cache_must_have_the_published_hash(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = put(tmp_path / "cache" / "metadata", "mine")
    with pytest.raises(DataError, match=r"a sha256 of 9a19023b.* Delete .*vggss_10k\.txt and run again"):
        find("vggss_10k.txt", None)
    monkeypatch.setitem(LISTS, "vggss_10k.txt", hashlib.sha256(b"mine").hexdigest())
    assert find("vggss_10k.txt", None) == kept


def test_without_a_network_the_message_says_which_file_to_put_where(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"Expected to download http://127\.0\.0\.1:9/vggss\.json, but got") as caught:
        find("vggss.json", tmp_path)
    message = str(caught.value)
    assert f"by hand: {tmp_path / 'cache/metadata/vggss.json'} (sha256 {LISTS['vggss.json']})" in message
    assert message.endswith(f"A vggss.json in one of these is taken as well: {tmp_path}, {tmp_path / 'metadata'}.")
    assert find_local("vggss.json", tmp_path) is None
    with pytest.raises(DataError, match=r"taken as well: the --data folder\.$"):
        find("vggss.json", None)


def test_a_metadata_folder_that_is_not_there_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EARSIGHT_METADATA", str(tmp_path / "nowhere"))
    with pytest.raises(UsageError, match=r"Expected EARSIGHT_METADATA to name a folder of lists, but got .*nowhere"):
        find("vggss.json", None)


def test_the_hashes_are_those_of_the_real_lists(shared: Path) -> None:
    found = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in (shared / "metadata").iterdir()}
    assert found == LISTS
    assert all(find(name, shared) == shared / "metadata" / name for name in LISTS)


def test_a_data_folder_that_is_not_there_is_told_before_a_download(tmp_path: Path) -> None:
    with pytest.raises(
        DataError, match=r"Expected the folder of the data, but got .*nowhere, which is none. Check --data"
    ):
        find("vggss.json", tmp_path / "nowhere")
