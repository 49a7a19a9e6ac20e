"""Answers that show themselves in a notebook: pictures, the confidence over time and verdicts, as HTML on its own.

Nothing is fetched and no script runs. Text takes the colour that is around it, so it reads on light and dark grounds.
Names of files may be anything, and are escaped.
"""

from __future__ import annotations

import base64
import io
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from earsight import protocols
from earsight.escape import brief, html
from earsight.localize.chart import confidence_chart
from earsight.localize.timeline import INK, Moment, Still, Timeline
from earsight.localize.view import View, drawn, jpeg
from earsight.overlay import PixelBox, scaled

if TYPE_CHECKING:
    from earsight.localize.localizer import Localization, Localizer

SIDE = 480
"""Most pixels of the longer side of a picture."""
POINTS = 400
"""Most moments that are drawn in a chart."""
_CHART = 640, 170
_LONGEST = 200  # letters of a name
_BOX = "max-width:700px;line-height:1.45;font-family:system-ui,sans-serif;font-size:13px"


def localization_html(answer: Localization) -> str:
    """The picture with heat, boxes and verdict, above what there is to know of it."""
    height, width = answer.map.shape
    y, x = divmod(int(answer.map.argmax()), width)
    moment = Moment(0.0, answer.verdict, answer.confidence, answer.confidence, (x, y), answer.boxes)
    view = View.of(moment, answer.map, protocols.get("exact"))  # the map has the size of the picture already
    words = [] if answer.silent else [f"confidence {answer.confidence:.3f}"]
    words += [f"threshold {answer.threshold:.3f}"] if answer.threshold is not None and not answer.silent else []
    words += [f"peak at ({x}, {y})"] if answer.visible is not False else []
    words += [_boxes(answer.boxes)] if answer.boxes else []
    about = ": ".join(filter(None, [_verdict(moment.verdict), ", ".join(words)]))
    picture = _img("jpeg", jpeg(drawn(scaled(answer.picture, SIDE), view, caption=())), moment.verdict, SIDE)
    return f'<div style="{_BOX}">{picture}<div>{about}; {width} x {height} pixels</div></div>'


def timeline_html(timeline: Timeline) -> str:
    """Some moments, the confidence over time with the threshold, and how many moments have which verdict."""
    items = timeline.items
    parts = [f"<div><b>{_text(_name(timeline.source))}</b>{_heard(timeline)}</div>"]
    if timeline.stills:
        stills = "".join(map(_figure, timeline.stills))
        grid = "display:grid;gap:6px;grid-template-columns:repeat(auto-fill,minmax(min(100%,200px),1fr))"
        parts.append(f'<div style="{grid}">{stills}</div>' if len(timeline.stills) > 1 else stills)
    if len(items) > 1:
        step = -(-len(items) // POINTS)
        parts.append(_chart(items[::step], timeline.threshold))
        parts += [f"<div>One of {step} moments is drawn.</div>"] if step > 1 else []
    counts = Counter(item.verdict for item in items)
    verdicts = ", ".join(f"{_verdict(one)} {counts[one]}" for one in INK if counts[one])
    parts.append(f"<div>{len(items)} moment{'s' * (len(items) != 1)}: {verdicts or 'none'}</div>")
    parts += ["<div>Stopped before the end.</div>"] if timeline.partial else []
    parts += [f"<div>Note: {_text(note)}.</div>" for note in timeline.notes]
    names = ", ".join(_text(file.name) for file in timeline.files)
    parts += [f'<div style="opacity:.7">written: {names}</div>'] if names else []
    return f'<div style="{_BOX}">{"".join(parts)}</div>'


def localizer_html(localizer: Localizer) -> str:
    """What answers, and how its verdicts come about."""
    inputs, calibration = localizer.inputs, localizer.meta.get("calibration") or {}
    limit = "none: the weights are not calibrated, so there are no verdicts"
    if localizer.threshold is not None:
        limit = f"{localizer.threshold:.3f}"
        alarm = calibration.get("false_alarm")
        if isinstance(alarm, int | float):
            limit += f", with {alarm:.0%} false alarms on validation clips"
    rows = {
        "method": localizer.model.name,
        "from": localizer.name,
        "protocol": str(localizer.protocol),
        "threshold": limit,
        "sees": f"{inputs.image_size} x {inputs.image_size} pixels",
        "hears": f"{inputs.seconds:g} s at {inputs.rate} Hz",
    }
    rows |= {"note": "; ".join(localizer.notes)} if localizer.notes else {}
    cells = "".join(
        f'<tr><td style="text-align:left;opacity:.7">{key}</td><td style="text-align:left">{_text(value)}</td></tr>'
        for key, value in rows.items()
    )
    return f'<div style="{_BOX}"><b>Localizer</b><table style="font:inherit;color:inherit">{cells}</table></div>'


def _img(kind: str, data: bytes, words: str, side: int) -> str:
    coded = base64.b64encode(data).decode()
    return f'<img src="data:image/{kind};base64,{coded}" alt="{html(words)}" style="max-width:min(100%,{side}px)">'


def _chart(items: Sequence[Moment], threshold: float | None) -> str:
    file = io.BytesIO()
    confidence_chart(items, threshold, *_CHART, "#868e99").save(file, "PNG")
    return _img("png", file.getvalue(), "Confidence over time", _CHART[0])


def _figure(still: Still) -> str:
    moment = still.moment
    words = f"{moment.time:.1f} s: {_verdict(moment.verdict)}" + ("" if moment.silent else f" {moment.confidence:.2f}")
    picture = _img("jpeg", still.jpeg, moment.verdict, SIDE)
    return f'<figure style="margin:0">{picture}<figcaption>{words}</figcaption></figure>'


def _verdict(verdict: str) -> str:
    return f'<b style="color:{INK[verdict]}">{html(verdict)}</b>'


def _boxes(boxes: Sequence[PixelBox]) -> str:
    """The boxes as text.

    >>> _boxes([(1, 2, 3, 4)])
    'box (1, 2, 3, 4)'
    """
    more = f" and {len(boxes) - 1} more" if len(boxes) > 1 else ""
    return f"box {boxes[0]}{more}"


def _heard(timeline: Timeline) -> str:
    same = timeline.sound == timeline.source
    return "" if same else f" with the sound of <b>{_text(_name(timeline.sound))}</b>"


def _name(path: str) -> str:
    return path.replace("\\", "/").rpartition("/")[2] or path


def _text(value: str) -> str:
    """Any text for a page, cut where it is long."""
    return html(brief(value, _LONGEST))
