"""Mistakes that the tests must catch, tried before and after a rebuild: `python tests/golden/mutations.py`.

Each is a replacement in a file of the source, and the tests that are expected to fail with it. Every one runs in a copy
of the checkout, so that nothing here is changed.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).parents[2]
SRC = "src/earsight/"
MUTATIONS = [
    (
        "SLAVC: audio term normalises over the wrong axis",
        "losses.py",
        'if among == "audios"',
        'if among == "images"',
        "tests/methods/test_slavc.py",
    ),
    (
        "all_pairs: picture and sound axes swapped",
        "losses.py",
        "nchw,mc->nmhw",
        "nchw,mc->mnhw",
        "tests/methods tests/encoders",
    ),
    (
        "momentum: roles of the two weights exchanged",
        "methods/base.py",
        "online, 1 - momentum)",
        "online, momentum)",
        "src/earsight/methods/base.py tests/encoders",
    ),
    (
        "negatives of other processes without gradient",
        "distributed.py",
        "        dist.all_reduce(grad)\n        at =",
        "        at =",
        "tests/distributed/test_parity.py",
    ),
    (
        "map scaled by its bounds with the wrong width",
        "resampling.py",
        "return (values - low) / (high - low)",
        "return (values - low) / high",
        "src/earsight/resampling.py tests/test_predict.py",
    ),
    (
        "cIoU threshold strict instead of inclusive",
        "metrics/base.py",
        "else ciou >= gamma",
        "else ciou > gamma",
        "tests/metrics src/earsight/metrics",
    ),
    (
        "AP: recall starts after the first point",
        "metrics/average_precision.py",
        "prepend=0.0, axis",
        "prepend=recall[..., :1], axis",
        "tests/metrics/test_average_precision.py",
    ),
    (
        "AUC over 20 instead of 21 thresholds",
        "metrics/loc_acc.py",
        "np.arange(21",
        "np.arange(20",
        "tests/metrics/test_loc_acc.py",
    ),
    (
        "F1 floor: p / (1 + p)",
        "metrics/average_precision.py",
        "return 2 * p / (1 + p)",
        "return p / (1 + p)",
        "tests/metrics/test_average_precision.py",
    ),
    (
        "boxes: rows and columns swapped",
        "data/truth.py",
        "whole[self.rows, self.columns]",
        "whole[self.columns, self.rows]",
        "tests/data/test_truth.py",
    ),
    (
        "mirrored picture with boxes that are not mirrored",
        "data/truth.py",
        "        if flip:\n",
        "        if False:\n",
        "src/earsight/data/truth.py",
    ),
    (
        "consensus ignored",
        "data/truth.py",
        "count / np.float32(consensus)",
        "count / np.float32(1)",
        "tests/data/test_truth.py",
    ),
    (
        "epochs in the same order",
        "data/samplers/shuffle.py",
        "(seed, epoch, 0)).permutation",
        "(seed, 0, 0)).permutation",
        "tests/data/test_loading.py",
    ),
    (
        "sound cut one sample late",
        "data/clips.py",
        "    return waveform[first:last]\n",
        "    return waveform[first + 1 : last + 1]\n",
        "tests/data/test_clips.py src/earsight/data/clips.py",
    ),
    (
        "spectrogram: inner bins not doubled",
        "encoders/frontend.py",
        "mul_(0.5**0.5)",
        "mul_(1.0)",
        "tests/encoders/test_frontend.py",
    ),
    (
        "digest of a clip in a pack not compared",
        "data/pack.py",
        "        if not whole:\n",
        "        if False:\n",
        "tests/data/test_pack_check.py",
    ),
    (
        "path outside the folder allowed",
        "data/sets/folder.py",
        'or ".." in path.parts',
        "",
        "tests/data/test_folder.py",
    ),
    (
        "calibration: false alarms counted among positives",
        "calibration.py",
        "np.searchsorted(negative, candidates",
        "np.searchsorted(positive, candidates",
        "tests/test_calibration.py",
    ),
    (
        "deadline of decoding never checked",
        "media/_open.py",
        "if time.monotonic() > self._deadline:",
        "if False:",
        "tests/media",
    ),
    (
        "supervised loss on clips without ground truth too",
        "training/step.py",
        "distributed.gather(batch.supervised.float(), counts) > 0",
        "distributed.gather(batch.supervised.float(), counts) >= 0",
        "tests/training/test_supervision.py",
    ),
    (
        "localize: box in the map's pixels, not the picture's",
        "localize/regions.py",
        "boxes_of(region(score, low, high), score, most)",
        "boxes_of(region(score, low, high)[::2, ::2], score, most)",
        "tests/localize tests/cli/test_localize.py",
    ),
    (
        "resume: epoch begins again",
        "training/loop.py",
        "epochs, position.step))",
        "epochs, 0))",
        "tests/training/test_resume.py",
    ),
]


def caught(number: int, folder: Path) -> bool:
    """Whether the tests fail with a mutation, in a copy of the checkout."""
    _, file, old, new, tests = MUTATIONS[number]
    path = folder / SRC / file
    text = path.read_text(encoding="utf-8")
    if text.count(old) != 1:
        raise SystemExit(f"Expected {old!r} once in {file}, but got it {text.count(old)} times. Write it anew.")
    path.write_text(text.replace(old, new), encoding="utf-8")
    words = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *tests.split()]
    environment = {**os.environ, "PYTHONPATH": str(folder / "src")}
    done = subprocess.run(words, cwd=folder, env=environment, capture_output=True, check=False)
    path.write_text(text, encoding="utf-8")
    return done.returncode == 1


def main() -> None:
    with TemporaryDirectory() as name:
        folder = Path(name) / "copy"
        kept = shutil.ignore_patterns(".git", ".venv*", "__pycache__", "demo", "runs")
        shutil.copytree(ROOT, folder, ignore=kept)
        missed = 0
        for number, (title, *_) in enumerate(MUTATIONS):
            found = caught(number, folder)
            missed += not found
            sys.stdout.write(f"{'caught' if found else 'MISSED'} {title}\n")
            sys.stdout.flush()
    sys.stdout.write(f"{len(MUTATIONS) - missed} of {len(MUTATIONS)} caught\n")


if __name__ == "__main__":
    main()
