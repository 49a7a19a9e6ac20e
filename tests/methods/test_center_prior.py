"""Facts about the centre prior as a method: its disc, its number on the real list, and that it learns nothing."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from earsight.checkpoint import load_weights, save_weights
from earsight.config import Inputs
from earsight.errors import TrainingError
from earsight.evaluation import center_prior
from earsight.methods.center_prior import Config, Model
from earsight.predict import predict
from earsight.protocols import PROTOCOLS, at_level, get
from earsight.resampling import centre_disc
from earsight.scoring import score
from earsight.types import Batch, Row
from tiny import take_step

INPUTS = Inputs(image_size=32, resize=32, rate=4000, seconds=0.5, window=128, hop=64)


def some(count: int, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    random = torch.Generator().manual_seed(seed)
    frames = torch.randint(0, 256, (count, 3, 32, 32), generator=random, dtype=torch.uint8)
    return frames, torch.randn(count, INPUTS.samples, generator=random)


def test_the_disc_is_the_distance_from_the_pixel_behind_the_middle() -> None:
    found = centre_disc(224)
    rows, columns = np.mgrid[:224, :224]
    distance = np.sqrt((rows - 112) ** 2 + (columns - 112) ** 2)
    np.testing.assert_allclose(found, 1 - distance / np.sqrt(2 * 112**2), atol=1e-6)
    assert found[112, 112] == found.max() == 1
    assert found[0, 0] == found.min() == 0


def test_half_of_the_picture_is_a_disc_around_the_middle() -> None:
    maps = Model(Config(), Inputs()).localize(torch.zeros(1, 3, 224, 224, dtype=torch.uint8), torch.zeros(1, 9))
    mask = predict(maps, get("exact")).mask[0]
    rows, columns = np.nonzero(mask)
    assert mask.sum() == pytest.approx(25088, abs=200)  # a circle of pixels has ties
    radius = np.sqrt(25088 / np.pi)
    assert np.hypot(rows - 112, columns - 112).max() == pytest.approx(radius, abs=1)


@pytest.mark.slow
def test_its_loc_acc_on_the_real_list_is_the_published_one(shared: Path) -> None:
    listed = json.loads((shared / "metadata" / "vggss.json").read_text())
    rows = [Row(item["file"], item["class"], boxes=tuple(map(tuple, item["bbox"]))) for item in listed]
    frames = torch.zeros(1, 3, 224, 224, dtype=torch.uint8).expand(len(rows), -1, -1, -1)
    maps = Model(Config(), Inputs()).localize(frames, torch.zeros(len(rows), 1))
    (records,) = score(maps, rows, [get("exact")])
    assert round(100 * float((records.ciou >= 0.5).mean()), 2) == 34.16


@pytest.mark.parametrize("name", sorted(PROTOCOLS))
def test_the_method_answers_like_the_prior_of_every_table(name: str) -> None:
    from earsight.data.clips import Limited
    from earsight.data.sets import toybox

    clips, protocol = Limited(toybox.open("extended"), 12), at_level(get(name), 0.6)
    beside = center_prior(clips, protocol)
    maps = Model(Config(), Inputs()).localize(torch.zeros(12, 3, 1, 1, dtype=torch.uint8), torch.zeros(12, 1))
    (records,) = score(maps, clips.rows, [protocol])
    np.testing.assert_array_equal(records.ciou, beside.records.ciou)
    np.testing.assert_array_equal(records.confidence, beside.records.confidence)


def test_neither_picture_nor_sound_changes_the_answer() -> None:
    model = Model(Config(), INPUTS)
    one, other = model.localize(*some(3, 0)), model.localize(*some(3, 1))
    assert torch.equal(one.dense, other.dense)
    assert torch.equal(one.dense[0], one.dense[2])
    assert one.bounds == one.native_bounds == (0.0, 1.0)
    assert one.confidence is not None
    assert one.confidence.tolist() == [1.0, 1.0, 1.0]


def test_there_is_nothing_to_learn_and_nothing_in_the_weights(tmp_path: Path) -> None:
    model = Model(Config(), INPUTS)
    assert model.stages(20) == ()
    assert model.state_dict() == {}
    frames, waves = some(2)
    with pytest.raises(TrainingError, match="Expected a method with something to learn, but got the centre prior"):
        take_step(model, Batch(frames, waves, torch.arange(2)))
    save_weights(tmp_path / "w.safetensors", model, "center_prior", Config(), {})
    again = load_weights(tmp_path / "w.safetensors").model
    assert torch.equal(again.localize(frames, waves).dense, model.localize(frames, waves).dense)
