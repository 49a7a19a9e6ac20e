"""Five hundred hostile uploads against a running page: it still answers, and nothing of them is left."""

from __future__ import annotations

import re
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import hostile
import httpx
import pytest
from visiting import Visitor

COUNT = 500
VISITORS = 4  # at once, so that the page is kept busy
FLAGS = ("--max-mb", 2, "--max-seconds", 5, "--max-pixels", 1_000_000, "--every", 1, "--keep", 8)
REFUSAL = re.compile(r"Expected .+, but .+\. .+\.", re.DOTALL)


@pytest.mark.slow
def test_page_survives_hostile_uploads(serving, weights: Path, clips: Path, tmp_path: Path, record_property) -> None:  # type: ignore[no-untyped-def]
    outcomes: Counter[str] = Counter()
    with serving(weights, *FLAGS, "--max-run-seconds", 20) as (address, process, folder), Visitor(address) as visitor:
        kept = next(folder.glob("earsight-app-*"))
        for _ in range(5):
            visitor.ask(visitor.uploaded(clips / "good.mp4"))
        begin, before = _settled(process, kept), set(_files(kept))
        with ThreadPoolExecutor(VISITORS) as crowd:
            made = list(hostile.uploads(tmp_path, COUNT))
            for share in crowd.map(lambda at: _visit(address, made[at::VISITORS]), range(VISITORS)):
                outcomes += share
        assert outcomes.total() == COUNT
        assert outcomes["refused"] > COUNT / 3
        with Visitor(address) as late:
            assert late.ask(late.uploaded(clips / "good.mp4")).message == "", "the page still answers"
        end = _settled(process, kept)
        assert set(_files(kept)) == before, "no file is left behind"
        record_property("outcomes", dict(outcomes))
        record_property("megabytes", (round(begin), round(end)))
        assert end < 1.2 * begin, f"{begin:.0f} MB became {end:.0f} MB"
        assert httpx.get(f"{address}results/..%2f..%2f/etc%2fpasswd").status_code == 404
    assert not list(folder.rglob("pwned"))
    assert not Path("pwned").exists()


def _visit(address: str, uploads: list[tuple[str, bytes]]) -> Counter[str]:
    with Visitor(address) as visitor:
        return Counter(_attempt(visitor, name, data) for name, data in uploads)


def _attempt(visitor: Visitor, name: str, data: bytes) -> str:
    sent = visitor.upload(data, name)
    if sent.status_code != 200:
        assert sent.status_code in (400, 413), sent.text
        assert REFUSAL.search(sent.text), sent.text
        return "not taken"
    assert re.fullmatch('{"upload":"[0-9a-f]{32}"}', sent.text)
    answer = visitor.ask(sent.json()["upload"])
    if not answer.message:
        return "localized"  # some breaks leave a clip that can be used
    assert REFUSAL.search(answer.message), answer.message
    assert "earsight-app" not in answer.message
    assert "/" not in answer.message.replace("“", ""), answer.message
    return "refused" if "broke off" not in answer.message and "takes longer" not in answer.message else "stopped"


def _settled(process: int, kept: Path) -> float:
    """Megabytes of the page's processes once all files of visitors are swept."""
    for _ in range(300):
        if not list((kept / "files").iterdir()):
            break
        time.sleep(0.1)
    return sum(_megabytes(one) for one in (process, *_children(process)))


def _files(kept: Path) -> list[str]:
    return [str(one.relative_to(kept)) for one in kept.rglob("*")]


def _children(process: int) -> list[int]:
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            text = stat.read_text()
        except OSError:
            continue
        if int(text.rpartition(")")[2].split()[1]) == process:
            found.append(int(stat.parent.name))
    return found + [grand for child in found for grand in _children(child)]


def _megabytes(process: int) -> float:
    """Memory that a process has filled itself; what it only maps from files is shared with others that come and go."""
    try:
        rows = Path(f"/proc/{process}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0.0
    return sum(float(row.split()[1]) for row in rows if row.startswith("Anonymous:")) / 1000
