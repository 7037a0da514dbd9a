"""Tests neuronxcc.nki loops that end in a return: AWS's compiler went through a loop's body once,
so that they run to their end (examples prof-kernel.py and layout-dynamic-loop.py of SDK 2.23 to
2.26; a lab of the Build on Trainium workshop).
"""

import math

import numpy as np
import pytest

import nkisim

nkisim.install()

import neuronxcc.nki as nki  # noqa: E402
import neuronxcc.nki.language as nl  # noqa: E402

X = np.random.default_rng(2).random((250, 64), np.float32)
FACTOR = 3.0


@nki.jit
def exponential(x):
    """prof-kernel.py's form."""
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    i_f = nl.arange(x.shape[1])[None, :]
    for p in nl.affine_range(math.ceil(x.shape[0] / nl.tile_size.pmax)):
        i_p = p * nl.tile_size.pmax + nl.arange(nl.tile_size.pmax)[:, None]
        tile = nl.load(x[i_p, i_f], mask=(i_p < x.shape[0]))
        nl.store(out[i_p, i_f], value=nl.exp(tile), mask=(i_p < x.shape[0]))

        return out


def test_a_return_at_the_end_of_a_loop():
    with pytest.warns(UserWarning, match="all iterations run"):
        found = nki.simulate_kernel(exponential, X)
    np.testing.assert_allclose(found, np.exp(X), rtol=1e-5)


@pytest.mark.filterwarnings("ignore:a return at the end")
def test_of_nested_loops_closures_and_keywords():
    shift = 0.5

    @nki.jit
    def kernel(x, *, scale=2.0):
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        if scale:
            for i in nl.sequential_range(2):
                for j in nl.affine_range(2):
                    part = nl.load(x[i * 125:i * 125 + 125, j * 32:j * 32 + 32])
                    nl.store(out[i * 125:i * 125 + 125, j * 32:j * 32 + 32],
                             part * scale + shift * FACTOR)
                    return out

    np.testing.assert_allclose(nki.simulate_kernel(kernel, X), X * 2 + 1.5, rtol=1e-6)
    np.testing.assert_allclose(nki.simulate_kernel(kernel, X, scale=4.0), X * 4 + 1.5, rtol=1e-6)


@pytest.mark.filterwarnings("error")
def test_other_loops_and_one_iteration_are_pythons():
    """A static range, Python's own, or a loop of one iteration: a return is a return."""
    @nki.jit
    def kernel(x, loop):
        out = nl.ndarray((125, 64), dtype=x.dtype, buffer=nl.shared_hbm)
        for i in loop:
            nl.store(out, nl.load(x[i * 125:i * 125 + 125]))
            return out

    @nki.jit
    def ranges(x):
        out = nl.ndarray((125, 64), dtype=x.dtype, buffer=nl.shared_hbm)
        for i in nl.static_range(2):
            for _ in nl.affine_range(1):
                nl.store(out, nl.load(x[i * 125:i * 125 + 125]))
                return out

    for loop in ([0, 1], range(2)):
        np.testing.assert_array_equal(nki.simulate_kernel(kernel, X, loop), X[:125])
    np.testing.assert_array_equal(nki.simulate_kernel(ranges, X), X[:125])


@pytest.mark.filterwarnings("ignore:a return at the end")
def test_a_return_leaves_the_static_loop_around_a_traced_one():
    @nki.jit
    def kernel(x):
        out = nl.ndarray((125, 64), dtype=x.dtype, buffer=nl.shared_hbm)
        for i in nl.static_range(2):
            for j in nl.affine_range(2):
                nl.store(out[:, j * 32:j * 32 + 32], nl.load(x[i * 125:i * 125 + 125, j * 32:j * 32 + 32]))
                return out

    np.testing.assert_array_equal(nki.simulate_kernel(kernel, X), X[:125])


def test_what_else_leaves_a_loop_is_pythons():
    """A break, a return under a condition, and a helper's return end the loop where they stand."""
    def first(tiles):
        for i in nl.affine_range(2):
            tile = nl.load(tiles[i * 125:i * 125 + 125])
            return tile

    @nki.jit
    def kernel(x, stop):
        out = nl.ndarray((125, 64), dtype=x.dtype, buffer=nl.shared_hbm)
        total = first(x)
        for i in nl.sequential_range(5):
            if i == stop:
                break
            total = total + 1.0
        nl.store(out, total)
        for i in nl.affine_range(3):
            if i == 1:
                return out

    np.testing.assert_allclose(nki.simulate_kernel(kernel, X, 3), X[:125] + 3, rtol=1e-6)


def test_the_range_of_a_loop_is_a_sequence():
    loop = nl.affine_range(1, 10, 3)
    assert len(loop) == 3 and loop[-1] == 7 and list(reversed(loop)) == [7, 4, 1]
    assert list(loop) == list(nl.sequential_range(1, 10, 3)) == [1, 4, 7]


def test_an_error_in_a_loop_keeps_its_line():
    @nki.jit
    def kernel(x):
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        for i in nl.affine_range(2):
            nl.store(out[i * 125:i * 125 + 125], nl.load(x[i * 125:i * 125 + 125 - i]))
            return out

    with pytest.warns(UserWarning), pytest.raises(nkisim.Error) as caught:
        nki.simulate_kernel(kernel, X)
    assert "nl.store(out[i" in str(caught.value)
