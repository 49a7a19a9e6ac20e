"""An overlay video: ours in batches, at every frame and as often as `earsight localize` asks; plain, frame by frame."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.measure import How, Result, compare, timed
from benchmarks.reference import localizing, training
from benchmarks.twins import twin
from earsight.checkpoint import Weights
from earsight.config import Inputs
from earsight.data.toys.video import FPS, write_film
from earsight.encoders.base import Encoders
from earsight.localize import Localizer, Settings, localize_video
from earsight.methods import slavc

SIDE = 320


def run(how: How) -> Result:
    """Needs PyAV, without which there are no videos."""
    inputs = Inputs()
    end = 0.5 if how.quick else 12.0 if how.gpu else 2.0
    config = slavc.Config(encoders=Encoders(weights="random"))
    model = slavc.Model(config, inputs).to(how.device).eval()
    localizer = Localizer(Weights(model, "slavc", config, inputs, {}), how.device)
    plain = twin(model, training.resnet18_pair()).to(how.device).eval()
    frames = []
    with TemporaryDirectory() as folder:
        film, out = Path(folder) / "film.mp4", Path(folder)
        write_film(film, side=SIDE)

        def ours(every: float) -> None:
            localize_video(localizer, film, out / "ours", Settings(every, end=end, formats="mp4", force=True))

        def reference() -> None:
            frames.append(localizing.localize_video(plain, film, out / "reference.mp4", inputs, how.device, end))

        each = compare(lambda: ours(float(1 / FPS)), reference, rounds=how.count(2, 1), device=how.device)
        usual = timed(lambda: ours(0.2), how.device)
    return Result(
        "localizing",
        f"ResNet-18 pair, a film of {frames[0]} frames of {SIDE} x {SIDE} with sound, asked at every frame",
        "in batches, with boxes, captions and the film's sound",
        "frame by frame, heat alone",
        frames[0],
        "frames",
        *each,
        {"ratio when asked every 0.2 s, as by default": each[1] / usual},
    )
