"""Tests that views of tensors select the same elements as NumPy."""

import numpy as np
import pytest

import nkisim

nkisim.install()

import nki.isa as nisa  # noqa: E402
import nki.language as nl  # noqa: E402
from nkisim.values.selection import select  # noqa: E402

X = np.arange(128 * 48, dtype=np.float32).reshape(128, 48)


def values_of_view(view_of, x=X, shape=None):
    """The values of view_of(tile) after copying it to HBM."""
    values = []

    def kernel(x):
        tile = nl.ndarray(shape or x.shape, dtype=nl.float32, buffer=nl.sbuf)
        nisa.dma_copy(tile, x.reshape(shape or x.shape))
        view = view_of(tile)
        out = nl.ndarray(view.shape, dtype=view.dtype, buffer=nl.shared_hbm)
        copy = nl.ndarray(view.shape, dtype=view.dtype, buffer=nl.sbuf)
        nisa.tensor_copy(copy, view)
        nisa.dma_copy(out, copy)
        values.append(view.numpy())
        return out

    out = nkisim.run(kernel, x).outputs
    np.testing.assert_array_equal(out, values[0])
    return out


@pytest.mark.parametrize("ours, numpy", [
    (lambda t: t[:, 3:9], lambda x: x[:, 3:9]),
    (lambda t: t[:, 1:40:3], lambda x: x[:, 1:40:3]),
    (lambda t: t[32:64, nl.ds(4, 8)], lambda x: x[32:64, 4:12]),
    (lambda t: t[64, 5:9], lambda x: x[64:65, 5:9]),
    (lambda t: t[..., -4:], lambda x: x[:, -4:]),
    (lambda t: t.reshape((128, 6, 8)), lambda x: x.reshape(128, 6, 8)),
    (lambda t: t.reshape_dim(1, (6, -1)).permute((0, 2, 1)),
     lambda x: x.reshape(128, 6, 8).transpose(0, 2, 1)),
    (lambda t: t.reshape((128, 4, 3, 4)).select(2, 1), lambda x: x.reshape(128, 4, 3, 4)[:, :, 1]),
    (lambda t: t.slice(1, 8, 24, 2), lambda x: x[:, 8:24:2]),
    (lambda t: t[:, 0:1].broadcast(1, 5), lambda x: np.broadcast_to(x[:, :1], (128, 5))),
    (lambda t: t.expand_dim(1).squeeze_dim(1), lambda x: x),
    (lambda t: t.reshape((128, 2, 24)).flatten_dims(1, 2), lambda x: x),
    (lambda t: t.rearrange(("p", ("h", "w")), ("p", "w", "h"), {"h": 4}),
     lambda x: x.reshape(128, 4, 12).transpose(0, 2, 1)),
    (lambda t: t.ap([[48, 128], [2, 10], [1, 2]], offset=4),
     lambda x: np.stack([x[:, 4:24:2], x[:, 5:24:2]], -1)),
    (lambda t: t.ap([[48, 64], [1, 4]], offset=48 * 64), lambda x: x[64:, :4]),
])
def test_view(ours, numpy):
    np.testing.assert_array_equal(values_of_view(ours), numpy(X))


def test_view_as_another_dtype():
    np.testing.assert_array_equal(values_of_view(lambda t: t.view(nl.int32)), X.view(np.int32))
    np.testing.assert_array_equal(values_of_view(lambda t: t.view(nl.uint16)[:, 1::2]),
                                  X.view(np.uint16)[:, 1::2])


def test_index_tiles_are_affine():
    import neuronxcc.nki.language as lnl

    i_p, i_f = lnl.arange(128)[:, None], lnl.arange(12)[None, :]
    np.testing.assert_array_equal(values_of_view(lambda t: t[i_p, 4 * i_f + 1]), X[:, 1::4])
    p, y, x, j, i = lnl.mgrid[0:128, 0:2, 0:4, 0:3, 0:2]
    windows = X.reshape(128, 6, 8).reshape(128, 2, 3, 4, 2).transpose(0, 1, 3, 2, 4)
    np.testing.assert_array_equal(
        values_of_view(lambda t: t.reshape((128, 6, 8))[p, 3 * y + j, 2 * x + i]), windows)


def test_hbm_integer_index_drops_the_dimension():
    shapes = []

    def kernel(x):
        out = nl.ndarray((4, 8), dtype=x.dtype, buffer=nl.shared_hbm)
        shapes.append((x[1].shape, x[1, 2].shape, x[1, 2, 3].shape))
        nl.store(out, nl.load(x[1]))
        return out

    x = np.arange(96, dtype=np.float32).reshape(3, 4, 8)
    np.testing.assert_array_equal(nkisim.run(kernel, x).outputs, x[1])
    assert shapes == [((4, 8), (8,), (1,))]


def elements(view):
    """The number in its storage of each element of a view, flat."""
    size = view.dtype.itemsize
    columns = view.st.pitch_bytes // size
    start = view.off // size + (view.part * columns if view.st.on_chip else 0)
    numbers = np.array([start])
    for n, step in zip(view.shape, view.strides):
        numbers = (numbers[:, None] + step * np.arange(n)).reshape(-1)
    return numbers


def random_entry(rng, n):
    """(an entry of a key for a dimension of n, the same for NumPy)."""
    start, stop = sorted(rng.choice(n + 1, 2, replace=False).tolist())
    at = int(rng.integers(n))
    plain = slice(start, stop)
    forms = [(plain, plain), (slice(None), slice(None)), (slice(start, None), slice(start, n)),
             (nl.ds(start, stop - start), plain), (at, at), (at - n, at), (np.int32(at), at),
             (slice(start, stop, 2), slice(start, stop, 2)), (slice(start - n, stop), plain)]
    return forms[rng.integers(len(forms))]


@pytest.mark.parametrize("buffer", (nl.sbuf, nl.hbm))
@pytest.mark.parametrize("seed", range(4))
def test_random_subscripts(buffer, seed):
    """Plain keys have a way of their own: both ways select what NumPy does."""
    rng = np.random.default_rng(seed)
    print("seed", seed)

    def kernel(x):
        for _ in range(200):
            shape = tuple(rng.integers(1, 6, rng.integers(2, 5)).tolist())
            tensor = nl.ndarray(shape, dtype=nl.bfloat16, buffer=buffer)
            numbers = np.arange(np.prod(shape)).reshape(shape)
            pairs = [random_entry(rng, n) for n in shape[:rng.integers(1, len(shape) + 1)]]
            ours, numpys = [p[0] for p in pairs], [p[1] for p in pairs]
            if rng.random() < 0.2:
                ours.append(...)
            if rng.random() < 0.2 and ours[-1] is not ...:
                ours.append(None)
            view, other = tensor[tuple(ours)], select(tensor, tuple(ours))
            assert (view.part, view.off, view.shape, view.strides, view.dyn) == (
                other.part, other.off, other.shape, other.strides, other.dyn)
            np.testing.assert_array_equal(elements(view), numbers[tuple(numpys)].reshape(-1))
        return x

    nkisim.run(kernel, X)


@pytest.mark.parametrize("key, said", [
    ((slice(0, 129),), "slice 0:129 of dimension 0 is out of bounds"),
    ((0, slice(9, 0, -1)), "slice step -1"),
    ((0, 48), "index 48 of dimension 1"),
    ((0, -49), "index -1 of dimension 1"),
    ((0, nl.ds(40, 9)), "slice 40:49 of dimension 1"),
    ((0, 0, 0), "3 indices"),
    ((0, 1.0), "the float 1.0"),
    ((0, slice(0.5, 2)), "a slice start is the float"),
    ((0, "a"), "an index is str"),
])
def test_bad_subscripts(key, said):
    def kernel(x):
        tile = nl.ndarray(x.shape, dtype=nl.float32, buffer=nl.sbuf)
        with pytest.raises(nkisim.Error, match=said):
            tile[key]
        return x

    nkisim.run(kernel, X)


def test_a_register_selects_one_of_a_dimension():
    """Its dimension goes, also behind an integer, whose dimension goes as well."""
    def kernel(x):
        register = nisa.register_alloc(3)
        view = x.reshape((128, 6, 8))[5, register]
        assert view.shape == (8,)
        out = nl.ndarray((1, 8), dtype=x.dtype, buffer=nl.shared_hbm)
        nisa.dma_copy(out, view.reshape((1, 8)))
        return out

    np.testing.assert_array_equal(nkisim.run(kernel, X).outputs[0], X[5, 24:32])


def test_the_tensor_that_a_view_is_of():
    def kernel(x):
        out = nl.ndarray((2, 16, 8), dtype=x.dtype, buffer=nl.shared_hbm)
        part = x[1:2, 4:8].base_tensor
        assert part.shape == x.shape and part.dtype is x.dtype
        nisa.dma_copy(dst=out, src=part)
        tile = nl.load(x[0])
        assert tile[4:8, 2:4].base_tensor.shape == (16, 8)
        return out

    x = np.arange(256, dtype=np.float32).reshape(2, 16, 8)
    np.testing.assert_array_equal(np.asarray(nkisim.run(kernel, x, timing=False).outputs), x)


def test_a_view_is_an_object_as_others():
    """It can be copied and referred to weakly, has no attributes of its own, and is collected with what refers
    back to it."""
    import copy
    import gc
    import weakref

    def kernel(x):
        tile = nl.ndarray((128, 8), dtype=nl.float32, buffer=nl.sbuf)
        view = tile[:, 2:4]
        assert copy.copy(view).shape == copy.deepcopy([view])[0].shape == (128, 2)
        with pytest.raises(AttributeError):
            view.note = 1
        with pytest.raises(OverflowError):
            type(view)(tile.st, 0, 10 ** 30, (128, 2), (8, 1), nl.float32)
        round_ = [tile[:, 4:5]]
        round_[0]._ref = round_
        gone = weakref.ref(round_[0])
        del round_
        gc.collect()
        assert gone() is None
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        nl.store(out, nl.load(x))
        return out

    nkisim.run(kernel, X, timing=False)


@pytest.mark.parametrize("offsets", [np.zeros((16, 1), np.uint32), [0, 1], (0, 1), 3, object()])
def test_offsets_that_are_no_tensor_are_refused(offsets):
    def gather(tile, x):
        return tile.indirect(offsets, 1)

    def rows(tile, x):
        return x.ap([[48, 4], [1, 48]], vector_offset=offsets)

    def select_rows(tile, x):
        return x.vector_select(0, offsets)

    def kernel(x, view_of):
        tile = nl.ndarray((16, 48), dtype=nl.float32, buffer=nl.sbuf)
        nisa.memset(tile, 0)
        out = nl.ndarray((4, 48), dtype=nl.float32, buffer=nl.sbuf)
        nisa.dma_copy(out, view_of(tile, x))
        return out

    for view_of in (gather, rows, select_rows):
        with pytest.raises(nkisim.Error, match=f"is {type(offsets).__name__}; a tensor in SBUF is required"):
            nkisim.run(kernel, X, view_of, target="trn3")
