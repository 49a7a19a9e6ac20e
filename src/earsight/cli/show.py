"""`earsight show`: what a weights file, a run, a report, a pack or a media file is."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

import tyro

from earsight import files
from earsight.cli.about import entries
from earsight.cli.screen import flat, pairs, say, say_json
from earsight.cli.settings import Json, word
from earsight.cli.train import resuming
from earsight.errors import EarsightError, UsageError
from earsight.escape import visible
from earsight.header import unusable
from earsight.onnxfile import is_export, read_config

STATES = ("state.pt", "state.previous.pt")
LAST = 5
"""Log lines of a run that are shown."""
_MORE = ", in percent (all numbers: --json)"


@dataclass(frozen=True, kw_only=True)
class Show:
    """Tell what weights, a run, a report, a pack or a media file is."""

    path: Annotated[Path, tyro.conf.Positional, word("WEIGHTS|RUN|REPORT|PACK|MEDIA", default=None)]
    """The file or folder."""
    json: Json = False


def run(settings: Show) -> int:
    values = look(settings.path)
    if settings.json:
        say_json(values)
    else:
        say(TEXTS[values["kind"]](values))
    return 0


def look(path: Path) -> dict[str, Any]:
    """Find out what lies at a path and read it; "kind" says what it is."""
    if path.is_dir():
        return look_in(path)
    if not path.exists():
        kinds = ("methods", "encoders", "samplers", "sets", "metrics", "recipes", "tables", "protocols")
        kind = next((kind for kind in kinds if str(path).partition(":")[0] in dict(entries(kind))), "")
        do = f"It is one of the {kind}: see earsight list {kind}." if kind else "Check the name."
        raise UsageError(f"Expected a file or folder, but there is nothing at {path}. {do}")
    if path.suffix in (".pth", ".pt"):
        raise UsageError(
            f"Expected earsight weights, a run, a report or a media file, but got {path}. "
            f"If it is an official checkpoint, use: earsight import {path} -o {path.with_suffix('.safetensors').name}"
        )
    if path.name in ("run.json", "metrics.json"):
        return look_in(path.parent)
    return (of_weights if path.suffix == ".safetensors" else of_media)(path)


def look_in(folder: Path) -> dict[str, Any]:
    from earsight.data.manifest import is_pack, splits_in

    if is_export(folder):
        size = sum(file.stat().st_size for file in folder.iterdir())
        return {"kind": "exported", "path": str(folder), "bytes": size, **read_config(folder)}
    for name, read in {"run.json": of_run, "metrics.json": of_report, "weights.safetensors": of_weights}.items():
        if (folder / name).is_file():
            return read(folder)
    if splits_in(folder) or is_pack(folder):
        return of_pack(folder)
    inside = sorted(str(file.parent) for name in ("run.json", "metrics.json") for file in folder.glob(f"*/{name}"))
    do = "Name the folder of one or of a pack, a weights file or a media file."
    if inside:
        do = f"Name one in it: {' or '.join(inside[:3])}."
    raise UsageError(f"Expected a run (with run.json) or a report (with metrics.json), but {folder} has neither. {do}")


def of_weights(path: Path) -> dict[str, Any]:
    from earsight.header import find_weights, read_header

    file = find_weights(path)
    return {"kind": "weights", "path": str(file), "bytes": file.stat().st_size, **read_header(file)}


def weights_text(values: dict[str, Any]) -> str:
    head = {
        "method": values["method"],
        "protocol": values.get("protocol", "-"),
        "size": _bytes(values["bytes"]),
        "calibration": _calibration(values),
    }
    if values.get("knows"):
        head["knows"] = values["knows"]
    kind = "an exported earsight model" if values["kind"] == "exported" else "earsight weights"
    parts = [f"{visible(values['path'])}: {kind}", pairs(head)]
    titles = {"config": "settings", "imported": "imported from"}
    for key in ("config", "inputs", "imported", "training", "versions"):
        found = flat(values.get(key) or {})
        if shown := {k: v for k, v in found.items() if not k.startswith(("job.config.", "job.inputs."))}:
            parts += [f"{titles.get(key, key)}:", pairs(shown, 4)]
    for name, numbers in values.get("metrics", {}).items():
        if isinstance(numbers, dict) and numbers:
            parts += [f"measured on {name}{_MORE}:", pairs(_chosen(numbers), 4)]
    return "\n".join(parts)


def _calibration(values: Mapping[str, Any]) -> str:
    """The threshold that weights carry and what passes it, or why they have none."""
    found = values.get("calibration")
    if not found:
        why = values.get("uncalibrated", "verdicts need weights trained with a validation set that has negatives")
        return f"none: {why}"
    said = f"visible from confidence {found['threshold']:.4f} on"
    if {"recall", "false_alarm", "negatives"} <= found.keys():
        alarms = f"{found['false_alarm']:.1%} of {found['negatives']} negatives"
        said += f": {found['recall']:.1%} of positives and {alarms} pass"
    return said


def _chosen(numbers: Mapping[str, Any]) -> dict[str, str]:
    """The numbers that come first, in percent."""
    from earsight.metrics.base import headings, without_negatives

    known = {name: value for name, value in numbers.items() if isinstance(value, int | float)}
    titles = headings(negatives=not without_negatives(known))
    return {title: f"{100 * known[name]:.2f}" for name, title in titles.items() if name in known}


def of_run(path: Path) -> dict[str, Any]:
    from earsight.training.log import read_log

    settings = _read_json(path / "run.json", "a run's settings", {"method": str, "optim": dict})
    rows = read_log(path / "log.jsonl")
    trained = [row for row in rows if "loss" in row]
    measured = [row for row in rows if "val" in row]
    done = (path / "weights.safetensors").is_file()
    saved = any((path / name).is_file() for name in STATES)
    header = of_weights(path) if done else {}
    return {
        "kind": "run",
        "path": str(path),
        "state": "finished" if done else "can be resumed" if saved else "not saved yet",
        **{key: header[key] for key in ("calibration", "uncalibrated") if key in header},
        "epochs": settings["optim"].get("epochs"),
        "epoch": trained[-1].get("epoch", 0) + 1 if trained else 0,
        "step": trained[-1].get("step", 0) if trained else 0,
        "validation": measured[-1]["val"] if measured else {},
        "log": rows[-LAST:],
        "settings": settings,
    }


def run_text(values: dict[str, Any]) -> str:
    head = {
        "state": values["state"],
        "progress": f"epoch {values['epoch']} of {values['epochs']}, step {values['step']}",
    }
    if values["state"] == "finished":
        head["calibration"] = _calibration(values)
    parts = [f"{visible(values['path'])}: a run of {visible(str(values['settings'].get('method')))}", pairs(head)]
    if values["validation"]:
        parts += [f"last validation{_MORE}:", pairs(_chosen(values["validation"]), 4)]
    settings = {k.replace("config.", "method.", 1): v for k, v in flat(values["settings"]).items()}
    parts += ["settings:", pairs(settings, 4)]
    if values["log"]:
        parts += ["last lines of the log:", *(f"    {visible(_line(row))}" for row in values["log"])]
    if values["state"] == "can be resumed":
        parts += [visible(f"go on with: {resuming(Path(values['path']), values['settings'])}")]
    return "\n".join(parts)


def of_report(path: Path) -> dict[str, Any]:
    return {"kind": "report", "path": str(path), **_read_json(path / "metrics.json", "a report", {"evaluations": list})}


def report_text(values: dict[str, Any]) -> str:
    """The table that was written with the report, which says more than its numbers alone."""
    table = Path(values["path"]) / "table.md"
    if not table.is_file():
        raise UsageError(f"Expected {table} beside metrics.json, but it is not there. Use --json to see the numbers.")
    page = Path(values["path"]) / "report.html"
    told = f", with a page for the browser: {visible(str(page))}" if page.is_file() else ""
    return f"{visible(values['path'])}: a report{told}\n\n{table.read_text(encoding='utf-8').rstrip()}"


def of_pack(path: Path) -> dict[str, Any]:
    from earsight.data.manifest import BEGUN, MANIFEST, read_json, read_manifest, splits_in

    splits = []
    for folder in splits_in(path):
        if not (folder / MANIFEST).is_file():
            begun = read_json(folder / BEGUN)
            splits.append({"set": str(begun.get("set")), "folder": str(folder), "finished": False})
            continue
        made = read_manifest(folder)
        splits.append(
            {
                "set": made.set,
                "folder": str(folder),
                "finished": True,
                "clips": made.rows,
                "limit": made.limit,
                "list_hash": made.list_hash,
                "shards": len(made.shards),
                "bytes": made.bytes,
                "settings": asdict(made.settings),
                "failed": [asdict(failed) for failed in made.failed],
            }
        )
    return {"kind": "pack", "path": str(path), "splits": splits}


def pack_text(values: dict[str, Any]) -> str:
    parts = [f"{visible(values['path'])}: a pack" + ("" if values["splits"] else ", with nothing in it")]
    for split in values["splits"]:
        parts.append(visible(split["set"]) + (":" if split["finished"] else ": not finished; run data prepare again"))
        if split["finished"]:
            packed, failed = split["settings"], split["failed"]
            facts = {
                "clips": f"{split['clips']}" + (f" (limit {split['limit']})" if split["limit"] else ""),
                "not packed": f"{len(failed)}" + (", such as {id}: {reason}".format(**failed[0]) if failed else ""),
                "pictures": f"JPEG of quality {packed['quality']}, shorter side at most {packed['size']}",
                "sound": f"{packed['seconds']:g} s at {packed['rate']} samples per second, 16-bit",
                "size": f"{_bytes(split['bytes'])} in {split['shards']} shard{'s'[: split['shards'] != 1]}",
                "list": split["list_hash"],
            }
            parts.append(pairs(facts, 4))
    return "\n".join(parts)


def of_media(path: Path) -> dict[str, Any]:
    from earsight.media.read import probe

    values = asdict(probe(path))
    return {"kind": "media", **values, "path": str(path), "fps": float(values["fps"]) if values["fps"] else None}


def media_text(values: dict[str, Any]) -> str:
    picture = f"{values['width']}x{values['height']}"
    facts = {
        "what": "picture" if values["is_image"] else "video" if values["has_video"] else "sound",
        "duration": None if values["duration"] is None else f"{values['duration']:.3f} s",
        "picture": picture if values["width"] else None,
        "frames": None if values["fps"] is None else f"{values['fps']:.5g} per second",
        "rotation": f"{values['rotation']} degrees clockwise" if values["rotation"] else None,
        "sound": f"{values['rate']} samples per second, {values['channels']} channel{'s'[: values['channels'] > 1]}"
        if values["has_audio"]
        else "none",
    }
    return f"{visible(values['path'])}: a media file\n{pairs({k: v for k, v in facts.items() if v is not None})}"


def _read_json(path: Path, what: str, needed: Mapping[str, type]) -> dict[str, Any]:
    try:
        values = files.read_json(path)
        if isinstance(values, dict) and not (wrong := unusable(values, needed)):
            return values
        got = f"got no usable {', '.join(wrong)}" if isinstance(values, dict) else f"got a {type(values).__name__}"
    except ValueError as error:
        got = f"it is damaged ({error})"
    raise EarsightError(f"Expected {what} in {path}, but {got}. Make it again.")


def _line(row: dict[str, Any]) -> str:
    """A row of the log; of a validation what training itself shows.

    >>> _line({"step": 4, "epoch": 0, "val": {"ap": 0.5, "max_f1": 0.25, "loc_acc": 1.0, "auroc": 0.0}})
    'step 4  epoch 0  AP 50.00  max-F1 25.00  LocAcc 100.00'
    """
    from earsight.training.log import shown

    words = [f"{k} {v:.4g}" if isinstance(v, float) else f"{k} {v}" for k, v in row.items() if k != "val"]
    return "  ".join([*words, *([shown(row["val"])] if "val" in row else [])])


def _bytes(count: int) -> str:
    """A file's size in words.

    >>> _bytes(512), _bytes(1_500_000)
    ('512 B', '1.5 MB')
    """
    return f"{count} B" if count < 1000 else f"{count / 1e3:.1f} kB" if count < 1e6 else f"{count / 1e6:.1f} MB"


TEXTS: dict[str, Callable[[dict[str, Any]], str]] = {
    "weights": weights_text,
    "exported": weights_text,
    "run": run_text,
    "report": report_text,
    "pack": pack_text,
    "media": media_text,
}
