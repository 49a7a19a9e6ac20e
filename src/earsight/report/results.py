"""Reports read back: what each evaluation in a report folder says, and its records."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from earsight.errors import DataError, EarsightError, UsageError
from earsight.escape import visible
from earsight.files import read_json
from earsight.header import unusable
from earsight.metrics.base import Records
from earsight.protocols import Protocol
from earsight.report.tables import called


@dataclass(frozen=True)
class Result:
    """One evaluation of a report.

    Args:
        report: the report's folder.
        model, set, list_hash, audio, n: as the report has them.
        full_list_hash: of the list with the clips that are missing.
        protocol: the protocol's settings, with its name and hash.
        metrics: fractions by name; what is undefined is NaN.
        records: the file of its records, or None when the report names none.
        warnings: what the report says must be known of it.
        missing: the clips of the list that it does without.
        training: how the model was trained, as the report has it; empty when that is unknown.
    """

    report: Path
    model: str
    set: str
    list_hash: str
    audio: str
    n: int
    protocol: dict[str, Any]
    metrics: dict[str, float]
    records: Path | None
    warnings: tuple[str, ...] = ()
    missing: frozenset[str] = frozenset()
    training: dict[str, Any] = field(default_factory=dict)
    full_list_hash: str = ""

    @property
    def protocol_hash(self) -> str:
        return str(self.protocol["hash"])

    @property
    def folder(self) -> str:
        """The folder's own name, also where it was given as "."."""
        return self.report.resolve().name

    @property
    def called(self) -> str:
        return called(self.model, self.audio)

    @property
    def trained_on(self) -> str:
        """What it was trained on, in a few words; "-" when that is unknown."""
        if not self.training.get("on"):
            return "-"
        some = f", {self.training.get('clips', '?')} clips" if self.training.get("limit") else ""
        truth = ", with ground truth" if self.training.get("supervised") else ""
        return visible(f"{self.training['on']}{some}{truth}")

    @property
    def early_stop(self) -> str:
        """Whether its epoch was chosen by results, and on what; "-" when that is unknown."""
        if "epoch" not in self.training:
            return "-"
        return "no" if self.training["epoch"] == "last" else visible(f"by {self.training.get('val') or 'validation'}")

    def rebuilt(self) -> Protocol | None:
        """The protocol as it was, or None when this earsight no longer does the same arithmetic."""
        values = {f.name: self.protocol[f.name] for f in fields(Protocol) if f.name in self.protocol}
        if values.get("level", 0.0) is None:
            values["level"] = math.nan
        try:
            protocol = Protocol(**values)
        except (EarsightError, TypeError):
            return None
        return protocol if protocol.hash == self.protocol_hash else None

    def read_records(self) -> Records:
        if self.records is None or not self.records.is_file():
            missing = "its metrics.json names none" if self.records is None else f"{self.records} is not there"
            raise DataError(
                f"Expected the records of {self.called} in {self.report}, but {missing}. Write the report again, "
                "or copy its whole folder."
            )
        try:
            return Records.read(self.records)
        except (OSError, ValueError) as error:  # what a damaged file raises is one of these
            told = " ".join(str(error).split())
            raise DataError(
                f"Expected the records of a report, but {self.records} cannot be read ({told}). Write the report again."
            ) from error


def read_report(folder: Path) -> list[Result]:
    """Every evaluation of the report in a folder, in its order."""
    path = folder / "metrics.json"
    if not path.is_file():
        there = "there is no such folder" if not folder.exists() else "it has no metrics.json"
        raise UsageError(
            f"Expected a report folder, but got {folder}: {there}. "
            "Name the --out of earsight eval or of earsight score."
        )
    try:
        values = read_json(path)
        found = [_result(folder, one) for one in values["evaluations"]]
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        told = f"no {error}" if isinstance(error, KeyError) else " ".join(str(error).split())
        raise DataError(
            f"Expected the numbers of a report, but {path} cannot be read ({told}). Write the report again."
        ) from error
    if not found:
        raise DataError(f"Expected evaluations in {path}, but got none. Write the report again.")
    return found


_NEEDED = {"model": str, "set": str, "list_hash": str, "n": int, "protocol": dict, "metrics": dict}
_OPTIONAL = {"audio": (str,), "warnings": (list,), "failures": (list,), "training": (dict,)}


def _result(folder: Path, one: dict[str, Any]) -> Result:
    if wrong := unusable(one, _NEEDED, _OPTIONAL):
        raise ValueError(f"no usable {', '.join(wrong)}")
    name = one.get("records")
    if name is not None and (not isinstance(name, str) or not name or Path(name).name != name):
        raise ValueError(f"its records {name!r} are not a file of the folder")
    metrics = {key: math.nan if value is None else float(value) for key, value in one["metrics"].items()}
    return Result(
        folder,
        visible(one["model"]),
        one["set"],
        one["list_hash"],
        one.get("audio", "real"),
        one["n"],
        {**one["protocol"], "hash": str(one["protocol"]["hash"])},
        metrics,
        None if name is None else folder / name,
        tuple(map(str, one.get("warnings", ()))),
        frozenset(str(failure["id"]) for failure in one.get("failures", ())),
        one.get("training", {}),
        str(one.get("full_list_hash", one["list_hash"])),
    )
