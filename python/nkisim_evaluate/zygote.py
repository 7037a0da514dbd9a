"""python -m nkisim_evaluate.zygote: forks a process for each candidate from one that has imported
everything already.

One JSON object a line comes in, {"job", "seconds", "memory_bytes"}, and one goes out, {"kind",
"result", "printed", "printed_bytes", "message"} of sandbox.Ended. It knows no inputs, no reference
and no other candidate.
"""

import gc
import importlib
import json
import sys

from nkisim.tools.install import install

from . import sandbox
from .candidate import describe

_WARM = ("nki", "nki.isa", "nki.language", "neuronxcc.nki", "neuronxcc.nki.isa",
         "neuronxcc.nki.language", "ml_dtypes", "math", "functools", "numpy.testing")


def serve(lines, out):
    """Answers every line until there are no more."""
    for line in lines:
        asked = json.loads(line)
        job = asked["job"]
        ended = sandbox.run(lambda: describe(job), asked["seconds"], asked["memory_bytes"])  # noqa: B023
        said = {"kind": ended.kind, "message": ended.message,
                "result": ended.result.decode("utf-8", "replace")}
        if ended.printed:
            said.update(printed=ended.printed, printed_bytes=ended.printed_bytes)
        out.write(json.dumps(said) + "\n")
        out.flush()


def main():
    install()
    for name in _WARM:
        importlib.import_module(name)
    missing = sandbox.isolate()
    gc.collect()
    gc.freeze()  # children share these pages
    sys.stdout.write(json.dumps({"ready": True, "missing": missing}) + "\n")
    sys.stdout.flush()
    serve(sys.stdin, sys.stdout)


if __name__ == "__main__":
    main()
