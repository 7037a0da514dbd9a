#!/usr/bin/env python3
"""Measures the extra cost of simulating an instruction some of whose operands were never written.

    bench/undefined.py [--program build/release/nkisim] [--program OTHER] [--loops 200]

A program executes each operation --loops times for its values (`nkisim run --functional`), once on
a tile of which only the upper half of the rows is written and once on a whole one; the result is
thrown away. With several programs, they alternate. Processor time, the least of three.
"""
import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests" / "hazards"))
from corpus import Trace  # noqa: E402

OPS = {
    "tensor_copy": lambda t: t.copy("o", "t"),
    "tensor_copy, cast": lambda t: t.copy("b", "t"),
    "tensor_tensor add": lambda t: t.op("tensor_tensor", dst="o", data1="t", data2="t", op="add",
                                        engine="vector"),
    "tensor_scalar max": lambda t: t.op("tensor_scalar", dst="o", data="t", op0="maximum",
                                        operand0=0.0, engine="vector"),
    "activation exp": lambda t: t.op("activation", dst="o", op="exp", data="t"),
    "tensor_reduce add": lambda t: t.op("tensor_reduce", dst="c", op="add", data="t", axis=[1]),
    "nc_matmul": lambda t: t.op("nc_matmul", dst="p", stationary="w", moving="t"),
    "dma_copy": lambda t: t.dma("h", "t"),
}


def trace(path, op, rows, loops):
    t = Trace(explicit=False)
    t.hbm("h")
    for name in "to":
        t.chip(name)
    t.chip("b", dtype="bfloat16")
    t.chip("c", (128, 1))
    t.chip("w", (128, 128))
    t.chip("p", space="psum", address=0)
    t.fill("w")
    t.fill(f"t[0:{rows}]")
    begin = len(t.lines)
    OPS[op](t)
    body = json.dumps(t.lines.pop()) + "\n"
    assert len(t.lines) == begin
    path.write_text(t.text() + body * loops)


def seconds(program, path):
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([program, "run", path, "--functional", "-q"], check=True,
                   stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", type=os.path.abspath, action="append")
    parser.add_argument("--loops", type=int, default=200)
    args = parser.parse_args()
    programs = args.program or [str(ROOT / "build" / "release" / "nkisim")]
    print("one [128, 512] float32 tile     us defined   us half undefined (ratio)")
    with tempfile.TemporaryDirectory() as folder:
        for op in OPS:
            runs = {}
            for _ in range(3):
                for rows, count in ((128, 0), (128, args.loops), (64, args.loops)):
                    path = Path(folder) / f"{rows}-{count}.jsonl"
                    trace(path, op, rows, count)
                    for program in programs:
                        runs.setdefault((program, rows, count), []).append(seconds(program, path))

            def cost(program, rows, runs=runs):
                return 1e6 * (min(runs[program, rows, args.loops]) - min(runs[program, 128, 0])) / args.loops

            print(f"{op:30}", "  ".join(
                f"{cost(p, 128):8.0f} {cost(p, 64):14.0f} ({cost(p, 64) / max(cost(p, 128), 1):.1f})"
                for p in programs), flush=True)


if __name__ == "__main__":
    main()
