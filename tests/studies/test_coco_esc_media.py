"""What the study shows besides numbers: media from elsewhere, maps by size, and sentences with numbers in them."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from studies.coco_esc import grid, own, reading
from studies.words import filled

from earsight.checkpoint import save_weights
from earsight.config import Inputs
from earsight.data.clips import ClipSet
from earsight.encoders.base import Encoders
from earsight.media.write import VideoWriter, write_wav
from earsight.methods import slavc
from earsight.types import Clip, Row

INPUTS = Inputs(image_size=32, resize=36, rate=8000, seconds=1.0, window=128, hop=64)
CONFIG = slavc.Config(encoders=Encoders("small", "small", weights="random", width=4), dim=8)


@pytest.fixture
def weights(tmp_path: Path) -> Path:
    torch.manual_seed(0)
    known = {"threshold": 0.5, "false_alarm": 0.1, "recall": 0.9, "negatives": 10}
    meta = {"protocol": "exact", "calibration": known}
    save_weights(tmp_path / "tiny.safetensors", slavc.Model(CONFIG, INPUTS), "slavc", CONFIG, meta)
    return tmp_path / "tiny.safetensors"


def test_media_from_elsewhere_are_told_pair_by_pair_and_film_by_film(tmp_path: Path, weights: Path) -> None:
    media = tmp_path / "media"
    media.mkdir()
    random = np.random.default_rng(0)
    for name in ("bell", "horn"):
        Image.fromarray(random.integers(0, 255, (40, 60, 3), dtype=np.uint8)).save(media / f"{name}.jpg")
        write_wav(media / f"{name}.wav", random.uniform(-0.5, 0.5, 16000).astype(np.float32), 8000)
    with VideoWriter(media / "film.mp4", 64, 48, 10, sound_from=media / "bell.wav") as film:
        for at in range(15):
            film.write(random.integers(0, 255, (3, 48, 64), dtype=np.uint8), at / 10)
    words = ["--weights", weights, "--media", media, "--out", tmp_path / "out", "--json", tmp_path / "own.json"]
    assert own.main([*map(str, words), "--box", "film.mp4", "0.7", "0.2", "0.2", "0.8", "0.9"]) == 0
    found = json.loads((tmp_path / "own.json").read_text())
    assert [(one["picture"], one["sound"]) for one in found["pairs"]] == [
        ("bell", "bell"), ("bell", "horn"), ("horn", "bell"), ("horn", "horn"),
    ]  # fmt: skip
    (told,) = found["films"]
    assert told["film"] == "film.mp4"
    assert sum(told["verdicts"].values()) == told["moments"] > 3
    assert 0 <= found["boxed"]["ciou"] <= 1
    text = reading.own(tmp_path / "own.json")
    assert "| picture of a | sound of a bell | sound of a horn |" in text
    assert "`film.mp4`" in text
    assert "cIoU" in text
    assert "The threshold is 0.50" in text
    assert reading.own(tmp_path / "none.json") == "Not run yet."


class Squares(ClipSet):
    """Sources of five sizes, and negatives of two kinds."""

    def __init__(self) -> None:
        sides = (0.1, 0.3, 0.5, 0.6, 0.95)
        rows = [Row(f"{i}-{side}", boxes=((0.0, 0.0, side, side),)) for i in range(12) for side in sides]
        rows += [Row(f"{kind}-{i}", kind=kind) for i in range(3) for kind in ("silence", "offscreen")]
        super().__init__("squares", rows)

    def read(self, index: int, rate: int, seconds: float, draw: int = 0) -> Clip:
        raise NotImplementedError


def test_maps_are_chosen_by_size_and_kind() -> None:
    clips = Squares()
    shown = [clips.rows[i].id for i in grid.chosen(clips)]
    sizes = [name.partition("-")[2] for name in shown[:20]]
    assert sizes[:5] == ["0.1"] * 5
    assert sizes[5:10] == ["0.3"] * 5
    assert set(sizes[10:15]) == {"0.5", "0.6"}
    assert sizes[15:20] == ["0.95"] * 5
    assert shown[20:] == ["silence-1", "offscreen-1"]
    assert len(set(shown)) == len(shown)


def test_sentences_name_the_numbers_of_the_results(tmp_path: Path) -> None:
    numbers = {name: [3.0, 1.0, 5.0] for name in reading.METRICS}
    about = {"group": "methods", "name": "slavc", "epoch": "last", "form": "", "test": "extended", "protocol": "exact"}
    results = {
        "gaps": [
            {"group": "momentum", "name": "0.999", "form": "", "numbers": numbers},
            {"group": "methods", "name": "slavc", "form": "shuffled", "numbers": numbers},
        ],
        "rows": [{**about, "numbers": numbers, "more": {"auroc/noise": 86.184, "iiou": None}}],
    }
    (tmp_path / "words.md").write_text(
        "{{more_momentum_0_999_ap}}; {{more_shuffled_ap}}; {{slavc_auroc_noise}}; {{none}}"
    )
    text = filled(tmp_path / "words.md", reading.phrases(results))
    assert text == "3.00 [1.0, 5.0]; 3.00 [1.0, 5.0]; 86.18; (not measured)"
