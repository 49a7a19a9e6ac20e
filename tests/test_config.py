"""Settings: checked on construction, and the same after a trip through JSON."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any, Literal

import pytest

from earsight.config import Inputs, Optim, from_json, to_json
from earsight.errors import EarsightError, UsageError


@dataclass(frozen=True)
class Inner:
    size: int = 1


@dataclass(frozen=True)
class Outer:
    inner: Inner = field(default_factory=Inner)
    maybe: Inner | None = None
    limit: float | None = None
    sizes: tuple[int, ...] = (1, 2)
    span: tuple[float, float] = (0.0, 1.0)
    name: str = "x"
    on: bool = False
    way: Literal["a", "b"] = "a"


@pytest.mark.parametrize(
    "config",
    [
        Inputs.official(),
        Inputs.paper(),
        Optim(lr=1, schedule="cosine"),
        Outer(Inner(3), Inner(4), 2.5, (), (0.5, 2.0), "y", True, "b"),
        Outer(),
    ],
)
def test_settings_survive_json(config: Any) -> None:
    assert from_json(type(config), json.loads(json.dumps(to_json(config)))) == config


def test_missing_settings_take_their_default() -> None:
    assert from_json(Inputs, {}) == Inputs()
    assert from_json(Outer, {"inner": {}}) == Outer()


def test_whole_numbers_become_floats_where_a_float_is_meant() -> None:
    got = from_json(Inputs, {"seconds": 3})
    assert type(got.seconds) is float


@pytest.mark.parametrize(
    ("cls", "values", "message"),
    [
        (Inputs, {"rte": 1}, r"Expected settings of Inputs \(image_size, .*\), but got unknown rte"),
        (Inputs, {"rate": "fast"}, "Expected int for Inputs.rate, but got 'fast'"),
        (Inputs, {"image_size": True}, "Expected int for Inputs.image_size, but got True"),
        (Inputs, {"rate": None}, "Expected int for Inputs.rate, but got None"),
        (Inputs, {"rate": 8000.5}, "Expected int for Inputs.rate, but got 8000.5"),
        (Inputs, {"flip": 1}, "Expected bool for Inputs.flip, but got 1"),
        (Inputs, {"seconds": "3"}, "Expected float for Inputs.seconds, but got '3'"),
        (Inputs, [1, 2], "Expected settings of Inputs by name, but got"),
        (Outer, {"inner": 3}, "Expected settings of Inner by name, but got 3"),
        (Outer, {"maybe": {"sise": 3}}, "Expected settings of Inner .size., but got unknown sise"),
        (Outer, {"sizes": 3}, "Expected a list for Outer.sizes, but got 3"),
        (Outer, {"sizes": ["3"]}, "Expected int for Outer.sizes, but got '3'"),
        (Outer, {"span": [1.0]}, "Expected 2 values for Outer.span, but got 1"),
        (Optim, {"schedule": "linear"}, "Expected schedule constant or cosine, but got 'linear'"),
    ],
)
def test_json_that_does_not_fit_is_refused(cls: type, values: Any, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        from_json(cls, values)


def test_only_dataclasses_become_json() -> None:
    with pytest.raises(TypeError, match="Expected a dataclass instance, but got int"):
        to_json(3)
    with pytest.raises(TypeError, match="Expected a dataclass instance, but got type"):
        to_json(Inputs)
    with pytest.raises(TypeError, match="Expected a dataclass, but got"):
        from_json(int, {})


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"image_size": 8}, "Expected image_size of at least 16, but got 8"),
        ({"image_size": 12_000, "resize": 12_000}, "Expected image_size of at most 1024, but got 12000"),
        ({"resize": 10**9}, "Expected resize of at most 4096, but got 1000000000"),
        ({"rate": 10**30}, "Expected rate of at most 768000, but got 1" + 30 * "0"),
        ({"seconds": 1e300}, r"Expected seconds of at most 3600, but got 1e\+300"),
        ({"window": 1 << 14}, "Expected window of at most 8192, but got 16384"),
        ({"hop": 1}, "Expected a spectrogram of at most 2097152 values, but got 257 x 65639. Use fewer seconds"),
        ({"resize": 200}, r"Expected resize of at least image_size \(224\), but got 200"),
        ({"rate": 10}, "Expected rate of at least 1000 samples per second, but got 10"),
        ({"window": 511}, "Expected an even window of at least 16 samples, but got 511"),
        ({"hop": 0}, r"Expected hop between 1 and window \(512\), but got 0"),
        ({"hop": 600}, r"Expected hop between 1 and window \(512\), but got 600"),
        ({"seconds": 0.001}, r"Expected seconds long enough for one window \(512 samples\), but got 22"),
        ({"seconds": float("nan")}, "Expected a positive number of seconds, but got nan"),
        ({"seconds": float("inf")}, "Expected a positive number of seconds, but got inf"),
    ],
)
def test_impossible_inputs_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        Inputs(**settings)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"epochs": 0}, "Expected epochs of at least 1, but got 0"),
        ({"batch_size": 1}, "Expected batch_size of at least 2"),
        ({"optimizer": "sdg"}, "Expected optimizer adam or adamw or sgd, but got 'sdg'"),
        ({"precision": "fp16"}, "Expected precision fp32 or bf16, but got 'fp16'"),
        ({"keep": "first"}, "Expected keep last or best or both, but got 'first'"),
        ({"lr": 0.0}, "Expected a positive lr, but got 0.0"),
        ({"lr": float("nan")}, "Expected a positive lr, but got nan"),
        ({"weight_decay": -1.0}, "Expected weight_decay of at least 0, but got -1.0"),
        ({"warmup_steps": -1}, "Expected warmup_steps of at least 0, but got -1"),
        ({"clip_norm": -1.0}, "Expected clip_norm of at least 0, but got -1.0"),
        ({"seed": -1}, "Expected a seed of at least 0, but got -1"),
        ({"workers": -1}, "Expected workers of at least 0, but got -1"),
        ({"workers": 513}, "Expected at most 512 workers, but got 513. One for each core is enough."),
        ({"val_every": -1}, "Expected val_every of at least 0, but got -1"),
        ({"save_every": 0}, "Expected save_every of at least 1, but got 0"),
        ({"save_epochs": 0}, "Expected save_epochs of at least 1, but got 0"),
        ({"per_class": -1}, "Expected per_class of at least 0, but got -1"),
        ({"max_failed": 1.5}, "Expected max_failed between 0 and 1, but got 1.5"),
    ],
)
def test_impossible_training_settings_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        Optim(**settings)


def test_a_bad_setting_is_a_usage_error_with_exit_code_2() -> None:
    assert UsageError("x").exit_code == 2
    assert EarsightError("x").exit_code == 1
