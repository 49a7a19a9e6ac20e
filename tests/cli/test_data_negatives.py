"""`earsight data negatives`: a list that can be opened again, with its counts and its gaps told."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from earsight.cli import main
from earsight.data.clips import open_set

Output = pytest.CaptureFixture[str]


def metadata(folder: Path) -> Path:
    """Made-up lists of VGG-SS (two dogs, a cat) and of Flickr (three clips)."""
    boxes = [[0.1, 0.1, 0.5, 0.5]]
    clips = {"aaa_000001": "dog", "bbb_000002": "dog", "ccc_000003": "cat"}
    (folder / "vggss.json").write_text(json.dumps([{"file": f, "class": c, "bbox": boxes} for f, c in clips.items()]))
    (folder / "vggss_test.csv").write_text("".join(f"{id}\n" for id in clips))
    (folder / "flickr_test.csv").write_text("101,7\n102,0\n103,7\n")
    return folder


def kinds(path: Path) -> list[str]:
    with path.open(newline="") as file:
        return [line["kind"] for line in csv.DictReader(file)]


def test_a_list_is_written_and_opens_as_an_extended_set(tmp_path: Path, capsys: Output) -> None:
    path = tmp_path / "negatives.csv"
    assert main(["data", "negatives", "toybox:test", "-o", str(path), "--count", "40"]) == 0
    out, err = capsys.readouterr()
    assert [line.split() for line in out.splitlines()] == [["hard", "10"], ["easy", "30"], ["total", "40"]]
    assert f"the extended set is toybox:test+{path}" in err
    assert len(open_set(f"toybox:test+{path}")) == 384 + 40
    first = path.read_bytes()
    assert main(["data", "negatives", "toybox:test", "-o", str(path), "--count", "40", "--force"]) == 0
    assert path.read_bytes() == first
    assert main(["data", "negatives", "toybox:test", "-o", str(path), "--count", "40", "--force", "--seed", "1"]) == 0
    assert path.read_bytes() != first


def test_a_file_that_is_there_is_kept(tmp_path: Path, capsys: Output) -> None:
    (tmp_path / "n.csv").write_text("mine")
    assert main(["data", "negatives", "toybox:test", "-o", str(tmp_path / "n.csv")]) == 2
    assert "n.csv yet, but got one. Use --force to replace it." in capsys.readouterr().err
    assert (tmp_path / "n.csv").read_text() == "mine"


def test_fewer_than_asked_for_are_told_and_never_filled_up(tmp_path: Path, capsys: Output) -> None:
    data, real = metadata(tmp_path), tmp_path / "real.txt"
    real.write_text("zzz_000001\n")
    flags = ["--data", str(data), "-o", str(tmp_path / "n.csv"), "--real", str(real)]
    assert main(["data", "negatives", "vggss:test", *flags, "--count", "9", "--same-class", "0.5", "--json"]) == 0
    out, err = capsys.readouterr()
    told = json.loads(out)
    assert told["kinds"] == {"real": 1, "hard": 2, "easy": 4}
    assert told["wanted"] == {"real": 1, "hard": 4, "easy": 4}
    assert "2 hard negatives instead of 4: there are no more pairs of that kind" in err
    assert "no hard negative can be made in classes with a single clip, 1 here: cat" in err
    assert sorted(kinds(tmp_path / "n.csv")) == ["easy"] * 4 + ["hard"] * 2 + ["real"]
    assert len(open_set(f"vggss:test+{tmp_path / 'n.csv'}", data)) == 3 + 7


def test_a_set_without_classes_gives_kinds_that_are_unknown_and_needs_no_boxes(tmp_path: Path, capsys: Output) -> None:
    flags = ["--data", str(metadata(tmp_path)), "-o", str(tmp_path / "n.csv")]
    assert main(["data", "negatives", "flickr_soundnet:test", *flags]) == 2
    assert "Pass --same-class 0; the kind of every pair is then unknown." in capsys.readouterr().err
    assert main(["data", "negatives", "flickr_soundnet:test", *flags, "--same-class", "0"]) == 0
    out, err = capsys.readouterr()
    assert out.split() == ["unknown", "3", "total", "3"]
    assert "flickr_soundnet:test is taken by its list of clips alone: Expected boxes" in err
    assert "3 negatives are of unknown kind" in err


def test_a_published_list_is_taken_as_it_is(tmp_path: Path, capsys: Output) -> None:
    data, published = metadata(tmp_path), tmp_path / "published.csv"
    lines = ["zzz_000009,zzz_000009", "aaa_000001,bbb_000002", "aaa_000001,ccc_000003", "aaa_000001,yyy_000001"]
    published.write_text("video,audio,label\n" + "".join(f"{line},non-sounding\n" for line in lines))
    flags = ["--data", str(data), "-o", str(tmp_path / "n.csv"), "--published", str(published)]
    assert main(["data", "negatives", "vggss:test", *flags]) == 0
    words = capsys.readouterr().out.split()
    assert words == ["real", "1", "hard", "1", "easy", "1", "unknown", "1", "total", "4"]
    ends = ("real", "hard", "easy", "unknown")
    written = "".join(f"{line},non-sounding,{end}\n" for line, end in zip(lines, ends, strict=True))
    assert (tmp_path / "n.csv").read_text() == "video,audio,label,kind\n" + written
    assert main(["data", "negatives", "vggss:test", *flags, "--force", "--count", "3"]) == 2
    assert "Expected --published alone, whose list is taken as it is, but got --count." in capsys.readouterr().err


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("toybox", "but got toybox:extended, which has 384 negatives already. Name a split without them (train, val"),
        ("toybox:test+x.csv", "but got toybox:test+x.csv, which has negatives. Name the set before the +."),
        ("toybx", "Unknown set 'toybx', did you mean 'toybox'?"),
        (
            "toybox:tests",
            "Expected a split of toybox (train, val, test, extended, train_heard, heard, unheard), but got 'tests'.",
        ),
    ],
)
def test_a_set_that_cannot_be_extended_says_why(tmp_path: Path, capsys: Output, spec: str, message: str) -> None:
    assert main(["data", "negatives", spec, "-o", str(tmp_path / "n.csv")]) == 2
    assert message in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_an_extended_list_of_ids_is_refused_too(tmp_path: Path, capsys: Output) -> None:
    data = metadata(tmp_path)
    (data / "flickr_test_plus_silent.csv").write_text("video,audio,label\n101,102,non-sounding\n")
    flags = ["--data", str(data), "-o", str(tmp_path / "n.csv"), "--same-class", "0"]
    assert main(["data", "negatives", "flickr_soundnet:extended", *flags]) == 2
    assert "but got flickr_soundnet:extended, which has 1 negatives already." in capsys.readouterr().err


@pytest.mark.parametrize(
    ("spec", "name", "expected"),
    [
        ("vggss:test", "vggss_test_plus_silent.csv", {"real": 379, "hard": 1185, "easy": 3594}),
        ("flickr_soundnet:test", "flickr_test_plus_silent.csv", {"unknown": 250}),
    ],
)
def test_the_published_lists_are_reproduced(
    shared: Path, tmp_path: Path, capsys: Output, spec: str, name: str, expected: dict[str, int]
) -> None:
    data, path = shared / "metadata", tmp_path / "n.csv"
    flags = ["--data", str(data), "--published", str(data / name), "-o", str(path), "--json"]
    assert main(["data", "negatives", spec, *flags]) == 0
    assert json.loads(capsys.readouterr().out)["kinds"] == expected
    ours = [line.rpartition(",")[0] for line in path.read_text().splitlines()]
    assert ours == (data / name).read_text().splitlines()
