"""Runs `python -m nkisim_evaluate evaluate|tune ...`, which `nkisim evaluate` and `nkisim tune` start."""

import signal
import sys
from importlib import import_module

from nkisim_profile.plain import Plain

_COMMANDS = {"evaluate": "command", "tune": "tune_command"}


def main() -> int:
    sys.stdout, sys.stderr = Plain(sys.stdout), Plain(sys.stderr)
    if len(sys.argv) < 2 or sys.argv[1] not in _COMMANDS:
        print(f"usage: python -m nkisim_evaluate {'|'.join(_COMMANDS)} ...", file=sys.stderr)
        return 2
    interrupt = signal.getsignal(signal.SIGINT)
    signal.signal(signal.SIGTERM, interrupt if callable(interrupt) else signal.default_int_handler)  # ends the workers
    try:
        return import_module(f".{_COMMANDS[sys.argv[1]]}", __package__).main(sys.argv[2:])
    except KeyboardInterrupt:
        print(f"nkisim {sys.argv[1]}: interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:
        return 0


if __name__ == "__main__":
    sys.exit(main())
