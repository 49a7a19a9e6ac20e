"""The package with its core dependencies alone, in a virtual environment of its own: without torch and pyarrow.

No package is downloaded. The wheel is built from this checkout, and what its metadata asks for is linked in from the
environment that runs the tests, so a dependency that pyproject.toml does not name is missing here too.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import urllib.request
import venv
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

import make
import numpy as np
import pytest

from earsight.data.clips import open_set
from earsight.export import export_onnx

ROOT = Path(__file__).parents[2]
MIB = 1 << 20


def requirements(name: str, extra: str = "") -> set[str]:
    """The packages that a distribution asks for, with those of an extra, and all that they ask for in turn."""
    found: set[str] = set()
    todo = [(name, extra)]
    while todo:
        current, wanted = todo.pop()
        for line in distribution(current).requires or ():
            spec, _, marker = line.partition(";")
            match = re.search(r"extra\s*==\s*['\"]([\w-]+)['\"]", marker)
            if match and match[1] != wanted:
                continue
            parts = re.match(r"\s*([\w.-]+)\s*(?:\[([\w,-]+)\])?", spec)
            assert parts is not None
            package = parts[1]
            try:
                distribution(package)
            except PackageNotFoundError:  # for another platform or version of Python
                continue
            if package.lower() not in found:
                found.add(package.lower())
                todo.append((package, parts[2] or ""))
    return found - {name}


def link(packages: set[str], site: Path) -> int:
    """Put packages of this environment into another one; returns their bytes."""
    size = 0
    for name in packages:
        one: Distribution = distribution(name)
        tops = set()
        for file in one.files or ():
            if ".." not in file.parts and file.parts[0] != "__pycache__":
                tops.add(file.parts[0])
                place = Path(str(one.locate_file(file)))
                size += place.stat().st_size if place.is_file() else 0
        for top in tops:
            if not (site / top).exists():
                (site / top).symlink_to(Path(str(one.locate_file(top))))
    return size


def environment(folder: Path, wheel: Path, extra: str = "") -> tuple[Path, int]:
    """A virtual environment with the wheel and what it asks for: its Python, and the bytes of all packages."""
    venv.create(folder, with_pip=False, symlinks=True)
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    site = folder / "lib" / version / "site-packages"
    subprocess.run(
        [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--no-index", "--target", str(site), str(wheel)],
        check=True,
    )
    return folder / "bin" / "python", link(requirements("earsight", extra), site)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("wheel")
    words = ["wheel", "-q", "--no-deps", "--no-build-isolation", "--no-index", "-w", str(out), str(ROOT)]
    subprocess.run([sys.executable, "-m", "pip", *words], check=True)
    return next(out.glob("*.whl"))


def run(python: Path, *words: object, folder: Path) -> str:
    env = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}
    done = subprocess.run(
        [python, "-m", "earsight", *map(str, words)], cwd=folder, env=env, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
def test_localize_score_and_compare_work_with_the_core_alone(wheel: Path, tmp_path: Path) -> None:
    python, size = environment(tmp_path / "core", wheel)
    assert size < 500 * MIB
    for name in ("torch", "pyarrow", "torchvision", "onnx"):
        assert subprocess.run([python, "-c", f"import {name}"], capture_output=True, check=False).returncode == 1
    toys = ROOT / "examples" / "toys.safetensors"
    export_onnx(toys, tmp_path / "model")
    make.steps(tmp_path / "clip.mp4", 1.2)
    run(python, "localize", "model", "clip.mp4", "--out", "found", "--format", "mp4,png,json,npz", folder=tmp_path)
    assert json.loads((tmp_path / "found" / "clip.earsight.json").read_text(encoding="utf-8"))["items"]
    assert (tmp_path / "found" / "clip.earsight.mp4").stat().st_size > 1000
    rows = open_set("toybox:extended").rows
    maps = np.random.default_rng(0).random((len(rows), 7, 7), np.float32)
    np.savez(tmp_path / "maps.npz", id=[row.id for row in rows], maps=maps)
    for report in ("one", "two"):
        run(python, "score", "maps.npz", "--on", "toybox:extended", "--out", report, folder=tmp_path)
    assert (tmp_path / "one" / "index.html").is_file() or list((tmp_path / "one").glob("*.html"))
    assert "one" in run(python, "compare", "one", "two", "--draws", "50", folder=tmp_path)
    for command in (["list", "methods"], ["show", "model"], ["show", str(toys)], ["doctor"]):
        run(python, *command, folder=tmp_path)


@pytest.mark.slow
def test_the_page_works_with_its_extra_alone(wheel: Path, tmp_path: Path) -> None:
    python, _ = environment(tmp_path / "app", wheel, "app")
    export_onnx(ROOT / "examples" / "toys.safetensors", tmp_path / "model")
    make.steps(tmp_path / "clip.mp4", 1.2)
    command = [python, "-m", "earsight", "app", "model", "--port", "0"]
    env = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")} | {"PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(command, cwd=tmp_path, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as server:
        assert server.stdout is not None
        try:
            lines = (line.decode() for line in server.stdout)
            address = next(found[0] for line in lines if (found := re.search(r"http://127\.0\.0\.1:\d+", line)))
            with urllib.request.urlopen(address, timeout=60) as answer:
                assert answer.status == 200
                assert b"<title>" in answer.read()
        finally:
            server.send_signal(signal.SIGINT)
            server.wait(60)
