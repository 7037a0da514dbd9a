"""Finds the k largest values of each row and their positions, eight at a time."""

import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np

from common import Case, main

K = 32


@nki.jit
def top_k(x):
    rows, columns = x.shape
    values = nl.ndarray((rows, K), dtype=x.dtype, buffer=nl.shared_hbm)
    places = nl.ndarray((rows, K), dtype=nl.uint32, buffer=nl.shared_hbm)
    for start in nl.affine_range(0, rows, 128):
        part = nl.ds(start, min(128, rows - start))
        tile = nl.load(x[part, :])
        best = nl.ndarray((part.size, K), dtype=x.dtype, buffer=nl.sbuf)
        where = nl.ndarray((part.size, K), dtype=nl.uint32, buffer=nl.sbuf)
        for i in nl.static_range(0, K, 8):
            eight = best[:, nl.ds(i, 8)]
            nisa.max8(dst=eight, src=tile)
            nisa.nc_find_index8(dst=where[:, nl.ds(i, 8)], data=tile, vals=eight)
            if i + 8 < K:  # take them out, so that the next round finds the next eight
                nisa.nc_match_replace8(dst=tile, data=tile, vals=eight, imm=nl.fp32.min)
        nl.store(values[part, :], best)
        nl.store(places[part, :], where)
    return values, places


def reference(x):
    places = np.argsort(-x, axis=1, kind="stable")[:, :K]
    return np.take_along_axis(x, places, axis=1), places


def cases():
    return [Case("top_k", top_k, reference,
                 lambda rng: [rng.permuted(np.tile(np.arange(256, dtype=np.float32), (150, 1)),
                                           axis=1)], rtol=0, atol=0)]


if __name__ == "__main__":
    main(cases())
