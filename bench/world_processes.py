"""Compares the speed of simulating many ranks in one process and in several, where every rank
differs.

    PYTHONPATH=build/release/python build/venv/bin/python bench/world_processes.py [RANKS] [PROCESSES]

Each rank works before and during its all-reduces for as long as its number says; without values, and with. The
runs alternate and the least of each counts; the kernel's Python time is left out.
"""

import sys

import nki.collectives as ncc
import nki.isa as nisa
import nki.language as nl
import numpy as np

import nkisim

ROWS, COLUMNS, LAYERS, REPEAT = 128, 512, 4, 3


def kernel(x, work, group):
    """Matrix products, a chain of additions whose length is the rank's own, an all-reduce; LAYERS times."""
    tile = nl.load(x)
    for _ in range(LAYERS):
        total = nl.ndarray((ROWS, COLUMNS), dtype=nl.float32, buffer=nl.psum)
        for _ in range(20):
            nisa.nc_matmul(dst=total, stationary=tile[:, 0:128], moving=tile)
        for _ in range(work):
            nisa.tensor_scalar(dst=tile, data=tile, op0=nl.add, operand0=1.0)
        nisa.tensor_copy(dst=tile, src=total)
        src, dst = (nl.ndarray((ROWS, COLUMNS), dtype=nl.float32, buffer=nl.shared_hbm) for _ in range(2))
        nisa.dma_copy(dst=src, src=tile)
        ncc.all_reduce([src], [dst], group, nl.add)
        for _ in range(work):
            nisa.tensor_scalar(dst=tile, data=tile, op0=nl.add, operand0=1.0)
        nisa.dma_copy(dst=tile, src=dst)
    out = nl.ndarray((ROWS, COLUMNS), dtype=nl.float32, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=tile)
    return out


def main():
    ranks, processes = (int(n) for n in (*sys.argv[1:], "16", "2")[:2])
    x = [np.full((ROWS, COLUMNS), r % 3, np.float32) for r in range(ranks)]
    work = nkisim.per_rank([200 + 10 * r for r in range(ranks)])
    group = ncc.ReplicaGroup([list(range(ranks))])
    for timing in ("only", True):
        best, latency = {}, set()
        for _ in range(REPEAT):
            for n in (1, processes):
                result = nkisim.run(kernel, nkisim.per_rank(x), work, group, ranks=ranks, processes=n,
                                    timing=timing, any_world=True, allow_races=True, target="trn2")
                best[n] = min(result.run_seconds, best.get(n, float("inf")))
                latency.add(result.latency_ns)
        assert len(latency) == 1
        print(f"{ranks} ranks, {'time and values' if timing is True else 'time only'}: "
              f"{best[1]:.2f} s in one process, {best[processes]:.2f} s in {processes}: "
              f"{best[1] / best[processes]:.2f} times as fast")


if __name__ == "__main__":
    main()
