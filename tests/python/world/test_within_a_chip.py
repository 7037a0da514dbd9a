"""Tests all_to_all_v between the ranks of one chip of trn2."""

import nki.collectives as ncc
import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest

import nkisim


def hbm(shape, dtype=nl.float32):
    return nl.ndarray(shape, dtype=dtype, buffer=nl.shared_hbm)


def within_a_chip(share=1, displs=False):
    """Rank i's block j to rank j of its group, into a destination of `share` times the sources of the group."""
    def kernel(x, meta, group):
        ranks = meta.shape[1]
        src, dst, out = hbm(x.shape), hbm((int(x.shape[0] * ranks * share),)), hbm((int(x.shape[0] * ranks * share),))
        counts = hbm(meta.shape, nl.uint32)
        nisa.dma_copy(dst=dst, src=x.ap([[0, ranks], [1, x.shape[0]]]) if share == 1 else x[:dst.shape[0]])
        nisa.dma_copy(dst=src, src=x)
        nisa.dma_copy(dst=counts, src=meta)
        ncc.all_to_all_v([src], [dst], group, counts, has_rdispls=displs)
        nisa.dma_copy(dst=out, src=dst)
        return out

    return kernel


@pytest.mark.parametrize("groups", [[[0, 1, 2, 3]], [[0, 2], [1, 3]], [[0, 3], [1, 2]]])
def test_ranks_of_a_chip_of_trn2(groups):
    """A public port of DeepEP on a trn2 (NKI 0.7): groups within a chip are taken, of a destination of as many times
    the source as the group has ranks, without recv_displs."""
    ranks, block, size = len(groups[0]), 6, 64
    x = [np.arange(size, dtype=np.float32) + 100 * r for r in range(4)]
    meta = np.array([[block] * ranks, np.arange(ranks) * block, [0] * ranks], np.uint32)

    def go(kernel, meta=meta):
        return nkisim.run(kernel, nkisim.per_rank(x), meta, ncc.ReplicaGroup(groups), ranks=4, lnc=2, target="trn2",
                          allow_races=True)

    found = go(within_a_chip())
    for group in groups:
        for place, me in enumerate(group):
            got = np.asarray(found[me].outputs)
            for j, other in enumerate(group):
                sent = x[other][place * block:(place + 1) * block]
                np.testing.assert_array_equal(got[j * size:j * size + block], sent)
    text = rf"dsts is {size // 2} elements; {size * ranks}, the {ranks} ranks"
    with pytest.raises(nkisim.Error, match=text) as caught:
        go(within_a_chip(0.5 / ranks))
    assert caught.value.rule == "operand_size" and caught.value.kernel_line
    with pytest.raises(nkisim.Error, match="has_rdispls is true"):
        go(within_a_chip(displs=True), np.vstack([meta, meta[1:2]]))


def test_groups_across_chips_have_one_index():
    meta = np.zeros((3, 2), np.uint32)
    with pytest.raises(nkisim.Error, match="ranks of one chip, or of the same index in different instances"):
        nkisim.run(within_a_chip(), np.zeros(8, np.float32), meta, ncc.ReplicaGroup([[0, 4]]), ranks=8, lnc=2,
                   target="trn2", allow_races=True)
