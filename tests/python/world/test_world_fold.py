"""Tests that simulating equal ranks only once gives the same end time as simulating every rank."""

import nki.collectives as ncc
import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest

import nkisim

COLUMNS = 2048


class RandomCase:
    """A kernel of random transfers, computation and collectives on every core of every rank."""

    def __init__(self, seed):
        rng = np.random.default_rng(seed)
        self.ranks = int(rng.choice([2, 3, 4, 6, 8]))
        self.lnc = int(rng.choice([1, 2]))
        heavy = rng.integers(2)  # transfers that fill the stack of a pair
        kinds = ["load", "load", "load", "store"] if heavy else ["load", "compute", "product", "store"]
        self.steps = [(str(rng.choice([*kinds, "reduce", "gather", "tiles", "permute"])),
                       int(rng.integers(1, 9)), int(rng.choice([16, 64, 128]))) for _ in range(8)]
        size = int(rng.choice([s for s in (2, self.ranks) if self.ranks % s == 0]))
        self.groups = [list(range(r, r + size)) for r in range(0, self.ranks, size)]

    def kernel(self, x):
        core = nl.program_id(0) if self.lnc == 2 else 0
        group, size = ncc.ReplicaGroup(self.groups), len(self.groups[0])
        kept = nl.ndarray((2, 128, COLUMNS), dtype=x.dtype, buffer=nl.shared_hbm)
        tiles = [nl.ndarray((128, COLUMNS), dtype=x.dtype, buffer=nl.sbuf) for _ in range(4)]
        for tile in tiles:
            nisa.dma_copy(dst=tile, src=x[core])

        def meet(tensor):
            if self.lnc == 2:
                nisa.core_barrier(tensor, (0, 1))

        for i, (kind, count, rows) in enumerate(self.steps):
            if kind in ("load", "store"):
                for k in range(2 * count):
                    tile = tiles[k % 4][0:rows]
                    if kind == "load":
                        nisa.dma_copy(dst=tile, src=x[core][0:rows])
                    else:
                        nisa.dma_copy(dst=kept[core][0:rows], src=tile)
            elif kind == "compute":
                for k in range(count):
                    nisa.tensor_scalar(dst=tiles[k % 4], data=tiles[(k + 1) % 4], op0=nl.add, operand0=1.0)
            elif kind == "product":
                for k in range(count):
                    total = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.psum)
                    nisa.nc_matmul(dst=total, stationary=tiles[0][:, 0:128], moving=tiles[1][:, 0:512])
                    nisa.tensor_copy(dst=tiles[k % 4][:, 0:512], src=total)
            elif kind == "tiles":
                total = nl.ndarray((rows, 256), dtype=x.dtype, buffer=nl.sbuf)
                ncc.all_reduce([tiles[i % 4][0:rows, 0:256]], [total], group, nl.maximum)
                nisa.tensor_copy(dst=tiles[i % 4][0:rows, 0:256], src=total)
            else:
                src = nl.ndarray((rows, COLUMNS), dtype=x.dtype, buffer=nl.shared_hbm)
                dst = nl.ndarray((rows * (size if kind == "gather" else 1), COLUMNS), dtype=x.dtype,
                                 buffer=nl.shared_hbm)
                if core == 0:
                    nisa.dma_copy(dst=src, src=tiles[0][0:rows])
                meet(src)
                if kind == "reduce":
                    ncc.all_reduce([src], [dst], group, nl.add)
                elif kind == "gather":
                    ncc.all_gather([src], [dst], group, 0)
                else:
                    ncc.collective_permute_implicit([[src]], [[dst]], group)
                nisa.dma_copy(dst=tiles[1][0:rows], src=dst[0:rows])
        out = nl.ndarray((2, 128, COLUMNS), dtype=x.dtype, buffer=nl.shared_hbm)
        nisa.dma_copy(dst=out[core], src=tiles[core])
        if self.lnc == 1:
            nisa.dma_copy(dst=out[1], src=tiles[1])
        return out


@pytest.mark.parametrize("seed", range(24))
def test_times_are_those_of_every_rank(seed):
    drawn = RandomCase(seed)
    x = np.random.default_rng(seed).integers(-4, 5, (2, 128, COLUMNS)).astype(np.float32)
    once, every = (nkisim.run(drawn.kernel, x, ranks=drawn.ranks, lnc=drawn.lnc, fold=fold,
                              any_world=True, target="trn2") for fold in (True, False))
    for rank in range(drawn.ranks):
        assert once[rank].latency_ns == every[rank].latency_ns
        np.testing.assert_array_equal(once[rank].outputs, every[rank].outputs)


def moved(rows, registers):
    """A kernel that gathers rows of x, or takes one row by a register, as memory says."""
    def kernel(x, index):
        out = nl.ndarray((128, 64), dtype=x.dtype, buffer=nl.shared_hbm)
        at, tile = (nl.ndarray(s, dtype=t.dtype, buffer=nl.sbuf) for s, t in (((128, 1), index), ((128, 64), x)))
        nisa.dma_copy(dst=at, src=index)
        chosen = x
        if registers:
            row = nisa.register_alloc()
            nisa.register_load(row, at[0:1, 0:1])
            chosen = x.ap(pattern=[[0, 128], [1, 64]], offset=0, scalar_offset=row, indirect_dim=0)
        elif rows:
            chosen = x.ap(pattern=[[64, 128], [1, 64]], offset=0, vector_offset=at, indirect_dim=0)
        nisa.dma_copy(dst=tile, src=chosen)
        nisa.dma_copy(dst=out, src=tile)
        return out
    return kernel


@pytest.mark.parametrize("gathers", [True, False])
def test_addresses_that_memory_holds_take_no_other_time(gathers):
    """Ranks that gather other rows, or one row again and again, end at the same femtosecond: one stands for all."""
    x = np.arange(128 * 64, dtype=np.float32).reshape(128, 64)
    rows = [np.roll(np.arange(128, dtype=np.int32), r)[:, None] * (r < 3) for r in range(4)]
    once, every = (nkisim.run(moved(gathers, False), x, nkisim.per_rank(rows), ranks=4, target="trn2", fold=fold)
                   for fold in (True, False))
    assert once.timed_as == [0, 1, 0, 1]  # two ranks share an HBM stack
    assert every.timed_as == [0, 1, 2, 3]
    for rank in range(4):
        assert once[rank].span == every[rank].span
        for result in (once, every):
            np.testing.assert_array_equal(result[rank].outputs, x[rows[rank][:, 0]] if gathers else x)


def test_an_address_out_of_bounds_is_an_error_of_its_rank():
    x = np.zeros((128, 64), np.float32)
    rows = [np.full((128, 1), 128 * (r == 3), np.int32) for r in range(4)]
    with pytest.raises(nkisim.Error, match="rank 3"):
        nkisim.run(moved(True, False), x, nkisim.per_rank(rows), ranks=4, target="trn2")


def test_what_a_register_decides_is_simulated_for_every_rank():
    """Registers that memory holds may differ between ranks, and with them what waits for what."""
    x = np.arange(128 * 64, dtype=np.float32).reshape(128, 64)
    rows = [np.full((128, 1), r, np.int32) for r in range(4)]
    r = nkisim.run(moved(True, True), x, nkisim.per_rank(rows), ranks=4, target="trn2")
    assert r.timed_as == [0, 1, 2, 3]
    for rank in range(4):
        np.testing.assert_array_equal(r[rank].outputs, np.tile(x[rank], (128, 1)))
