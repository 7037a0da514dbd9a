"""Runs `python -m nkisim_model model CONFIG ...`, which `nkisim model` starts."""

import os
import sys


def main():
    if sys.argv[1:2] != ["model"]:
        print("usage: python -m nkisim_model model CONFIG ...", file=sys.stderr)
        return 2
    # Kernels of nki-library take the remainder of tiles of which a part is written; time alone is asked.
    os.environ.setdefault("NKISIM_ALLOW_UNWRITTEN", "1")
    import nkisim
    from nkisim_profile.plain import Plain

    nkisim.install()
    sys.stdout, sys.stderr = Plain(sys.stdout), Plain(sys.stderr)
    from .command import main as command

    return command(sys.argv[2:])


if __name__ == "__main__":
    sys.exit(main())
