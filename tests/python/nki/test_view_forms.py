"""Tests views of tensors, on chip and in HBM, read and written, against NumPy."""

import warnings

import ml_dtypes
import numpy as np
import pytest

import nkisim

nkisim.install()

import nki.isa as nisa  # noqa: E402
import nki.language as nl  # noqa: E402

BF = ml_dtypes.bfloat16
X = np.arange(8 * 24, dtype=np.float32).reshape(8, 24)
X4 = X.reshape(8, 2, 3, 4)
WINDOWS = np.lib.stride_tricks.sliding_window_view

#: name -> (array, view in NKI, view in NumPy)
VIEWS = {
    "step": (X, lambda t: t[:, 1:20:3], lambda a: a[:, 1:20:3]),
    "from the end": (X, lambda t: t[:, -5:-1], lambda a: a[:, -5:-1]),
    "open": (X, lambda t: t[:, 3:], lambda a: a[:, 3:]),
    "integers": (X4, lambda t: t[:, -1, -2], lambda a: a[:, -1, -2]),
    "integer between": (X4, lambda t: t[:, 1, :, 0:2], lambda a: a[:, 1, :, 0:2]),
    "new axis": (X, lambda t: t[:, None, :], lambda a: a[:, None, :]),
    "ds": (X, lambda t: t[:, nl.ds(4, 7)], lambda a: a[:, 4:11]),
    "numpy integers": (X, lambda t: t[:, np.int64(2):np.int32(9)], lambda a: a[:, 2:9]),
    "slice of a step": (X, lambda t: t[:, ::2][:, 1:5], lambda a: a[:, ::2][:, 1:5]),
    "reshape": (X, lambda t: t.reshape((8, 4, -1)), lambda a: a.reshape(8, 4, 6)),
    "permute": (X4, lambda t: t.permute((0, 3, 1, 2)), lambda a: a.transpose(0, 3, 1, 2)),
    "select": (X4, lambda t: t.select(-1, -1), lambda a: a[..., -1]),
    "slice": (X4, lambda t: t.slice(3, 1, 4, 2), lambda a: a[..., 1:4:2]),
    "expand": (X, lambda t: t.expand_dim(2), lambda a: a[..., None]),
    "squeeze": (X, lambda t: t.expand_dim(1).squeeze_dim(1), lambda a: a),
    "reshape_dim": (X, lambda t: t.reshape_dim(1, (4, -1)), lambda a: a.reshape(8, 4, 6)),
    "flatten_dims": (X4, lambda t: t.flatten_dims(1, 2), lambda a: a.reshape(8, 6, 4)),
    "rearrange": (X, lambda t: t.rearrange(("b", ("h", "w")), ("b", "w", "h"), {"h": 4}),
                  lambda a: a.reshape(8, 4, 6).transpose(0, 2, 1)),
    "rearrange to a group": (
        X4, lambda t: t.rearrange(("p", "a", "b", "c"), ("p", "c", ("a", "b"))),
        lambda a: a.reshape(8, 6, 4).transpose(0, 2, 1)),
    "as words": (X, lambda t: t.view(nl.uint32), lambda a: a.view(np.uint32)),
    "upper halves": (X, lambda t: t.view(nl.bfloat16)[:, 1::2], lambda a: a.view(BF)[:, 1::2]),
    "ap": (X, lambda t: t.ap([[24, 8], [2, 6]], offset=3), lambda a: a[:, 3:15:2]),
    "ap of another dtype": (X, lambda t: t.ap([[48, 8], [2, 24]], offset=1, dtype=nl.bfloat16),
                            lambda a: a.view(BF)[:, 1::2]),
}
#: Views that repeat elements: to be read only.
REPEATING = {
    "broadcast": (X, lambda t: t.expand_dim(1).broadcast(1, 3), lambda a: np.repeat(a[:, None], 3, 1)),
    "overlapping windows": (X, lambda t: t.ap([[24, 8], [1, 5], [1, 3]]),
                            lambda a: WINDOWS(a, 3, 1)[:, :5]),
    "ap with a stride of 0": (X, lambda t: t.ap([[24, 8], [0, 3], [1, 4]]),
                              lambda a: np.repeat(a[:, None, :4], 3, 1)),
}
X3 = np.arange(4 * 6 * 5, dtype=np.float32).reshape(4, 6, 5)
IN_HBM = {
    "integer": (X3, lambda t: t[2], lambda a: a[2]),
    "integers first": (X3, lambda t: t[1, 2:4], lambda a: a[1, 2:4]),
    "turned": (X3, lambda t: t.permute((2, 1, 0)), lambda a: a.transpose(2, 1, 0)),
    "rows merged": (X3, lambda t: t.reshape((24, 5)), lambda a: a.reshape(24, 5)),
    "rows split": (X3, lambda t: t.rearrange((("a", "b"), "c", "d"), ("a", "c", "b", "d"), {"a": 2}),
                   lambda a: a.reshape(2, 2, 6, 5).transpose(0, 2, 1, 3)),
    "every second row": (X3, lambda t: t[1:4:2], lambda a: a[1:4:2]),
    "columns first": (X3, lambda t: t.ap([[1, 5], [30, 4]], offset=5), lambda a: a[:, 1, :].T),
}


def moved(view, out):
    """Copies a view to a new tensor in HBM, through SBUF if it is on chip."""
    if view.st.on_chip:
        tile = nl.ndarray(view.shape, view.dtype, buffer=nl.sbuf)
        nisa.tensor_copy(tile, view)
        view = tile
    nisa.dma_copy(out, view)
    return out


def in_both_memories(*tables):
    """(name, on chip): every view in both memories, those that move partitions in HBM only."""
    names = [(name, on_chip) for table in tables for name in table for on_chip in (True, False)]
    return pytest.mark.parametrize("name, on_chip", [*names, *((name, False) for name in IN_HBM)])


@in_both_memories(VIEWS, REPEATING)
def test_reading(name, on_chip):
    array, view, expected = {**VIEWS, **REPEATING, **IN_HBM}[name]

    def kernel(x):
        seen = view(nl.load(x) if on_chip else x)
        return moved(seen, nl.ndarray(seen.shape, seen.dtype, buffer=nl.shared_hbm))

    np.testing.assert_array_equal(nkisim.run(kernel, array, timing=False).outputs, expected(array))


@in_both_memories(VIEWS)
def test_writing(name, on_chip):
    array, view, expected = {**VIEWS, **IN_HBM}[name]
    whole = np.zeros_like(array)
    part = expected(whole)
    assert np.shares_memory(part, whole)
    values = np.random.default_rng(4).integers(1, 9, part.shape).astype(part.dtype)

    def kernel(zeros, values):
        out = nl.ndarray(zeros.shape, zeros.dtype, buffer=nl.shared_hbm)
        if on_chip:
            tile, given = nl.load(zeros), nl.load(values)
            nisa.tensor_copy(view(tile), given.reshape(values.shape))
            nisa.dma_copy(out, tile)
        else:
            nisa.dma_copy(out, zeros)
            nisa.dma_copy(view(out), values)
        return out

    found = nkisim.run(kernel, whole, values, timing=False).outputs
    part[...] = values
    np.testing.assert_array_equal(found, whole)


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.uint32])
@pytest.mark.parametrize("by", ["register", "tensor"])
def test_a_row_chosen_at_run_time_seen_as_another_dtype(dtype, by):
    """The offset is that of the row, whatever it is then counted in."""
    def kernel(x, index):
        out = nl.ndarray((16, 4 * 8 // np.dtype(dtype).itemsize), dtype, nl.shared_hbm)
        tile, chosen = nl.load(x), nl.load(index)
        if by == "register":
            row = nisa.register_alloc()
            nisa.register_load(row, chosen)
        else:
            row = chosen
        picked = tile.reshape((16, 4, 8)).select(1, row).view(getattr(nl, np.dtype(dtype).name))
        copied = nl.ndarray(picked.shape, picked.dtype, nl.sbuf)
        nisa.tensor_copy(copied, picked)
        nisa.dma_copy(out, copied)
        return out

    x = np.random.default_rng(5).integers(-2 ** 31, 2 ** 31, (16, 32), np.int32)
    for row in range(4):
        result = nkisim.run(kernel, x, np.array([[row]], np.int32), target="trn2")
        np.testing.assert_array_equal(
            result.outputs, np.ascontiguousarray(x.reshape(16, 4, 8)[:, row]).view(dtype))


@pytest.mark.parametrize("dtype", [np.float32, np.uint32])
def test_a_row_of_halves_chosen_at_run_time_seen_as_words(dtype):
    """To a larger dtype: a row of 8 halves is one of 4 words."""
    def kernel(x, index):
        out = nl.ndarray((16, 4), dtype, nl.shared_hbm)
        row = nisa.register_alloc()
        nisa.register_load(row, nl.load(index))
        picked = nl.load(x).reshape((16, 4, 8)).select(1, row).view(getattr(nl, np.dtype(dtype).name))
        copied = nl.ndarray(picked.shape, picked.dtype, nl.sbuf)
        nisa.tensor_copy(copied, picked)
        nisa.dma_copy(out, copied)
        return out

    x = np.random.default_rng(6).integers(0, 1000, (16, 32)).astype(np.float16)
    for row in range(4):
        result = nkisim.run(kernel, x, np.array([[row]], np.int32), target="trn2")
        expected = np.ascontiguousarray(x.reshape(16, 4, 8)[:, row]).view(np.uint32)
        np.testing.assert_array_equal(np.asarray(result.outputs).view(np.uint32), expected)


@pytest.mark.parametrize("form, message", [
    (lambda t: t[:, 0:2, :, 0:3].reshape((8, 2, 9)), "cannot be seen as"),
    (lambda t: t[:, :, 0:2].reshape((8, 4, 4)), "cannot be seen as"),
    (lambda t: t.squeeze_dim(1), "has size 2; 1 is required"),
    (lambda t: t.broadcast(1, 4), "has size 2; 1 is required"),
])
def test_views_that_do_not_exist_are_refused(form, message):
    def kernel(x):
        form(nl.load(x))
        return x

    with pytest.raises(nkisim.Error, match=message):
        nkisim.run(kernel, X4)


# nki-library's TensorView works the strides off from the shape of what it is given, a part or not.
PARTS = {
    "columns": (lambda t: t[2:6, 8:20].ap([[12, 4], [3, 4]], offset=1), lambda a: a[2:6, 9:20:3]),
    "later rows": (lambda t: t[:, 8:20].ap([[12, 3], [1, 12]], offset=24), lambda a: a[2:5, 8:20]),
    "one row": (lambda t: t[:, 8:20].ap([[12, 1], [1, 5]], offset=38), lambda a: a[3:4, 10:15]),
    "halves": (lambda t: t[:, 8:20].ap([[24, 8], [2, 12]], offset=1, dtype=nl.bfloat16),
               lambda a: a[:, 8:20].copy().view(BF)[:, 1::2]),
    "the whole's stride": (lambda t: t[:, 8:20].ap([[24, 4], [1, 6]], offset=25), lambda a: a[1:5, 9:15]),
}


@pytest.mark.parametrize("name", PARTS)
def test_pattern_of_a_part_of_a_tile(name):
    view, reference = PARTS[name]
    expected = reference(X)

    def kernel(x, zeros):
        out = nl.ndarray(expected.shape, expected.dtype, buffer=nl.shared_hbm)
        kept = nl.ndarray(X.shape, X.dtype, buffer=nl.shared_hbm)
        tile, other = nl.load(x), nl.load(zeros)
        nisa.dma_copy(dst=out, src=view(tile))
        nisa.dma_copy(dst=view(other), src=out)
        nl.store(kept, other)
        return out, kept

    out, kept = nkisim.run(kernel, X, np.zeros_like(X)).outputs
    np.testing.assert_array_equal(out, expected)
    np.testing.assert_array_equal(reference(kept), expected)
    assert np.count_nonzero(kept.view(expected.dtype)) <= expected.size


def test_pattern_of_a_part_by_another_stride():
    def kernel(x):
        return nl.load(x)[:, 8:20].ap([[13, 4], [1, 6]])

    with pytest.raises(nkisim.Error, match="stride 13; 24 or, of this part of it, 12"):
        nkisim.run(kernel, X)


@pytest.mark.parametrize(("step", "warns"), [(64, False), (128, True), (1, True)])
def test_the_step_of_an_indirect_dimension_counts_for_nothing(step, warns):
    """As documented; a pattern that says another one than the tensor's own gets a message."""
    def kernel(x, rows):
        out = nl.ndarray((4, 64), dtype=x.dtype, buffer=nl.shared_hbm)
        nisa.dma_copy(dst=out, src=nl.load(x.ap([[step, 4], [1, 64]], vector_offset=nl.load(rows))))
        return out

    x = np.arange(32 * 64, dtype=np.float32).reshape(32, 64)
    rows = np.array([[3], [30], [0], [7]], np.int32)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        found = nkisim.run(kernel, x, rows, timing=False).outputs
    np.testing.assert_array_equal(found, x[rows[:, 0]])
    assert [f"indirect dimension, {step}, counts for nothing" in str(w.message) for w in said] == [True] * warns
