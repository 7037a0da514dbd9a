"""Tests random index tiles (nl.arange) and masks of neuronxcc.nki against NumPy's indexing and
broadcasting.
"""

import numpy as np
import pytest

import nkisim

nkisim.install()

import neuronxcc.nki as nki  # noqa: E402
import neuronxcc.nki.isa as nisa  # noqa: E402
import neuronxcc.nki.language as nl  # noqa: E402


def along(arange, n, axis, ndim):
    """arange(n) on one axis of `ndim`."""
    return arange(n)[tuple(slice(None) if i == axis else None for i in range(ndim))]


def values(tile):
    """The numbers that an index tile stands for."""
    out = np.full(tile.shape, tile.const)
    for axis, c in tile.coefs.items():
        out = out + c * along(np.arange, tile.shape[tile.ndim - axis], tile.ndim - axis, tile.ndim)
    return out


def step(rng, tile, numbers):
    """One random operation on an index tile and on the numbers it stands for."""
    k, n = int(rng.integers(-3, 4)), int(rng.integers(1, 6))
    choice = rng.integers(0, 6)
    if choice == 0 and numbers.ndim < 4:
        at = int(rng.integers(0, numbers.ndim + 1))
        key = (*(slice(None),) * at, None, Ellipsis)
        return tile[key], numbers[key]
    if choice == 1:
        key = (Ellipsis, slice(int(rng.integers(-2, 1)), None, int(rng.integers(1, 3))))
        return tile[key], numbers[key]
    if choice == 2:
        return k * tile, k * numbers
    if choice == 3:
        return k - tile, k - numbers
    if choice == 4:
        key = (slice(None), *(None,) * int(rng.integers(0, 3)))
        return tile + nl.arange(n)[key], numbers + np.arange(n)[key]
    return (tile // n, numbers // n) if rng.integers(0, 2) else (tile % n, numbers % n)


def test_index_tiles_are_numpys_numbers():
    rng = np.random.default_rng(11)
    compared = 0
    for _ in range(1500):
        n = int(rng.integers(1, 6))
        tile, numbers = nl.arange(n), np.arange(n)
        for _ in range(int(rng.integers(1, 7))):
            try:
                tile, numbers = step(rng, tile, numbers)
            except ValueError:  # does not broadcast, or no affine expression
                break
            assert tile.shape == numbers.shape
            np.testing.assert_array_equal(values(tile), numbers)
            assert tile.range() == (numbers.min(), numbers.max())
            compared += 1
    assert compared > 3000


COMPARE = {"<": lambda a, b: a < b, "<=": lambda a, b: a <= b, ">": lambda a, b: a > b,
           ">=": lambda a, b: a >= b, "==": lambda a, b: a == b}


class Case:
    """A box of a larger tensor, selected by index tiles, and a mask of up to three conditions."""

    def __init__(self, rng):
        self.ndim = int(rng.integers(2, 4))
        self.shape = tuple(int(rng.choice([1, 2, 3, 5, 8])) for _ in range(self.ndim))
        self.starts = [int(rng.integers(0, 4)) for _ in self.shape]
        self.steps = [int(rng.integers(1, 3)) for _ in self.shape]
        self.source = rng.random([s + k * n + 1 for s, k, n in zip(
            self.starts, self.steps, self.shape)]).astype(np.float32)
        self.one = int(rng.integers(0, self.ndim))  # the axis of a one-element index tile
        self.conditions = [
            (int(d), int(rng.choice([-2, -1, 1, 2])), int(rng.integers(-2, self.shape[d] + 3)),
             str(rng.choice(list(COMPARE))), bool(rng.integers(0, 3)))
            for d in rng.integers(0, self.ndim, rng.integers(0, 4))]

    def index(self, arange):
        one = along(arange, 1, self.one, self.ndim)
        return tuple(along(arange, n, d, self.ndim) * k + s + 3 * one for d, (n, k, s) in enumerate(
            zip(self.shape, self.steps, self.starts)))

    def mask(self, arange):
        found = None
        for d, c, bound, comparison, joined in self.conditions:
            tile = along(arange, self.shape[d], d, self.ndim) * c + along(
                arange, 1, (d + 1) % self.ndim, self.ndim)
            term = COMPARE[comparison](tile, bound)
            found = term if found is None else found & term if joined else found | term
        return found

    def expected(self):
        mask = self.mask(np.arange)
        return np.where(True if mask is None else mask, self.source[self.index(np.arange)],
                        np.float32(0))


def masked_load(case, x, out, tile):
    tile[...] = nl.zeros(case.shape, nl.float32)
    nisa.tensor_copy(nl.load(x[case.index(nl.arange)]), mask=case.mask(nl.arange), dst=tile)
    nl.store(out, tile)


def masked_store(case, x, out, tile):
    nl.store(out, nl.zeros(case.shape, nl.float32))
    nl.store(out, nl.load(x[case.index(nl.arange)]), mask=case.mask(nl.arange))


@pytest.mark.parametrize("form", [masked_load, masked_store])
@pytest.mark.parametrize("seed", range(3))
def test_masks_are_numpys_broadcast_conditions(form, seed):
    rng = np.random.default_rng(seed)
    compared = 0
    for number in range(40):
        case = Case(rng)

        @nki.jit
        def kernel(x, case=case):
            out = nl.ndarray(case.shape, dtype=nl.float32, buffer=nl.shared_hbm)
            form(case, x, out, nl.ndarray(case.shape, dtype=nl.float32, buffer=nl.sbuf))
            return out

        try:
            found = nkisim.run(kernel, case.source, timing=False).outputs
        except nkisim.Error as problem:  # what one instruction cannot take
            assert "no box" in problem.message or "start partition" in problem.message
            continue
        np.testing.assert_array_equal(found, case.expected(), f"seed {seed}, case {number}")
        compared += 1
    assert compared > 20


def test_a_mask_of_one_element_cuts_nothing():
    """An index tile of one element is constant along what it is broadcast to."""
    @nki.jit
    def kernel(x):
        out = nl.ndarray((1, 512), dtype=x.dtype, buffer=nl.shared_hbm)
        rows, columns = nl.arange(1)[None, :], nl.arange(512)[None, :]
        nl.store(out[rows, columns], value=nl.load(x), mask=(rows < 1) & (columns < 512))
        return out

    x = np.arange(1, 513, dtype=np.float32)[None]
    np.testing.assert_array_equal(nki.simulate_kernel(kernel, x), x)


def test_a_mask_of_another_shape_is_an_error():
    """A condition over an axis that the tile does not have would be dropped without a word."""
    @nki.jit
    def kernel(x):
        out = nl.ndarray((8, 16), dtype=x.dtype, buffer=nl.shared_hbm)
        nl.store(out, nl.load(x), mask=nl.arange(8)[:, None, None] < 4)
        return out

    with pytest.raises(nkisim.Error, match=r"index tiles of shape \(8, 1, 1\) over a tile"):
        nki.simulate_kernel(kernel, np.zeros((8, 16), np.float32))
