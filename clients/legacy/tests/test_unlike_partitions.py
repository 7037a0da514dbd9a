# Tests that neuronxcc.nki does not broadcast an operand of one row over partitions: no engine can
# do that.

import numpy as np
import pytest

import nkisim
import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl


@pytest.mark.parametrize("rows", [(1, 64), (64, 1)])
def test_one_row_is_not_read_for_all_partitions(rows):
    def kernel(a, b):
        out = nl.ndarray((64, 32), dtype=a.dtype, buffer=nl.shared_hbm)
        nl.store(out, nisa.tensor_tensor(nl.load(a), nl.load(b), np.add))
        return out

    with pytest.raises(nkisim.Error, match="the same number of partitions"):
        nkisim.run(kernel, *(np.ones((n, 32), np.float32) for n in rows))


def test_a_row_that_was_broadcast_is_added_to_all():
    def kernel(a, b):
        out = nl.ndarray((64, 32), dtype=a.dtype, buffer=nl.shared_hbm)
        row = nl.load(a).broadcast_to((64, 32))
        nl.store(out, nl.add(row, nl.load(b)))
        return out

    a = np.arange(32, dtype=np.float32)[None]
    b = np.random.default_rng(1).standard_normal((64, 32)).astype(np.float32)
    assert (nkisim.run(kernel, a, b).outputs == a + b).all()
