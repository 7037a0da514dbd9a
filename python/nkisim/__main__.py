"""Runs `python -m nkisim script.py`: a script with nkisim's nki package in place of AWS's
(tools/script.py).
"""

import signal
import sys

from .tools.script import main

if __name__ == "__main__":
    if callable(signal.getsignal(signal.SIGINT)):  # the command's, which waits for the end of an import
        signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.exit(main())
