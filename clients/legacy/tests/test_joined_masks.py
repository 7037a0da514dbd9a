"""Tests `and` and `or` between masks of neuronxcc.nki: the instruction applies where both hold, or
one of them (AWS's test_nki_isa_nc_match_replace8.py, SDK 2.23 on). Any other `if mask` stays an
error.
"""

import functools
import importlib.util

import numpy as np
import pytest

import nkisim

nkisim.install()

import nki as new  # noqa: E402
import neuronxcc.nki as nki  # noqa: E402
import neuronxcc.nki.isa as nisa  # noqa: E402
import neuronxcc.nki.language as nl  # noqa: E402

N, M = 128, 64
X = np.random.default_rng(5).permutation(N * M).reshape(N, M).astype(np.float32)
ROW, COLUMN = np.arange(N)[:, None], np.arange(M)[None, :]


@nki.jit(mode="simulation")
def replaced(x, lowest):
    """The form of AWS's test: the 8 largest of a quarter, replaced, and where they are."""
    n, m = x.shape
    out = nl.ndarray([n, m], dtype=x.dtype, buffer=nl.shared_hbm)
    at = nl.ndarray([n, 8], dtype=nl.uint32, buffer=nl.shared_hbm)
    found = nisa.memset(shape=(n, 8), value=0, dtype=nl.uint32)
    ix, iy = nl.mgrid[0:n, 0:m]
    tile = nl.load(x)
    largest = nisa.max8(src=tile[ix, iy], mask=(ix < n // 2 and iy < m // 2))
    result = nisa.nc_match_replace8(dst_idx=found[:, :], data=tile[ix, iy], vals=largest, imm=lowest,
                                    mask=(ix < n // 2 and iy < m // 2))
    nl.store(out, value=result)
    nl.store(at, value=found)
    return out, at


def test_the_form_of_awss_test():
    out, at = replaced(X, np.float32("-inf"))
    quarter = X[:N // 2, :M // 2].copy()
    order = np.argsort(-quarter, axis=1)[:, :8]
    np.put_along_axis(quarter, order, -np.inf, axis=1)
    np.testing.assert_array_equal(out[:N // 2, :M // 2], quarter)
    np.testing.assert_array_equal(at[:N // 2], order)


def sevens(mask, jit=nki.jit):
    """The kernel that stores 7 where a function of (ix, iy) says; the function must be its own source."""
    @jit
    def kernel(x):
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        ix, iy = nl.mgrid[0:N, 0:M]
        nl.store(out, nl.load(x))
        nl.store(out[ix, iy], 7.0, mask=mask(ix, iy))
        return out

    return kernel


#: Masks as a kernel writes them, with what NumPy says of the same comparisons.
FORMS = {
    "ix < 40 and iy < 20": (ROW < 40) & (COLUMN < 20),
    "ix < 40 and iy < 20 and iy >= 9": (ROW < 40) & (COLUMN < 20) & (COLUMN >= 9),
    "ix >= 3 and ix < 40 and iy >= 9 and iy < 20": (ROW >= 3) & (ROW < 40) & (COLUMN >= 9) & (COLUMN < 20),
    "(ix < 40 and iy < 20) and iy >= 9": (ROW < 40) & (COLUMN < 20) & (COLUMN >= 9),
    "ix < 40 and ((iy < 20) | (iy < 30))": (ROW < 40) & (COLUMN < 30),
    "ix < 40 and (iy < 20 or iy < 30)": (ROW < 40) & (COLUMN < 30),
    "((iy < 20) | (iy < 30)) and ix < 40": (ROW < 40) & (COLUMN < 30),
    "ix < 40 and ((iy < 20) & (ix >= 3))": (ROW < 40) & (ROW >= 3) & (COLUMN < 20),
    "ix < 40 or ix < 50": (ROW < 50) & (COLUMN < M),
    "ix < 40 and iy < 20 or ix < 30 and iy < 10": (ROW < 40) & (COLUMN < 20),
    "ix < 40 and 3 < 5": (ROW < 40) & (COLUMN < M),
    "3 < 5 and ix < 40": (ROW < 40) & (COLUMN < M),
    "ix < 40 and 5 < 3": np.zeros((N, M), bool),
    "5 < 3 and ix < 40": np.zeros((N, M), bool),
    "5 < 3 or ix < 40": (ROW < 40) & (COLUMN < M),
    "m1 and m2": (ROW < 90) & (COLUMN < 33),
    "m1 and iy < 20": (ROW < 90) & (COLUMN < 20),
    "(lambda m: m and iy < 20)(m1)": (ROW < 90) & (COLUMN < 20),
    "[m for m in [m1 and m2] if m is not None][0]": (ROW < 90) & (COLUMN < 33),
}
REFUSED = [
    "1 if ix < 40 and iy < 20 else 2", "not (ix < 40 and iy < 20)", "ix < 40 and not iy < 20",
    "3 <= ix < 40", "ix < 40 and 3 <= iy < 20", "any([ix < 40, iy < 20])", "ix < 40 and ~(iy < 20)",
    "ix < 40 and 1", "ix < 40 and ix", "bool(ix < 40)", "ix < 40 and (m := iy < 20)",
    "[1 for k in range(2) if ix < 40 and iy < 20]"]
KERNEL = """
def kernel(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    ix, iy = nl.mgrid[0:128, 0:64]
    m1, m2 = ix < 90, iy < 33
    nl.store(out, nl.load(x))
    nl.store(out[ix, iy], 7.0, mask={})
    nl.store(out[ix, iy], 8.0, mask=m1 & (iy < 2))
    return out
"""


@pytest.fixture
def written(tmp_path):
    """A function that gives the kernel with a mask's text, from a file of its own."""
    def make(text, source=KERNEL):
        path = tmp_path / "written.py"
        path.write_text("import neuronxcc.nki.language as nl\n" + source.format(text))
        spec = importlib.util.spec_from_file_location("written", path)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module.kernel

    return make


@pytest.mark.parametrize("text", FORMS)
def test_masks_join(text, written):
    wanted = np.where(FORMS[text], np.float32(7), X)
    wanted[:90, :2] = 8  # m1 is still what it was
    np.testing.assert_array_equal(nki.jit(written(text))(X), wanted)


@pytest.mark.parametrize("text", REFUSED)
def test_what_is_no_join_stays_an_error(text, written):
    with pytest.raises(nkisim.Error, match="mask|comparison"):
        nki.jit(written(text))(X)


@pytest.mark.parametrize("statement", [
    "if ix < 40 and iy < 20: pass", "while ix < 40 and iy < 20: pass", "assert ix < 40 and iy < 20",
    "if (ix < 40 or iy < 20): pass"])
def test_conditions_stay_errors(statement, written):
    with pytest.raises(nkisim.Error, match="truth value"):
        nki.jit(written("m1 & m2", KERNEL.replace("    m1, m2", f"    {statement}\n    m1, m2")))(X)


def test_another_function_that_a_kernel_calls_is_refused():
    """Only the kernel's own source is recorded otherwise; nothing is joined in part."""
    with pytest.raises(nkisim.Error, match="& and |"):
        sevens(lambda ix, iy: ix < 40 and iy < 20)(X)


def test_the_new_api_refuses():
    def kernel(x):
        ix, iy = nl.mgrid[0:N, 0:M]
        assert (ix < 40 and iy < 20) is not None

    with pytest.raises(nkisim.Error, match="truth value"):
        new.jit(kernel)(X)


def test_nested_functions_loops_closures_and_defaults():
    rows = 40

    @nki.jit
    def kernel(x, *, step=20, spare=None):
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        ix, iy = nl.mgrid[0:N, 0:M]
        factor = spare or 2.0

        def inside(low, high):
            return iy >= low and iy < high and ix < rows

        nl.store(out, nl.load(x))
        for k in nl.affine_range(3):
            nl.store(out[ix, iy], float(k) * factor, mask=inside(k * step, k * step + 5))
            nl.store(out[ix, iy], -1.0, mask=(iy < 2 and ix < rows and k < 1))
        return out

    wanted = X.copy()
    for k in range(3):
        wanted[:40, k * 20:k * 20 + 5] = k * 2
        if k < 1:
            wanted[:40, :2] = -1
    np.testing.assert_array_equal(kernel(X), wanted)


def test_a_wrapper_runs_itself():
    """The source of the called function is edited, not of the one that it says it wraps."""
    def kernel(x):
        ix, iy = nl.mgrid[0:N, 0:M]
        return ix < 40 and iy < 20

    calls = []

    @nki.jit
    @functools.wraps(kernel)
    def wrapper(x):
        calls.append(x.shape)
        return kernel(x)

    with pytest.raises(nkisim.Error, match="truth value"):
        wrapper(X)
    assert calls == [(N, M)]


@pytest.mark.filterwarnings("ignore:a return at the end")
def test_a_loop_that_ends_in_return():
    @nki.jit
    def kernel(x):
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        ix, iy = nl.mgrid[0:N, 0:M]
        for k in nl.affine_range(2):
            nl.store(out[ix, iy], float(k), mask=(iy >= k * 32 and iy < k * 32 + 32))
            return out

    np.testing.assert_array_equal(kernel(X), np.broadcast_to(np.float32(COLUMN >= 32), (N, M)))


def test_an_error_between_both_sides_leaves_nothing():
    def broken():
        raise ZeroDivisionError

    @nki.jit
    def kernel(x):
        ix, iy = nl.mgrid[0:N, 0:M]
        nl.store(x[ix, iy], 7.0, mask=(ix < 40 and broken() and iy < 20))

    for _ in range(3):
        with pytest.raises(ZeroDivisionError):
            kernel(X)
        wanted = np.where((COLUMN >= 11) & (ROW >= 0), np.float32(7), X)
        np.testing.assert_array_equal(sevens(lambda ix, iy: iy >= 11)(X), wanted)


def test_messages_name_the_line_of_the_kernel(written):
    """The recorded copy has the lines of the source: here a shape that fits nowhere, in the second side."""
    kernel = written("ix < 40 and nl.arange(5)[None, :] < 3")
    with pytest.raises(nkisim.Error) as caught:
        nki.jit(kernel)(X)
    assert "written.py:8" in str(caught.value)
