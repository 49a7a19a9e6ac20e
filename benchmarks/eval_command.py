"""What `earsight eval` takes on a whole packed test set, from the start of its process to the report that it leaves.

python -m benchmarks.big_pack --out PACK --split test --rows 10316
python -m benchmarks.eval_command --pack PACK
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import torch

from benchmarks.big_pack import SPEC
from benchmarks.hardware import hardware
from benchmarks.measure import short
from benchmarks.telling import parser, tell, told
from earsight.checkpoint import save_weights
from earsight.config import Inputs
from earsight.encoders.base import Encoders
from earsight.errors import DataError
from earsight.methods import slavc

TIMES = 3
COMMAND = """
import json, sys, time
from pathlib import Path
from earsight import evaluation, model_evaluation
from earsight.cli.evaluate import Eval, run
from earsight.report import write

weights, on, data, device, out, told = sys.argv[1:]
seconds = {"start": time.time() - float(Path(told).read_text())}

def clocked(module, name, what):
    whole = getattr(module, name)
    def work(*given, **named):
        began = time.time()
        found = whole(*given, **named)
        seconds.setdefault(what, []).append(time.time() - began)
        return found
    setattr(module, name, work)

clocked(model_evaluation, "evaluate_all", "passes")
clocked(evaluation, "center_prior", "centre_prior")
clocked(write, "write_report", "report")
run(Eval(weights=(Path(weights),), on=(on,), data=Path(data), device=device, out=Path(out), protocol=("official",)))
seconds["all"] = time.time() - float(Path(told).read_text())
Path(told).write_text(json.dumps(seconds))
"""
"""What the command line does once it has read its words, and a clock for its parts."""


def run(pack: Path, where: str, folder: Path) -> dict[str, float]:
    """Seconds of the whole command and of its parts, in a process of its own; the fastest of several."""
    weights, told_at = folder / "weights.safetensors", folder / "told"
    config = slavc.Config(encoders=Encoders(*2 * ("resnet18" if where == "cuda" else "small",), weights="random"))
    torch.manual_seed(0)
    save_weights(weights, slavc.Model(config, Inputs()), "slavc", config, {"protocol": "official"})
    env = os.environ | {"EARSIGHT_MODULES": SPEC, "PYTHONPATH": os.pathsep.join([str(Path.cwd()), *sys.path])}
    rounds = []
    for i in range(TIMES):
        told_at.write_text(str(time.time()))
        words = [str(weights), f"{SPEC}:test", str(pack), where, str(folder / f"report{i}"), str(told_at)]
        ran = subprocess.run([sys.executable, "-c", COMMAND, *words], env=env, capture_output=True, text=True)
        if ran.returncode:
            raise DataError(f"Expected an evaluation of {pack}, but it ended with:\n{ran.stderr[-2000:]}")
        rounds.append(json.loads(told_at.read_text()))
    best = min(rounds, key=lambda one: one["all"])
    first, *others = best["passes"]
    numbers = {
        "seconds_of_the_command": best["all"],
        "start_of_the_process": best["start"],
        "real_sound": first,
        "shuffled_or_silent_sound": max(others),
        "centre_prior": sum(best["centre_prior"]),
        "report": sum(best["report"]),
    }
    return {name: short(value) for name, value in numbers.items()}


def main(argv: Sequence[str] | None = None) -> None:
    how = "python -m benchmarks.big_pack --split test"
    given = parser("eval_command", "Time the whole command.", how).parse_args(argv)
    with tempfile.TemporaryDirectory() as folder:
        numbers = run(given.pack, given.device, Path(folder))
    command = told("eval_command", sys.argv[1:] if argv is None else argv)
    tell({"hardware": hardware(given.device, given.commit), "command": command, "numbers": numbers}, given.json)


if __name__ == "__main__":
    main()
