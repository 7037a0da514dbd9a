"""`nkisim mcp`: evaluate, explain and compare as tools of an agent, by the Model Context Protocol.

    nkisim mcp --reference softmax.py --reference matmul.py --target trn2

speaks on standard input and output. References are trusted and are those of the command line; an agent names one
of them and gives kernels as text, which are judged as `nkisim evaluate` judges any candidate (docs/security.md).
"""

import argparse
import pathlib
import sys

from nkisim_evaluate import BadReference, Settings
from nkisim_evaluate.command import size

from .mcp_server import make


def references_of(names):
    """{name: file} of the command line's files, by their names without ending. Raises BadReference."""
    found = {}
    for path in map(pathlib.Path, names):
        if path.stem in found:
            raise BadReference(f"two references are called {path.stem}")
        Settings(path).load()
        found[path.stem] = str(path)
    return found


def main(words):
    """Runs `nkisim mcp`; the exit code."""
    parser = argparse.ArgumentParser(prog="nkisim mcp", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--reference", action="append", required=True, metavar="REF.py",
                        help="what kernels are judged by (docs/evaluate.md); may be given several times")
    parser.add_argument("--target", help="trn1, inf2, trn2 or trn3")
    parser.add_argument("--timeout", type=float, default=60, metavar="SECONDS", help="per kernel (60)")
    parser.add_argument("--memory", type=size, default=4 << 30, metavar="SIZE", help="per process (4G)")
    args = parser.parse_args(words)
    try:
        references = references_of(args.reference)
    except BadReference as problem:
        print(f"nkisim mcp: {problem}", file=sys.stderr)
        return 3
    server, judges = make(references, target=args.target, timeout=args.timeout, memory=args.memory)
    try:
        server.run("stdio")
    finally:
        judges.close()
    return 0
