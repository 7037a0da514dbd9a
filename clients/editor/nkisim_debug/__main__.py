"""Runs `python -m nkisim_debug debug PROGRAM ...`, which `nkisim debug` starts."""

import sys


def main():
    if sys.argv[1:2] != ["debug"]:
        print("usage: python -m nkisim_debug debug PROGRAM ...", file=sys.stderr)
        return 2
    from .command import main as command

    return command(sys.argv[2:])


if __name__ == "__main__":
    sys.exit(main())
