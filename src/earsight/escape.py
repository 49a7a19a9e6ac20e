"""Names and other text out of files, made harmless for each place that shows them.

A name may hold anything: codes that steer a terminal, line ends that forge a line, links, formulas. Whatever shows one
passes it through the function of that place here.
"""

from __future__ import annotations

import html as _html
import re
import unicodedata

_JOINERS = "\u200c\u200d"  # which words of some languages, and many emoji, are written with
_ENDS = {"\n": "\\n", "\t": "\\t"}
_MARKDOWN = re.compile(r"[\\`*\[\]|~$]|(?<![^\W_])_|_(?![^\W_])|^(?:#(?=#*\s)|[-+](?=\s))|:(?=//)|(?i:(?<=www)\.)")
_NUMBERS = re.compile(r"{0}(?: to {0})?".format(r"[-+]?\d+(?:\.\d+)?(?:e[-+]?\d+)?"))
_TEX = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    **{letter: f"\\{letter}" for letter in "&%$#_{}"},
}


def visible(text: str) -> str:
    r"""One line in which everything can be seen: line ends, control characters, marks of writing direction and bytes
    that are no text are written out. For the terminal, and the beginning of every other function here.

    >>> print(visible("clip\x1b[2J\nerror: \u202egpj.exe"))
    clip\x1b[2J\nerror: \u202egpj.exe
    """
    return text if text.isprintable() else "".join(map(_shown, text))


def brief(text: str, most: int) -> str:
    """One line of at most so many letters, for where there is no more room.

    >>> brief("a name that is long", 10)
    'a name ...'
    """
    shown = visible(text[: most + 1])
    return shown if len(shown) <= most else shown[: most - 3] + "..."


def markdown(text: str) -> str:
    r"""One line that Markdown shows as it is: no HTML, link, picture or emphasis, and inside its table cell.

    >>> print(markdown("<b>a|b</b> ![x](http://y)"))
    &lt;b&gt;a\|b&lt;/b&gt; !\[x\](http\://y)
    """
    return _MARKDOWN.sub(r"\\\g<0>", _html.escape(visible(text), quote=False))


def html(text: str) -> str:
    """One line for the content of an element, or an attribute in quotes.

    >>> html('<a href="x">')
    '&lt;a href=&quot;x&quot;&gt;'
    """
    return _html.escape(visible(text))


def latex(text: str) -> str:
    r"""One line that LaTeX sets as it is.

    >>> print(latex("50% of a_b & {c} \\ ~"))
    50\% of a\_b \& \{c\} \textbackslash{} \textasciitilde{}
    """
    return "".join(_TEX.get(letter, letter) for letter in visible(text))


def csv_cell(text: str) -> str:
    """One line that spreadsheets show and do not compute; numbers and dashes stay.

    >>> csv_cell("=HYPERLINK(A1)"), csv_cell("-0.50"), csv_cell("a=b")
    ("'=HYPERLINK(A1)", '-0.50', 'a=b')
    """
    is_formula = text[:1] in ("=", "+", "-", "@") and text != "-" and not _NUMBERS.fullmatch(text)
    return ("'" if is_formula else "") + visible(text)


def _shown(letter: str) -> str:
    if letter.isprintable() or letter in _JOINERS or unicodedata.category(letter) == "Zs":
        return letter
    code = ord(letter)
    return _ENDS.get(letter) or (
        f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
    )
