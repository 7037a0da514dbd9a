#!/usr/bin/env python3
"""Writes the example programs in traces/ and their expected results; needs NumPy and ml_dtypes
only.

  make.py                      all committed traces, into this folder
  make.py --check              are the committed files what this script would write?
  make.py matmul_2048 [--out DIR]   one trace; those made on demand go to the current folder

An expected result is the kernel's formula in float64 NumPy on the trace's own inputs; nkisim has no
part in it.
"""
import argparse
import importlib
import json
import sys
from pathlib import Path

import numpy as np

FOLDER = Path(__file__).resolve().parent
sys.path.insert(0, str(FOLDER))
from builder import Trace  # noqa: E402
from generators import tensor_data  # noqa: E402

NAMES = ("tensor_add", "matmul_psum", "transpose", "softmax", "layernorm", "flash_attention",
         "mamba_scan", "gather_loop", "semaphores", "fp8_double_row", "rmsnorm_rope",
         "matmul_2048")


def kernel(name):
    return importlib.import_module(f"kernels.{name}")


def make(name):
    """The trace's text and its golden arrays."""
    module = kernel(name)
    trace = Trace(name, module.ABOUT, **getattr(module, "HEADER", {}))
    module.build(trace)
    inputs = {t["name"]: tensor_data(t) for t in trace.tensors.values() if t.get("role") == "input"}
    golden = {k: compact(v, trace.tensors[k]["dtype"]) for k, v in module.golden(inputs).items()}
    return trace.text(), golden


def compact(values, dtype):
    """float32; for outputs of 16 bits without the bits that are far below their rounding."""
    values = np.asarray(values, np.float32)
    if dtype not in ("bfloat16", "float16"):
        return values
    kept = 12 if dtype == "bfloat16" else 15  # significant bits: four more than the output has
    drop = np.uint32(24 - kept)
    bits = values.view(np.uint32) + (np.uint32(1) << (drop - np.uint32(1)))
    return (bits >> drop << drop).view(np.float32)


def expectations():
    entries = {}
    for name in NAMES:
        module = kernel(name)
        entries[name] = dict(about=module.ABOUT, targets=list(module.TARGETS), **module.TOLERANCE,
                             on_demand=getattr(module, "ON_DEMAND", False))
    return json.dumps(entries, indent=1) + "\n"


def write(name, folder):
    text, golden = make(name)
    (folder / f"{name}.jsonl").write_text(text, encoding="utf-8")
    np.savez_compressed(folder / f"{name}.npz", **golden)


def stale(name):
    """The differences between the committed files of a trace and those of make()."""
    text, golden = make(name)
    path = FOLDER / f"{name}.jsonl"
    if not path.exists() or path.read_text(encoding="utf-8") != text:
        yield path
    path = FOLDER / f"{name}.npz"
    committed = dict(np.load(path)) if path.exists() else {}
    # Not bit for bit: sums and exponentials may differ in the last place between NumPy builds.
    tolerance = 2.0 ** -11 if kernel(name).TOLERANCE["rtol"] > 1e-3 else 2.0 ** -22
    if committed.keys() != golden.keys() or not all(
            np.allclose(committed[k], golden[k], rtol=tolerance, atol=1e-7) for k in golden):
        yield path


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(NAMES))
    parser.add_argument("--check", action="store_true", help="compare, write nothing")
    parser.add_argument("--out", type=Path, help="folder to write to")
    args = parser.parse_args()
    unknown = [n for n in args.names if n not in NAMES]
    if unknown:
        parser.error(f"no trace is called {unknown[0]}; there are {', '.join(NAMES)}")
    names = args.names or [n for n in NAMES if not getattr(kernel(n), "ON_DEMAND", False)]
    if args.check:
        bad = [path for name in names for path in stale(name)]
        if (FOLDER / "expect.json").read_text(encoding="utf-8") != expectations():
            bad.append(FOLDER / "expect.json")
        for path in bad:
            print(f"{path.relative_to(FOLDER.parent)} is stale; run traces/make.py")
        return 1 if bad else 0
    for name in names:
        default = Path.cwd() if getattr(kernel(name), "ON_DEMAND", False) else FOLDER
        write(name, args.out or default)
    if not args.names:
        (FOLDER / "expect.json").write_text(expectations(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
