"""All numbers of a test set: ours from a pack in batches, the reference clip by clip from files."""

from __future__ import annotations

from benchmarks.measure import How, Result, compare
from benchmarks.media import media
from benchmarks.reference import evaluation, training
from benchmarks.twins import twin
from earsight.config import Inputs
from earsight.encoders.base import Encoders
from earsight.methods import slavc
from earsight.model_evaluation import EvalSettings, evaluate
from earsight.protocols import get


def run(how: How) -> Result:
    inputs, count = Inputs(), how.count(1024 if how.gpu else 128, 16)
    config = slavc.Config(encoders=Encoders(*2 * ("resnet18" if how.gpu else "small",), weights="random"))
    model = slavc.Model(config, inputs).eval()
    plain = twin(model, training.resnet18_pair() if how.gpu else training.small_pair()).to(how.device).eval()
    with media(count, "test") as made:
        found: dict[str, dict[str, float]] = {}

        def ours() -> None:
            found["ours"] = evaluate(model, made.clips, get("official"), EvalSettings(device=how.device)).metrics

        def reference() -> None:
            found["reference"] = evaluation.evaluate(plain, made.files, made.clips.rows, inputs, how.device)

        seconds = compare(ours, reference, rounds=how.count(3, 1), device=how.device)
    apart = max(abs(found["ours"][name] - value) for name, value in found["reference"].items())
    pair = "ResNet-18 pair" if how.gpu else "small encoders"
    what = f"{count} clips of a packed set, {pair}, 224 x 224 and 257 x 276, official protocol"
    ours_is, reference_is = "in batches, from a pack, all metrics", "in batches, PIL, scipy and numpy, map by map"
    extra = {"largest difference": apart}
    return Result("evaluation", what, ours_is, reference_is, count, "clips", *seconds, extra)
