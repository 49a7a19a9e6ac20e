"""Numbers that the page's sentences name, which are then of the same results as its tables; and own.json in tables."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from benchmarks.page import table

from studies.words import cell, names, one

Results = dict[str, Any]
OWN = Path(__file__).with_name("own.json")
METRICS = ("ap", "max_f1", "loc_acc", "auroc")


def phrases(results: Results) -> dict[str, str]:
    """What sentences name.

    `more_NAME_METRIC`: what SLAVC has more than NAME; `change_NAME_METRIC`: what NAME, batches of some kind, has more
    than batches of 128; `NAME_METRIC`: what NAME has itself.
    """
    known: dict[str, str] = {}
    for gap in results["gaps"]:
        name = gap["form"] or (gap["name"] if gap["group"] == "methods" else f"{gap['group']} {gap['name']}")
        known |= {f"more_{_slug(name)}_{metric}": cell(gap, metric) for metric in METRICS}
    for gap in results.get("changes", []):
        known |= {f"change_{_slug(gap['name'])}_{metric}": cell(gap, metric) for metric in METRICS}
    rows = results["rows"]
    for name in names(rows, "batches"):
        row = one(rows, "batches", name)
        known |= {f"{_slug(name)}_{metric}": cell(row, metric, False) for metric in METRICS}
    for name in names(rows, "methods"):
        for epoch in ("last", "best"):
            row = one(rows, "methods", name, epoch)
            if row is not None:
                begin = name if epoch == "last" else f"{name}_best"
                known |= {f"{begin}_{metric}": cell(row, metric, False) for metric in METRICS}
                known |= {
                    f"{begin}_{_slug(key)}": f"{value:.2f}" for key, value in row["more"].items() if value is not None
                }
    return known


def _slug(text: str) -> str:
    """A name in letters, digits and underscores.

    >>> _slug("momentum 0.999"), _slug("extended pointing")
    ('momentum_0_999', 'extended_pointing')
    """
    return re.sub(r"\W+", "_", text)


def own(path: Path = OWN) -> str:
    """What was said of media from elsewhere."""
    if not path.is_file():
        return "Not run yet."
    found = json.loads(path.read_text(encoding="utf-8"))
    sounds = list(dict.fromkeys(pair["sound"] for pair in found["pairs"]))
    cells = {(pair["picture"], pair["sound"]): _sure(pair) for pair in found["pairs"]}
    crossed = [[seen, *(cells[seen, heard] for heard in sounds)] for seen in sounds]
    films = [
        [
            f"`{film['film']}`",
            str(film["moments"]),
            str(film["verdicts"].get("visible source", 0)),
            f"{film['confidence']:.2f}",
        ]
        for film in found["films"]
    ]
    parts = [
        table(["picture of a", *(f"sound of a {heard}" for heard in sounds)], crossed),
        table(["video", "moments", "visible source", "mean confidence"], films),
    ]
    if "boxed" in found:
        box = found["boxed"]
        parts.append(
            f"The source of `{box['film']}` was marked at {box['time']:g} s by the makers of VGG-SS: "
            f"cIoU {box['ciou']:.2f} with half of the picture marked, "
            f"{box['ciou_right_size']:.2f} with a mask of the right size."
        )
    parts.append(
        f"The threshold is {found['threshold']:.2f}, for at most one false alarm in ten on the validation list."
    )
    return "\n\n".join(parts)


def _sure(pair: dict[str, Any]) -> str:
    text = f"{pair['confidence']:.2f}"
    return f"**{text}**" if pair["verdict"] == "visible source" else text
