"""python -m nkisim_validation validate|calibrate ...: what `nkisim validate`, ... run."""

import sys
from importlib import import_module

from .program import Failed

COMMANDS = ("validate", "calibrate")
INTERRUPTED = 130


def main():
    if len(sys.argv) < 2 or sys.argv[1] not in COMMANDS:
        print("usage: python -m nkisim_validation " + "|".join(COMMANDS) + " ...", file=sys.stderr)
        return 2
    command = sys.argv[1]
    try:
        return import_module(f"nkisim_validation.{command}").main(sys.argv[2:])
    except Failed as problem:
        print(f"nkisim {command}: {problem}", file=sys.stderr)
        return problem.code
    except KeyboardInterrupt:
        print(f"nkisim {command}: interrupted", file=sys.stderr)
        return INTERRUPTED


if __name__ == "__main__":
    sys.exit(main())
