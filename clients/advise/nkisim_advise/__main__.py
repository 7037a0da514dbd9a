"""Runs `python -m nkisim_advise advise PROGRAM ...`, which `nkisim advise` starts."""

import sys


def main():
    if sys.argv[1:2] != ["advise"]:
        print("usage: python -m nkisim_advise advise PROGRAM ...", file=sys.stderr)
        return 2
    from nkisim_profile.plain import Plain

    from .command import main as command

    sys.stdout, sys.stderr = Plain(sys.stdout), Plain(sys.stderr)
    return command(sys.argv[2:])


if __name__ == "__main__":
    sys.exit(main())
