"""Runs `python -m nkisim script.py`: a script with nkisim's nki package in place of AWS's
(tools/script.py).
"""

import sys

from .tools.script import main

if __name__ == "__main__":
    sys.exit(main())
