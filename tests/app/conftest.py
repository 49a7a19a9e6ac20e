"""A tiny model, small clips, and a page that really runs, in a process of its own."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from visiting import Visitor


@pytest.fixture(scope="session")
def weights(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny untrained model that calls every source visible."""
    return _weights(tmp_path_factory.mktemp("weights") / "trusting.safetensors", -1.0)


@pytest.fixture(scope="session")
def doubting(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One that calls no source visible."""
    return _weights(tmp_path_factory.mktemp("weights") / "doubting.safetensors", 2.0)


def _weights(path: Path, threshold: float) -> Path:
    import torch

    from earsight.checkpoint import save_weights
    from earsight.config import Inputs
    from earsight.encoders.base import Encoders
    from earsight.methods import slavc

    torch.manual_seed(0)
    inputs = Inputs(image_size=32, resize=36, rate=8000, seconds=1.0, window=128, hop=64)
    config = slavc.Config(encoders=Encoders("small", "small", weights="random", width=4), dim=8)
    known = {"threshold": threshold, "false_alarm": 0.1, "recall": 0.9, "negatives": 10}
    save_weights(path, slavc.Model(config, inputs), "slavc", config, {"protocol": "exact", "calibration": known})
    return path


@pytest.fixture(scope="session")
def clips(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Good ones, and such as are too long, mute, silent, on one channel, no video, broken, no media, or too wide."""
    import make
    import numpy as np

    folder = tmp_path_factory.mktemp("clips")
    good = make.steps(folder / "good.mp4", 1.0, 10)
    make.steps(folder / "longer.mp4", 2.0, 10)
    make.steps(folder / "long.mp4", 9.0, 2)
    make.steps(folder / "mute.mp4", 1.0, 10, sound=False)
    still = [make.gray_frame(9)] * 10
    make.video(folder / "silent.mp4", still, [k / 10 for k in range(10)], np.zeros(make.RATE, np.float32))
    one_channel(good, folder / "left.mkv")
    make.sound_file(folder / "tone.wav", make.chirp(0.6))
    make.picture(folder / "picture.png", make.corners())
    (folder / "broken.mp4").write_bytes(good.read_bytes()[: good.stat().st_size // 3])
    (folder / "text.mp4").write_bytes(b"not a video\n" * 30)
    make.video(folder / "wide.mp4", [np.zeros((1100, 1000, 3), np.uint8)], [0.0], make.chirp(1.0))
    return folder


def one_channel(clip: Path, to: Path) -> None:
    """Write a clip's pictures with a stereo sound whose right channel is silent."""
    import av
    import make
    import numpy as np

    with av.open(str(clip)) as source, av.open(str(to), "w") as out:
        pictures = out.add_stream_from_template(source.streams.video[0])
        track = out.add_stream("flac", rate=make.RATE)
        track.codec_context.layout = "stereo"
        for packet in source.demux(video=0):
            if packet.dts is not None:
                packet.stream = pictures
                out.mux(packet)
        left = make.chirp(1.0)
        make._encode_sound(out, track, np.stack([left, 0 * left]), make.RATE, 0.0, "stereo")


@contextmanager
def serve(*flags: object, log: Path | None = None, **environment: str) -> Iterator[tuple[str, int, Path]]:
    """Run `earsight app`; gives its address, its process, and the folder that it keeps its files in."""
    import tempfile

    with tempfile.TemporaryDirectory() as folder, (log or Path(os.devnull)).open("w") as messages:
        process = subprocess.Popen(
            [sys.executable, "-m", "earsight", "app", *map(str, flags), "--port", "0", "--device", "cpu"],
            stdout=subprocess.PIPE,
            stderr=messages if log else None,
            text=True,
            env={**os.environ, "TMPDIR": folder, "OMP_NUM_THREADS": "1", **environment},
        )
        try:
            said = process.stdout.readline() if process.stdout else ""
            found = re.search(r"http://\S+", said)
            assert found, f"the page did not start: {said!r}"
            yield found.group(0), process.pid, Path(folder)
        finally:
            process.send_signal(signal.SIGTERM)
            assert process.wait(60) == 0
            assert not list(Path(folder).glob("earsight-app-*")), "the page left its folder behind"


SMALL = ("--max-mb", 1, "--max-seconds", 5, "--max-pixels", 1_000_000, "--max-run-seconds", 30, "--every", 0.25)


@pytest.fixture(scope="session")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the running page writes on stderr."""
    return tmp_path_factory.mktemp("log") / "stderr"


@pytest.fixture(scope="session")
def page(weights: Path, doubting: Path, log: Path) -> Iterator[str]:
    """A running page with two models that always disagree."""
    pytest.importorskip("uvicorn", reason="uvicorn is not installed: pip install -e '.[app]'")
    with serve(weights, doubting, *SMALL, log=log) as (address, _, _):
        yield address


@pytest.fixture
def visitor(page: str) -> Iterator[Visitor]:
    with Visitor(page) as one:
        yield one


@pytest.fixture(scope="session")
def serving() -> Callable[..., object]:
    pytest.importorskip("uvicorn", reason="uvicorn is not installed: pip install -e '.[app]'")
    return serve
