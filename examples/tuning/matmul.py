"""A kernel with parameters for `nkisim tune`, C = A B with a_t [K, M]: data kept in SBUF, open sums, engine."""

import nki
import nki.isa as nisa
import nki.language as nl

P = 128


def load(source, rows, columns):
    tile = nl.ndarray((P, columns.size), dtype=source.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=source[rows, columns])
    return tile


def make(n_tile=128, keep="nothing", open_sums=1, copies="vector"):
    """n_tile: columns of a product. keep: what is loaded once (nothing, b, both). open_sums: tiles
    of C that are summed at a time. copies: engine that empties PSUM (vector, scalar, both)."""

    @nki.jit
    def matmul(a_t, b):
        (k_size, m_size), n_size = a_t.shape, b.shape[1]
        c = nl.ndarray((m_size, n_size), dtype=a_t.dtype, buffer=nl.shared_hbm)
        kept = {}

        def piece(name, source, k, columns):
            if keep == "nothing" or (keep == "b" and name == "a"):
                return load(source, nl.ds(k, P), columns)
            if (name, k) not in kept:
                kept[name, k] = load(source, nl.ds(k, P), nl.ds(0, source.shape[1]))
            return kept[name, k][:, columns]

        tiles = [(m, n) for n in range(0, n_size, n_tile) for m in range(0, m_size, P)]
        for first in range(0, len(tiles), open_sums):
            group = tiles[first:first + open_sums]
            sums = [nl.ndarray((P, n_tile), dtype=nl.float32, buffer=nl.psum) for _ in group]
            for k in range(0, k_size, P):
                for total, (m, n) in zip(sums, group):
                    nisa.nc_matmul(dst=total, stationary=piece("a", a_t, k, nl.ds(m, P)),
                                   moving=piece("b", b, k, nl.ds(n, n_tile)))
            for i, (total, (m, n)) in enumerate(zip(sums, group)):
                out = nl.ndarray((P, n_tile), dtype=c.dtype, buffer=nl.sbuf)
                if copies == "scalar" or (copies == "both" and i % 2):
                    nisa.activation(dst=out, op=nl.copy, data=total)
                else:
                    nisa.tensor_copy(dst=out, src=total, engine=nisa.vector_engine)
                nisa.dma_copy(dst=c[nl.ds(m, P), nl.ds(n, n_tile)], src=out)
        return c

    return matmul
