"""The demonstration runs from beginning to end and leaves what it promises."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from earsight.cli import main
from earsight.data.sets import toybox
from earsight.media.read import probe


@pytest.mark.slow
def test_the_demo_trains_measures_and_draws(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(toybox, "COUNTS", {"train": 128, "val": 16, "test": 16, "extended": 24})
    out = tmp_path / "demo"
    assert main(["demo", "--out", str(out), "--quick"]) == 0
    printed = capsys.readouterr().out
    for row in ("SLAVC", "SLAVC, shuffled audio", "SLAVC, silent audio", "untrained", "centre prior", "ceiling"):
        assert f"toybox:extended  {row}" in printed
    assert "Verdict: a source is called visible from confidence" in printed

    assert (out / "run" / "weights.safetensors").is_file()
    metrics = json.loads((out / "report" / "metrics.json").read_text())
    assert metrics["extra"]["calibration"]["set"] == "toybox:val"
    told = [(one["model"], one.get("training", {}).get("on")) for one in metrics["evaluations"]]
    assert told == [*[("SLAVC", "toybox:train")] * 3, ("untrained", None), ("centre prior", None)]
    plots = {path.name for path in (out / "report" / "plots").iterdir()}
    assert {"overlays.png", "training.png"} <= plots
    page = out / "report" / "report.html"
    assert f"Report card: {page}" in printed
    assert "earsight demo --quick" in page.read_text(encoding="utf-8")
    film, overlay = probe(out / "film.mp4"), probe(out / "film" / "film.earsight.mp4")
    assert (overlay.width, overlay.height, overlay.fps) == (film.width, film.height, film.fps)
    assert overlay.has_audio
    assert film.duration == pytest.approx(12.0, abs=0.2)
    assert overlay.duration == pytest.approx(12.0, abs=0.2)

    assert main(["demo", "--out", str(out), "--quick"]) == 2
    assert "Expected an empty folder for the demo" in capsys.readouterr().err
