"""A row that a DMA skips because its elements, not its index, pass the end of its tensor is reported once."""

import warnings

import numpy as np
import pytest

import nkisim

nkisim.install()

import nki.isa as nisa  # noqa: E402
import nki.language as nl  # noqa: E402

ROWS, COLUMNS = 8, 4
X = np.arange(1, 1 + ROWS * COLUMNS, dtype=np.float32).reshape(ROWS, COLUMNS)


def pairs(width, scatter):
    """Runs of `width` elements from the rows that `rows` names: gathered from x, or scattered to a copy of it."""
    def kernel(x, rows):
        n = rows.shape[0]
        out = nl.ndarray((ROWS, COLUMNS) if scatter else (n, width), dtype=x.dtype, buffer=nl.shared_hbm)
        i = nl.ndarray((n, 1), dtype=rows.dtype, buffer=nl.sbuf)
        tile = nl.ndarray((n, width), dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=i, src=rows)
        nisa.memset(tile, 0.0)
        skip = nisa.oob_mode.skip
        if scatter:
            nisa.dma_copy(dst=out, src=x)
        far = (out if scatter else x).ap(pattern=[[COLUMNS, n], [1, width]], offset=0, vector_offset=i, indirect_dim=0)
        if scatter:
            nisa.dma_copy(dst=far, src=tile, oob_mode=skip)
        else:
            nisa.dma_copy(dst=tile, src=far, oob_mode=skip)
            nisa.dma_copy(dst=out, src=tile)
        return out
    return kernel


@pytest.mark.parametrize("timing", [True, False])
@pytest.mark.parametrize("scatter", [False, True], ids=["gather", "scatter"])
@pytest.mark.parametrize("width, rows, row", [
    (8, [5, 6, 7], 2), (8, [7, 6, 7], 0), (6, [0, 7, 1], 1),  # the run from row 7 on ends behind the tensor
    (4, [5, 6, 7], None), (8, [5, 6, 6], None), (4, [5, 9, 7], None),  # it ends within; row 9 is none of the tensor's
])
def test_it_is_reported(width, rows, row, scatter, timing):
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        result = nkisim.run(pairs(width, scatter), X, np.array(rows, np.uint32)[:, None], timing=timing)
    texts = [str(w.message) for w in said if "skips row" in str(w.message)]
    assert len(texts) == (row is not None)
    if row is not None:
        assert f"dma_copy: skips row {row} of " in texts[0] and "its index is 7" in texts[0]
    flat = X.reshape(-1)
    if not scatter:
        wanted = [flat[COLUMNS * r:COLUMNS * r + width] if COLUMNS * r + width <= flat.size else np.zeros(width)
                  for r in rows]
        assert np.array_equal(np.asarray(result.output), np.array(wanted, np.float32))


def test_it_is_a_warning_of_python():
    with pytest.raises(UserWarning, match="skips row 0"), warnings.catch_warnings():
        warnings.simplefilter("error")
        nkisim.run(pairs(8, False), X, np.array([7], np.uint32)[:, None])
