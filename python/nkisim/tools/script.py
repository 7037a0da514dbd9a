"""python -m nkisim script.py [args]: runs a script with nkisim's nki; also `kernel ...`, `demo`, `new`, `doctor`."""

import os
import runpy
import sys

from nkisim_work.piped import Piped

from . import demo, doctor, kernel_cli, new
from .install import install

COMMANDS = {"kernel": kernel_cli.main, "demo": demo.main, "new": new.main, "doctor": doctor.main}


def main():
    if len(sys.argv) < 2 or sys.argv[1] in ("-h", "--help"):
        print(__doc__)
        return 2
    if sys.argv[1] in COMMANDS:
        sys.stdout = Piped(sys.stdout)
        return COMMANDS[sys.argv[1]](sys.argv[2:])
    install(devices=True)
    os.environ.setdefault("NKI_SIMULATOR", "1")
    script = sys.argv[1]
    sys.argv = sys.argv[1:]
    sys.path.insert(0, os.path.dirname(os.path.abspath(script)))
    if not os.path.exists(script):
        print(f"nkisim: {script} does not exist", file=sys.stderr)
        return 2
    runpy.run_path(script, run_name="__main__")
    return 0
