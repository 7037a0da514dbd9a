"""Computes column sums on two physical cores (LNC2): each sums half of the rows, then they exchange."""

import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np

from common import Case, main


@nki.jit
def lnc2_reduction(x):
    """x [rows, columns], rows a multiple of 256; launch as lnc2_reduction[2](x)."""
    rows, columns = x.shape
    cores, core = nl.num_programs(0), nl.program_id(0)
    share = rows // cores
    out = nl.ndarray((1, columns), dtype=nl.float32, buffer=nl.shared_hbm)
    ones = nl.full((128, 1), 1.0, dtype=nl.float32)
    # A matmul with a column of ones sums over partitions; PSUM adds up the tiles.
    total = nl.ndarray((1, columns), dtype=nl.float32, buffer=nl.psum)
    for start in nl.affine_range(core * share, (core + 1) * share, 128):
        nisa.nc_matmul(dst=total, stationary=ones, moving=nl.load(x[nl.ds(start, 128), :]))
    mine = nl.ndarray((1, columns), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_copy(dst=mine, src=total)
    if cores > 1:
        theirs = nl.ndarray((1, columns), dtype=nl.float32, buffer=nl.sbuf)
        nisa.sendrecv(src=mine, dst=theirs, send_to_rank=1 - core, recv_from_rank=1 - core,
                      pipe_id=0)
        nisa.tensor_tensor(dst=mine, data1=mine, data2=theirs, op=nl.add)
    if core == 0:
        nl.store(out, mine)
    return out


def cases():
    def inputs(rng):
        return [rng.random((1024, 256), np.float32)]

    def reference(x):
        return x.astype(np.float64).sum(axis=0, keepdims=True)

    return [Case("reduction, one core", lnc2_reduction, reference, inputs),
            Case("reduction, two cores", lnc2_reduction, reference, inputs,
                 targets=("trn2", "trn3"), grid=2)]


if __name__ == "__main__":
    main(cases())
