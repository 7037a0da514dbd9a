"""Tests texts that the C++ extension makes: refused values in messages, and names of tiles."""

import numpy as np
import pytest

import nkisim

nkisim.install()

import nki.isa as nisa  # noqa: E402
import nki.language as nl  # noqa: E402


class Named:
    def __init__(self, text):
        self.text = text

    def __repr__(self):
        return self.text


@pytest.mark.parametrize("text, said", [
    ("x" * 80, "x" * 80), ("x" * 81, "x" * 77 + "..."), ("x" * 500, "x" * 77 + "..."), ("a\n  b   c", "a b c")])
def test_a_value_that_is_refused_is_cut_to_80_letters(text, said):
    def kernel(x):
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
        nisa.memset(dst=tile, value=Named(text))
        return out

    with pytest.raises(nkisim.Error) as error:
        nkisim.run(kernel, np.zeros((128, 8), np.float32))
    assert str(error.value).startswith(f"memset: value is {said}; a number is required")


def test_a_tile_that_is_returned_is_named_by_its_line():
    def kernel(x):
        tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=x)
        return tile

    with pytest.raises(nkisim.Error) as error:
        nkisim.run(kernel, np.zeros((128, 8), np.float32))
    assert (error.value.kernel_file, error.value.kernel_line) == (__file__, kernel.__code__.co_firstlineno + 1)
