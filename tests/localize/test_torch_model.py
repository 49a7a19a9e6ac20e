"""A picture is encoded once, however many sounds it is asked about, and the answers are the same."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import make
import numpy as np
import pytest
import torch
from torch import Tensor, nn

import tiny
from earsight import registry
from earsight.checkpoint import Weights, load_weights
from earsight.config import Inputs
from earsight.errors import UsageError
from earsight.export import export_onnx
from earsight.localize import Localizer, Settings, localize_video
from earsight.localize.torch_model import TorchModel
from earsight.methods.base import Method, build
from earsight.object_prior import ObjectPrior
from earsight.onnxfile import PICTURE
from earsight.types import Batch, Maps, Step
from tiny.any_method import settings

SOUNDS = [make.chirp(1.0, 8000) * level for level in (0.1, 0.4, 0.9)]


def photo(seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (40, 60, 3), dtype=np.uint8)


@contextmanager
def counted(localizer: Localizer) -> Iterator[list[int]]:
    """How many pictures go through the picture encoder, call by call."""
    found: list[int] = []
    if isinstance(localizer.model, TorchModel):
        encoder, _ = localizer.model.method.encoders()
        hook = encoder.register_forward_pre_hook(lambda module, given: found.append(len(given[0])))
        yield found
        hook.remove()
        return
    graph = localizer.model._graphs[PICTURE]
    features = graph.features

    def counting(inputs: Any) -> Any:
        found.append(len(inputs["pictures"]))
        return features(inputs)

    graph.features = counting
    yield found
    del graph.features


@pytest.fixture(scope="module")
def files(make_weights: Callable[..., Path]) -> dict[str, Path]:
    weights = make_weights(0.5)
    return {"torch": weights, "onnx": export_onnx(weights, weights.with_suffix("")).path}


@pytest.fixture(params=["torch", "onnx"])
def fresh(request: pytest.FixtureRequest, files: dict[str, Path]) -> Callable[[], Localizer]:
    return lambda: Localizer.load(files[request.param], "cpu")


def test_a_picture_is_encoded_once_for_many_sounds(fresh: Callable[[], Localizer]) -> None:
    localizer = fresh()
    with counted(localizer) as encoded:
        found = localizer.localize_many([photo()] * 3, SOUNDS, 8000)
    assert encoded == [1]
    for answer, sound in zip(found, SOUNDS, strict=True):
        np.testing.assert_allclose(answer.map, fresh().localize(photo(), sound, 8000).map, atol=1e-6)


def test_some_pictures_of_a_batch_may_be_the_same(fresh: Callable[[], Localizer]) -> None:
    localizer = fresh()
    images = [photo(1), photo(0), photo(1)]
    with counted(localizer) as encoded:
        found = localizer.localize_many(images, SOUNDS, 8000)
    assert encoded == [2]
    for answer, image, sound in zip(found, images, SOUNDS, strict=True):
        np.testing.assert_allclose(answer.map, fresh().localize(image, sound, 8000).map, atol=1e-6)


def test_the_last_picture_is_remembered_and_the_answers_are_the_same_to_the_bit(
    fresh: Callable[[], Localizer],
) -> None:
    localizer = fresh()
    with counted(localizer) as encoded:
        first = localizer.localize(photo(), SOUNDS[0], 8000)
        again = localizer.localize(photo().copy(), SOUNDS[1], 8000)
        many = localizer.localize_many([photo()] * 2, SOUNDS[:2], 8000)
        assert encoded == [1]
        other = localizer.localize(photo(1), SOUNDS[1], 8000)
        assert encoded == [1, 1]
        back = localizer.localize(photo(), SOUNDS[0], 8000)
        assert encoded == [1, 1, 1]
    np.testing.assert_array_equal(again.map, fresh().localize(photo(), SOUNDS[1], 8000).map)
    np.testing.assert_array_equal(other.map, fresh().localize(photo(1), SOUNDS[1], 8000).map)
    np.testing.assert_array_equal(back.map, first.map)
    np.testing.assert_allclose(many[1].map, again.map, atol=1e-6)
    assert not np.array_equal(first.map, again.map)


def test_a_film_of_one_picture_is_encoded_once(fresh: Callable[[], Localizer], tmp_path: Path) -> None:
    film = make.video(tmp_path / "still.mp4", [make.gray_frame(90)] * 20, [i / 10 for i in range(20)], make.chirp(2.0))
    localizer = fresh()
    with counted(localizer) as encoded:
        found = localize_video(localizer, film, tmp_path / "out", Settings(0.2, formats="json", batch_size=4))
    assert len(found.items) == 10
    assert encoded == [1]


@pytest.mark.parametrize("name", [one for one in registry.names("method") if one != "center_prior"])
def test_pairs_are_answered_as_the_method_answers_them(name: str) -> None:
    torch.manual_seed(0)
    config = settings(name)
    model = build(name, config, tiny.INPUTS).eval()
    frames = torch.randint(0, 256, (2, 3, 32, 32), dtype=torch.uint8)
    waves = 0.3 * torch.randn(3, tiny.INPUTS.samples)
    picture, sound = torch.tensor([1, 0, 1, 1]), torch.tensor([0, 1, 2, 0])
    plain = copy.deepcopy(model).to(memory_format=torch.channels_last)
    running = TorchModel(Weights(model, name, config, tiny.INPUTS, {}))
    with torch.inference_mode():
        wanted = plain.localize(frames[picture], waves[sound]).dense.numpy()
        alone = plain.localize(frames[:1], waves[1:2]).dense.numpy()
    got = running.localize(frames.numpy(), waves.numpy(), picture.numpy(), sound.numpy()).dense
    np.testing.assert_allclose(got, wanted, atol=1e-5 * max(1.0, float(np.abs(wanted).max())))
    for _ in range(2):
        np.testing.assert_array_equal(running.localize(frames[:1].numpy(), waves[1:2].numpy()).dense, alone)


@pytest.mark.parametrize("fusion", ["slavc", "ezvsl"])
def test_with_an_object_prior_a_picture_is_encoded_once_by_both_networks(
    make_weights: Callable[..., Path], fusion: Any
) -> None:
    torch.manual_seed(0)
    localizer = Localizer.load(make_weights(), "cpu", ObjectPrior(0.6, fusion, weights="random"))
    fused: Any = localizer.model.method
    encoded: list[str] = []
    for side, encoder in (("own", fused.method.encoders()[0]), ("objects", fused.objects.encoder)):
        encoder.register_forward_pre_hook(lambda module, given, side=side: encoded.append(side))
    one = localizer.localize(photo(), SOUNDS[0], 8000)
    other = localizer.localize(photo(), SOUNDS[1], 8000)
    back = localizer.localize(photo(), SOUNDS[0], 8000)
    assert sorted(encoded) == ["objects", "own"]
    np.testing.assert_array_equal(one.map, back.map)
    assert not np.array_equal(one.map, other.map)


class Mixed(Method):
    """A method whose one network gets picture and sound at once."""

    def __init__(self, inputs: Inputs) -> None:
        super().__init__(inputs)
        self.both = nn.Conv2d(4, 1, 8, 8)

    def loss(self, batch: Batch, counts: list[int]) -> Step:
        raise NotImplementedError

    def localize(self, pictures: Tensor, sounds: Tensor) -> Maps:
        image, level = pictures / 255, sounds.abs().mean(1)
        plane = level[:, None, None, None].expand(-1, 1, *image.shape[2:])
        found = self.both(torch.cat([image, plane], 1))[:, 0]
        return Maps(found, found, (-10.0, 10.0))


@pytest.mark.parametrize("prior", [None, ObjectPrior(0.6, weights="random")])
def test_a_method_that_mixes_early_is_asked_about_its_pairs(prior: ObjectPrior | None) -> None:
    torch.manual_seed(0)
    weights = Weights(Mixed(tiny.INPUTS).eval(), "mixed", None, tiny.INPUTS, {})
    weights = weights if prior is None else prior.added_to(weights)
    running = TorchModel(weights)
    frames, waves = np.ascontiguousarray(photo()[None, :32, :32].transpose(0, 3, 1, 2)), np.stack(SOUNDS)
    with torch.inference_mode():
        pictures = torch.from_numpy(frames)
        wanted = [weights.model.localize(pictures, torch.from_numpy(w[None])).dense.numpy() for w in waves]
    for wave, one in zip([*waves, *waves], [*wanted, *wanted], strict=True):
        np.testing.assert_array_equal(running.localize(frames, wave[None]).dense, one)
    together = running.localize(frames, waves, [0, 0, 0], [0, 1, 2]).dense
    np.testing.assert_allclose(together, np.concatenate(wanted), atol=1e-6)


def test_features_made_with_other_weights_are_forgotten(make_weights: Callable[..., Path]) -> None:
    weights = load_weights(make_weights())
    running = TorchModel(weights)
    frames, waves = np.full((1, 3, 32, 32), 90, np.uint8), np.ones((1, 8000), np.float32)
    before = running.localize(frames, waves).dense
    with torch.no_grad():
        for weight in weights.model.parameters():
            weight.mul_(1.5).add_(0.01)
    after = running.localize(frames, waves).dense
    np.testing.assert_array_equal(after, TorchModel(weights).localize(frames, waves).dense)
    assert not np.array_equal(before, after)


def test_pairs_that_do_not_fit_are_refused(make_weights: Callable[..., Path]) -> None:
    running = TorchModel(load_weights(make_weights()))
    frames, waves = np.zeros((1, 3, 32, 32), np.uint8), np.ones((2, 8000), np.float32)
    with pytest.raises(UsageError, match="Expected as many sounds as pictures, but got 2 for 1"):
        running.localize(frames, waves)
