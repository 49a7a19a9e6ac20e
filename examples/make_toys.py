"""Makes toys.safetensors, the small weights of the notebook, out of the run that `earsight demo` trains.

    earsight demo --out demo
    python examples/make_toys.py demo/run

Only what localizes is kept, the slow copies of SLAVC's encoders, in half precision: an eighth of the run's bytes.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

from earsight.checkpoint import load_weights, save_weights
from earsight.methods import slavc

KEPT = ("protocol", "calibration", "knows")


def make(run: Path, out: Path) -> None:
    """Write the weights of a run of SLAVC, as it localizes, into a small file."""
    loaded = load_weights(run)
    config = replace(loaded.config, targets=False, infer_with="online")
    model = slavc.Model(config, loaded.inputs)
    slow = {name.removeprefix("target."): value for name, value in loaded.model.state_dict().items()}
    model.online.load_state_dict({name: slow[name] for name in model.online.state_dict()})
    save_weights(out, model.half(), "slavc", config, {key: loaded.meta[key] for key in KEPT if key in loaded.meta})


if __name__ == "__main__":
    make(Path(sys.argv[1]), Path(__file__).with_name("toys.safetensors"))
