"""Runs worth repeating, one function each: what to train, on what, with which settings, and where they come from."""

from __future__ import annotations

from earsight.config import Inputs, Optim
from earsight.train.job import Job


def slavc_toybox() -> Job:
    """SLAVC with small encoders on the built-in set: learns from nothing in about four minutes on two CPU cores.

    The settings are ours, chosen on toybox (docs/results-toybox.md says how); dropout 0.9 and the decomposition are the
    paper's. The temperature is higher and the momentum lower than published, because training has hundreds of steps
    where the paper has thousands.
    """
    from earsight.methods.slavc import Config
    from earsight.models.encoders import Encoders

    return Job(
        method="slavc",
        config=Config(
            encoders=Encoders(kind="small", weights="random"),
            dim=128,
            temperature=0.07,
            visual_dropout=0.9,
            momentum=0.99,
        ),
        inputs=Inputs(image_size=112, resize=128, rate=11025, seconds=2.0, window=256, hop=160),
        optim=Optim(
            epochs=8,
            batch_size=64,
            optimizer="adamw",
            lr=2e-3,
            weight_decay=1e-2,
            warmup_steps=20,
            val_every=2,
        ),
        on="toybox:train",
        val="toybox:val",
    )


RECIPES = {"slavc_toybox": slavc_toybox}
