"""Tests that arrays of any shape and type are converted to the bytes that they hold."""

import ml_dtypes
import numpy as np
import pytest

import nkisim
from nkisim.record.reading import as_bytes

nkisim.install()


@pytest.mark.parametrize("shape", [(), (1,), (5,), (2, 3), (2, 3, 4)], ids=str)
@pytest.mark.parametrize("dtype", [np.float32, np.int8, np.uint16, np.float64, ml_dtypes.bfloat16,
                                   ml_dtypes.float8_e4m3, "V2"], ids=str)
def test_bytes_of_an_array(shape, dtype):
    if np.dtype(dtype).kind == "V" and shape == ():
        pytest.skip("NumPy gives no view of a single item of a type that is not its own")
    array = np.arange(np.prod(shape, dtype=int) * np.dtype(dtype).itemsize, dtype=np.uint8).view(dtype).reshape(shape)
    found = as_bytes(array)
    assert found.dtype == np.uint8 and found.tobytes() == array.tobytes() and found.nbytes == array.nbytes
    assert np.shares_memory(found, array)
