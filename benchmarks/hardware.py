"""What a measurement was made on."""

from __future__ import annotations

import argparse
import os
import platform
import subprocess
from pathlib import Path
from typing import Any

import torch


def hardware(device: str, code: str) -> dict[str, Any]:
    """GPU, CPU, cores, torch, and the commit of the code."""
    gpu = torch.cuda.get_device_name() if device == "cuda" else ""
    return {
        "gpu": gpu,
        "cpu": _cpu(),
        "cores": len(os.sched_getaffinity(0)),
        "torch": torch.__version__,
        "commit": code,
    }


def device(name: str) -> str:
    """What --device takes: "cpu", or "cuda" where there is a GPU."""
    if name == "cuda" and not torch.cuda.is_available():
        raise argparse.ArgumentTypeError("Expected a GPU, but torch finds none. Give --device cpu.")
    return name


def commit() -> str:
    """The checkout's commit, with a + where files differ from it; unknown outside of one."""
    here = Path(__file__).parent
    try:
        asked = ["git", "describe", "--always", "--dirty=+", "--exclude=*"]
        found = subprocess.run(asked, cwd=here, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return found.stdout.strip()


def _cpu() -> str:
    info = Path("/proc/cpuinfo")
    lines = info.read_text(encoding="utf-8").splitlines() if info.is_file() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()
