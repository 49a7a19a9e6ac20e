"""Lets the tests of this folder import the tiny models and clips of tests/tiny."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
