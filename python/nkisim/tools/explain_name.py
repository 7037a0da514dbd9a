"""python -m nkisim.tools.explain_name nl.tiles: the releases that have a name of NKI's, and its signatures."""

import json
import sys

from ..record import names


def main(words=None):
    words = list(sys.argv[1:] if words is None else words)
    found = names.spans(words[0])
    if not found:
        print(f"nkisim: {words[0]}: no page of SDK 2.20 to 2.33 lists it", file=sys.stderr)
        return 2
    if "--json" in words:
        print(json.dumps({"name": words[0], "releases": [{"sdk": when, "signature": text}
                                                         for when, text in found]}, indent=1))
        return 0
    for when, text in found:
        print(f"SDK {when:14} {text}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
