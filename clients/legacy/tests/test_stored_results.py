"""Tests neuronxcc.nki results stored into a tile of another dtype: later reads see the unrounded
values.
"""

import ml_dtypes
import numpy as np
import pytest

import nkisim

nkisim.install()

import neuronxcc.nki as nki  # noqa: E402
import neuronxcc.nki.isa as nisa  # noqa: E402
import neuronxcc.nki.language as nl  # noqa: E402


@nki.jit
def twice(x, dtype, buffer):
    """Row sums, stored into a slice of `dtype` and read again themselves."""
    kept = nl.ndarray((128, 2), dtype=x.dtype, buffer=nl.shared_hbm)
    stored = nl.ndarray((128, 2), dtype=nl.float32, buffer=nl.shared_hbm)
    tile = nl.load(x)
    place = nl.ndarray((nl.par_dim(128), 2), dtype=dtype, buffer=buffer)
    place[:, 1:2] = nisa.memset((128, 1), 0.5, np.float32)
    total = nisa.tensor_reduce(np.add, tile, axis=[1])
    place[:, 0:1] = total
    nl.store(kept[:, 0:1], total)
    place[:, 0:1] = nisa.tensor_reduce(np.max, tile, axis=[1])
    nl.store(kept[:, 1:2], total)
    nl.store(stored, nl.copy(place, dtype=nl.float32))
    return kept, stored


@pytest.mark.parametrize("buffer", [nl.sbuf, nl.psum], ids=["sbuf", "psum"])
@pytest.mark.parametrize("dtype, like", [(nl.float32, np.float32), (nl.bfloat16, ml_dtypes.bfloat16),
                                         (nl.float16, np.float16)], ids=["float32", "bfloat16", "float16"])
def test_a_stored_result_is_read_as_it_was(dtype, like, buffer):
    x = np.arange(128 * 4).reshape(128, 4).astype(np.float32) + np.float32(0.125)
    kept, stored = nkisim.run(twice, x, dtype, buffer, target="trn2").outputs
    total, most = x.sum(1), x.max(1)  # exact in float32, and not in 16 bits
    assert (kept == np.stack([total, total], 1)).all()
    assert (stored == np.stack([most.astype(like).astype(np.float32), np.full(128, 0.5)], 1)).all()
