"""`nkisim mcp`: evaluate, explain and compare as tools of an agent, by the Model Context Protocol.

    nkisim mcp --reference softmax.py --reference matmul.py --target trn2

speaks on standard input and output. References are trusted and are those of the command line; an agent names one
of them and gives kernels as text, which `nkisim evaluate` tests and times as untrusted code (docs/security.md).
"""

import pathlib
import sys

from nkisim_evaluate import BadReference, Settings
from nkisim_evaluate.command import size
from nkisim_work.options import Parser

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
    parser = Parser("mcp", "--reference REF.py [options]",
                    "Evaluate, explain and compare as tools of an agent, by the Model Context Protocol.",
                    "nkisim mcp --reference softmax.py --reference matmul.py --target trn2",
                    __doc__.split("\n\n")[-1])
    parser.option("reference", action="append", required=True)
    parser.option("target")
    parser.option("timeout")
    parser.option("memory", type=size)
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
