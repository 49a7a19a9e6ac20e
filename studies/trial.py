"""What a study trains and measures: one run, under the table and the line it belongs to."""

from __future__ import annotations

from dataclasses import dataclass

from earsight.training.job import Job

INFERS = {
    "loc": {"infer": "loc"},
    "avc": {"infer": "avc"},
    "both": {"infer": "both"},
    "online": {"infer_with": "online"},
    "target": {"infer_with": "target"},
}
"""Ways in which trained SLAVC weights can be asked, by the settings that do it."""


@dataclass(frozen=True)
class Trial:
    """One training run and what it is measured on.

    Args:
        group: the table it belongs to.
        name: its line there.
        seed: of weights, order and crops.
        job: all that decides the training.
        tests: sets to measure on.
        prior: whether it is also measured with the object prior.
        infers: names of INFERS to measure the trained weights with besides what they were trained with.
        controls: whether it is also measured with the sounds of other clips and with silence.
    """

    group: str
    name: str
    seed: int
    job: Job
    tests: tuple[str, ...]
    prior: bool = False
    infers: tuple[str, ...] = ()
    controls: bool = False

    @property
    def key(self) -> str:
        return f"{self.group}/{self.name.replace(' ', '_')}/{self.seed}"
