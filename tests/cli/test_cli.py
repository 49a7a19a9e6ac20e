"""The command line as a whole: help without heavy imports, unknown words, versions, and how commands end."""

from __future__ import annotations

import io
import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from earsight import __version__
from earsight.cli import COMMANDS, about, main, settings_of
from earsight.cli.data_check import DataCheck
from earsight.cli.demo import Demo
from earsight.cli.evaluate import Eval
from earsight.cli.localize import Localize
from earsight.cli.score import Score
from earsight.cli.settings import command_line
from earsight.cli.train import Train
from earsight.config import Inputs, Optim
from earsight.errors import DataError, EarsightError, UsageError

HEAVY = ("torch", "torchvision", "av", "matplotlib", "pyarrow", "numpy.testing", "rich.progress")
Captured = pytest.CaptureFixture[str]


def test_help_and_cheap_lists_import_nothing_heavy() -> None:
    code = (
        "import sys\n"
        "from earsight.cli import COMMANDS, main\n"
        "codes = [main(['--help']), main(['--version']), main([])]\n"
        "codes += [main([name, '--help']) for name in COMMANDS]\n"
        "codes += [main(['list', kind]) for kind in ('methods', 'sets', 'metrics', 'recipes')]\n"
        f"heavy = [name for name in {HEAVY!r} if name in sys.modules]\n"
        "sys.stderr.write(f'{sorted(set(codes))} {heavy}')\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr == "[0] []"
    assert "Show where the sound comes from" in done.stdout


def test_the_package_runs_as_a_module() -> None:
    done = subprocess.run([sys.executable, "-m", "earsight", "--version"], capture_output=True, text=True, check=True)
    assert done.stdout == f"earsight {__version__}\n"


def test_top_level_help_lists_every_command(capsys: Captured) -> None:
    assert main(["--help"]) == 0
    out = capsys.readouterr().out
    for name in COMMANDS:
        assert f"• {name} " in out


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_every_flag_has_a_help_line(name: str, capsys: Captured) -> None:
    assert main([name, "--help"]) == 0
    assert (settings_of(name).__doc__ or "").split(":")[0][:30] in capsys.readouterr().out


def test_help_of_a_method_shows_its_own_settings(capsys: Captured) -> None:
    assert main(["train", "slavc", "--help"]) == 0
    out = capsys.readouterr().out
    assert "--method.visual-dropout" in out
    assert "--method.encoders.image" in out


def test_unknown_command_suggests_the_nearest(capsys: Captured) -> None:
    assert main(["localise"]) == 2
    assert "Unknown command 'localise', did you mean 'localize'? Known: demo, train" in capsys.readouterr().err


def test_unknown_option_before_any_command_is_a_usage_error(capsys: Captured) -> None:
    assert main(["--fast"]) == 2
    assert "--fast" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("args", "known"),
    [
        (["eval", "w", "--on", "toybox", "--protocl", "exact"], "--protocol"),
        (["train", "slavc", "--on", "toybox", "-o", "r", "--method.visual-dropot", "0.5"], "--method.visual-dropout"),
        (["train", "slavc", "--on", "toybox", "-o", "r", "--optim.epoch", "5"], "--optim.epochs"),
    ],
)
def test_unknown_flag_names_the_nearest_known_one(args: list[str], known: str, capsys: Captured) -> None:
    assert main(args) == 2
    got = capsys.readouterr()
    assert known in got.err
    assert got.out == ""


@pytest.mark.parametrize(
    ("args", "told"),
    [
        (["list"], "{methods,encoders,samplers,sets,metrics,protocols,recipes,presets,tables}"),
        (["list", "colours"], "colours"),
        (["show"], "WEIGHTS|RUN|REPORT|PACK|MEDIA"),
        (["import", "a.pth"], "--out"),
        (["localize"], "WEIGHTS"),
        (["eval", "w"], "--on"),
        (["eval", "w", "--on", "toybox", "--batch-size", "many"], "--batch-size"),
        (["eval", "w", "--on", "toybox", "--device", "tpu"], "tpu"),
    ],
)
def test_wrong_usage_exits_with_2_and_says_what_is_wrong(args: list[str], told: str, capsys: Captured) -> None:
    assert main(args) == 2
    assert told in capsys.readouterr().err


def test_demo_gets_its_flags(monkeypatch: pytest.MonkeyPatch) -> None:
    from earsight.cli import demo

    settings: list[demo.Demo] = []
    monkeypatch.setattr(demo, "run", lambda one: settings.append(one) or 0)
    assert main(["demo"]) == 0
    assert main(["demo", "-o", "d", "--seed", "3", "--quick", "--force"]) == 0
    assert settings == [demo.Demo(), demo.Demo(out=Path("d"), seed=3, quick=True, force=True)]


def fail(monkeypatch: pytest.MonkeyPatch, error: BaseException) -> int:
    """Exit code of a command that ends with this error."""

    def raising(settings: object) -> int:
        raise error

    monkeypatch.setattr(about, "run", raising)
    return main(["list", "sets"])


@pytest.mark.parametrize(
    ("error", "code", "line"),
    [
        (EarsightError("Expected a, but got b. Do c."), 1, "earsight: error: Expected a, but got b. Do c.\n"),
        (UsageError("Expected a, but got b."), 2, "earsight: error: Expected a, but got b.\n"),
        (KeyboardInterrupt(), 130, "earsight: stopped by the user\n"),
        (PermissionError(13, "Permission denied", "/x"), 1, "earsight: error: Permission denied: /x\n"),
        (OSError("no room"), 1, "earsight: error: no room\n"),
        (
            ZeroDivisionError("by\nzero"),
            1,
            "earsight: internal error: ZeroDivisionError: by zero (set EARSIGHT_DEBUG=1 for the traceback)\n",
        ),
    ],
)
def test_an_error_is_one_line_and_an_exit_code(
    error: BaseException, code: int, line: str, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    monkeypatch.delenv("EARSIGHT_DEBUG", raising=False)
    assert fail(monkeypatch, error) == code
    assert capsys.readouterr() == ("", line)


def test_a_message_with_a_value_as_long_as_a_file_is_cut_in_its_middle(
    monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    assert fail(monkeypatch, DataError(f"Expected a number, but got {'9' * 1_000_000}. Correct it.")) == 1
    err = capsys.readouterr().err
    assert err.startswith("earsight: error: Expected a number, but got 999")
    assert err.endswith("999. Correct it.\n")
    assert len(err) < 2000


def test_debug_shows_the_traceback_of_a_bug(monkeypatch: pytest.MonkeyPatch, capsys: Captured) -> None:
    monkeypatch.setenv("EARSIGHT_DEBUG", "1")
    assert fail(monkeypatch, ZeroDivisionError("zero")) == 1
    assert "Traceback (most recent call last)" in capsys.readouterr().err


def test_only_the_first_process_prints(monkeypatch: pytest.MonkeyPatch, capsys: Captured) -> None:
    monkeypatch.setenv("RANK", "1")
    assert main(["list", "sets"]) == 0
    assert main(["list", "--bad"]) == 2
    assert fail(monkeypatch, UsageError("the same in every process")) == 2
    assert capsys.readouterr() == ("", "")


def test_a_failure_of_another_process_is_told_with_its_number(
    monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    monkeypatch.setenv("RANK", "3")
    assert fail(monkeypatch, DataError("clip lost")) == 1
    assert capsys.readouterr().err == "earsight: error in process 3: clip lost\n"


def test_a_reader_that_goes_away_is_no_error() -> None:
    """`earsight list metrics | head -0`: quiet, without a traceback at exit."""
    read, write = os.pipe()
    os.close(read)
    with os.fdopen(write, "wb") as pipe:
        done = subprocess.run(
            [sys.executable, "-m", "earsight", "list", "metrics"], stdout=pipe, stderr=subprocess.PIPE, check=False
        )
    assert done.returncode == 1
    assert done.stderr == b""


def test_names_that_the_terminal_cannot_show_do_not_end_a_command(monkeypatch: pytest.MonkeyPatch) -> None:
    raw = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(raw, encoding="ascii"))
    monkeypatch.setattr(about, "entries", lambda kind: [("nüsse", "")])
    assert main(["list", "sets"]) == 0
    assert raw.getvalue() == b"n?sse\n"


def test_a_command_without_stdout_and_stderr_still_has_its_exit_code(monkeypatch: pytest.MonkeyPatch) -> None:
    """`earsight list sets >&- 2>&-`: Python then has no streams at all."""
    monkeypatch.setattr(sys, "stdout", None)
    monkeypatch.setattr(sys, "stderr", None)
    assert main(["list", "sets"]) == 0
    assert main(["list-sets"]) == 2


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        RuntimeError("CUDA out of memory. Tried to allocate 2.00 GiB"),
        RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 20480000000000 bytes."),
    ],
)
def test_too_little_memory_is_no_bug(error: Exception, monkeypatch: pytest.MonkeyPatch, capsys: Captured) -> None:
    assert fail(monkeypatch, error) == 1
    assert capsys.readouterr().err.startswith("earsight: error: Expected enough memory, but there is too little. Use ")


URL = "https://example.org/a//b.mp4"


@pytest.mark.parametrize(
    "args",
    [
        ["localize", "run", URL],
        ["localize", URL, "clip.mp4"],
        ["localize", "run", "--image", URL, "--audio", "a.wav"],
        ["eval", URL, "--on", "toybox"],
        ["eval", "run", "--on", "folder", f"--data={URL}"],
        ["score", URL, "--on", "toybox"],
        ["train", "slavc", "--on", "folder", "--data", URL, "-o", "run"],
        ["train", "slavc", "--on", "toybox", "--method.encoders.weights", URL, "-o", "run"],
        ["import", URL, "-o", "w.safetensors"],
        ["show", URL],
        ["data", "prepare", "folder", "--data", URL, "-o", "pack"],
    ],
)
def test_a_url_is_refused_as_it_was_typed(args: list[str], capsys: Captured) -> None:
    assert main(args) == 2
    assert f"Expected a file or folder, but got {URL}: URLs are not opened. Download" in capsys.readouterr().err


def test_a_name_may_be_a_url(tmp_path: Path, capsys: Captured) -> None:
    assert main(["score", str(tmp_path / "gone.npz"), "--on", "toybox", "--name", URL]) == 1
    assert "there is nothing at" in capsys.readouterr().err


def test_python_calls_refuse_urls_too() -> None:
    from earsight.data.clips import open_set
    from earsight.localize import Localizer
    from earsight.mapfile import open_maps
    from earsight.media.read import read_image

    for call in (Localizer.load, open_maps, read_image, lambda url: open_set("folder", url)):
        for url in (URL, URL + ".onnx"):
            with pytest.raises(UsageError, match=f"Expected a file or folder, but got {url}: URLs are not opened"):
                call(url)


@pytest.mark.parametrize(
    ("settings", "line"),
    [
        (Eval(weights=(Path("my run"), Path("b")), on=("toybox", "vggss:test")), "'my run' b --on toybox vggss:test"),
        (
            Score(maps=Path("m.npz"), on="toybox", protocol=("paper",), bounds=(-1.0, 1.0), allow_missing=True),
            "m.npz --on toybox --protocol paper --bounds -1.0 1.0 --allow-missing",
        ),
        (Localize(weights=Path("exported"), inputs=(Path("a b.mp4"),), every=0.5), "exported 'a b.mp4' --every 0.5"),
        (Demo(), ""),
        (DataCheck(spec="folder", data=Path("d"), limit=3), "folder --data d --limit 3"),
    ],
)
def test_settings_print_the_command_line_that_gives_them(
    settings: Any, line: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = sys.modules[type(settings).__module__]
    parsed: list[object] = []
    monkeypatch.setattr(module, "run", lambda one: parsed.append(one) or 0)
    typed = command_line(settings)
    name = next(name for name in COMMANDS if settings_of(name) is type(settings))
    assert typed == f"earsight {name} {line}".rstrip()
    assert main(shlex.split(typed)[1:]) == 0
    assert parsed == [settings]


def test_nested_settings_are_printed_by_their_dotted_names() -> None:
    settings = Train(name="slavc", out=Path("r"), optim=Optim(epochs=2, compile=True), inputs=Inputs(flip=False))
    assert command_line(settings) == ("earsight train slavc --out r --inputs.no-flip --optim.epochs 2 --optim.compile")


def test_a_module_from_outside_is_allowed_in_front(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("EARSIGHT_MODULES", raising=False)
    line = command_line(Train(out=Path("r"), resume=True), "lab.mine", "toybox")
    assert line == "EARSIGHT_MODULES=lab.mine earsight train --out r --resume"
