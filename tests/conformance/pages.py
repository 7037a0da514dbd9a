"""Counts how many of AWS's documentation pages of SDK 2.33 were read for nkisim (pages_2_33.json).

    python tests/conformance/pages.py         # counts, and the functions that were not looked up
    python tests/conformance/pages.py --all   # every page: state, what was read, examples, tests
"""

import collections
import json
import re
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
STATES = ("read", "changed", "not readable")
TABLE = HERE.parents[1] / "python" / "nkisim" / "record" / "public_api.txt"


def pages():
    """The rows of the table."""
    return json.loads((HERE / "pages_2_33.json").read_text(encoding="utf-8"))["pages"]


def functions():
    """The functions of SDK 2.33, as module.name."""
    found = set()
    for line in TABLE.read_text(encoding="utf-8").splitlines():
        if line.startswith("#"):
            continue
        module, when, rest = line.split(" ", 2)
        name = re.match(r"\w+\(", rest)
        if name and any(span.endswith("-2.33") for span in when.split(",")):
            found.add(f"{module}.{name[0][:-1]}")
    return found


def counts():
    """The number of pages of each state, functions not looked up, and examples read, right, refused, not read."""
    rows = pages()
    states = collections.Counter(row["state"] for row in rows)
    examples = [sum(row.get("examples", [0] * 4)[i] for row in rows) for i in range(4)]
    return states, sorted(functions() - {row["page"] for row in rows}), examples


def main(words):
    if "--all" in words:
        for row in pages():
            print("\t".join(str(row.get(key, "")) for key in ("page", "state", "read", "examples", "test")))
    states, others, examples = counts()
    print(", ".join(f"{states[state]} {state}" for state in STATES), f"{len(others)} functions not looked up", sep=", ")
    print("examples: {} read, {} right, {} refused, {} not read".format(*examples))
    print("not looked up:", ", ".join(others))


if __name__ == "__main__":
    main(sys.argv[1:])
