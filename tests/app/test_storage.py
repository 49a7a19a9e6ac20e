"""Session storage: nothing outside it is served, and nothing in it stays."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from earsight.app import storage as module
from earsight.app.limits import RefusedError
from earsight.app.storage import KEPT, Storage

ROOM = 1000


@pytest.fixture
def storage(tmp_path: Path) -> Iterator[Storage]:
    with Storage(60, ROOM, tmp_path) as one:
        yield one


def test_only_plain_files_of_results_are_served(storage: Storage, tmp_path: Path) -> None:
    session = storage.open_session("me")
    result, upload = storage.create(session, "result"), storage.create(session, "upload")
    (result.folder / "film").write_bytes(b"x")
    (upload.folder / "clip").write_bytes(b"x")
    (tmp_path / "secret").write_bytes(b"x")
    (result.folder / "link").symlink_to(tmp_path / "secret")
    (result.folder / "folder").mkdir()
    assert storage.result(result.id, "film") == result.folder / "film"
    for id, name in ((result.id, "link"), (result.id, "folder"), (result.id, "missing"), (upload.id, "clip"), ("", "")):
        assert storage.result(id, name) is None, name


def test_an_upload_belongs_to_its_session(storage: Storage) -> None:
    mine, yours = storage.open_session("me"), storage.open_session("you")
    upload = storage.create(mine, "upload")
    (upload.folder / "clip.mp4").write_bytes(b"x")
    assert storage.upload(mine, upload.id) == upload.folder / "clip.mp4"
    assert storage.upload(yours, upload.id) is None
    assert storage.upload(mine, "../..") is None


def test_folder_is_private_and_gone_at_the_end(tmp_path: Path) -> None:
    with Storage(60, ROOM, tmp_path) as storage:
        assert storage.root.stat().st_mode & 0o077 == 0
        (storage.create(storage.open_session("a"), "result").folder / "x").write_bytes(b"x")
    assert not list(tmp_path.iterdir())


def test_a_closed_session_takes_its_own_files_along(storage: Storage) -> None:
    mine, yours = storage.open_session("me"), storage.open_session("you")
    gone = [storage.create(mine, kind).folder for kind in ("upload", "result")]
    kept = storage.create(yours, "result").folder
    storage.close_session(mine.id)
    storage.close_session("nobody")
    assert [one.exists() for one in (*gone, kept, storage.samples)] == [False, False, True, True]
    for use in (lambda: storage.session(mine.id), lambda: storage.create(mine, "upload")):
        with pytest.raises(RefusedError, match="has closed this one"):
            use()


def test_old_results_make_room_for_new_ones(storage: Storage) -> None:
    session = storage.open_session("me")
    upload = storage.create(session, "upload").folder
    made = [storage.create(session, "result").folder for _ in range(KEPT + 2)]
    assert [one.exists() for one in (upload, *made)] == [True] + [False] * 2 + [True] * KEPT


def test_room_is_limited_for_all_and_for_each_client(storage: Storage) -> None:
    sessions = [storage.open_session(client) for client in "abcde"]
    for session in sessions[:4]:
        storage.grow(session, storage.create(session, "upload"), 250)
        with pytest.raises(RefusedError, match="your files fill what one address may take") as own:
            storage.grow(session, storage.create(session, "upload"), 1)
        assert own.value.status == 429
        storage.remove(session, list(session.stored.values())[-1])
    with pytest.raises(RefusedError, match="it is full") as full:
        storage.grow(sessions[4], storage.create(sessions[4], "upload"), 1)
    assert full.value.status == 507


def test_one_client_has_a_limited_number_of_sessions(storage: Storage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SESSIONS", 2)
    other, *mine = (storage.open_session(client) for client in ("you", "me", "me", "me"))
    with pytest.raises(RefusedError):
        storage.session(mine[0].id)
    assert [storage.session(one.id) for one in (other, *mine[1:])] == [other, *mine[1:]]


def test_sweep_removes_what_is_old_and_leaves_samples(storage: Storage) -> None:
    (storage.samples / "film.mp4").write_bytes(b"12345")
    session = storage.open_session("me")
    old = storage.create(session, "result")
    storage.grow(session, old, 3)
    storage.sweep()
    assert (old.folder.exists(), storage.used()) == (True, 3)
    storage.sweep(time.time() + 61)
    assert (old.folder.exists(), storage.used()) == (False, 0)
    assert (storage.samples / "film.mp4").exists()
    with pytest.raises(RefusedError):
        storage.session(session.id)


def test_sweeping_goes_on_by_itself(tmp_path: Path) -> None:
    with Storage(1.0, ROOM, tmp_path) as storage:
        old = storage.create(storage.open_session("me"), "upload").folder
        for _ in range(100):
            if not old.exists():
                break
            time.sleep(0.1)
        assert not old.exists()


def test_a_start_removes_what_killed_processes_left(tmp_path: Path) -> None:
    code = (
        "import os, sys; from pathlib import Path; from earsight.app.storage import Storage\n"
        "one = Storage(60, 1000, Path(sys.argv[1])); (one.work / 'x').write_bytes(b'x'); print(one.root, flush=True)\n"
        "os.kill(os.getpid(), 9)"
    )
    run = [sys.executable, "-c", code, str(tmp_path)]
    dead = Path(subprocess.run(run, capture_output=True, text=True, timeout=60).stdout.strip())
    foreign = tmp_path / "earsight-app-of-something-else"
    foreign.mkdir()
    assert (dead / "work" / "x").exists()
    with Storage(60, ROOM, tmp_path) as first, Storage(60, ROOM, tmp_path) as second:
        assert not dead.exists()
        assert all(one.exists() for one in (first.root, second.root, foreign)), "what runs stays"
