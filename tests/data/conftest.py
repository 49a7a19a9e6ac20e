"""Lets the tests of this folder import the sets of tests/tiny and the makers of tests/media."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parents[1] / "media"))
