"""HTML that is safe by construction: every word is escaped unless a function here made it."""

from __future__ import annotations

import base64
from collections.abc import Collection, Iterable, Mapping, Sequence

from earsight.escape import html
from earsight.report.tables import numeric


class Html(str):
    """Text that is HTML already."""

    __slots__ = ()


def tag(name: str, /, *content: str, **attributes: str | bool) -> Html:
    """An element; a word that is not Html is escaped, and `klass` stands for class.

    >>> tag("p", "1 < 2", tag("b", "so"), klass="a")
    '<p class="a">1 &lt; 2<b>so</b></p>'
    """
    written = [name]
    for key, value in attributes.items():
        key = {"klass": "class"}.get(key, key.replace("_", "-"))
        if value is True:
            written.append(key)
        elif value is not False:
            written.append(f'{key}="{html(str(value))}"')
    opened = " ".join(written)
    if name in ("img", "meta"):
        return Html(f"<{opened}>")
    return Html(f"<{opened}>{join(content)}</{name}>")


def join(parts: Iterable[str]) -> Html:
    """Parts one after another, escaped where they are not HTML yet."""
    return Html("".join(part if isinstance(part, Html) else html(part) for part in parts))


def html_table(rows: Sequence[Mapping[str, str]], klass: str = "", bold: Collection[int] = ()) -> Html:
    """Rows of equal keys, numbers to the right, the rows at `bold` in bold. A wide one scrolls in itself."""
    right = {name: "n" if number else False for name, number in numeric(rows).items()}

    def line(row: Mapping[str, str], kind: str, klass: str | bool = False) -> Html:
        return tag("tr", *(tag(kind, text, klass=right[name]) for name, text in row.items()), klass=klass)

    head = tag("thead", line({name: name for name in rows[0]}, "th"))
    body = tag("tbody", *(line(row, "td", "bold" if i in bold else False) for i, row in enumerate(rows)))
    return tag("div", tag("table", head, body, klass=klass or False), klass="scroll")


def image(content: bytes, kind: str, alt: str, klass: str = "") -> Html:
    """A picture inside the page; `kind` is png or jpeg."""
    data = base64.b64encode(content).decode("ascii")
    return tag("img", src=f"data:image/{kind};base64,{data}", alt=alt, klass=klass or False, loading="lazy")
