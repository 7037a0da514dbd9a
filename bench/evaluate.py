"""Measures how many submitted kernels per second `nkisim evaluate` tests and times, and the share
of each stage.

    PYTHONPATH=build/release/python NKISIM_PROGRAM=build/release/nkisim python bench/evaluate.py
    ... bench/evaluate.py --pipe 10000    # that many through one pipe: memory, losses, mistakes

Targets on two cores: 10 a second for record and time at 2,000 instructions, 2 at 20,000; 2 with
values at a product of 512^3.
"""

import argparse
import json
import os
import pathlib
import resource
import subprocess
import sys
import tempfile
import time

from nkisim_evaluate import Evaluator, Settings

CHAIN_REFERENCE = """
import numpy as np
SEEDS = (0,)
def inputs(seed):
    return np.random.default_rng(seed).standard_normal((128, 512), dtype=np.float32),
def reference(x):
    return x
"""
#: Tiles that are loaded, added to, scaled and stored; COUNT instructions, VARIANT makes each text new.
CHAIN = """
import nki, nki.isa as nisa, nki.language as nl
@nki.jit
def kernel(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    variant = VARIANT
    for i in range(COUNT // 4):
        t = nl.ndarray((128, 64), dtype=x.dtype, buffer=nl.sbuf)
        part = nl.ds(i % 8 * 64, 64)
        nisa.dma_copy(dst=t, src=x[:, part])
        nisa.tensor_scalar(dst=t, data=t, op0=nl.add, operand0=0.0)
        nisa.activation(dst=t, data=t, op=nl.copy)
        nisa.dma_copy(dst=out[:, part], src=t)
    return out
"""
PRODUCT_REFERENCE = """
import ml_dtypes, numpy as np
SEEDS, ATOL = (0,), 0.5
def inputs(seed):
    rng = np.random.default_rng(seed)
    return [rng.standard_normal((512, 512)).astype(ml_dtypes.bfloat16) for _ in range(2)]
def reference(a_t, b):
    return a_t.astype(np.float32).T @ b.astype(np.float32)
"""
PRODUCT = """
import nki, nki.isa as nisa, nki.language as nl
@nki.jit
def kernel(a_t, b):
    out = nl.ndarray((512, 512), dtype=nl.float32, buffer=nl.shared_hbm)
    variant = VARIANT
    rows = []
    for k in range(4):
        left = nl.ndarray((128, 512), dtype=a_t.dtype, buffer=nl.sbuf)
        right = nl.ndarray((128, 512), dtype=b.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=left, src=a_t[nl.ds(k * 128, 128), :])
        nisa.dma_copy(dst=right, src=b[nl.ds(k * 128, 128), :])
        rows.append((left, right))
    for m in range(4):
        total = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.psum)
        for left, right in rows:
            nisa.nc_matmul(dst=total, stationary=left[:, nl.ds(m * 128, 128)], moving=right)
        tile = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_copy(dst=tile, src=total)
        nisa.dma_copy(dst=out[nl.ds(m * 128, 128), :], src=tile)
    return out
"""


def candidates(text, count, number):
    for i in range(number):
        yield {"id": i, "source": text.replace("COUNT", str(count)).replace("VARIANT", str(i))}


def rate(reference, text, count, number, jobs, values):
    """(candidates per second, share of each stage) once the workers are warm."""
    stages, settings = {}, Settings(reference, target="trn2", values=values)
    with Evaluator(settings, jobs) as evaluator:
        list(evaluator.records(candidates(text + "# warm\n", count + 4, jobs)))
        begin = time.perf_counter()
        for record in evaluator.records(candidates(text, count, number)):
            assert record["status"] == "ok", record
            for name, seconds in record["stage_seconds"].items():
                stages[name] = stages.get(name, 0) + seconds
        seconds = time.perf_counter() - begin
    total = sum(stages.values())
    return number / seconds, {name: s / total for name, s in stages.items()}


def peak(pid):
    text = pathlib.Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    return int(text.split("VmRSS:")[1].split()[0]) / 1024


def pipe(reference, number, jobs):
    """So many candidates through one process, three in four right; says what came back."""
    words = [sys.executable, "-m", "nkisim_evaluate", "evaluate", "--reference", reference,
             "--candidates", "-", "--target", "trn2", "--jobs", str(jobs), "--timeout", "20"]
    process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    if os.fork() == 0:
        for i in range(number):
            text = CHAIN.replace("COUNT", str(40)).replace("VARIANT", str(i))
            if i % 4 == 3:
                text = text.replace("operand0=0.0", "operand0=1.0")
            process.stdin.write(json.dumps({"id": i, "source": text}) + "\n")
        process.stdin.close()
        os._exit(0)
    process.stdin.close()
    seen, sizes, latencies, begin = {}, [], set(), time.perf_counter()
    for line in process.stdout:
        record = json.loads(line)
        seen[record["id"]] = record["status"]
        latencies.add(record["latency_us"])
        if len(seen) % max(number // 10, 1) == 0:
            sizes.append(peak(process.pid))
            print(f"  {len(seen):6} done, {len(seen) / (time.perf_counter() - begin):.1f}/s, "
                  f"{sizes[-1]:.0f} MiB", flush=True)
    process.wait()
    wrong = [i for i, s in seen.items() if s != ("wrong" if i % 4 == 3 else "ok")]
    print(f"pipe: {number} sent, {len(seen)} came back, {len(wrong)} judged otherwise, "
          f"latencies {sorted(latencies)} us; memory {sizes[0]:.0f} MiB at a tenth, "
          f"{sizes[-1]:.0f} MiB in the end")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--pipe", type=int, metavar="CANDIDATES")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        chain, product = pathlib.Path(folder) / "chain.py", pathlib.Path(folder) / "product.py"
        chain.write_text(CHAIN_REFERENCE, encoding="utf-8")
        product.write_text(PRODUCT_REFERENCE, encoding="utf-8")
        if args.pipe:
            pipe(chain, args.pipe, args.jobs)
            return
        for name, reference, text, count, number, values in (
                ("2,000 instructions, record and time", chain, CHAIN, 2000, 60, False),
                ("20,000 instructions, record and time", chain, CHAIN, 20000, 12, False),
                ("512^3 product, with values on two seeds", product, PRODUCT, 0, 40, True)):
            found, shares = rate(reference, text, count, number, args.jobs, values)
            said = ", ".join(f"{n} {100 * s:.0f} %" for n, s in shares.items())
            print(f"{name}: {found:.1f} a second ({said})")
    print(f"peak memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MiB")


if __name__ == "__main__":
    main()
