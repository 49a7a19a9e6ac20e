"""python -m studies.coco_esc.own: trained weights on media that have nothing to do with the set.

Videos, and pictures NAME.jpg with sounds NAME.wav, of which every picture is heard with every sound. They are drawn
into a folder to look at; verdicts and confidences go to own.json, from where the page takes them.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from earsight import protocols
from earsight.checkpoint import Weights, load_weights
from earsight.cli import main as earsight
from earsight.data.clips import ClipSet
from earsight.files import write_text
from earsight.media.read import read_clip
from earsight.model_evaluation import evaluate_all
from earsight.types import Box, Clip, Row
from studies.coco_esc.reading import OWN


class Boxed(ClipSet):
    """One moment of a video whose source was marked."""

    def __init__(self, path: Path, time: float, box: Box) -> None:
        super().__init__(path.stem, [Row(path.stem, boxes=(box,))])
        self._path, self._time = path, time

    def read(self, index: int, rate: int, seconds: float, draw: int = 0) -> Clip:
        return read_clip(self._path, self._time, rate, seconds, self.rows[index].id)


def pairs(weights: Path, folder: Path, out: Path) -> list[dict[str, Any]]:
    """Every picture with every sound."""
    names = [path.stem for path in sorted(folder.glob("*.jpg")) if path.with_suffix(".wav").exists()]
    found = []
    for seen in names:
        for heard in names:
            there = out / f"{seen}-{heard}"
            _run(
                "localize",
                weights,
                "--image",
                folder / f"{seen}.jpg",
                "--audio",
                folder / f"{heard}.wav",
                "--out",
                there,
            )
            (item,) = _timeline(there / f"{seen}.earsight.json")["items"]
            found.append(
                {"picture": seen, "sound": heard, "confidence": item["confidence"], "verdict": item["verdict"]}
            )
    return found


def films(weights: Path, folder: Path, out: Path) -> list[dict[str, Any]]:
    """What is said of each video, moment by moment."""
    found = []
    for path in sorted(folder.glob("*.mp4")):
        _run("localize", weights, path, "--out", out, "--format", "png,json")
        items = _timeline(out / f"{path.stem}.earsight.json")["items"]
        told = Counter(item["verdict"] for item in items)
        mean = sum(item["confidence"] for item in items) / len(items)
        found.append({"film": path.name, "moments": len(items), "verdicts": dict(told), "confidence": mean})
    return found


def boxed(loaded: Weights, path: Path, time: float, box: Box) -> dict[str, Any]:
    """The one moment under the protocols of the study."""
    asked = [protocols.get(name) for name in ("exact", "adaptive")]
    exact, adaptive = (one.records for one in evaluate_all(loaded.model, Boxed(path, time, box), asked))
    return {
        "film": path.name, "time": time, "box": box, "ciou": float(exact.ciou[0]),
        "ciou_right_size": float(adaptive.ciou[0]), "confidence": float(exact.confidence[0]),
    }  # fmt: skip


def _run(*words: object) -> None:
    if status := earsight([*map(str, words), "--force", "--device", "cpu"]):
        raise SystemExit(status)


def _timeline(path: Path) -> dict[str, Any]:
    told: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return told


def main(argv: Sequence[str] | None = None) -> int:
    ask = argparse.ArgumentParser(prog="python -m studies.coco_esc.own", description=__doc__)
    ask.add_argument("--weights", type=Path, required=True, help="of SLAVC, trained by the study")
    ask.add_argument("--media", type=Path, required=True, help="folder of videos, and of pictures with sounds")
    ask.add_argument(
        "--box", nargs=6, metavar=("FILE", "TIME", "LEFT", "TOP", "RIGHT", "BOTTOM"), help="a marked source"
    )
    ask.add_argument("--out", type=Path, default=Path("runs/own"), help="where overlays go")
    ask.add_argument("--json", type=Path, default=OWN, help="where the numbers go")
    args = ask.parse_args(argv)
    loaded = load_weights(args.weights, "cpu")
    calibration = loaded.meta.get("calibration") or {}
    found: dict[str, Any] = {
        "threshold": calibration.get("threshold"), "false_alarm": calibration.get("false_alarm"),
        "pairs": pairs(args.weights, args.media, args.out), "films": films(args.weights, args.media, args.out),
    }  # fmt: skip
    if args.box:
        name, time, left, top, right, bottom = args.box
        box = (float(left), float(top), float(right), float(bottom))
        found["boxed"] = boxed(loaded, args.media / name, float(time), box)
    write_text(args.json, json.dumps(found, indent=1) + "\n")
    sys.stderr.write(f"{args.json}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
