"""Runs `python -m nkisim`, which tools/script.py implements."""

import sys

from .tools.script import main

if __name__ == "__main__":
    sys.exit(main())
