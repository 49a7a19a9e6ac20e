"""`earsight score`: maps of any program in one table with controls and priors, and what is refused before any work."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from earsight import __version__
from earsight.cli import main
from earsight.data.clips import open_set
from earsight.data.sets import toybox
from earsight.mapfile import arrays as npz
from tiny import coco_trees

Captured = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def few_toys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(toybox, "COUNTS", dict.fromkeys(toybox.COUNTS, 12))


@pytest.fixture
def arrays() -> dict[str, np.ndarray[Any, Any]]:
    random = np.random.default_rng(0)
    return {row.id: random.uniform(size=(14, 14)).astype(np.float32) for row in open_set("toybox").rows}


@pytest.fixture
def maps(arrays: dict[str, np.ndarray[Any, Any]], tmp_path: Path) -> Path:
    np.savez(tmp_path / "theirs.npz", id=np.array(list(arrays)), maps=np.stack(list(arrays.values())))
    return tmp_path / "theirs.npz"


def test_one_table_with_three_protocols_and_priors(maps: Path, capsys: Captured) -> None:
    assert main(["score", str(maps), "--on", "toybox"]) == 0
    out = capsys.readouterr().out
    for name in ("exact", "official", "paper"):
        assert f"toybox:extended: protocol {name} (" in out
    assert out.count("theirs") == out.count("centre prior") == out.count("ceiling (top_half)") == 3


def test_both_formats_give_the_same_json(
    maps: Path, arrays: dict[str, np.ndarray[Any, Any]], tmp_path: Path, capsys: Captured
) -> None:
    (tmp_path / "folder").mkdir()
    for id, one in arrays.items():
        np.save(tmp_path / "folder" / f"{id}.npy", one)
    printed = []
    for path in (maps, tmp_path / "folder"):
        assert main(["score", str(path), "--on", "toybox", "--name", "theirs", "--json"]) == 0
        printed.append(capsys.readouterr().out)
    assert printed[0] == printed[1]
    found = json.loads(printed[0])["evaluations"]
    assert [(e["model"], e["audio"], e["protocol"]["name"], e["n"]) for e in found[:4]] == [
        ("theirs", "real", "exact", 24),
        ("theirs", "real", "official", 24),
        ("theirs", "real", "paper", 24),
        ("centre prior", "none", "exact", 24),
    ]


def test_controls_stand_beside_the_maps(maps: Path, capsys: Captured) -> None:
    controls = ["--shuffled", str(maps), "--silent", str(maps)]
    assert main(["score", str(maps), "--on", "toybox", "--protocol", "exact", *controls]) == 0
    lines = capsys.readouterr().out.splitlines()[1:6]
    rows = [line.removeprefix("toybox:extended").split("  ")[1].strip() for line in lines]
    assert rows == [
        "theirs",
        "theirs, shuffled audio",
        "theirs, silent audio",
        "centre prior",
        "ceiling (top_half)",
    ]


def test_a_control_that_does_not_fit_is_told_before_the_work(maps: Path, tmp_path: Path, capsys: Captured) -> None:
    np.savez(tmp_path / "few.npz", **{"extended-00000": np.zeros((2, 2))})  # type: ignore[arg-type]
    assert main(["score", str(maps), "--on", "toybox", "--silent", str(tmp_path / "few.npz")]) == 1
    err = capsys.readouterr().err
    assert "few.npz for toybox:extended, but got none for 23 clips" in err


@pytest.mark.slow
def test_a_report_is_written_and_not_replaced_unasked(maps: Path, tmp_path: Path, capsys: Captured) -> None:
    out = tmp_path / "report"
    args = ["score", str(maps), "--on", "toybox", "--protocol", "exact", "--out", str(out)]
    assert main(args) == 0
    assert {"metrics.json", "table.md", "report.html", "records-toybox-extended.csv"} <= {
        path.name for path in out.iterdir()
    }
    capsys.readouterr()
    maps.rename(tmp_path / "gone.npz")  # the report is looked for before the maps
    assert main(args) == 2
    assert f"Expected a folder without a report, but {out} has one. Use --force" in capsys.readouterr().err


def test_maps_that_were_stretched_one_by_one_are_warned_of(maps: Path, tmp_path: Path, capsys: Captured) -> None:
    with np.load(maps) as held:
        values = dict(held)
    low, high = values["maps"].min((1, 2), keepdims=True), values["maps"].max((1, 2), keepdims=True)
    np.savez(tmp_path / "stretched.npz", id=values["id"], maps=(values["maps"] - low) / (high - low))
    for name, told in ((maps, False), (tmp_path / "stretched.npz", True)):
        assert main(["score", str(name), "--on", "toybox", "--protocol", "exact"]) == 0
        assert ("warning: All confidences are equal: AP, max-F1 and AUROC say" in capsys.readouterr().err) == told


def test_only_the_clips_of_a_list_are_scored(maps: Path, tmp_path: Path, capsys: Captured) -> None:
    clean = tmp_path / "clean.txt"
    clean.write_text("".join(f"{row.picture or row.id}\n" for row in open_set("toybox").rows[:4]))
    args = ["score", str(maps), "--on", "toybox", "--protocol", "exact", "--only", str(clean)]
    assert main([*args, "--out", str(tmp_path / "report"), "--json"]) == 0
    printed = capsys.readouterr()
    found = json.loads(printed.out)["evaluations"]
    assert {one["n"] for one in found} == {4}
    assert "warning: Maps of clips that are not in the list were left out: 20 clips" in printed.err
    assert f"--only {clean}\n" in (tmp_path / "report" / "table.md").read_text()


def test_what_maps_were_trained_on_is_kept(maps: Path, tmp_path: Path) -> None:
    out = tmp_path / "report"
    args = ["score", str(maps), "--on", "toybox", "--protocol", "exact", "--trained-on", "toybox:train"]
    assert main([*args, "--out", str(out)]) == 0
    kept = json.loads((out / "metrics.json").read_text())
    assert kept["earsight"] == __version__
    assert [one.get("training") for one in kept["evaluations"]] == [{"on": "toybox:train"}, None]


@pytest.mark.slow
def test_the_same_command_writes_the_same_numbers(maps: Path, tmp_path: Path) -> None:
    for name in ("one", "two"):
        args = ["score", str(maps), "--on", "toybox", "--protocol", "exact", "--out", str(tmp_path / name)]
        assert main(args) == 0
    assert (tmp_path / "one" / "metrics.json").read_bytes() == (tmp_path / "two" / "metrics.json").read_bytes()


def test_missing_and_extra_maps_are_counted_where_allowed(
    arrays: dict[str, np.ndarray[Any, Any]], tmp_path: Path, capsys: Captured
) -> None:
    del arrays["extended-00003"]
    np.savez(tmp_path / "x.npz", stranger=np.zeros((2, 2)), **arrays)  # type: ignore[arg-type]
    args = ["score", str(tmp_path / "x.npz"), "--on", "toybox", "--json"]
    assert main(args) == 1
    assert "but got none for 1 clip (extended-00003). Add them, or use --allow-missing" in capsys.readouterr().err
    assert main([*args, "--allow-missing"]) == 1
    assert "but got some for 1 clip (stranger). Check" in capsys.readouterr().err
    assert main([*args, "--allow-missing", "--ignore-extra"]) == 0
    said = capsys.readouterr()
    assert "extended-00003: no map" in said.err
    assert "warning: Maps of clips that are not in the list were left out: 1 clip (stranger)" in said.err
    first = json.loads(said.out)["evaluations"][0]
    assert (first["n"], first["rows"], first["failures"]) == (23, 24, [{"id": "extended-00003", "reason": "no map"}])


def test_test_clips_in_the_training_list_are_warned_of(maps: Path, tmp_path: Path, capsys: Captured) -> None:
    (tmp_path / "train.txt").write_text("extended-00001\nsomething\n")
    args = ["score", str(maps), "--on", "toybox", "--json", "--trained-on", str(tmp_path / "train.txt")]
    assert main(args) == 0
    said = capsys.readouterr()
    assert "1 of " in said.err
    found = json.loads(said.out)["evaluations"]
    assert all("training list" in e["warnings"][0] for e in found if e["audio"] == "real")


def test_the_universal_level_is_given(maps: Path, capsys: Captured) -> None:
    args = ["score", str(maps), "--on", "toybox", "--protocol", "universal", "--json"]
    assert main(args) == 2
    assert "Expected a level for the protocol universal, but got none. Pass --level SCORE" in capsys.readouterr().err
    assert main([*args, "--level", "0.8", "--bounds", "0", "1"]) == 0
    assert json.loads(capsys.readouterr().out)["evaluations"][0]["protocol"]["level"] == 0.8


@pytest.mark.parametrize(
    ("args", "message", "code"),
    [
        (["--out", "/proc/x"], "Expected a folder that may be written to for /proc/x/report.html, but got /proc (", 2),
        (["--level", "0.5"], "Expected the protocol universal with --level, but got exact, official, paper. Add", 2),
        (["--protocol", "exat"], "Unknown protocol 'exat', did you mean 'exact'?", 2),
        (["--bounds", "1", "0"], "Expected bounds as two numbers, the lower first, but got 1.0 0.0. For example", 2),
        (["--on", "toybocks"], "Unknown set 'toybocks', did you mean 'toybox'?", 2),
        (["--on", "toybox:test"], "Expected maps of the 12 clips of toybox:test", 1),
        (
            ["--protocol", "exact:confidence=native"],
            "since exact:confidence=native uses the model's own, but got none",
            2,
        ),
        (["--trained-on", "toybocks"], "Unknown set 'toybocks', did you mean 'toybox'?", 2),
        (["--trained-on", "nowhere.txt"], "Expected nowhere.txt to be readable UTF-8 text, but got: [Errno 2]", 1),
        (["--shuffled", "nowhere.npz"], "Expected a file or folder of maps, but there is nothing at nowhere.npz", 1),
    ],
)
def test_what_cannot_be_scored_is_refused(
    args: list[str], message: str, code: int, maps: Path, capsys: Captured
) -> None:
    on = [] if "--on" in args else ["--on", "toybox"]
    assert main(["score", str(maps), *on, *args]) == code
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    "flags", [["--bounds", "0", "1"], ["--shuffled", "x.npz"], ["--name", "x"], ["--allow-missing"]]
)
def test_the_centre_prior_takes_no_flags_about_maps(flags: list[str], capsys: Captured) -> None:
    assert main(["score", "center-prior", "--on", "toybox", *flags]) == 2
    told = f"Expected center-prior alone, which has no maps, but got {flags[0]} with it. Leave {flags[0]} out."
    assert told in capsys.readouterr().err


def test_hostile_files_end_in_one_line(maps: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured) -> None:
    monkeypatch.setattr(npz, "TOTAL", 10)
    assert main(["score", str(maps), "--on", "toybox"]) == 1
    maps.write_bytes(maps.read_bytes()[:-100])
    assert main(["score", str(maps), "--on", "toybox"]) == 1
    err = capsys.readouterr().err.splitlines()
    assert len(err) == 2
    assert all(line.startswith("earsight: error: Expected") for line in err)


def test_a_name_is_one_line_wherever_it_is_shown(maps: Path, capsys: Captured) -> None:
    assert main(["score", str(maps), "--on", "toybox", "--protocol", "exact", "--name", "my\n\tmodel\x1b "]) == 0
    assert capsys.readouterr().out.splitlines()[1].startswith("toybox:extended  my\\n\\tmodel\\x1b  ")
    assert main(["score", str(maps), "--on", "toybox", "--protocol", "exact", "--name", " \n", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["evaluations"][0]["model"] == "theirs"


def test_the_command_to_type_again_has_every_flag_that_changes_the_report(
    maps: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[str] = []
    monkeypatch.setattr("earsight.cli.score.present", lambda found, settings, command: told.append(command))
    flags = ["--protocol", "exact", "--bounds", "0.0", "1.0", "--silent", str(maps), "--trained-on", "toybox:train"]
    flags += ["--allow-missing", "--ignore-extra", "--name", "two words"]
    assert main(["score", str(maps), "--on", "toybox", *flags]) == 0
    assert shlex.split(told[0]) == ["earsight", "score", str(maps), "--on", "toybox", *flags]


@pytest.mark.parametrize("flags", [[], ["--allow-missing"], ["--ignore-extra"], ["--allow-missing", "--ignore-extra"]])
def test_ids_that_do_not_meet_are_refused_with_some_of_both(flags: list[str], tmp_path: Path, capsys: Captured) -> None:
    np.savez(tmp_path / "x.npz", id=np.array(["a.mp4", "b.mp4"]), maps=np.zeros((2, 3, 3)))
    assert main(["score", str(tmp_path / "x.npz"), "--on", "toybox", *flags]) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "(extended-00000, extended-00001, " in captured.err
    assert "but got only those of others in" in captured.err
    assert "(a.mp4, b.mp4). Check the set and how the ids are written." in captured.err


def test_maps_of_negatives_alone_are_warned_of(
    arrays: dict[str, np.ndarray[Any, Any]], tmp_path: Path, capsys: Captured
) -> None:
    for row in open_set("toybox").rows:
        if row.positive:
            del arrays[row.id]
    np.savez(tmp_path / "x.npz", **arrays)  # type: ignore[arg-type]
    assert main(["score", str(tmp_path / "x.npz"), "--on", "toybox", "--allow-missing"]) == 0
    captured = capsys.readouterr()
    assert "warning: No clip has a visible source: whether the model finds one was not measured." in captured.err
    assert "nan" not in captured.out.lower()


@pytest.mark.parametrize("on", ["vggss:test", "coco_esc:val"])
def test_torch_and_most_of_the_package_are_not_loaded(on: str, shared: Path, tmp_path: Path) -> None:
    folders = {"vggss:test": shared / "metadata", "coco_esc:val": tmp_path / "media"}
    coco_trees.folder(tmp_path / "media", ())
    ids = [row.id for row in open_set(on, folders[on]).rows][:100]
    np.savez(tmp_path / "x.npz", id=np.array(ids), maps=np.random.default_rng(0).uniform(size=(len(ids), 7, 7)))
    args = ["score", str(tmp_path / "x.npz"), "--on", on, "--data", str(folders[on]), "--allow-missing"]
    code = (
        "import sys; from earsight.cli import main; code = main(sys.argv[1:]); "
        "ours = [name for name in sys.modules if name.split('.')[0] == 'earsight']; "
        "heavy = {'torch', 'av', 'PIL', 'matplotlib', 'pyarrow', 'onnxruntime', 'jinja2'}.intersection(sys.modules); "
        "print(code, len(ours), sorted(heavy), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code, *args], capture_output=True, text=True, check=True)
    status, count, heavy = done.stderr.splitlines()[-1].split(" ", 2)
    assert (status, heavy) == ("0", "[]")
    assert int(count) <= 50
