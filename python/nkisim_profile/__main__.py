"""python -m nkisim_profile view|report|compare|sweep ...: what `nkisim view`, ... run."""

import sys
from importlib import import_module

COMMANDS = ("view", "report", "compare", "sweep")


def main():
    if len(sys.argv) < 2 or sys.argv[1] not in COMMANDS:
        print("usage: python -m nkisim_profile " + "|".join(COMMANDS) + " ...", file=sys.stderr)
        return 2
    return import_module(f"nkisim_profile.{sys.argv[1]}").main(sys.argv[2:])


if __name__ == "__main__":
    sys.exit(main())
