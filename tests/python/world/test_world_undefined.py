"""Tests which elements of a collective's result are undefined because some rank's part was never
written, wherever that rank stands in its group.
"""

import nki.collectives as ncc
import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest

import nkisim

RANKS, ROWS, COLUMNS = 3, 4, 8
X = np.random.default_rng(11).standard_normal((RANKS, ROWS, COLUMNS)).astype(np.float32)
GROUP = ncc.ReplicaGroup([[0, 1, 2]])


def hbm(rows):
    return nl.ndarray((rows, COLUMNS), dtype=nl.float32, buffer=nl.shared_hbm)


def result(operation, whole, first, count, timing):
    """Rows first to first + count of what `operation` gives where only rank `whole`'s second half is
    not written, on every rank."""
    def kernel(x, mine):
        src, out = hbm(ROWS), hbm(count)
        rows = ROWS if mine else ROWS // 2
        nisa.dma_copy(dst=src[0:rows], src=x[0:rows])
        if operation == "all_reduce":
            dst = hbm(ROWS)
            ncc.all_reduce([src], [dst], GROUP, nl.add)
        else:
            dst = hbm(RANKS * ROWS)
            ncc.all_gather([src], [dst], GROUP, 0)
        nisa.dma_copy(dst=out, src=dst[first:first + count])
        return out

    done = nkisim.run(kernel, nkisim.per_rank(list(X)), nkisim.per_rank([r != whole for r in range(RANKS)]),
                      ranks=RANKS, any_world=True, timing=timing)
    return [np.asarray(rank.outputs[0] if isinstance(rank.outputs, (list, tuple)) else rank.outputs)
            for rank in (done[r] for r in range(RANKS))]


@pytest.mark.parametrize("timing", [False, True], ids=["untimed", "timed"])
@pytest.mark.parametrize("rank", range(RANKS))
def test_a_sum_is_undefined_where_any_part_is(rank, timing):
    for got in result("all_reduce", rank, 0, ROWS // 2, timing):
        np.testing.assert_allclose(got, X[:, :ROWS // 2].sum(0), rtol=1e-6)
    for first in range(ROWS // 2, ROWS):
        with pytest.raises(nkisim.Error, match=f"undefined in {COLUMNS} of {COLUMNS} elements.*never written"):
            result("all_reduce", rank, first, 1, timing)


@pytest.mark.parametrize("timing", [False, True], ids=["untimed", "timed"])
@pytest.mark.parametrize("rank", range(RANKS))
def test_a_gathered_part_is_undefined_where_it_was(rank, timing):
    gap = rank * ROWS + ROWS // 2
    every = X.reshape(RANKS * ROWS, COLUMNS)
    for first, count in ((0, gap), (gap + ROWS // 2, RANKS * ROWS - gap - ROWS // 2)):
        if count:
            for got in result("all_gather", rank, first, count, timing):
                np.testing.assert_array_equal(got, every[first:first + count])
    for first in range(gap, gap + ROWS // 2):
        with pytest.raises(nkisim.Error, match=f"undefined in {COLUMNS} of {COLUMNS} elements.*never written"):
            result("all_gather", rank, first, 1, timing)
