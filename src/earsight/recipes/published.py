"""Runs of published papers and repositories, as a table: name, method, training set, source, and what they change.

Tables are those of the SLAVC paper (Mo and Morgado, NeurIPS 2022), `earsight list tables`. It trains all methods alike
(ResNet-18 pair, 224 px, 3 s of sound, batches of 128, Adam at 1e-4, 20 epochs), which is what a method's own defaults
are. NOTE: where its text and its published code differ (weight decay 1e-4 and 0, pictures of 256 and 246 before the
crop, 300 and 276 steps of a spectrogram), these are the code's. Runs named after a preset have the settings of that
source instead. Where the paper has no run of a method in one of its settings, the recipe is ours and its source says
so.

NOTE: all of them end with their last epoch, as the paper asks for. Its columns with early stopping come from the epoch
that is best on the test set: --val flickr_soundnet:test --optim.keep best.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from types import MappingProxyType
from typing import Any, NamedTuple

from earsight import registry
from earsight.config import Inputs, Optim, Supervision
from earsight.recipes.base import Recipe
from earsight.training.job import Job

VGGSOUND, HEARD, FLICKR, SEMI = "vggsound:144k", "vggsound:heard", "flickr_soundnet:10k", "flickr_soundnet:semi"
EXTENDED = ("vggss:extended", "flickr_soundnet:extended")
POSITIVES = ("vggss:test", "flickr_soundnet:test")
OPEN = ("vggss:heard", "vggss:unheard")
MAIN, WEAK, UNHEARD = "SLAVC paper, Tables 2 and 3", "SLAVC paper, Table 6", "SLAVC paper, Table 7"
OURS = "earsight: in the setting of the SLAVC paper, which has no such run"
SLAVC, EZVSL, FNAC = "stoneMo/SLAVC", "stoneMo/EZ-VSL", "OpenNLPLab/FNAC_AVL"
LVS, ATTENTION = "Chen et al. 2021, its published code", "Senocak et al. 2018, its published code"
NOTHING: Mapping[str, Any] = MappingProxyType({})


class Run(NamedTuple):
    """One line of the table.

    Args:
        name, method, on, tests, source: as in Recipe.
        preset: the method's preset it starts from; empty for the setting in which all methods are compared.
        config: settings of the method that differ from there.
        optim: settings of the training that differ from there.
        supervision: ground truth in training.
    """

    name: str
    method: str
    on: str
    tests: tuple[str, ...]
    source: str
    preset: str = ""
    config: Mapping[str, Any] = NOTHING
    optim: Mapping[str, Any] = NOTHING
    supervision: Supervision = Supervision()


class Compared(NamedTuple):
    """A method in the paper's three settings: the tables that have the run, or else what is to be said."""

    method: str
    vggsound144k: str
    flickr10k: str = OURS
    heard110: str = OURS
    preset: str = ""


COMPARED = (
    Compared("attention10k", MAIN, WEAK, UNHEARD),
    Compared("coarse_to_fine", MAIN, OURS, UNHEARD),
    Compared("dmc", MAIN, WEAK, UNHEARD),
    Compared("avobject", "earsight: a still-frame form; Table 2 of the SLAVC paper quotes the original"),
    Compared("dsol", MAIN),
    Compared("lvs", MAIN, WEAK, UNHEARD),
    Compared("hardpos", "earsight: in the setting of the SLAVC paper, whose Table 2 quotes the original"),
    Compared("ezvsl", f"{MAIN}; {EZVSL}", WEAK, f"{UNHEARD}; {EZVSL}"),
    Compared("marginnce", "Park et al. 2023, without code, in the setting of EZ-VSL"),
    Compared("fnac", OURS),
    Compared("slavc", f"{MAIN}; {SLAVC}", f"{WEAK}; {SLAVC}", f"{UNHEARD}; {SLAVC}", "official"),
)

UNTRAINED = (
    Run("center_prior", "center_prior", VGGSOUND, EXTENDED, "SLAVC paper, Table 3; nothing is trained"),
    Run("ogl", "ogl", VGGSOUND, EXTENDED, f"SLAVC paper, Table 3; {EZVSL}; nothing is trained"),
)

OWN = (
    Run("slavc_vggsound144k_paper", "slavc", VGGSOUND, EXTENDED, "SLAVC paper, its text", "paper"),
    Run("hardpos_vggsound144k_paper", "hardpos", VGGSOUND, POSITIVES, "Senocak et al. 2022, without code", "paper"),
    Run("lvs_vggsound144k_official", "lvs", VGGSOUND, POSITIVES, LVS, "official"),
    Run("fnac_vggsound144k_official", "fnac", VGGSOUND, POSITIVES, FNAC, "official"),
    Run("slavc_heard110_paper", "slavc", HEARD, OPEN, "SLAVC paper, its text", "paper"),
    Run("lvs_heard110_official", "lvs", HEARD, OPEN, LVS, "official"),
    Run("ezvsl_vggsound10k_official", "ezvsl", "vggsound:10k", POSITIVES[:1], EZVSL, "official", optim={"epochs": 100}),
    Run("fnac_vggsound10k_official", "fnac", "vggsound:10k", POSITIVES[:1], FNAC, "official"),
    Run("ezvsl_vggsound_official", "ezvsl", "vggsound:full", POSITIVES[:1], EZVSL, "official"),
    Run("slavc_flickr10k_paper", "slavc", FLICKR, POSITIVES[1:], "SLAVC paper, its text", "paper"),
    Run("attention10k_flickr10k_official", "attention10k", FLICKR, POSITIVES[1:], ATTENTION, "official"),
    Run("coarse_to_fine_flickr10k_official", "coarse_to_fine", FLICKR, POSITIVES[1:],
        "Qian et al. 2020, its recommended code, with clusters for its tagger", "official", {"labels": "clusters"}),
    Run("lvs_flickr10k_official", "lvs", FLICKR, POSITIVES[1:], LVS, "official"),
    Run("ezvsl_flickr10k_official", "ezvsl", FLICKR, POSITIVES[1:], EZVSL, "official", optim={"epochs": 100}),
    Run("fnac_flickr10k_official", "fnac", FLICKR, POSITIVES, FNAC, "official"),
    Run("ezvsl_flickr144k_official", "ezvsl", "flickr_soundnet:144k", POSITIVES[1:], EZVSL, "official"),
    Run("fnac_flickr144k_official", "fnac", "flickr_soundnet:144k", POSITIVES, FNAC, "official"),
    Run("slavc_flickr144k", "slavc", "flickr_soundnet:144k", EXTENDED[1:],
        "SLAVC paper, Experimental setup; no table has it", "official"),
)  # fmt: skip

ANNOTATED = (
    Run("attention10k_flickr10k_semi", "attention10k", SEMI, POSITIVES[1:], WEAK,
        supervision=Supervision(1.0, "own")),
    Run("attention10k_flickr10k_semi_official", "attention10k", SEMI, POSITIVES[1:], ATTENTION, "official",
        supervision=Supervision(1.0, "own", "batch")),
    Run("slavc_flickr10k_semi", "slavc", SEMI, POSITIVES[1:], f"{WEAK}: squared error", "official",
        supervision=Supervision(1.0, "unscaled")),
    Run("slavc_flickr10k_semi_bce", "slavc", SEMI, POSITIVES[1:], f"{SLAVC}: cross-entropy, here with its gradient",
        "official", supervision=Supervision(1.0, "bce", "batch")),
)  # fmt: skip

ABLATIONS: tuple[tuple[str, str, Mapping[str, Any]], ...] = (
    *((f"vdrop_{round(100 * rate)}", "a", {"visual_dropout": rate}) for rate in (0.0, 0.5, 0.75, 0.95)),
    *((f"adrop_{round(100 * rate)}", "b", {"audio_dropout": rate}) for rate in (0.5, 0.75, 0.9, 0.95)),
    *((f"mom_{round(1000 * rate)}", "c", {"momentum": rate}) for rate in (0.0, 0.9, 0.99, 0.995)),
    # The paper's matching before the decomposition: the best place, among sounds and among pictures.
    ("no_decomposition", "d", {"decompose": False, "infer": "loc", "pooling": "max", "audio_term": "images"}),
    ("infer_avloc", "d", {"infer": "loc"}),
    ("infer_avc", "d", {"infer": "avc"}),
)
"""What Table 4 changes, by the part it stands in; its rows with default settings are slavc_vggsound144k."""

SETTINGS = {"vggsound144k": (VGGSOUND, EXTENDED), "flickr10k": (FLICKR, POSITIVES[1:]), "heard110": (HEARD, OPEN)}

RUNS = (
    *(
        Run(f"{one.method}_{name}", one.method, on, tests, getattr(one, name), one.preset)
        for name, (on, tests) in SETTINGS.items()
        for one in COMPARED
    ),
    *UNTRAINED,
    *OWN,
    *ANNOTATED,
    *(
        Run(f"slavc_{name}", "slavc", VGGSOUND, EXTENDED[:1], f"SLAVC paper, Table 4{part}", "official", changes)
        for name, part, changes in ABLATIONS
    ),
)


def job(run: Run) -> Job:
    """The settings of a line: its preset's, or those in which all methods are compared, with what it changes."""
    module = registry.load("method", run.method)
    config, inputs, optim, protocol = module.Config(), Inputs.official(), Optim(), "official"
    if run.preset:
        preset = module.PRESETS[run.preset]()
        config, inputs, optim, protocol = preset.config, preset.inputs, preset.optim, preset.protocol
    return Job(
        method=run.method,
        config=replace(config, **run.config),
        inputs=inputs,
        optim=replace(optim, **run.optim),
        on=run.on,
        protocol=protocol,
        supervision=run.supervision,
    )


RECIPES = tuple(Recipe(run.name, run.method, run.on, run.tests, run.source, partial(job, run)) for run in RUNS)
