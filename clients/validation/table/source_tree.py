"""Finds the tree that this table is of, and its packages for a Python that has none installed."""

import sys
from pathlib import Path

#: The source tree, or in an installation the folder in its place.
ROOT = next(p for p in Path(__file__).resolve().parents if (p / "traces" / "builder.py").exists())
sys.path += [str(p) for p in (ROOT / "python", *sorted((ROOT / "clients").glob("*/"))) if p.is_dir()]
