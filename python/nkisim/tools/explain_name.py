"""Implements `nkisim explain nl.tiles`: which releases of NKI have a name, and with which
signatures.
"""

import json
import sys

from ..record import names


def main(words=None):
    words = list(sys.argv[1:] if words is None else words)
    found = names.signatures_by_release(words[0])
    if not found:
        said = f"{words[0]}: no page of SDK 2.20 to 2.33 lists it"
        if "--json" in words:
            print(json.dumps({"ok": False, "exit_code": 2, "error": {"kind": "usage", "rule": "explained_name",
                                                                     "message": said}}, indent=1))
        print(f"nkisim: {said}", file=sys.stderr)
        return 2
    if "--json" in words:
        print(json.dumps({"ok": True, "name": words[0], "releases": [{"sdk": when, "signature": text}
                                                         for when, text in found]}, indent=1))
        return 0
    for when, text in found:
        print(f"SDK {when:14} {text}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
