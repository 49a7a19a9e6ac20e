"""`earsight data audit`: what a training list and the test sets share, and lists without it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from earsight.cli import main

Output = pytest.CaptureFixture[str]


@pytest.fixture
def lists(tmp_path: Path) -> Path:
    """A training list with one test clip, another part of a test video, and two clean clips."""
    (tmp_path / "vggss_144k.txt").write_text("aaa_000001\nbbb_000099\nbbb_000100\nccc_000001\nddd_000001")
    (tmp_path / "vggss_test.csv").write_text("aaa_000001\nbbb_000002\nxxx_000003\n")
    boxes = [[0.1, 0.1, 0.5, 0.5]]
    entries = [{"file": id, "class": "dog", "bbox": boxes} for id in ("aaa_000001", "bbb_000002", "xxx_000003")]
    (tmp_path / "vggss.json").write_text(json.dumps(entries))
    (tmp_path / "other.txt").write_text("ddd_000001\nyyy_000001\n")
    return tmp_path


def test_the_table_counts_and_names_what_is_shared(lists: Path, capsys: Output) -> None:
    assert main(["data", "audit", "vggsound:144k", "--data", str(lists)]) == 0
    out = capsys.readouterr().out
    assert out.startswith("vggsound:144k: 5 training clips\n")
    row = next(line for line in out.splitlines() if line.startswith("vggss:test "))
    assert row.split() == ["vggss:test", "3", "1", "1", "1", "2"]
    assert "vggss:test, same clip: aaa_000001\n" in out
    assert "vggss:test, same video: bbb_000002 (trained on bbb_000099, bbb_000100)\n" in out


def test_lists_that_share_nothing_show_a_name_of_each(lists: Path, capsys: Output) -> None:
    (lists / "mine.txt").write_text("clip-1\n")
    assert main(["data", "audit", str(lists / "mine.txt"), "--data", str(lists), "--against", "vggss:test"]) == 0
    assert (
        "vggss:test shares nothing; names are compared as they are written: 'clip-1' in mine.txt, "
        "'aaa_000001' in vggss:test\n" in capsys.readouterr().err
    )


def test_a_list_that_names_files_is_refused(lists: Path, capsys: Output) -> None:
    (lists / "mine.txt").write_text("frames/aaa_000001.jpg\n")
    command = ["data", "audit", str(lists / "mine.txt"), "--data", str(lists), "--against", "vggss:test"]
    assert main([*command, "-o", str(lists / "clean")]) == 1
    assert "such as 'aaa_000001', but got 'frames/aaa_000001.jpg'" in capsys.readouterr().err
    assert not (lists / "clean").exists()


def test_a_list_that_a_folder_does_not_have_is_left_out_and_told(tmp_path: Path, capsys: Output) -> None:
    lines = "image,audio,start,cls,kind\ndog/1.jpg,1.wav,0,dog,single\n"
    (tmp_path / "boxes.csv").write_text("image,cls,xc,yc,w,h\ndog/1.jpg,dog,.5,.5,.5,.5\n")
    (tmp_path / "pairs_train.csv").write_text(lines)
    command = ["data", "audit", "folder:train", "--data", str(tmp_path)]
    assert main(command) == 1
    err = capsys.readouterr().err
    assert "folder:val is not compared: Expected pairs_val.csv with columns" in err
    assert "error: Expected pairs_test.csv with columns" in err
    (tmp_path / "pairs_test.csv").write_text(lines)
    assert main(command) == 0
    out, err = capsys.readouterr()
    assert "folder:test, same clip: dog/1.jpg\n" in out
    assert "folder:val is not compared: Expected pairs_val.csv" in err
    assert main([*command, "--against", "folder:val"]) == 1


def test_clean_lists_are_written(lists: Path, tmp_path: Path, capsys: Output) -> None:
    out = tmp_path / "clean"
    command = ["data", "audit", "vggsound:144k", "--data", str(lists), "-o", str(out), "--json"]
    command += ["--against", "vggss:test", str(lists / "other.txt")]
    assert main(command) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["train"], told["clips"]) == ("vggsound:144k", 5)
    assert told["tests"] == [
        {"test": "vggss:test", "clips": 3, "same_clip": 1, "same_video": 1, "clean_test": 1, "clean_train": 2},
        {"test": "other.txt", "clips": 2, "same_clip": 1, "same_video": 0, "clean_test": 1, "clean_train": 4},
    ]
    assert {path.name: path.read_bytes().decode() for path in out.iterdir()} == {
        "train-clean.txt": "ccc_000001\n",
        "train-without-test-clips.txt": "bbb_000099\nbbb_000100\nccc_000001\n",
        "test-clean-vggss-test.txt": "xxx_000003\n",
        "test-clean-other-txt.txt": "yyy_000001\n",
        "overlap.csv": "test_set,test,train,how\n"
        "vggss:test,aaa_000001,aaa_000001,same clip\n"
        "vggss:test,bbb_000002,bbb_000099,same video\n"
        "vggss:test,bbb_000002,bbb_000100,same video\n"
        "other.txt,ddd_000001,ddd_000001,same clip\n",
    }
    assert main(["data", "audit", str(out / "train-clean.txt"), "--data", str(lists), "--against", "vggss:test"]) == 0
    assert capsys.readouterr().out.split()[-6:] == ["vggss:test", "3", "0", "0", "3", "1"]


def test_lists_that_are_there_are_kept(lists: Path, tmp_path: Path, capsys: Output) -> None:
    command = ["data", "audit", "vggsound:144k", "--data", str(lists), "-o", str(tmp_path / "clean")]
    assert main(command) == 0
    assert main(command) == 2
    assert "train-clean.txt yet, but got one. Use --force to replace it." in capsys.readouterr().err
    assert main([*command, "--force"]) == 0


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["other.txt"], 2, "Expected test sets to compare other.txt with, but got none. Name them after --against."),
        (["other.txt", "--against", "toybox:tst"], 2, "Expected a split of toybox"),
        (
            ["other.txt", "--against", "other.txt", "other.txt"],
            2,
            "Expected each test set once, but got other.txt twice",
        ),
        (["nosuch.txt", "--against", "toybox:val"], 1, "Expected nosuch.txt to be readable UTF-8 text, but got:"),
    ],
)
def test_what_cannot_be_compared_is_told(
    lists: Path, monkeypatch: pytest.MonkeyPatch, capsys: Output, words: list[str], code: int, message: str
) -> None:
    monkeypatch.chdir(lists)
    assert main(["data", "audit", *words]) == code
    assert message in capsys.readouterr().err


def test_the_known_leaks_are_named(shared: Path, tmp_path: Path, capsys: Output) -> None:
    data = shared / "metadata"
    assert main(["data", "audit", "vggsound:144k", "--data", str(data), "-o", str(tmp_path)]) == 0
    assert "vggss:test   5158       3709                       75              1374" in capsys.readouterr().out
    assert len((tmp_path / "train-without-test-clips.txt").read_text().splitlines()) == 144000 - 3709
    assert len((tmp_path / "test-clean-vggss-test.txt").read_text().splitlines()) == 5158 - 3709 - 75
    assert main(["data", "audit", "flickr_soundnet:144k", "--data", str(data), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["tests"][0]["same_clip"] == 20
