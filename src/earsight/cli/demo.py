"""The whole story on the built-in set: make data, train SLAVC, measure it honestly, show what it learned."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, get_args

from earsight import protocols
from earsight.cli.localize import Localize
from earsight.cli.screen import note, say
from earsight.cli.settings import Switch, command_line, require, word
from earsight.errors import UsageError
from earsight.recipes import RECIPES


@dataclass(frozen=True, kw_only=True)
class Demo:
    """Train, evaluate and localize on the built-in set, in minutes on two CPU cores."""

    out: Annotated[Path, word("DIR", "-o", default=None)] = Path("earsight-demo")
    """Folder for the run, the report, pictures and the video."""
    seed: int = 0
    """Another seed draws other weights."""
    quick: Switch = False
    """Train for a moment only: shows the path, not the quality."""
    force: Switch = False
    """Replace an earlier demo in the folder."""


def run(settings: Demo) -> int:
    """Everything into one folder; `quick` trains for one epoch, to see that it works, not that it learns."""
    require("train", "torch", "torchvision")
    import torch

    from earsight.checkpoint import load_weights
    from earsight.data.clips import open_set
    from earsight.data.controls import Audio
    from earsight.data.toys.video import write_film
    from earsight.evaluation import center_prior
    from earsight.localize import Localizer, Settings, localize_video
    from earsight.methods.base import build
    from earsight.model_evaluation import EvalSettings, evaluate
    from earsight.report.gallery import groups
    from earsight.report.groups import lines
    from earsight.report.tables import render
    from earsight.report.training import threshold_of, training_of
    from earsight.report.write import Attachments, write_report
    from earsight.training.loop import train

    out, seed, quick, force = settings.out, settings.seed, settings.quick, settings.force
    if out.exists() and any(out.iterdir()) and not force:
        raise UsageError(f"Expected an empty folder for the demo, but {out} has files in it. Pass --force, or --out.")
    began = time.monotonic()
    job = RECIPES["slavc_toybox"]()
    job = replace(job, optim=replace(job.optim, seed=seed, epochs=1 if quick else job.optim.epochs))

    note("1/4  Toys: pictures of eight kinds of toys with their sounds, made up from a seed.")
    test = open_set("toybox:extended", limit=96 if quick else 0)
    note("2/4  Training SLAVC from nothing. It is told which picture goes with which sound, never where.")
    file = train(job, out / "run", device="cpu", force=force)
    weights = load_weights(file)

    note("3/4  Measuring on unseen toys, half of them with a sound that nothing visible makes.")
    protocol = protocols.get(job.protocol)
    results = [
        evaluate(
            weights.model,
            test,
            protocol,
            EvalSettings(audio=audio, name="SLAVC", keep_maps=audio == "real", sizes=True),
        )
        for audio in get_args(Audio)
    ]
    training, threshold = training_of(weights, file), threshold_of(weights, protocol)
    results = [replace(one, training=training) for one in results]
    torch.manual_seed(seed)
    results.append(evaluate(build(job.method, job.config, job.inputs), test, protocol, EvalSettings(name="untrained")))
    results.append(center_prior(test, protocol))
    calibration = weights.meta["calibration"]
    again = replace(settings, out=Demo.out, force=False)
    results[0] = replace(results[0], threshold=threshold)
    write_report(
        out / "report",
        results,
        Attachments(
            groups(results[0], test, weights.model, threshold),
            out / "run",
            command_line(again),
            {"seed": seed, "calibration": calibration},
        ),
        force=force,
        note=note,
    )

    note("4/4  Localizing in a film: three toys take turns, then something off-screen is heard.")
    film = out / "film.mp4"
    write_film(film, seed)
    localize_video(Localizer(weights), film, out / "film", Settings(force=force))

    say(render(lines(results)) + "\n")
    if calibration:
        say(
            f"Verdict: a source is called visible from confidence {calibration['threshold']:.3f} on "
            f"({100 * calibration['false_alarm']:.0f}% false alarms, {100 * calibration['recall']:.0f}% of visible "
            f"sources found on {calibration['set']})."
        )
    say(f"Report card: {out / 'report' / 'report.html'}\nFilm with heat map and sound: {out / 'film'}")
    say(f"Your own video: {command_line(Localize(weights=out / 'run', inputs=(Path('VIDEO'),)))}")
    note(f"Done in {time.monotonic() - began:.0f} s.")
    return 0
