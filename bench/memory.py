#!/usr/bin/env python3
"""Measures the host memory per instruction of kernels that grow, from Python: recorded, compiled, run.

    PYTHONPATH=build/release/python python bench/memory.py [--instructions N]

Each kernel runs in a process of its own, as a small and a large one: the growth of the peak over that of the
instructions is the row, less what its arguments and results grew by. Times are processor time an instruction.
"""
import argparse
import json
import subprocess
import sys
import time

import numpy as np

import nkisim

nkisim.install()

import neuronxcc.nki.isa as oisa  # noqa: E402
import neuronxcc.nki.language as onl  # noqa: E402
import nki.isa as nisa  # noqa: E402
import nki.language as nl  # noqa: E402
from nkisim.record.dialect import NEURONXCC, NKI  # noqa: E402
from nkisim.run import recording, session  # noqa: E402


def transposes(x, count):
    """Legacy: three instructions and three tiles for each block."""
    out = onl.ndarray(x.shape, dtype=x.dtype, buffer=onl.shared_hbm)
    for i in onl.affine_range(count // 3):
        j = i % 8
        tile = onl.load(x[0:128, j * 128:j * 128 + 128])
        onl.store(out[0:128, j * 128:j * 128 + 128], oisa.nc_transpose(tile))
    return out


def operators(x, count):
    """Legacy: a tile for each operator."""
    out = onl.ndarray(x.shape, dtype=x.dtype, buffer=onl.shared_hbm)
    for _ in onl.affine_range(count // 5):
        tile = onl.load(x)
        double = tile * 2.0
        onl.store(out, double + onl.exp(double))
    return out


def index_tiles(x, count):
    """Legacy: products whose addresses are index tiles, each sum in a tile of PSUM."""
    out = onl.ndarray(x.shape, dtype=x.dtype, buffer=onl.shared_hbm)
    rows, left, right = onl.arange(128)[:, None], onl.arange(128)[None, :], onl.arange(512)[None, :]
    for n in onl.affine_range(count // 14):
        total = onl.zeros((128, 512), onl.float32, buffer=onl.psum)
        for k in onl.affine_range(4):
            a = onl.load(x[rows, k * 128 + left])
            b = onl.load(x[rows, (k + n) % 2 * 512 + right])
            total[rows, right] += oisa.nc_matmul(a[rows, left], b[rows, right])
        onl.store(out[rows, n % 2 * 512 + right], value=onl.copy(total, dtype=x.dtype))
    return out


def tiles(x, count):
    """New API: two tiles for four instructions."""
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    for _ in range(count // 4):
        a = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
        b = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(a, x)
        nisa.tensor_scalar(b, a, nl.add, 1.0)
        nisa.tensor_tensor(a, a, b, nl.add)
        nisa.dma_copy(out, a)
    return out


def small(x, count):
    """New API: instructions of one partition on slices of one tile."""
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(tile, x)
    for i in range(count):
        part = tile[0:1, i % 64 * 8:i % 64 * 8 + 8]
        nisa.tensor_scalar(part, part, nl.add, 1.0)
    nisa.dma_copy(out, tile)
    return out


KERNELS = {"transposes": (transposes, NEURONXCC), "operators": (operators, NEURONXCC),
           "index tiles": (index_tiles, NEURONXCC), "tiles": (tiles, NKI), "small": (small, NKI)}


def peak():
    """Peak resident bytes of this process so far."""
    with open("/proc/self/status", encoding="ascii") as file:
        return next(int(line.split()[1]) << 10 for line in file if line.startswith("VmHWM"))


def measure(name, count):
    """Runs one size: (instructions, the peak and the seconds of each stage)."""
    kernel, dialect = KERNELS[name]
    x = np.zeros((128, 1024), np.float32)
    stages, clock = [], [time.process_time()]

    def note():
        stages.append((peak(), time.process_time() - clock[0]))
        clock[0] = time.process_time()

    recorded, compiled = session.record, session.compile_program
    sizes = []

    def record(*args):
        out = recorded(*args)
        sizes.append(len(out[0].program))
        note()
        return out

    def compile_program(*args):
        out = compiled(*args)
        note()
        return out

    session.record, session.compile_program = record, compile_program
    nkisim.run(kernel, x, count, target="trn2", legacy=dialect is NEURONXCC, timing="only")
    session.record, session.compile_program = recorded, compiled
    note()
    return sizes[0], stages


def growth(name, count):
    """(stage, bytes per instruction, us per instruction) of a kernel, in this process."""
    measure(name, 200)  # what is imported and made once
    few, before = measure(name, count // 4)
    many, after = measure(name, count)
    assert recording.record is session.record
    return [(stage, (b[0] - a[0]) / (many - few), (b[1] - a[1]) / (many - few) * 1e6)
            for stage, a, b in zip(("recorded", "compiled", "run"), before, after)]


def rows(count):
    for name in KERNELS:
        found = subprocess.run([sys.executable, __file__, "--kernel", name, "--instructions", str(count)],
                               check=True, text=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout
        yield name, json.loads(found)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--instructions", type=int, default=60_000)
    parser.add_argument("--kernel", choices=KERNELS, help="this one alone, in this process, as JSON")
    args = parser.parse_args()
    if args.kernel:
        print(json.dumps(growth(args.kernel, args.instructions)))
        return 0
    print("bytes an instruction at the peak, us an instruction   recorded   compiled        run")
    for name, stages in rows(args.instructions):
        print(f"memory     {name:42}" + "".join(f"{b:5.0f} {us:5.1f}" for _, b, us in stages))
    return 0


if __name__ == "__main__":
    sys.exit(main())
