"""How the toys sound: eight kinds of sound, each with pitch, timbre and rhythm of its own in every instance.

`pitch` is a factor on the class's base frequency: 1 for a middling toy, 2 an octave up. Tones stay under about
5.5 kHz, so that the sounds keep their character at low sample rates.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

F64 = npt.NDArray[np.float64]
Random = np.random.Generator


def _events(t: F64, every: float, jitter: float, random: Random) -> list[float]:
    """Start times that cover the whole span, the first one before its beginning."""
    starts, at = [], -random.uniform(0, every)
    while at < t[-1]:
        starts.append(at)
        at += every * random.uniform(1 - jitter, 1 + jitter)
    return starts


def _ring(t: F64, start: float, decay: float) -> F64:
    """0 before `start`, then a fast rise and an exponential fall."""
    after = t - start
    out: F64 = np.where(after >= 0, np.exp(-np.maximum(after, 0) / decay), 0.0) * np.clip(after / 0.004, 0, 1)
    return out


def bell(t: F64, rate: int, pitch: float, random: Random) -> F64:
    out = np.zeros_like(t)
    partials = np.array([1.0, 2.0, 2.76, 4.1]) * random.uniform(0.99, 1.01, 4)
    starts = _events(t, random.uniform(0.5, 0.9), 0.1, random)
    for k, ratio in enumerate(partials):
        rings = sum(_ring(t, start, 0.5 / (k + 1)) for start in starts)
        out += rings * np.sin(2 * np.pi * 620 * pitch * ratio * t) / (k + 1)
    return out


def drum(t: F64, rate: int, pitch: float, random: Random) -> F64:
    out = np.zeros_like(t)
    slap = 0.15 * random.standard_normal(t.shape)
    for start in _events(t, random.uniform(0.2, 0.38), 0.15, random):
        after = np.maximum(t - start, 0)
        body = np.sin(2 * np.pi * pitch * (85 * after + 4.0 * (1 - np.exp(-after / 0.03))))
        out += _ring(t, start, 0.11) * (body + slap * np.exp(-after / 0.01))
    return out


def bird(t: F64, rate: int, pitch: float, random: Random) -> F64:
    out = np.zeros_like(t)
    sweep = random.uniform(600, 1100)
    for start in _events(t, random.uniform(0.14, 0.22), 0.2, random):
        after = np.clip(t - start, 0, 0.1)
        inside = (t >= start) & (t < start + 0.1)
        out += inside * np.sin(np.pi * after / 0.1) * np.sin(2 * np.pi * pitch * (1500 * after + sweep * after**2 * 5))
    return out


def car(t: F64, rate: int, pitch: float, random: Random) -> F64:
    base = 62 * pitch * (1 + 0.06 * np.sin(2 * np.pi * random.uniform(0.2, 0.5) * t + random.uniform(0, 6)))
    phase = 2 * np.pi * np.cumsum(base / rate)
    out = np.zeros_like(t)
    for k in range(1, 12):
        out += np.sin(k * phase) / k**0.7
    return out * (1 + 0.3 * np.sin(2 * np.pi * random.uniform(9, 14) * t)) + 0.3 * random.standard_normal(t.shape)


def frog(t: F64, rate: int, pitch: float, random: Random) -> F64:
    out = np.zeros_like(t)
    pulse = random.uniform(38, 52)
    for start in _events(t, random.uniform(0.4, 0.6), 0.1, random):
        out += np.clip((t - start) / 0.03, 0, 1) * np.clip((start + 0.3 - t) / 0.03, 0, 1)
    buzz: F64 = np.maximum(np.sin(2 * np.pi * pulse * t), 0) ** 3
    return out * buzz * (np.sin(2 * np.pi * 480 * pitch * t) + 0.6 * np.sin(2 * np.pi * 910 * pitch * t))


def phone(t: F64, rate: int, pitch: float, random: Random) -> F64:
    swap = np.sin(2 * np.pi * random.uniform(9, 13) * t) > 0
    on = (t + random.uniform(0, 1)) % 1.0 < 0.72
    phase = 2 * np.pi * np.cumsum(np.where(swap, 950.0, 1220.0) * pitch / rate)
    out: F64 = on * (np.sin(phase) + 0.35 * np.sin(2 * phase))
    return out


def guitar(t: F64, rate: int, pitch: float, random: Random) -> F64:
    out = np.zeros_like(t)
    scale = np.array([1.0, 1.122, 1.26, 1.498, 1.682])
    for start in _events(t, random.uniform(0.22, 0.32), 0.05, random):
        base = 230 * pitch * random.choice(scale)
        first = max(round(start * rate), 0)
        after = t[first : first + round(0.8 * rate)]
        for k in range(1, 8):
            out[first : first + len(after)] += (
                _ring(after, start, 0.35 / k**0.8) * np.sin(2 * np.pi * base * k * after) / k
            )
    return out


def clock(t: F64, rate: int, pitch: float, random: Random) -> F64:
    out = np.zeros_like(t)
    noise = 0.5 * random.standard_normal(t.shape)
    tick, tock = (noise + np.sin(2 * np.pi * f * pitch**0.5 * t) for f in (2100, 2700))
    for k, start in enumerate(_events(t, random.uniform(0.19, 0.28), 0.0, random)):
        out += _ring(t, start, 0.007) * (tock if k % 2 else tick)
    return out


SOUNDS: dict[str, Callable[[F64, int, float, Random], F64]] = {
    "bell": bell,
    "drum": drum,
    "bird": bird,
    "car": car,
    "frog": frog,
    "phone": phone,
    "guitar": guitar,
    "clock": clock,
}


def hiss(random: Random, samples: int, level: float) -> npt.NDArray[np.float32]:
    """The quiet noise of a room."""
    return (level * random.standard_normal(samples)).astype(np.float32)


def toy_sound(name: str, pitch: float, seed: tuple[int, ...], rate: int, seconds: float) -> npt.NDArray[np.float32]:
    """`seconds` of a toy playing, float32, peak 0.1 to 0.8, over some room noise; fixed by its arguments alone."""
    random = np.random.default_rng(seed)
    t = np.arange(round(rate * seconds)) / rate
    out = SOUNDS[name](t, rate, pitch, random)
    out *= random.uniform(0.1, 0.8) / max(float(np.abs(out).max()), 1e-9)
    return out.astype(np.float32) + hiss(random, len(t), random.uniform(0.0005, 0.004))
