"""`earsight eval`: one table with controls and priors, JSON, a report, and what is refused before any work."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torchvision.models import resnet18

from earsight import protocols
from earsight.checkpoint import Weights
from earsight.cli import main
from earsight.cli.evaluate import model_names, pictures
from earsight.data import clips
from earsight.data.clips import open_set
from earsight.data.sets import toybox
from earsight.errors import MediaError
from earsight.methods import slavc
from earsight.model_evaluation import EvalSettings, evaluate
from earsight.report.training import leaks_of
from earsight.types import Clip
from tiny import INPUTS, config

Captured = pytest.CaptureFixture[str]
SMALL = ["--limit", "12", "--device", "cpu", "--batch-size", "5"]


@pytest.fixture(autouse=True)
def few_toys(monkeypatch: pytest.MonkeyPatch) -> None:
    """A toybox that is made in no time."""
    monkeypatch.setattr(toybox, "COUNTS", dict.fromkeys(toybox.COUNTS, 12))


def test_all_audio_gives_one_table_with_controls_and_priors(weights: Path, capsys: Captured) -> None:
    assert main(["eval", str(weights), "--on", "toybox", "--audio", "all", *SMALL]) == 0
    out = capsys.readouterr().out
    rows = [line.removeprefix("toybox:extended").split("  ")[1].strip() for line in out.splitlines()[1:6]]
    assert rows == ["tiny", "tiny, shuffled audio", "tiny, silent audio", "centre prior", "ceiling (top_half)"]
    assert "toybox:extended: protocol exact (" in out


def test_json_holds_every_evaluation(weights: Path, capsys: Captured) -> None:
    assert main(["eval", str(weights), "--on", "toybox", "toybox:test", "--audio", "real", "--json", *SMALL]) == 0
    found = json.loads(capsys.readouterr().out)["evaluations"]
    assert [(e["set"], e["model"], e["audio"]) for e in found] == [
        ("toybox:extended", "tiny", "real"),
        ("toybox:test", "tiny", "real"),
        ("toybox:extended", "centre prior", "none"),
        ("toybox:test", "centre prior", "none"),
    ]
    assert all(e["n"] == 12 for e in found)


@pytest.mark.parametrize("audio", ["shuffled", "silent"])
def test_one_control_alone(audio: str, weights: Path, capsys: Captured) -> None:
    assert main(["eval", str(weights), "--on", "toybox", "--audio", audio, "--json", *SMALL]) == 0
    assert json.loads(capsys.readouterr().out)["evaluations"][0]["audio"] == audio


def test_one_clip_has_no_shuffled_control(weights: Path, tmp_path: Path, capsys: Captured) -> None:
    one = ["eval", str(weights), "--on", "toybox:test", "--limit", "1", "--device", "cpu", "--json"]
    assert main([*one, "--out", str(tmp_path / "report")]) == 0
    got = capsys.readouterr()
    assert [e["audio"] for e in json.loads(got.out)["evaluations"]] == ["real", "silent", "none"]
    assert "toybox:test is not measured with shuffled audio, which needs at least 2 clips" in got.err
    assert main([*one, "--audio", "shuffled"]) == 2
    message = (
        "Expected at least 2 clips to shuffle their sounds, but got 1. Measure more clips, or the real sound alone"
    )
    assert message in capsys.readouterr().err


def test_the_weights_own_protocol_holds_unless_another_is_asked_for(
    weights: Path, uncalibrated: Path, capsys: Captured
) -> None:
    both = [str(weights), str(uncalibrated)]
    assert main(["eval", *both, "--on", "toybox", "--audio", "real", "--json", *SMALL]) == 0
    found = json.loads(capsys.readouterr().out)["evaluations"]
    assert [(e["model"], e["protocol"]["name"]) for e in found] == [
        ("tiny", "exact"),
        ("plain", "exact"),
        ("centre prior", "exact"),
    ]
    assert main(["eval", *both, "--on", "toybox", "--protocol", "official", *SMALL]) == 0
    assert "protocol official (" in capsys.readouterr().out


def test_controls_are_measured_unless_told_otherwise(weights: Path, capsys: Captured) -> None:
    assert main(["eval", str(weights), "--on", "toybox", "--json", *SMALL]) == 0
    found = json.loads(capsys.readouterr().out)["evaluations"]
    assert [e["audio"] for e in found] == ["real", "shuffled", "silent", "none"]


def test_several_protocols_stand_side_by_side_each_once(weights: Path, capsys: Captured) -> None:
    names = ["--protocol", "exact", "official", "paper", "exact", "--audio", "real"]
    assert main(["eval", str(weights), "--on", "toybox", "--json", *names, *SMALL]) == 0
    found = json.loads(capsys.readouterr().out)["evaluations"]
    assert [e["protocol"]["name"] for e in found] == ["exact", "official", "paper"] * 2
    assert main(["eval", str(weights), "--on", "toybox", *names, *SMALL]) == 0
    table = capsys.readouterr().out
    assert table.count("tiny") == 3
    for name in ("exact", "official", "paper"):
        assert f"protocol {name} (" in table


def test_saved_maps_score_as_the_model_did(weights: Path, tmp_path: Path, capsys: Captured) -> None:
    maps = tmp_path / "maps.npz"
    names = ["--protocol", "exact", "official", "paper"]
    args = ["eval", str(weights), "--on", "toybox:extended", "--device", "cpu", "--json", *names]
    assert main([*args, "--save-maps", str(maps)]) == 0
    got = capsys.readouterr()
    measured = json.loads(got.out)["evaluations"]
    assert f"next: earsight score {maps} --on toybox:extended --name {measured[0]['model']}\n" in got.err
    assert main(["score", str(maps), "--on", "toybox:extended", "--json", *names]) == 0
    scored = json.loads(capsys.readouterr().out)["evaluations"]
    for kept in ("metrics", "floor", "ceiling", "list_hash", "n"):
        assert [e[kept] for e in scored if e["audio"] == "real"] == [e[kept] for e in measured if e["audio"] == "real"]
    assert main([*args, "--save-maps", str(maps)]) == 2
    assert f"Expected no file at {maps} yet, but got one. Use --force" in capsys.readouterr().err
    assert main([*args, "--on", "toybox", "toybox:test", "--save-maps", str(tmp_path / "other.npz")]) == 2
    assert "Expected one weights file and one set with --save-maps, but got 1 and 2" in capsys.readouterr().err


def test_the_universal_protocol_needs_a_level(weights: Path, capsys: Captured) -> None:
    args = ["eval", str(weights), "--on", "toybox", "--protocol", "universal", "--audio", "real", "--json", *SMALL]
    assert main(args) == 2
    assert "Expected a level for the protocol universal, but got none. Pass --level SCORE" in capsys.readouterr().err
    assert main([*args, "--level", "0.5"]) == 0
    assert json.loads(capsys.readouterr().out)["evaluations"][0]["protocol"]["level"] == 0.5


def test_test_clips_in_the_training_list_are_told(weights: Path, capsys: Captured) -> None:
    assert main(["eval", str(weights), "--on", "toybox:train", "--audio", "real", *SMALL]) == 0
    assert "warning: 12 of 12 test clips are in the training list toybox:train" in capsys.readouterr().err
    assert main(["eval", str(weights), "--on", "toybox:test", "--audio", "real", *SMALL]) == 0
    assert "warning" not in capsys.readouterr().err


@pytest.mark.slow
def test_a_report_is_written_and_not_replaced_unasked(weights: Path, tmp_path: Path, capsys: Captured) -> None:
    out = tmp_path / "report"
    args = ["eval", str(weights), "--on", "toybox", "--out", str(out), *SMALL]
    assert main(args) == 0
    assert f"report: {out}" in capsys.readouterr().err
    kept = json.loads((out / "metrics.json").read_text())["evaluations"]
    assert [one["audio"] for one in kept if "training" in one] == ["real", "shuffled", "silent"]
    assert (kept[0]["training"]["on"], kept[0]["training"]["epoch"]) == ("toybox:train", "last")
    names = {str(path.relative_to(out)) for path in out.rglob("*.*")}
    assert {"metrics.json", "table.md", "plots/overlays.png", "records-toybox-extended.csv"} <= names
    assert main(args) == 2
    assert f"Expected a folder without a report, but {out} has one. Use --force" in capsys.readouterr().err
    assert main([*args, "--force"]) == 0


def test_clips_that_cannot_be_read_are_named(weights: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured) -> None:
    whole = toybox.Toybox.read

    def read(self: toybox.Toybox, index: int, rate: int, seconds: float, draw: int = 0) -> Clip:
        if index == 3:
            raise MediaError("toy.mp4", "is damaged.", "Get it again.")
        return whole(self, index, rate, seconds, draw)

    monkeypatch.setattr(toybox.Toybox, "read", read)
    args = ["eval", str(weights), "--on", "toybox", "--device", "cpu"]
    assert main(args) == 0
    assert "not read, and not counted: extended-00003: toy.mp4: is damaged. Get it again." in capsys.readouterr().err
    capsys.readouterr()
    assert main([*args, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["evaluations"]
    left = [i for i in range(24) if i != 3]
    assert {one["list_hash"] for one in found} == {clips.Some(open_set("toybox"), left).list_hash()}
    assert {one["full_list_hash"] for one in found} == {open_set("toybox").list_hash()}
    assert main([*args, "--limit", "8"]) == 1
    assert "Expected at most 5% of the 8 clips of toybox:extended to be unreadable" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("args", "message", "code"),
    [
        (["--on", "toybox"], "Expected at least one weights file or run, but got none", 2),
        (["W", "--on"], "Expected at least one set after --on, but got none. Known: ", 2),
        (["W", "--on", "toybocks"], "Unknown set 'toybocks', did you mean 'toybox'?", 2),
        (["W", "--on", "toybox:tets"], "Expected a split of toybox (train, val, test, extended", 2),
        (["W", "--on", "toybox", "--data", "d"], "Expected no --data for toybox", 2),
        (["W", "--on", "toybox", "--protocol", "exat"], "Unknown protocol 'exat', did you mean 'exact'?", 2),
        (["W", "--on", "toybox", "--batch-size", "0"], "Expected a batch_size of at least 1, but got 0", 2),
        (["W", "--on", "toybox", "--workers", "-1"], "Expected workers of at least 0, but got -1", 2),
        (["W", "--on", "toybox", "--workers", "99999"], "Expected at most 512 workers, but got 99999", 2),
        (["W", "--on", "toybox", "--limit", "-1"], "Expected a limit of at least 1, or 0 for all clips", 2),
        (["W", "W", "--on", "toybox"], "Expected each weights file once, but got", 2),
        (
            ["W", "--on", "toybox", "toybox:extended"],
            "Expected each set once after --on, but got toybox:extended twice",
            2,
        ),
        (
            ["W", "--on", "toybox", "--level", "0.5"],
            "Expected the protocol universal with --level, but got exact. Add",
            2,
        ),
        (["W", "--on", "toybox", "--out", "W"], "Expected a folder for ", 2),
        (["W", "--on", "toybox", "--save-maps", ".", "--force"], "Expected a file to write, but got the folder .", 2),
        (["nothing", "--on", "toybox"], "Expected a weights file or a run's folder, but there is nothing at", 1),
    ],
)
def test_what_cannot_be_evaluated_is_refused(
    args: list[str], message: str, code: int, weights: Path, capsys: Captured
) -> None:
    assert main(["eval", *(str(weights) if word == "W" else word for word in args)]) == code
    assert message in capsys.readouterr().err


@pytest.fixture
def pairs(tmp_path: Path) -> Path:
    """A folder set whose training list has no boxes."""
    (tmp_path / "pairs_train.csv").write_text("image,audio,start,cls,kind\na.jpg,a.wav,0,dog,single\n")
    return tmp_path


@pytest.mark.parametrize("command", ["eval", "score"])
def test_a_list_without_ground_truth_is_refused(command: str, weights: Path, pairs: Path, capsys: Captured) -> None:
    first = str(weights) if command == "eval" else "center-prior"
    assert main([command, first, "--on", "folder:train", "--data", str(pairs)]) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "Expected boxes for the positives of folder:train, but got none for all 1: without ground" in captured.err


def test_a_gpu_is_asked_for_in_vain(weights: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    assert main(["eval", str(weights), "--on", "toybox", "--device", "cuda"]) == 2
    assert "Expected a CUDA GPU for device cuda, but got none. Use --device cpu." in capsys.readouterr().err


def test_models_are_called_by_their_run_or_file(weights: Path, tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name / "run").mkdir(parents=True)
        shutil.copy(weights, tmp_path / name / "run" / "weights.safetensors")
    one, two = tmp_path / "one" / "run", tmp_path / "two" / "run"
    assert model_names([one, weights]) == ["run", "tiny"]
    assert model_names([one / "weights.safetensors"]) == ["run"]
    assert model_names([one, two]) == [str(one), str(two)]


def test_the_set_is_opened_for_testing(weights: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured) -> None:
    monkeypatch.setitem(toybox.DEFAULTS, "test", "test")
    assert clips.open_set("toybox").name == "toybox:test"
    assert main(["eval", str(weights), "--on", "toybox", *SMALL]) == 0
    assert "toybox:test: protocol" in capsys.readouterr().out


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A file that the object prior can be made of."""
    torch.manual_seed(1)
    path = tmp_path_factory.mktemp("objects") / "resnet18.pth"
    torch.save(resnet18().state_dict(), path)
    return str(path)


def test_an_object_prior_is_in_the_models_name(weights: Path, network: str, capsys: Captured) -> None:
    args = ["eval", str(weights), "--on", "toybox:extended", "--audio", "real", *SMALL]
    prior = ["--object-prior", "0.9", "--object-weights", network]
    assert main([*args, *prior, "--json"]) == 0
    with_prior = json.loads(capsys.readouterr().out)["evaluations"]
    assert [e["model"] for e in with_prior] == ["tiny + OGL 0.9", "centre prior"]
    assert main([*args, "--json"]) == 0
    plain = json.loads(capsys.readouterr().out)["evaluations"]
    assert main([*args, "--object-prior", "1", "--object-weights", network, "--json"]) == 0
    one = json.loads(capsys.readouterr().out)["evaluations"]
    assert one[0]["model"] == "tiny + OGL 1"
    assert one[0]["metrics"] == plain[0]["metrics"] != with_prior[0]["metrics"]


def test_the_other_fusion_tells_that_its_confidence_says_nothing(weights: Path, network: str, capsys: Captured) -> None:
    prior = ["--object-prior", "0.4", "--object-fusion", "ezvsl", "--object-weights", network]
    assert main(["eval", str(weights), "--on", "toybox", "--audio", "real", *prior, *SMALL]) == 0
    got = capsys.readouterr()
    assert "tiny + OGL 0.4 ezvsl" in got.out
    assert "warning: The object prior's fusion ezvsl makes the highest score of every map 1" in got.err


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ("--object-prior 2", "Expected an object prior with alpha between 0 and 1, but got 2.0. It is the share"),
        ("--object-fusion ezvsl", "Expected --object-prior ALPHA with --object-fusion, but got --object-fusion alone"),
        ("--object-weights a.pth", "Expected --object-prior ALPHA with --object-weights, but got --object-weights al"),
        ("--object-prior 0.9 --object-weights gone.pth", "Expected a weights file at gone.pth, but got nothing there"),
        (
            "--protocol exact exact:map=native --save-maps m.npz",
            "Expected protocols that threshold dense maps with --save-maps, which writes these, but got exact:map=nat",
        ),
    ],
)
def test_priors_and_maps_that_make_no_sense_are_refused(
    args: str, message: str, weights: Path, capsys: Captured
) -> None:
    assert main(["eval", str(weights), "--on", "toybox", *SMALL, *args.split()]) != 0
    assert message in capsys.readouterr().err


@pytest.mark.slow
def test_table_and_report_say_which_map_was_thresholded_and_what_was_added_to_it(
    weights: Path, network: str, tmp_path: Path, capsys: Captured
) -> None:
    both = ["--protocol", "exact", "exact:map=native", "--audio", "real", "--out", str(tmp_path)]
    prior = ["--object-prior", "0.9", "--object-weights", network]
    assert main(["eval", str(weights), "--on", "toybox", *both, *prior, *SMALL]) == 0
    out = capsys.readouterr().out
    assert re.search(r"toybox:extended: protocol exact \(\w+\), dense maps thresholded, list", out)
    assert re.search(r"toybox:extended: protocol exact:map=native \(\w+\), native maps thresholded, list", out)
    for name in ("report.html", "table.md"):
        text = (tmp_path / name).read_text(encoding="utf-8")
        assert "dense maps thresholded" in text
        assert "native maps thresholded" in text
        assert "tiny + OGL 0.9" in text
        assert f"--object-prior 0.9 --object-weights {network}" in text
    found = json.loads((tmp_path / "metrics.json").read_text())["evaluations"]
    assert [e["protocol"]["map"] for e in found] == ["dense", "native", "dense", "native"]


def test_only_the_clips_of_a_list_are_measured(weights: Path, tmp_path: Path, capsys: Captured) -> None:
    clean = tmp_path / "clean.txt"
    clean.write_text("".join(f"{row.picture or row.id}\n" for row in open_set("toybox:test").rows[:3]))
    args = ["eval", str(weights), "--on", "toybox:test", "--audio", "real", "--device", "cpu", "--json"]
    assert main([*args, "--only", str(clean)]) == 0
    assert {one["n"] for one in json.loads(capsys.readouterr().out)["evaluations"]} == {3}
    assert main([*args, "--only", str(tmp_path / "missing.txt")]) == 1
    assert "missing.txt" in capsys.readouterr().err


def test_pictures_have_verdicts_by_a_threshold_of_their_own_protocol_alone() -> None:
    clip_set = open_set("toybox:test", limit=4)
    torch.manual_seed(0)
    model = slavc.Model(config(), INPUTS).eval()
    meta = {"protocol": "exact", "calibration": {"threshold": -1.0}}
    loaded = Weights(model, "slavc", config(), INPUTS, meta)
    for name, told in (("exact", True), ("official", False)):
        one = evaluate(model, clip_set, protocols.get(name), EvalSettings(keep_maps=True))
        captions = [tile.caption for tiles in pictures([one], clip_set, loaded).values() for tile in tiles]
        assert captions
        assert all((": visible\n" in caption) is told for caption in captions)


def test_a_test_pair_that_was_trained_on_before_there_was_a_test_list_is_not_called_clean(tmp_path: Path) -> None:
    for name in "abc":
        (tmp_path / f"{name}.jpg").write_text(name)
        (tmp_path / f"{name}.wav").write_text(name)
    trained = open_set("folder", tmp_path, role="train").list_hash()
    job = {"on": "folder", "data": str(tmp_path)}
    loaded: Any = SimpleNamespace(meta={"training": {"job": job, "list_hash": trained}})
    (tmp_path / "boxes.csv").write_text("image,xc,yc,w,h\na.jpg,0.5,0.5,0.5,0.5\n")
    (tmp_path / "pairs_test.csv").write_text("image,audio\na.jpg,a.wav\n")
    tested = open_set("folder:test", tmp_path)
    (told,) = leaks_of(loaded, None, tested)
    assert told.startswith("folder:train is no longer the list that was trained on: test clips that were in it")
    loaded.meta["training"]["list_hash"] = open_set("folder", tmp_path, role="train").list_hash()
    assert leaks_of(loaded, None, tested) == ()


def test_a_training_list_that_only_a_file_names_is_not_imported() -> None:
    loaded: Any = SimpleNamespace(meta={"training": {"job": {"on": "evil.lists:train"}}})
    (told,) = leaks_of(loaded, None, open_set("toybox:val", limit=4))
    assert told.startswith(
        "Trained on evil.lists:train, which was not looked at for clips of toybox:val: it is a module"
    )
    assert told.endswith("If you know it, set EARSIGHT_MODULES=evil.lists.")
