"""The page's folder: nothing outside it is held, and nothing in it stays."""

from __future__ import annotations

import threading
import time
from pathlib import Path

from earsight.app.shelf import KEPT, Shelf


def test_only_plain_files_of_the_page_are_held(tmp_path: Path) -> None:
    with Shelf(60, tmp_path) as shelf:
        inside = shelf.place() / "clip.mp4"
        inside.write_bytes(b"x")
        secret = tmp_path / "secret"
        secret.write_bytes(b"x")
        (shelf.page / "link").symlink_to(secret)
        (shelf.page / "loop").symlink_to(shelf.page / "loop")
        assert shelf.holds(inside)
        assert shelf.holds(str(inside))
        outside = [secret, shelf.page / "link", shelf.page / "loop", inside.parent, shelf.page, "", "\0", "x" * 9999]
        outside += [f"{inside.parent}/../../../secret", shelf.page / "missing", "/etc/passwd"]
        assert [one for one in outside if shelf.holds(one)] == []


def test_folder_is_private_and_gone_at_the_end(tmp_path: Path) -> None:
    with Shelf(60, tmp_path) as shelf:
        assert shelf.root.stat().st_mode & 0o077 == 0
        (shelf.answer("a") / "x").write_bytes(b"x")
    assert not list(tmp_path.iterdir())


def test_visitor_takes_his_files_along_and_nobody_elses(tmp_path: Path) -> None:
    with Shelf(60, tmp_path) as shelf:
        mine, yours = shelf.answer("me"), shelf.answer("you")
        upload = shelf.place()
        shelf.belongs("me", upload / "clip.mp4")
        shelf.belongs("me", shelf.samples / "film.mp4")
        shelf.leave("me")
        shelf.leave("nobody")
        assert [one.exists() for one in (mine, upload, yours, shelf.samples)] == [False, False, True, True]


def test_old_answers_make_room_for_new_ones(tmp_path: Path) -> None:
    with Shelf(60, tmp_path) as shelf:
        made = [shelf.answer("me") for _ in range(KEPT + 2)]
        assert [one.exists() for one in made] == [False] * 2 + [True] * KEPT


def test_sweep_removes_what_is_old_and_leaves_samples(tmp_path: Path) -> None:
    with Shelf(60, tmp_path) as shelf:
        (shelf.samples / "film.mp4").write_bytes(b"12345")
        old = shelf.answer("me")
        (old / "x").write_bytes(b"123")
        assert shelf.used() >= 3
        shelf.sweep()
        assert old.exists()
        shelf.sweep(time.time() + 61)
        assert not old.exists()
        assert (shelf.samples / "film.mp4").exists()
        assert shelf.used() == 0


def test_what_is_on_its_way_is_counted_until_it_has_come(tmp_path: Path) -> None:
    with Shelf(60, tmp_path) as shelf:
        with shelf.expecting(1000):
            with shelf.expecting(500):
                assert shelf.used() == 1500
            assert shelf.used() == 1000
        assert shelf.used() == 0


def test_counting_goes_on_while_others_remove_what_is_counted(tmp_path: Path) -> None:
    with Shelf(60, tmp_path) as shelf:
        done = threading.Event()

        def come_and_go() -> None:
            while not done.is_set():
                folder = shelf.place()
                (folder / "clip.mp4").write_bytes(b"x")
                shelf.remove(folder)

        crowd = [threading.Thread(target=come_and_go) for _ in range(4)]
        for one in crowd:
            one.start()
        try:
            assert all(0 <= shelf.used() <= len(crowd) for _ in range(3000))
        finally:
            done.set()
            for one in crowd:
                one.join()
        assert shelf.used() == 0


def test_sweeping_goes_on_by_itself(tmp_path: Path) -> None:
    with Shelf(1.0, tmp_path) as shelf:
        old = shelf.place()
        for _ in range(100):
            if not old.exists():
                break
            time.sleep(0.1)
        assert not old.exists()
