"""python -m nkisim: see tools/script."""

import sys

from .tools.script import main

if __name__ == "__main__":
    sys.exit(main())
