"""Words that the settings of commands share: how values are shown in the help, switches, devices."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import tyro


def word(metavar: str, *aliases: str, default: str | None = "") -> Any:
    """How a value is shown in the help; `default` None lets tyro tell the default."""
    return tyro.conf.arg(metavar=metavar, aliases=list(aliases) or None, help_behavior_hint=default)


Switch = Annotated[bool, tyro.conf.FlagCreatePairsOff, tyro.conf.arg(help_behavior_hint="")]
Device = Literal["auto", "cpu", "cuda"]
Many = Annotated[tuple[Path, ...], tyro.conf.Positional]
