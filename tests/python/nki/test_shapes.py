"""Tests kernels that are called on shapes alone, without values, and kernels called in several
threads.
"""

import threading

import ml_dtypes
import numpy as np
import pytest

import nkisim

nkisim.install()

import nki  # noqa: E402
import nki.isa as nisa  # noqa: E402
import nki.language as nl  # noqa: E402
from nkisim import Shape  # noqa: E402


@nki.jit
def sums(tensors, cache, row):
    """Gives a dictionary, an argument it writes and a view of it."""
    a, b = nl.load(tensors[0]), nl.load(tensors[1])
    out = nl.ndarray((a.shape[0], 2 * a.shape[1]), dtype=nl.bfloat16, buffer=nl.shared_hbm)
    nl.store(out[:, :a.shape[1]], nl.add(a, b))
    nl.store(out[:, a.shape[1]:], a)
    nisa.dma_copy(cache[row:row + 1], tensors[0][0:1])
    return {"sum": out, "cache": cache}, cache[row:row + 1]


def test_what_a_kernel_gives_is_known_from_shapes():
    a, cache = Shape((128, 64), "float32"), Shape((4, 64), np.float32)
    found = nkisim.shapes(sums, [a, np.ones((128, 64), np.float32)], cache, 2)
    assert found.outputs == ({"sum": Shape((128, 128), "bfloat16"), "cache": cache},
                             Shape((1, 64), "float32"))
    assert found.written == {"cache": cache}
    assert found.aliases == [None, cache, None]
    assert found.writes(cache) and not found.writes(a)


def test_the_run_gives_what_the_shapes_promised():
    a = np.arange(128 * 64, dtype=np.float32).reshape(128, 64) % 16
    cache = np.zeros((4, 64), np.float32)
    said = nkisim.shapes(sums, [a, a], cache, 2).outputs
    out, row = sums([a, a], cache, 2)
    assert said[0]["sum"].dtype == out["sum"].dtype == ml_dtypes.bfloat16
    np.testing.assert_array_equal(out["sum"].astype(np.float32), np.hstack([2 * a, a]))
    assert said[1] == Shape(row.shape, row.dtype)


def test_two_cores_and_grids():
    @nki.jit
    def parts(x):
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        i = nl.program_id(0)
        nl.store(out[64 * i:64 * i + 64], nl.load(x[64 * i:64 * i + 64]))
        return out

    x = Shape((128, 8), "float16")
    assert nkisim.shapes(parts, x, grid=2).outputs == x
    assert nkisim.shapes(parts[2], x, target="trn3").outputs == x


def test_shapes_of_64_bits_are_narrowed():
    assert Shape((2, 3), np.int64) == Shape((2, 3), nl.int32)
    assert repr(Shape([2, 3], float)) == "Shape((2, 3), float32)"
    with pytest.raises(nkisim.Error, match="dtype is 'float12'"):
        Shape((2,), "float12")


def test_values_asked_for_are_an_error_at_the_kernels_line():
    def looks(x):
        tile = nl.load(x)
        tile.numpy()  # here
        return x

    with pytest.raises(nkisim.Error, match="argument x has none") as caught:
        nkisim.shapes(looks, Shape((4, 4), "float32"))
    assert caught.value.source == "tile.numpy()  # here"


def test_a_shape_has_no_values_to_run_on():
    with pytest.raises(TypeError, match=r"Shape\(\(128, 64\), float32\), a shape without values"):
        sums([Shape((128, 64), "float32")] * 2, np.zeros((4, 64), np.float32), 0)


def written(x, cache):
    """x + 1 in the first rows of a cache that it updates and does not return."""
    tile = nl.ndarray((128, 64), dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)
    nisa.tensor_scalar(dst=tile, data=tile, op0=nl.add, operand0=1.0)
    out = nl.ndarray((128, 64), dtype=x.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=cache[0:128], src=tile)
    nisa.dma_copy(dst=out, src=tile)
    return out


@pytest.mark.parametrize("ranks", [None, 4])
def test_time_of_shapes_is_that_of_arrays(ranks):
    """Time alone does not look at values, nor takes memory for them: 64 GiB here."""
    x, cache = np.zeros((128, 64), np.float32), np.zeros((256, 64), np.float32)
    shapes = Shape(x.shape, "float32"), Shape(cache.shape, "float32")
    more = {"ranks": ranks} if ranks else {}
    real, bare = (nkisim.run(written, *a, target="trn2", timing="only", **more) for a in ((x, cache), shapes))
    assert real.latency_ns == bare.latency_ns and bare.outputs in (None, [None] * 4)
    large = nkisim.run(written, shapes[0], Shape((2**28, 64), "float32"), target="trn2", timing="only", **more)
    assert large.latency_ns == real.latency_ns


def test_a_kernel_that_gives_nothing():
    def nothing(x):
        nl.load(x)

    with pytest.raises(nkisim.Error, match="neither returns a tensor nor writes"):
        nkisim.shapes(nothing, Shape((4, 4), "float32"))


def test_kernels_are_called_from_several_threads():
    @nki.jit
    def scaled(x, factor):
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        tile = nl.load(x)
        for _ in range(50):
            tile = nl.multiply(tile, 1.0)
        nl.store(out, nl.multiply(tile, factor))
        return out

    x, found = np.ones((128, 32), np.float32), {}
    threads = [threading.Thread(target=lambda n=n: found.update({n: scaled(x, float(n))}))
               for n in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    for n in range(8):
        np.testing.assert_array_equal(found[n], n * x)
