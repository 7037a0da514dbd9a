"""Runs `python -m nkisim_editor lsp ...`, which `nkisim lsp` starts."""

import sys

from nkisim_work.extras import install_hint


def main():
    if sys.argv[1:2] != ["lsp"]:
        print("usage: python -m nkisim_editor lsp [--trust]", file=sys.stderr)
        return 2
    try:
        from .server import main as serve
    except ModuleNotFoundError as problem:
        if problem.name not in ("pygls", "lsprotocol"):
            raise
        print(f"nkisim lsp: {problem.name} is missing: {install_hint(problem.name)}", file=sys.stderr)
        return 3
    return serve(sys.argv[2:])


if __name__ == "__main__":
    sys.exit(main())
