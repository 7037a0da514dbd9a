"""Runs `python -m nkisim_validation validate|calibrate|probe ...`, which `nkisim validate` and the others start."""

import json
import sys
from importlib import import_module

from nkisim_profile.plain import Plain

from .program import Failed

COMMANDS = ("validate", "calibrate", "probe")
INTERRUPTED = 130
CODES = {2: "usage", 3: "bad_input"}


def say(command, problem):
    """An error on standard error and, with --json, as JSON on standard output as elsewhere."""
    text = f"nkisim {command}: {problem}"
    print(text, file=sys.stderr)
    if "--json" in sys.argv:
        print(json.dumps({"ok": False, "exit_code": problem.code, "error": {
            "code": CODES[problem.code], "message": str(problem), "text": text}}, indent=1))


def main():
    if len(sys.argv) < 2 or sys.argv[1] not in COMMANDS:
        print("usage: python -m nkisim_validation " + "|".join(COMMANDS) + " ...", file=sys.stderr)
        return 2
    sys.stdout, sys.stderr = Plain(sys.stdout), Plain(sys.stderr)
    command = sys.argv[1]
    try:
        return import_module(f"nkisim_validation.{command}").main(sys.argv[2:])
    except Failed as problem:
        say(command, problem)
        return problem.code
    except KeyboardInterrupt:
        print(f"nkisim {command}: interrupted", file=sys.stderr)
        return INTERRUPTED


if __name__ == "__main__":
    sys.exit(main())
