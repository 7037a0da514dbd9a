"""Tests random kernels of assignments, aliases, views and in-place updates, against NumPy."""

import random

import numpy as np
import pytest

import nkisim

nkisim.install()

import neuronxcc.nki.isa as legacy_isa  # noqa: E402
import neuronxcc.nki.language as legacy_nl  # noqa: E402
import nki.isa as nisa  # noqa: E402
import nki.language as nl  # noqa: E402

ROWS, COLUMNS = 16, 12


class Numpy:
    """The functions of a program in NumPy."""

    add, maximum, abs, square, where, copy = (np.add, np.maximum, np.abs, np.square, np.where,
                                              np.copy)
    product = staticmethod(lambda a, b: np.pad(a.T @ b, ((0, ROWS - COLUMNS), (0, 0))))
    top = staticmethod(lambda a: a.max(1, keepdims=True))
    look = staticmethod(lambda a: None)


def nki(language, matmul):
    """The same of NKI; matmul(dst, a, b) puts a.T @ b into PSUM."""
    def product(a, b):
        total = language.ndarray((COLUMNS, COLUMNS), dtype=nl.float32, buffer=nl.psum)
        matmul(total, a, b)
        padded = language.zeros((ROWS, COLUMNS), dtype=nl.float32)
        padded[0:COLUMNS, :] = language.copy(total)
        return padded

    class Nki:
        add, maximum, abs, square, where, copy = (
            language.add, language.maximum, language.abs, language.square, language.where,
            language.copy)
        top = staticmethod(lambda a: language.max(a, axis=1, keepdims=True))
        look = staticmethod(lambda a: a.numpy())

    Nki.product = staticmethod(product)
    return Nki


def returned(dst, a, b):
    dst[...] = legacy_isa.nc_matmul(a, b)


def step(draw, tensors, lib):
    """One random statement; the variables it makes are appended to `tensors`."""
    a, b = draw.choice(tensors), draw.choice(tensors)
    start = draw.randrange(COLUMNS - 2)
    part = slice(start, draw.randrange(start + 1, COLUMNS + 1))

    def new(x, y):
        return [lambda: lib.add(x, y), lambda: x * 0.5, lambda: lib.maximum(x, y), lambda: 1.0 - x,
                lambda: lib.abs(x), lambda: lib.square(x) * 0.25, lambda: x - y][kind]()

    kind, what, flag = draw.randrange(7), draw.randrange(11), draw.random() < 0.5
    if what == 0:
        tensors.append(new(a, b))
    elif what == 1:
        a[...] = new(a, b)
    elif what == 2:
        a[:, part] = new(a[:, part], b[:, part])
    elif what == 3:  # a name that outlives its assignment
        named = new(b, b)
        a[...] = named
        a[:, part] = 0.5
        if flag:
            tensors.append(named)
    elif what == 4:
        if flag:
            a += b
        else:
            a *= 0.5
    elif what == 5:
        view = a[:, part]
        if flag:
            view -= b[:, part]
        else:
            view[...] = new(b[:, part], view)
    elif what == 6:
        tensors.append(a)
    elif what == 7:
        tensors.append(lib.product(a, b) * 0.25)
    elif what == 8:
        kept = lib.copy(a)
        a[...] = b
        b[...] = kept
    elif what == 9:
        tensors.append(lib.where(a > b, a, b) - lib.top(a))
    else:
        lib.look(a)
    if len(tensors) > 8:
        tensors.pop(draw.randrange(len(tensors)))


def program(seed, tensors, lib):
    draw = random.Random(seed)
    for _ in range(draw.randrange(4, 16)):
        step(draw, tensors, lib)
    return tensors


@pytest.mark.parametrize("legacy", [False, True], ids=["nki", "neuronxcc"])
@pytest.mark.parametrize("seed", range(40))
def test_a_random_program(seed, legacy):
    arrays = [np.random.default_rng(seed + i).uniform(-1, 1, (ROWS, COLUMNS)).astype(np.float32)
              for i in range(3)]
    language = legacy_nl if legacy else nl
    lib = nki(language, returned if legacy else nisa.nc_matmul)

    def kernel(*arguments):
        stored = []
        for tile in program(seed, [language.load(a) for a in arguments], lib):
            out = language.ndarray(tile.shape, dtype=nl.float32, buffer=nl.shared_hbm)
            language.store(out, tile)
            stored.append(out)
        return tuple(stored)

    found = nkisim.run(kernel, *arrays, legacy=legacy, timing=False).outputs
    expected = program(seed, [a.copy() for a in arrays], Numpy)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("shape", [(1, COLUMNS), (ROWS, 1), (1, 1), (COLUMNS,)])
def test_hbm_is_repeated_where_it_has_one_element(shape):
    def kernel(x):
        out = nl.ndarray((ROWS, COLUMNS), dtype=nl.float32, buffer=nl.shared_hbm)
        out[...] = x
        return out

    x = np.random.default_rng(1).random(shape, np.float32)
    np.testing.assert_array_equal(np.asarray(nkisim.run(kernel, x).outputs), np.broadcast_to(x, (ROWS, COLUMNS)))


@pytest.mark.parametrize("shape", [(2, COLUMNS), (ROWS, 3), (1, 1, COLUMNS), (2,)])
def test_hbm_that_has_more_elements_or_dimensions_is_not_repeated(shape):
    def kernel(x):
        out = nl.ndarray((ROWS, COLUMNS), dtype=nl.float32, buffer=nl.shared_hbm)
        out[...] = x
        return out

    with pytest.raises(nkisim.KernelValueError, match=rf"float32> does not broadcast to \({ROWS}, {COLUMNS}\)"):
        nkisim.run(kernel, np.ones(shape, np.float32))
