"""What the GPU's kernels compute, on a CPU."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.slow
def test_kernels_compute_what_the_plain_code_does() -> None:
    pytest.importorskip("triton", reason="no compiler for GPU kernels here")
    script = Path(__file__).parent / "tiny" / "interpreted.py"
    ran = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, env=os.environ)
    assert ran.returncode == 0, ran.stderr[-3000:]
