"""The web page: whole, safe, self-contained, and readable whatever was measured."""

from __future__ import annotations

import re
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from earsight.evaluation import Evaluation
from earsight.protocols import get
from earsight.report import write as write_module
from earsight.report.figures import Tile
from earsight.report.write import Attachments, write_report

Make = Callable[..., Evaluation]
EVIL = "<script>alert('x')</script>\"&"


class Seen(HTMLParser):
    """Every element and word of a page; elements must close in order."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in ("img", "meta"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if "style" not in self.open:
            self.text += data


def look(folder: Path, *evaluations: Evaluation, **attached: Any) -> Seen:
    write_report(folder, evaluations, Attachments(**attached), draws=10)
    seen = Seen()
    seen.feed((folder / "report.html").read_text(encoding="utf-8"))
    seen.close()
    assert seen.open == []
    return seen


def tile(**changes: Any) -> Tile:
    return Tile(np.zeros((3, 32, 32), np.uint8), np.eye(32, dtype=np.float32), **changes)


def test_the_page_needs_nothing_else(make: Make, tmp_path: Path) -> None:
    seen = look(tmp_path, make(), make("silent"), make("none", model="centre prior"), tiles={"Best": [tile()]})
    names = {name for name, _ in seen.tags}
    assert not names & {"script", "link", "iframe", "object", "embed"}
    pictures = [attributes["src"] or "" for name, attributes in seen.tags if name == "img"]
    assert len(pictures) == 5
    assert all(src.startswith(("data:image/png;base64,", "data:image/jpeg;base64,")) for src in pictures)
    text = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert not re.search(r"@import|url\(|https?://", re.sub(r"base64,[A-Za-z0-9+/=]+", "", text))
    assert len(text) < 3_000_000
    assert all(attributes.get("alt") for name, attributes in seen.tags if name == "img")


def test_links_lead_somewhere(make: Make, tmp_path: Path) -> None:
    seen = look(tmp_path, make(rows=400), make(protocol=get("official")))
    there = {f"#{attributes['id']}" for _, attributes in seen.tags if "id" in attributes}
    for name, attributes in seen.tags:
        if name == "a":
            href = attributes["href"] or ""
            assert href in there or (tmp_path / href).is_file()
    assert {"#part-0", "#part-1"} <= there


def test_words_of_users_are_words(make: Make, tmp_path: Path) -> None:
    failures = ((EVIL, f"{EVIL} is broken"),)
    model = make(model=EVIL, id=EVIL, failures=failures, set_name=EVIL, warnings=(EVIL,), kinds=("positive", EVIL))
    others = [make("shuffled", model=EVIL, set_name=EVIL, id=EVIL), make(model="other", set_name=EVIL)]
    tiles = {EVIL: [tile(caption=EVIL, id=EVIL)]}
    seen = look(tmp_path, model, *others, tiles=tiles, command=EVIL, values={EVIL: {EVIL: EVIL}})
    assert "script" not in {name for name, _ in seen.tags}
    assert not any(name.startswith("on") for _, attributes in seen.tags for name in attributes)
    assert seen.text.count(EVIL) > 12


def test_the_page_says_what_counts(make: Make, tmp_path: Path) -> None:
    missing = tuple((f"gone{i}", f"/my/data/gone{i}.jpg: is not there.") for i in range(200))
    model, centre = make(failures=missing, rows=400), make("none", ciou=0.4, model="centre prior")
    seen = look(tmp_path, model, make("shuffled", ciou=0.3), centre, command="earsight eval runs/x --on set")
    for words in (
        "slavc on set:test",
        "200 of 400 clips are missing (50.0%)",
        f"Protocol exact ({model.protocol.hash}), dense maps thresholded, 200 of 400 clips, list abc.",
        f"floor {100 * model.floor:.2f}",
        f"ceiling {100 * model.ceiling:.2f}",
        f"centre prior {100 * centre.metrics['loc_acc']:.2f}",
        "Audio drop",
        "200 clips could not be read and are not counted",
        "gone199 gone199.jpg: is not there.",
        "strict_hits",
        "earsight eval runs/x --on set",
    ):
        assert words in seen.text, words
    assert "/my/data" not in seen.text
    order = [seen.text.index(words) for words in ("Before you trust", "Audio drop", "By size of the", "How it was")]
    assert order == sorted(order)


def test_several_models_and_protocols_have_contents_and_sections(make: Make, tmp_path: Path) -> None:
    official = get("official")
    seen = look(tmp_path, make(), make(model="other"), make(protocol=official), make(model="other", protocol=official))
    assert [attributes["id"] for name, attributes in seen.tags if name == "section"] == ["part-0", "part-1"]
    assert "nav" in {name for name, _ in seen.tags}
    assert seen.text.count("other: numbers and plots") == 2


@pytest.mark.parametrize("kinds", [("positive",), ("easy",)])
def test_half_a_list_makes_a_page_without_empty_plots(make: Make, tmp_path: Path, kinds: tuple[str, ...]) -> None:
    seen = look(tmp_path, make(kinds=kinds))
    assert len([name for name, _ in seen.tags if name == "img"]) == (4 if kinds == ("positive",) else 1)
    assert "Undefined: the list has no clips with" in seen.text
    assert "Not measured: the model was not run with another clip's sound" in seen.text
    assert "nan" not in seen.text


def test_many_plots_are_linked_where_the_page_would_grow_too_large(
    make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(write_module, "INLINE", 150_000)
    seen = look(tmp_path, make(), make(model="other"))
    inside = len([name for name, _ in seen.tags if name == "img"])
    linked = set(re.findall(r"plots/[a-z0-9-]+?-set-test-other\.png", seen.text))
    assert 1 <= inside <= 5
    assert "plots/confidence-set-test-other.png" in linked
    assert all((tmp_path / name).is_file() for name in linked)


def test_a_page_of_priors_alone_is_written(make: Make, tmp_path: Path) -> None:
    assert "Priors on set:test" in look(tmp_path, make("none", model="centre prior")).text
