"""Facts about the object prior: both published fusions against plain versions of them, and any method under it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from earsight.checkpoint import Weights, load_weights, save_weights
from earsight.config import Inputs
from earsight.data.clips import Limited
from earsight.data.sets import toybox
from earsight.encoders.base import Encoders
from earsight.errors import TrainingError, UsageError
from earsight.localize import Localizer
from earsight.methods import ogl, slavc
from earsight.methods.base import Method
from earsight.model_evaluation import evaluate, evaluate_all
from earsight.object_prior import Fused, ObjectPrior, ezvsl, stretched
from earsight.object_prior import slavc as slavc_fusion
from earsight.predict import predict
from earsight.protocols import PROTOCOLS, at_level, get
from earsight.types import Batch, Maps, Step
from tiny import take_step

INPUTS = Inputs(image_size=224, resize=224, rate=4000, seconds=0.5, window=128, hop=64)
FUSIONS = ["slavc", "ezvsl"]


class Fixed(Method):
    """Maps of chosen values, one after another for the clips of a batch."""

    def __init__(self, dense: Tensor, bounds: tuple[float, float] | None = (-1.0, 1.0), **more: Any) -> None:
        super().__init__(INPUTS)
        self.maps = Maps(more.pop("native", dense), dense, bounds, **more)

    def loss(self, batch: Batch, counts: list[int]) -> Step:
        raise NotImplementedError

    def localize(self, frames: Tensor, waveforms: Tensor) -> Maps:
        return self.maps.each(lambda x: x[: len(frames)])


def random_maps(count: int = 3, side: int = 7, seed: int = 0) -> Tensor:
    return torch.rand(count, side, side, generator=torch.Generator().manual_seed(seed)) * 2 - 1


def objects(side: int = 7) -> Fixed:
    """As OGL has them: activations above 0, some above the scale of 2.5."""
    return Fixed(1.4 * (random_maps(seed=9, side=side) + 1), (0.0, 2.5))


def look(method: Method, prior: ObjectPrior, seen: Method | None = None, count: int = 3) -> Maps:
    frames = torch.zeros(count, 3, 224, 224, dtype=torch.uint8)
    return Fused(method, seen or objects(), prior).localize(frames, torch.zeros(count, 9))


def big(maps: Tensor, mode: str, corners: bool = True) -> Any:
    return F.interpolate(maps[:, None], (224, 224), mode=mode, align_corners=corners)[:, 0].numpy()


def test_slavcs_fusion_is_the_published_arithmetic() -> None:
    own, seen = random_maps(), objects()
    found = predict(look(Fixed(own), ObjectPrior(0.9)), get("official"))
    # Published: both maps enlarged, the cosine moved to [0, 1], activations over 2.5, and nothing done to the sum.
    wanted = 0.9 * (big(own, "bicubic") + 1) / 2 + 0.1 * big(seen.maps.dense, "bicubic") / 2.5
    np.testing.assert_allclose(found.score, wanted, atol=1e-6)
    top = np.sort(wanted.reshape(3, -1))[:, -12544:].mean(1)
    np.testing.assert_allclose(found.confidence, top, atol=1e-6)


def test_slavcs_fusion_is_neither_clipped_nor_stretched() -> None:
    own, seen = torch.full((1, 1, 2), 0.8), Fixed(torch.tensor([[[5.0, 2.5]]]), (0.0, 2.5))
    maps = look(Fixed(own), ObjectPrior(0.5), seen, 1)
    assert maps.dense.flatten().tolist() == pytest.approx([0.5 * 0.9 + 0.5 * 2, 0.5 * 0.9 + 0.5])
    assert maps.bounds == (0.0, 1.0)
    assert maps.native is maps.dense


def test_slavcs_fusion_of_two_grids_meets_at_the_inputs_size() -> None:
    own, seen = random_maps(side=14), objects()
    maps = look(Fixed(own), ObjectPrior(0.7))
    wanted = 0.7 * (big(own, "bicubic", False) + 1) / 2 + 0.3 * big(seen.maps.dense, "bicubic", False) / 2.5
    assert maps.dense.shape == (3, 224, 224)
    np.testing.assert_allclose(maps.dense.numpy(), wanted, atol=1e-6)


def test_ezvsls_fusion_is_the_published_arithmetic() -> None:
    own, seen = random_maps(side=14), objects()
    maps = look(Fixed(own), ObjectPrior(0.4, "ezvsl"))
    for i in range(3):
        a, b = big(own, "bilinear")[i], big(seen.maps.dense, "bilinear")[i]
        a, b = (a - a.min()) / (a.max() - a.min()), (b - b.min()) / (b.max() - b.min())
        both = 0.4 * a + 0.6 * b
        wanted = (both - both.min()) / (both.max() - both.min())
        np.testing.assert_allclose(maps.dense[i].numpy(), wanted, atol=1e-5)


def test_ezvsls_fusion_leaves_the_confidence_to_the_method() -> None:
    own = random_maps()
    maps = look(Fixed(own), ObjectPrior(0.4, "ezvsl"))
    assert maps.dense.amax((1, 2)).tolist() == [1.0, 1.0, 1.0]
    assert maps.confidence is not None
    torch.testing.assert_close(maps.confidence, (own.amax((1, 2)) + 1) / 2)
    with_one = look(Fixed(own, confidence=torch.tensor([3.0, 1.0, 2.0])), ObjectPrior(0.4, "ezvsl"))
    assert predict(with_one, replace(get("exact"), confidence="native")).confidence.tolist() == [3.0, 1.0, 2.0]


def test_slavcs_fusion_keeps_the_methods_own_confidence_beside_the_maps() -> None:
    maps = look(Fixed(random_maps(), confidence=torch.arange(3.0)), ObjectPrior(0.9))
    assert maps.confidence is not None
    assert maps.confidence.tolist() == [0.0, 1.0, 2.0]


@pytest.mark.parametrize("fusion", FUSIONS)
def test_alpha_one_is_the_method_and_alpha_zero_the_objects(fusion: Any) -> None:
    own = Fixed(random_maps(), (-1.0, 1.0), native=random_maps().relu(), confidence=torch.arange(3.0))
    maps = look(own, ObjectPrior(1, fusion))
    for name in ("native", "dense", "confidence"):
        assert torch.equal(getattr(maps, name), getattr(own.maps, name))
    assert maps.bounds == own.maps.bounds
    alone = look(own, ObjectPrior(0, fusion))
    seen = objects().maps
    wanted = seen.dense / 2.5 if fusion == "slavc" else stretched(torch.from_numpy(big(seen.dense, "bilinear")))
    torch.testing.assert_close(alone.dense, wanted)
    torch.testing.assert_close(alone.native, wanted)


@pytest.mark.parametrize("side", [7, 14])
def test_the_objects_share_fades_without_a_jump_under_exact(side: int) -> None:
    own = Fixed(random_maps(side=side))
    almost, alone = (predict(look(own, ObjectPrior(alpha)), get("exact")) for alpha in (1 - 1e-6, 1))
    torch.testing.assert_close(almost.score, alone.score, rtol=0, atol=1e-5)


@pytest.mark.parametrize("fusion", FUSIONS)
def test_a_pair_gets_the_same_map_alone_and_among_others(fusion: Any) -> None:
    own, prior = Fixed(random_maps()), ObjectPrior(0.6, fusion)
    torch.testing.assert_close(look(own, prior, count=1).dense[0], look(own, prior).dense[0])


@pytest.mark.parametrize("fusion", FUSIONS)
def test_a_flat_map_stays_finite(fusion: Any) -> None:
    flat = Fixed(torch.zeros(1, 7, 7), (0.0, 2.5))
    assert torch.isfinite(look(Fixed(torch.full((1, 7, 7), 0.3)), ObjectPrior(0.6, fusion), flat, 1).dense).all()


def test_the_native_map_is_fused_too() -> None:
    own = random_maps()
    method = Fixed(own, native=own.relu(), native_bounds=(0.0, 1.0))
    maps = look(method, ObjectPrior(0.9))
    torch.testing.assert_close(maps.native, slavc_fusion(own.relu(), objects().maps.dense / 2.5, 0.9, (224, 224)))
    assert maps.native_bounds == (0.0, 1.0)
    without = look(Fixed(own, native=own.relu()), ObjectPrior(0.9))  # nothing to scale by but the map itself
    wanted = slavc_fusion(stretched(own.relu()), objects().maps.dense / 2.5, 0.9, (224, 224))
    torch.testing.assert_close(without.native, wanted)
    torch.testing.assert_close(without.dense, maps.dense)
    published = look(method, ObjectPrior(0.4, "ezvsl"))
    torch.testing.assert_close(published.native, ezvsl(own.relu(), objects().maps.dense, 0.4, (224, 224)))


def test_maps_without_bounds_can_only_be_stretched() -> None:
    unbounded = Fixed(8 * random_maps(), None)
    with pytest.raises(UsageError, match=r"Expected maps with bounds .* Use --object-fusion ezvsl"):
        look(unbounded, ObjectPrior(0.9))
    maps = look(unbounded, ObjectPrior(0.4, "ezvsl"))
    assert maps.confidence is not None
    torch.testing.assert_close(maps.confidence, unbounded.maps.dense.amax((1, 2)))


def test_names_and_flags_say_what_was_added() -> None:
    assert (ObjectPrior(0.9).name, ObjectPrior(0.9).flags) == ("OGL 0.9", ["--object-prior", "0.9"])
    other = ObjectPrior(0.4, "ezvsl", "net.pth")
    assert other.name == "OGL 0.4 ezvsl"
    assert other.flags == ["--object-prior", "0.4", "--object-fusion", "ezvsl", "--object-weights", "net.pth"]
    assert ObjectPrior.asked(0.4, "ezvsl", "net.pth") == other
    assert ObjectPrior.asked(None, "slavc", "imagenet") is None


@pytest.mark.parametrize("alpha", [-0.1, 1.1, float("nan")])
def test_an_alpha_that_is_no_share_is_refused(alpha: float) -> None:
    with pytest.raises(UsageError, match=r"Expected an object prior with alpha between 0 and 1, but got .* 0\.9"):
        ObjectPrior(alpha)


def test_other_words_are_refused() -> None:
    with pytest.raises(UsageError, match="Expected fusion slavc or ezvsl, but got 'mean'"):
        ObjectPrior(0.5, "mean")  # type: ignore[arg-type]
    for flag, words in (("fusion", ("ezvsl", "imagenet")), ("weights", ("slavc", "net.pth"))):
        with pytest.raises(UsageError, match=f"Expected --object-prior ALPHA with --object-{flag}, but got --object-"):
            ObjectPrior.asked(None, *words)


def test_confidences_that_are_all_one_are_told() -> None:
    several = [get("official"), get("exact"), replace(get("exact"), confidence="native")]
    assert ObjectPrior(0.9).warnings(several) == ()
    (told,) = ObjectPrior(0.4, "ezvsl").warnings(several)
    assert "highest score of every map 1, so confidences under exact are" in told
    assert ObjectPrior(0.4, "ezvsl").warnings(several[2:]) == ()
    assert ObjectPrior(1.0, "ezvsl").warnings(several) == ()


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Weights of a network that sees objects as well as any that has seen nothing."""
    torch.manual_seed(1)
    config = ogl.Config(weights="random")
    path = tmp_path_factory.mktemp("objects") / "ogl.safetensors"
    save_weights(path, ogl.Model(config, INPUTS), "ogl", config, {})
    return str(path)


@pytest.fixture(scope="module")
def weights(tmp_path_factory: pytest.TempPathFactory) -> Callable[[], Weights]:
    """A tiny untrained model with everything that calibration stores."""
    inputs = replace(INPUTS, image_size=64, resize=64)
    config = slavc.Config(encoders=Encoders("small", "small", weights="random", width=4), dim=8)
    path = tmp_path_factory.mktemp("weights") / "w.safetensors"
    torch.manual_seed(0)
    known = {"threshold": 0.5, "false_alarm": 0.1, "recall": 0.9, "negatives": 10}
    meta = {"protocol": "exact", "calibration": known, "universal_level": 0.6, "training": {"clips": 7}}
    save_weights(path, slavc.Model(config, inputs), "slavc", config, meta)
    return lambda: load_weights(path)


@pytest.mark.parametrize("fusion", FUSIONS)
def test_alpha_one_gives_the_methods_numbers_exactly(fusion: Any, weights: Callable[[], Weights], network: str) -> None:
    clips = Limited(toybox.open("extended"), 8)
    many = [at_level(protocol, 0.6) for protocol in PROTOCOLS.values()]
    plain = evaluate_all(weights().model, clips, many)
    with_prior = ObjectPrior(1.0, fusion, network).added_to(weights())
    assert with_prior.meta["calibration"]["threshold"] == 0.5
    for one, other in zip(evaluate_all(with_prior.model, clips, many), plain, strict=True):
        assert one.to_json() == other.to_json()
        np.testing.assert_array_equal(one.records.confidence, other.records.confidence)


def test_alpha_zero_gives_the_numbers_of_the_objects_alone(weights: Callable[[], Weights], network: str) -> None:
    clips = Limited(toybox.open("extended"), 8)
    loaded = weights()
    alone = ogl.Model(ogl.Config(weights=network), loaded.inputs).eval()
    fused = ObjectPrior(0.0, "slavc", network).added_to(loaded).model
    one, other = (evaluate(model, clips, get("exact")).records for model in (fused, alone))
    # Grids that differ meet at 64 pixels on their way to 224, which moves a few of them.
    np.testing.assert_allclose(one.ciou, other.ciou, atol=0.01)
    np.testing.assert_allclose(one.confidence, other.confidence, rtol=0.1)


def test_the_objects_may_come_from_a_run(weights: Callable[[], Weights], network: str, tmp_path: Path) -> None:
    (tmp_path / "weights.safetensors").write_bytes(Path(network).read_bytes())
    frames, waves = torch.zeros(1, 3, 64, 64, dtype=torch.uint8), torch.zeros(1, 2000)
    file, run = (ObjectPrior(0.5, "slavc", w).added_to(weights()).model for w in (network, str(tmp_path)))
    assert torch.equal(file.localize(frames, waves).dense, run.localize(frames, waves).dense)


def test_thresholds_of_the_method_alone_do_not_hold_with_a_prior(weights: Callable[[], Weights], network: str) -> None:
    added = ObjectPrior(0.9, "slavc", network).added_to(weights())
    assert "calibration" not in added.meta
    assert "universal_level" not in added.meta
    assert added.meta["training"] == {"clips": 7}
    assert not any(part.training for part in added.model.modules())


def test_a_prior_is_not_trained(weights: Callable[[], Weights], network: str) -> None:
    model = ObjectPrior(0.9, "slavc", network).added_to(weights()).model
    assert model.stages(3) == ()
    frames = torch.zeros(2, 3, 64, 64, dtype=torch.uint8)
    with pytest.raises(TrainingError, match="Expected a method to train, but got one with an object prior"):
        take_step(model, Batch(frames, torch.zeros(2, 2000), torch.arange(2)))


@pytest.mark.parametrize("fusion", FUSIONS)
def test_the_localizer_answers_with_a_prior_but_gives_no_verdict(
    fusion: Any, weights: Callable[[], Weights], network: str, tmp_path: Path
) -> None:
    loaded = weights()
    save_weights(tmp_path / "w.safetensors", loaded.model, "slavc", loaded.config, loaded.meta)
    image = np.random.default_rng(0).integers(0, 256, (40, 60, 3), dtype=np.uint8)
    sound = np.random.default_rng(1).normal(0, 0.1, 4000).astype(np.float32)
    plain = Localizer.load(tmp_path / "w.safetensors", "cpu")
    prior = Localizer.load(tmp_path / "w.safetensors", "cpu", ObjectPrior(0.5, fusion, network))
    assert prior.name.endswith(f"w.safetensors + {ObjectPrior(0.5, fusion).name}")
    one, other = plain.localize(image, sound, 4000), prior.localize(image, sound, 4000)
    assert one.visible is not None
    assert other.visible is None
    assert other.map.shape == (40, 60)
    assert not np.array_equal(one.map, other.map)
    assert other.confidence != 1
    same = Localizer.load(tmp_path / "w.safetensors", "cpu", ObjectPrior(1.0, fusion, network))
    assert same.localize(image, sound, 4000).visible == one.visible
