"""`earsight data prepare`, and what other commands make of a pack: check, show, train and eval."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from earsight.cli import main
from earsight.cli.data_prepare import telling
from earsight.data.sets import toybox
from earsight.media.write import write_png, write_wav

Output = pytest.CaptureFixture[str]
RATE = 4000
SMALL = ["--size", "32", "--rate", str(RATE), "--seconds", "0.5", "--shard-rows", "4"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Six pairs of a folder set, one of them without its picture."""
    data = tmp_path / "data"
    data.mkdir()
    random = np.random.default_rng(0)
    for i in range(6):
        if i != 3:
            write_png(data / f"p{i}.png", random.integers(0, 256, (3, 40, 50), dtype=np.uint8))
        write_wav(data / f"s{i}.wav", random.uniform(-0.5, 0.5, RATE).astype(np.float32), RATE)
    lines = [f"p{i}.png,s{i}.wav,0,x,single" for i in range(6)]
    (data / "pairs_train.csv").write_text("\n".join(["image,audio,start,cls,kind", *lines]))
    return data


def prepare(folder: Path, *more: str) -> list[str]:
    out = str(folder.parent / "pack")
    return ["data", "prepare", "folder", "--data", str(folder), "--out", out, *SMALL, *more]


@pytest.fixture
def toys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Output) -> Path:
    """A pack of a small toybox."""
    monkeypatch.setattr(toybox, "COUNTS", dict.fromkeys(toybox.COUNTS, 8))
    out = tmp_path / "toys"
    assert main(["data", "prepare", "toybox", "toybox:val", "toybox:extended", "--out", str(out), *SMALL]) == 0
    said = capsys.readouterr().out.splitlines()
    assert said[0].startswith("toybox:train: 8 of 8 clips packed, 2 shards, 0.0 MB in ")
    assert said[1].startswith("toybox:val: 16 of 16 clips packed, 4 shards, 0.1 MB in ")
    return out


def test_too_many_failures_end_with_1_and_the_next_time_goes_on(folder: Path, capsys: Output) -> None:
    assert main(prepare(folder)) == 1
    got = capsys.readouterr()
    assert "folder:train: 3 of 6 clips packed, 1 shard," in got.out
    assert "not packed: 1\n  p3+s3@0: " in got.out
    assert "p3.png: does not exist." in got.out
    assert "folder:train is not finished: more than 5% of its clips cannot be read. What was packed is kept" in got.err
    assert main(["data", "check", str(folder.parent / "pack")]) == 1
    assert "pack.json is missing: the pack is not finished." in capsys.readouterr().out
    assert main(prepare(folder, "--max-failed", "0.5", "--json")) == 0
    (told,) = json.loads(capsys.readouterr().out)
    assert (told["finished"], told["clips"], told["packed"], told["before"], told["shards"]) == (True, 6, 5, 3, 2)
    assert [one["id"] for one in told["failed"]] == ["p3+s3@0"]


def test_check_names_the_shard_and_the_clips_of_a_flipped_byte(folder: Path, capsys: Output) -> None:
    pack = folder.parent / "pack"
    assert main(prepare(folder, "--max-failed", "0.5")) == 0
    check = ["data", "check", str(pack)]
    assert main(check) == 0
    out = capsys.readouterr().out
    assert "folder:train, 6 clips in 2 shards: all as it was packed" in out
    assert "not packed, since they could not be read (remark): 1\n    p3+s3@0: " in out
    shard = pack / "folder-train" / "shard-00001.arrow"
    data = bytearray(shard.read_bytes())
    data[-5000] ^= 1  # inside the sound of the last clip
    shard.write_bytes(data)
    for args in (check, [*check, "--workers", "1"], ["data", "check", "folder:train", "--data", str(pack)]):
        assert main(args) == 1
        told = "  shard-00001.arrow is damaged, with 1 of its 2 clips:\n    p5+s5@0\n"
        assert told in capsys.readouterr().out
    assert main([*check, "--json"]) == 1
    (told_json,) = json.loads(capsys.readouterr().out)
    assert told_json["damages"][0]["clips"] == ["p5+s5@0"]
    assert main(prepare(folder, "--max-failed", "0.5")) == 0
    assert main(check) == 0


def test_a_pack_is_checked_as_a_whole(toys: Path, capsys: Output) -> None:
    assert main(["data", "check", str(toys), "--limit", "3"]) == 2
    assert "Expected a pack to be checked as a whole, but got --out or --limit." in capsys.readouterr().err
    for name in ("train", "val", "extended"):
        for path in (toys / f"toybox-{name}").iterdir():
            path.unlink()
    assert main(["data", "check", str(toys)]) == 1
    assert f"Expected packed sets in {toys}, but got none. Run earsight data prepare." in capsys.readouterr().err


def test_show_tells_what_is_in_a_pack(toys: Path, capsys: Output) -> None:
    (toys / "toybox-val" / "pack.json").rename(toys / "toybox-val" / "begun.json")
    assert main(["show", str(toys)]) == 0
    out = capsys.readouterr().out
    for line in (
        f"{toys}: a pack",
        "toybox:train:",
        "    clips       8\n",
        "    sound       0.5 s at 4000 samples per second, 16-bit",
        "toybox:val: not finished; run data prepare again",
    ):
        assert line in out
    assert main(["show", str(toys / "toybox-train"), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["kind"], told["splits"][0]["set"], told["splits"][0]["clips"]) == ("pack", "toybox:train", 8)


def test_other_settings_are_refused(toys: Path, capsys: Output) -> None:
    command = ["data", "prepare", "toybox", "--out", str(toys), *SMALL, "--quality", "50"]
    assert main(command) == 2
    assert "but got other settings. Use --force to pack it anew, or name another --out." in capsys.readouterr().err
    assert main([*command, "--force"]) == 0


@pytest.mark.parametrize(
    ("args", "told"),
    [
        (["toybox+x.csv", "--out", "p"], "Expected a set without negatives of a csv file, but got toybox+x.csv."),
        (["--out", "p"], "Expected at least one set, but got none."),
        (["toybox", "--out", "p", "--max-failed", "2"], "Expected max_failed between 0 and 1, but got 2.0."),
        (["toybox", "--out", "p", "--quality", "0"], "Expected a quality of 1 to 100, but got 0."),
        (["toybox", "--out", "p", "--workers", "1000"], "Expected at most 512 workers, but got 1000."),
        (["toybox", "--out", "p", "--limit", "-1"], "Expected a limit of at least 1, or 0 for all clips, but got -1."),
        (["toybox:nosuch", "--out", "p"], "but got 'nosuch'"),
        (["folder", "--data", ".", "--out", "."], "Expected another folder for the pack than that of the data"),
    ],
)
def test_wrong_usage_is_told_and_leaves_nothing(
    args: list[str], told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Output
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["data", "prepare", *args]) == 2
    assert told in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_a_set_without_training_clips_gives_those_to_test_on(tmp_path: Path, capsys: Output) -> None:
    (tmp_path / "vggss.json").write_text('[{"file": "a_000001", "class": "dog", "bbox": [[0.1, 0.1, 0.5, 0.5]]}]')
    (tmp_path / "vggss_test.csv").write_text("a_000001")
    (tmp_path / "vggss_test_plus_silent.csv").write_text("video,audio,label\nb_000001,b_000001,non-sounding\n")
    args = ["data", "prepare", "vggss", "--data", str(tmp_path), "--out", str(tmp_path / "pack"), *SMALL]
    assert main(args) == 1
    assert "vggss:extended: 0 of 2 clips packed" in capsys.readouterr().out


@pytest.mark.slow
def test_a_run_trains_on_a_pack_resumes_and_is_measured(toys: Path, tiny_flags: list[str], capsys: Output) -> None:
    out = toys.parent / "run"
    train = ["train", "slavc", "--on", "toybox", "--data", str(toys), "--out", str(out), "--device", "cpu", *tiny_flags]
    assert main(train) == 0
    (out / "weights.safetensors").unlink()
    assert main(["train", "--out", str(out), "--resume", "--device", "cpu"]) == 0
    capsys.readouterr()
    assert main(["eval", str(out), "--on", "toybox", "--data", str(toys), "--audio", "real", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert "toybox:extended" in json.dumps(told)


@pytest.mark.slow
def test_inputs_that_were_not_packed_are_told(toys: Path, tiny_flags: list[str], capsys: Output) -> None:
    train = ["train", "slavc", "--on", "toybox", "--data", str(toys), "--out", str(toys.parent / "run")]
    assert main([*train, "--device", "cpu", *tiny_flags, "--inputs.rate", "8000"]) == 2
    err = capsys.readouterr().err
    assert "toybox:train was packed in" in err
    assert "Run: earsight data prepare toybox:train --out OTHER --rate 8000 --seconds 0.5" in err


def test_progress_has_a_rate_once_it_is_known() -> None:
    said: list[str] = []
    tell = telling("toybox:train", lambda done, total, label="": said.append(label))
    tell(0, 60, 0.0)
    tell(2, 62, 0.5)
    assert said == ["packing toybox:train", "packing toybox:train, 0.5 clips/s, 2:00 left"]
