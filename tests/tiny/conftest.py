"""Lets pytest look for doctests here: these files import each other as the package `tiny`."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
