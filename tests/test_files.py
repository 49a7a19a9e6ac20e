"""Writing files: what stands in the way is told before the work."""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from earsight.errors import UsageError
from earsight.files import MOST_JSON, local_path, read_json, refuse_existing, write_atomically, write_bytes, write_csv


def test_a_file_is_only_replaced_when_asked(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("")
    refuse_existing([tmp_path / "a", tmp_path / "new" / "b"], force=True)
    with pytest.raises(UsageError, match=r"Expected no file at .*a yet, but got one. Use --force"):
        refuse_existing([tmp_path / "a"], force=False)


@pytest.mark.parametrize("force", [False, True])
def test_a_folder_is_never_replaced_by_a_file(tmp_path: Path, force: bool) -> None:
    with pytest.raises(UsageError, match=r"Expected a file to write, but got the folder .*Name a file in it"):
        refuse_existing([tmp_path], force)


def test_a_file_in_place_of_a_folder_is_told(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("")
    with pytest.raises(UsageError, match=r"Expected a folder for .*report\.html, but .*a is a file"):
        refuse_existing([tmp_path / "a" / "more" / "report.html"], force=True)


def test_a_folder_that_may_not_be_written_to_is_told() -> None:
    """In /proc not even root can make a file."""
    with pytest.raises(
        UsageError, match=r"Expected a folder that may be written to for .*b, but got /proc \(.*Name anot"
    ):
        refuse_existing([Path("/proc/new/b")], force=False)


def test_looking_for_a_place_leaves_nothing_there(tmp_path: Path) -> None:
    refuse_existing([tmp_path / "new" / "b"], force=False)
    assert list(tmp_path.iterdir()) == []


def test_threads_that_write_one_file_at_once_leave_one_whole_file(tmp_path: Path) -> None:
    path, contents = tmp_path / "deep" / "a.bin", [bytes([i]) * 100_000 for i in range(4)]
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(write_bytes, [path] * 4, contents))
    assert path.read_bytes() in contents
    assert [one.name for one in path.parent.iterdir()] == ["a.bin"]


def test_a_full_disk_names_the_file_that_was_to_be_written(tmp_path: Path) -> None:
    def fill(beside: Path) -> None:
        beside.write_bytes(b"half")
        Path("/dev/full").write_bytes(b"the other half")

    with pytest.raises(OSError, match="No space left on device") as caught:
        write_atomically(tmp_path / "a.bin", fill)
    assert caught.value.filename == str(tmp_path / "a.bin")
    assert list(tmp_path.iterdir()) == []


def test_an_error_names_the_file_and_not_the_one_beside_it_but_leaves_others_their_name(tmp_path: Path) -> None:
    for wrong, told in ((Path.unlink, "a.bin"), (lambda _: Path("gone").unlink(), "gone")):
        with pytest.raises(FileNotFoundError) as caught:
            write_atomically(tmp_path / "a.bin", wrong)
        assert Path(caught.value.filename).name == told


def test_a_csv_file_quotes_what_would_break_it(tmp_path: Path) -> None:
    write_csv(tmp_path / "a.csv", ("id", "why"), [("a,b", 'say "x"'), ("c", "two\nlines")])
    assert (tmp_path / "a.csv").read_bytes() == b'id,why\n"a,b","say ""x"""\nc,"two\nlines"\n'


def test_json_of_any_depth_and_size_is_a_value_error(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    for depth, opening, closing in ((65, "[", "]"), (100_000, "[", "]"), (100_000, '{"a":', "}")):
        path.write_text(depth * opening + "1" + depth * closing)
        with pytest.raises(ValueError, match="more than 64 lists and objects inside each other"):
            read_json(path)
    path.write_bytes(b"\xff")
    with pytest.raises(ValueError, match="invalid start byte"):
        read_json(path)
    with path.open("wb") as file:
        file.truncate(MOST_JSON + 1)
    with pytest.raises(ValueError, match="more than 256 MiB"):
        read_json(path)
    path.write_text(64 * "[" + 64 * "]")
    assert read_json(path)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("9223372036854775807", 2**63 - 1),
        ("-9223372036854775808", -(2**63)),
        ("9223372036854775808", 2.0**63),
        ("1" + 30 * "0", 1e30),
        ("-1" + 400 * "0", -float("inf")),
        (5000 * "1", float("inf")),
    ],
)
def test_integers_that_no_array_can_hold_are_floats(tmp_path: Path, text: str, value: float) -> None:
    (tmp_path / "a.json").write_text(text)
    got = read_json(tmp_path / "a.json")
    assert (type(got), got) == (type(value), value)


@pytest.mark.parametrize("url", ["https://a.org/x//clip.mp4", "HTTP://a.org/run", "s3://bucket/maps.npz"])
def test_a_url_is_refused_as_it_was_typed(url: str) -> None:
    with pytest.raises(UsageError, match=rf"but got {re.escape(url)}: URLs are not opened\. Download it first"):
        local_path(url)


def test_a_url_that_was_made_a_path_gets_its_slash_back() -> None:
    with pytest.raises(UsageError, match=r"but got https://a.org/clip.mp4: URLs"):
        local_path(Path("https://a.org/clip.mp4"))


@pytest.mark.parametrize("path", ["clip.mp4", "/a/http:/b", "c:/x", "https"])
def test_other_paths_are_left_alone(path: str) -> None:
    assert local_path(path) == Path(path)
