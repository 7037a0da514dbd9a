"""Tests that repeated simulations of several ranks leave nothing in the process's memory."""

import json

import pytest

from running import python

pytestmark = pytest.mark.process

#: Runs a world of 64 ranks RUNS times and says what the process holds after each, in MiB.
SCRIPT = """
import json, os, sys
import numpy as np
import nkisim
nkisim.install()
import nki.collectives as ncc
import nki.isa as nisa
import nki.language as nl

RANKS, RUNS, PROCESSES = (int(word) for word in sys.argv[1:])

def kernel(x):
    tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    src, dst, out = (nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm) for _ in range(3))
    nisa.dma_copy(dst=tile, src=x)
    nisa.dma_copy(dst=src, src=tile)
    ncc.all_reduce([src], [dst], ncc.ReplicaGroup([list(range(RANKS))]), nl.add)
    nisa.dma_copy(dst=out, src=dst)
    return out

def held():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2 ** 20

x = [np.full((128, 64), r, np.float32) for r in range(RANKS)]
after = []
for run in range(RUNS):
    result = nkisim.run(kernel, nkisim.per_rank(x), ranks=RANKS, fold=False, target="trn2", processes=PROCESSES)
    assert (result[RANKS - 1].outputs == sum(range(RANKS))).all()
    del result
    after.append(held())
print(json.dumps(after))
"""


def test_a_world_run_again_and_again_takes_no_more_memory():
    after = json.loads(python("-c", SCRIPT, 64, 20, 1).stdout)
    assert max(after[4:]) < after[3] + 8, after  # the first runs fill caches
    assert max(after) < 200, after
