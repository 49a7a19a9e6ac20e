"""What text out of files looks like in each place that shows it."""

from __future__ import annotations

import pickle

import pytest

from earsight.errors import MediaError
from earsight.escape import html, latex, markdown, visible

HOSTILE = "a\x1b]0;x\x07\x9b\nb\r\t\u202e\u2028\u200e\ud800\U000e0041.mp4"
SHOWN = r"a\x1b]0;x\x07\x9b\nb\x0d\t\u202e\u2028\u200e\ud800\U000e0041.mp4"


def test_everything_that_cannot_be_seen_is_written_out() -> None:
    assert visible(HOSTILE) == SHOWN
    assert visible(SHOWN) == SHOWN


def test_words_of_any_language_stay() -> None:
    words = "Straße 東京 \u0645\u06cc\u200c\u062e\u0648 👩\u200d👧 a\u00a0b"
    assert visible(words) == words


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("![x](http://evil/a.png)", r"!\[x\](http\://evil/a.png)"),
        ("[x](javascript:1)", r"\[x\](javascript:1)"),
        ("<img src=x>", "&lt;img src=x&gt;"),
        ("`a` *b* _c_ ~~d~~", r"\`a\` \*b\* \_c\_ \~\~d\~\~"),
        ("www.evil.com", r"www\.evil.com"),
        ("a\n# b | c", r"a\\n# b \| c"),
        ("costs $5 and $6", r"costs \$5 and \$6"),
        ("## a", r"\## a"),
        ("- a", r"\- a"),
        ("+0.50", "+0.50"),
        ("-", "-"),
        ("soft_clusters-2.mp4", "soft_clusters-2.mp4"),
    ],
)
def test_markdown_shows_a_name_as_it_is(name: str, shown: str) -> None:
    assert markdown(name) == shown


def test_html_has_no_codes_and_no_tags() -> None:
    assert html('<b a="1">\x1b\n') == "&lt;b a=&quot;1&quot;&gt;\\x1b\\n"


def test_every_letter_that_latex_reads_is_escaped() -> None:
    assert latex("#$%&_{}") == r"\#\$\%\&\_\{\}"
    assert latex("\\~^<>|") == (
        r"\textbackslash{}\textasciitilde{}\textasciicircum{}\textless{}\textgreater{}\textbar{}"
    )
    assert latex("a\n b") == r"a\textbackslash{}n b"


def test_the_message_of_a_file_is_one_line() -> None:
    error = MediaError(HOSTILE, "is cut off:\nreally.", "Copy it again.")
    assert str(error) == rf"{SHOWN}: is cut off:\nreally. Copy it again."
    assert pickle.loads(pickle.dumps(error)).path == HOSTILE
