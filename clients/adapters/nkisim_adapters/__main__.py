"""Runs `python -m nkisim_adapters mcp ...`, which `nkisim mcp` starts."""

import sys

from nkisim_work.extras import install_hint


def main():
    if sys.argv[1:2] != ["mcp"]:
        print("usage: python -m nkisim_adapters mcp --reference REF.py", file=sys.stderr)
        return 2
    try:
        from .mcp_command import main as serve
    except ModuleNotFoundError as problem:
        if problem.name != "mcp":
            raise
        print(f"nkisim mcp: mcp is missing: {install_hint('mcp')}", file=sys.stderr)
        return 3
    return serve(sys.argv[2:])


if __name__ == "__main__":
    sys.exit(main())
