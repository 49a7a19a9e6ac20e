"""A picture is looked at once, however many sounds it is asked about, and the answers are the same."""

from __future__ import annotations

import copy
import pickle
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
from earsight.errors import UsageError
from earsight.export import export_onnx
from earsight.localize import Localizer
from earsight.localize.torch_model import TorchModel
from earsight.methods.base import build
from earsight.object_prior import ObjectPrior
from earsight.types import Maps
from tiny.any_method import settings
from tiny.localized import run_video

SOUNDS = [make.chirp(1.0, 8000) * level for level in (0.1, 0.4, 0.9)]


def photo(seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (40, 60, 3), dtype=np.uint8)


@contextmanager
def counted(localizer: Localizer) -> Iterator[list[int]]:
    """How many pictures go through the picture's branch, call by call."""
    seen: list[int] = []
    if isinstance(localizer.model, TorchModel):
        first = next(one for one in localizer.model.method.target.image.modules() if isinstance(one, nn.Conv2d))
        hook = first.register_forward_pre_hook(lambda module, given: seen.append(len(given[0])))
        yield seen
        hook.remove()
        return
    session = localizer.model._session

    class Counting:
        def run(self, wanted: Any, feeds: dict[str, Any], *options: Any) -> Any:
            seen.extend([len(feeds["frames"])] if len(feeds["frames"]) else [])
            return session.run(wanted, feeds, *options)

    localizer.model._session = Counting()
    yield seen
    localizer.model._session = session


@pytest.fixture(scope="module")
def files(make_weights: Callable[..., Path]) -> dict[str, Path]:
    weights = make_weights(0.5)
    return {"torch": weights, "onnx": export_onnx(weights, weights.with_suffix(".onnx")).path}


@pytest.fixture(params=["torch", "onnx"])
def fresh(request: pytest.FixtureRequest, files: dict[str, Path]) -> Callable[[], Localizer]:
    return lambda: Localizer.load(files[request.param], "cpu")


def test_a_picture_is_looked_at_once_for_many_sounds(fresh: Callable[[], Localizer]) -> None:
    localizer = fresh()
    with counted(localizer) as seen:
        found = localizer.localize_many([photo()] * 3, SOUNDS, 8000)
    assert seen == [1]
    for answer, sound in zip(found, SOUNDS, strict=True):
        np.testing.assert_allclose(answer.map, fresh().localize(photo(), sound, 8000).map, atol=1e-6)


def test_some_pictures_of_a_batch_may_be_the_same(fresh: Callable[[], Localizer]) -> None:
    localizer = fresh()
    images = [photo(1), photo(0), photo(1)]
    with counted(localizer) as seen:
        found = localizer.localize_many(images, SOUNDS, 8000)
    assert seen == [2]
    for answer, image, sound in zip(found, images, SOUNDS, strict=True):
        np.testing.assert_allclose(answer.map, fresh().localize(image, sound, 8000).map, atol=1e-6)


def test_the_last_picture_is_remembered_and_the_answers_are_the_same_to_the_bit(
    fresh: Callable[[], Localizer],
) -> None:
    localizer = fresh()
    with counted(localizer) as seen:
        first = localizer.localize(photo(), SOUNDS[0], 8000)
        again = localizer.localize(photo().copy(), SOUNDS[1], 8000)
        many = localizer.localize_many([photo()] * 2, SOUNDS[:2], 8000)
        assert seen == [1]
        other = localizer.localize(photo(1), SOUNDS[1], 8000)
        assert seen == [1, 1]
        back = localizer.localize(photo(), SOUNDS[0], 8000)
        assert seen == [1, 1, 1]
    np.testing.assert_array_equal(again.map, fresh().localize(photo(), SOUNDS[1], 8000).map)
    np.testing.assert_array_equal(other.map, fresh().localize(photo(1), SOUNDS[1], 8000).map)
    np.testing.assert_array_equal(back.map, first.map)
    np.testing.assert_allclose(many[1].map, again.map, atol=1e-6)
    assert not np.array_equal(first.map, again.map)


def test_a_film_of_one_picture_is_looked_at_once(fresh: Callable[[], Localizer], tmp_path: Path) -> None:
    film = make.video(tmp_path / "still.mp4", [make.gray_frame(90)] * 20, [i / 10 for i in range(20)], make.chirp(2.0))
    localizer = fresh()
    with counted(localizer) as seen:
        found = run_video(localizer, film, tmp_path / "out", every=0.2, formats=("json",), batch_size=4)
    assert len(found.items) == 10
    assert seen == [1]


@pytest.mark.parametrize("name", [one for one in registry.names("method") if one != "center_prior"])
def test_every_method_answers_as_it_does_without(name: str) -> None:
    torch.manual_seed(0)
    config = settings(name)
    model = build(name, config, tiny.INPUTS).eval()
    frames = torch.randint(0, 256, (2, 3, 32, 32), dtype=torch.uint8)
    waves = 0.3 * torch.randn(3, tiny.INPUTS.samples)
    picture, sound = torch.tensor([1, 0, 1, 1]), torch.tensor([0, 1, 2, 0])
    # Neither what torch's channels lie like nor what is watched may change what the method itself is asked.
    plain = copy.deepcopy(model).to(memory_format=torch.channels_last)
    running = TorchModel(Weights(model, name, config, tiny.INPUTS, {}))
    with torch.inference_mode():
        wanted = plain.localize(frames[picture], waves[sound]).dense.numpy()
        alone = plain.localize(frames[:1], waves[1:2]).dense.numpy()
    got = running.localize(frames.numpy(), waves.numpy(), picture.numpy(), sound.numpy()).dense
    np.testing.assert_allclose(got, wanted, atol=1e-5 * max(1.0, float(np.abs(wanted).max())))
    for _ in range(2):
        np.testing.assert_array_equal(running.localize(frames[:1].numpy(), waves[1:2].numpy()).dense, alone)


def test_an_object_prior_looks_once_too(make_weights: Callable[..., Path]) -> None:
    prior = ObjectPrior(0.6, weights="random")
    torch.manual_seed(0)
    localizer = Localizer.load(make_weights(), "cpu", prior)
    seen: list[int] = []
    assert isinstance(localizer.model, TorchModel)
    objects = localizer.model.method.objects.encoder
    first = next(one for one in objects.modules() if isinstance(one, nn.Conv2d))
    first.register_forward_pre_hook(lambda module, given: seen.append(len(given[0])))
    one = localizer.localize(photo(), SOUNDS[0], 8000)
    localizer.localize(photo(), SOUNDS[1], 8000)
    back = localizer.localize(photo(), SOUNDS[0], 8000)
    assert seen == [1]
    np.testing.assert_array_equal(one.map, back.map)


class Mixed(nn.Module):
    """A method whose one network sees and hears at once, and one that writes into what it gets."""

    def __init__(self, inputs: Any) -> None:
        super().__init__()
        from earsight.models.frontend import FrontEnd

        self.front, self.inputs = FrontEnd(inputs), inputs
        self.both, self.own = nn.Conv2d(4, 1, 8, 8), nn.Conv2d(3, 1, 8, 8)

    def localize(self, frames: Tensor, waveforms: Tensor) -> Maps:
        image, level = self.front.image(frames), waveforms.abs().mean(1)
        plane = level[:, None, None, None].expand(-1, 1, *image.shape[2:])
        own = self.own(image)
        own += level[:, None, None, None]
        map_ = (self.both(torch.cat([image, plane], 1)) + own)[:, 0]
        return Maps(map_, map_)


def test_a_method_that_mixes_early_or_writes_into_features_is_safe() -> None:
    torch.manual_seed(0)
    model: Any = Mixed(tiny.INPUTS).eval()
    running = TorchModel(Weights(model, "mixed", None, tiny.INPUTS, {}))
    frames, waves = photo()[None, :32, :32].transpose(0, 3, 1, 2), np.stack(SOUNDS)
    frames = np.ascontiguousarray(frames)
    with torch.inference_mode():
        wanted = [model.localize(torch.from_numpy(frames), torch.from_numpy(w[None])).dense.numpy() for w in waves]
    for wave, one in zip([*waves, *waves], [*wanted, *wanted], strict=True):
        np.testing.assert_array_equal(running.localize(frames, wave[None]).dense, one)


def test_a_model_is_left_as_it_was(make_weights: Callable[..., Path]) -> None:
    weights = load_weights(make_weights())
    before = [dict(module.__dict__) for module in weights.model.modules()]
    running = TorchModel(weights)
    frames, waves = np.zeros((1, 3, 32, 32), np.uint8), np.ones((1, 8000), np.float32)
    wanted = running.localize(frames, waves).dense
    assert [list(module.__dict__) for module in weights.model.modules()] == [list(one) for one in before]
    for other in (copy.deepcopy(weights.model), pickle.loads(pickle.dumps(weights.model))):
        with torch.inference_mode():
            again = other.localize(torch.from_numpy(frames), torch.from_numpy(waves)).dense
        np.testing.assert_array_equal(again.numpy(), wanted)


def test_what_was_made_with_other_weights_is_forgotten(make_weights: Callable[..., Path]) -> None:
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
