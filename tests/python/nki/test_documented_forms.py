"""Tests forms that the documents of one release or another show, each with the release and the page.

A kernel of any release runs here, so that a form which only an older page has is as much a promise as
one of today's. Expected values are NumPy's.
"""

import logging
import warnings
from dataclasses import dataclass, field

import ml_dtypes
import numpy as np
import pytest

import nkisim

nkisim.install()

import neuronxcc.nki as old  # noqa: E402
import neuronxcc.nki.isa as oisa  # noqa: E402
import neuronxcc.nki.language as onl  # noqa: E402
import nki  # noqa: E402
import nki.collectives as nccl  # noqa: E402
import nki.isa as nisa  # noqa: E402
import nki.language as nl  # noqa: E402

RNG = np.random.default_rng(1)
X = RNG.random((128, 8), np.float32)


def new(body, *arrays, shape=(128, 8), dtype=None):
    """body(out, *tensors) in a kernel of today's API; the output."""
    @nki.jit
    def kernel(*tensors):
        out = nl.ndarray(shape, dtype=dtype or nl.float32, buffer=nl.shared_hbm)
        body(out, *tensors)
        return out

    return nkisim.run(kernel, *arrays, timing=False).outputs


def legacy(body, *arrays, shape=(128, 8), dtype=None):
    """body(*tiles) in a kernel of neuronxcc.nki, stored; the output."""
    @old.jit
    def kernel(*tensors):
        out = onl.ndarray(shape, dtype=dtype or onl.float32, buffer=onl.shared_hbm)
        onl.store(out, value=body(*[onl.load(t) for t in tensors]))
        return out

    return old.simulate_kernel(kernel, *arrays)


# ---- neuronxcc.nki, SDK 2.20 to 2.26 -----------------------------------------------------------
@pytest.mark.parametrize("first, second", [
    ((128, 7, 1), (128, 7)), ((128, 7), (128, 7, 1)), ((128, 2, 14), (128, 28)),
    ((128, 2, 14), (128, 1)), ((128, 1), (128, 2, 14)), ((16, 2, 14), (16, 1, 1)),
    ((128, 4, 8), (128, 1, 8)), ((128, 128, 2), (128, 1))], ids=str)
def test_tensor_tensor_of_other_ranks(first, second):
    """isa.tensor_tensor, 2.20 to 2.32: "the same partition axis size and the same number of
    elements per partition"; one element per partition is broadcast."""
    x, y = RNG.random(first, np.float32), RNG.random(second, np.float32)
    shape = first if x.size >= y.size else second
    expected = x + y if len(first) == len(second) else (
        x.reshape(first[0], -1) + y.reshape(first[0], -1)).reshape(shape)
    found = legacy(lambda a, b: oisa.tensor_tensor(a, b, onl.add), x, y, shape=shape)
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("name", ["bfloat16", "float16", "float32"])
def test_scalars_of_any_float_dtype(name):
    """isa.tensor_scalar, 2.20 to 2.26: operand0 is "a tile of shape (data.shape[0], 1)", and
    arithmetic operators restrict no dtypes."""
    m = RNG.random((128, 1), np.float32)
    rounded = m.astype(getattr(ml_dtypes, name, name)).astype(np.float32)
    given = getattr(onl, name)
    found = legacy(lambda x, y: oisa.tensor_scalar(x, onl.maximum, onl.copy(y, dtype=given),
                                                   False, onl.add, onl.copy(y, dtype=given)), X, m)
    np.testing.assert_array_equal(found, np.maximum(X, rounded) + rounded)


@pytest.mark.parametrize("op", [onl.copy, np.copy], ids=["nl.copy", "np.copy"])
def test_activation_of_identity(op):
    """Supported activation functions: Identity is nki.language.copy or numpy.copy."""
    np.testing.assert_array_equal(
        legacy(lambda x: oisa.activation(op=op, data=x, scale=-1.0), X), -X)


@pytest.mark.parametrize("rows, columns", [(128, 128), (64, 32), (40, 70)])
def test_a_large_transpose_on_the_vector_engine(rows, columns):
    """isa.nc_transpose: VectorE takes 32 x 32, so a larger one is several."""
    x = RNG.random((rows, columns), np.float32)
    found = legacy(lambda t: oisa.nc_transpose(t, engine=oisa.vector_engine), x,
                   shape=(columns, rows))
    np.testing.assert_array_equal(found, x.T)


def test_masks_joined_with_or():
    """A union that is a box is one instruction; any other is an error that says so."""
    def body(x, bounds):
        rows = onl.arange(128)[:, None]
        tile = onl.zeros((128, 8), onl.float32)
        tile[...] = onl.copy(x)
        oisa.tensor_scalar(x, np.multiply, 2.0, dst=tile, mask=bounds(rows))
        return tile

    found = legacy(lambda x: body(x, lambda i: (i < 32) | (i < 64)), X)
    np.testing.assert_array_equal(found, np.where(np.arange(128)[:, None] < 64, 2 * X, X))
    with pytest.raises(nkisim.Error, match="no box of the tile"):
        legacy(lambda x: body(x, lambda i: (i < 32) | (i >= 64)), X)


def test_a_column_as_a_tile():
    """A kernel that ran on a device says y[:, i].as_tile(); the method is in no document."""
    table = np.arange(256, dtype=np.float32)[:, None]
    index = np.arange(256, dtype=np.uint32).reshape(128, 2)

    @old.jit
    def kernel(t, i):
        out = onl.ndarray((128, 1), dtype=t.dtype, buffer=onl.shared_hbm)
        y = onl.load(i)
        onl.store(out, value=onl.load(t[y[:, 1].as_tile()]))
        return out

    np.testing.assert_array_equal(old.simulate_kernel(kernel, table, index), table[index[:, 1]])


def test_constants_and_logging():
    """nki.language.constants (direct allocation guide, 2.26); importing neuronxcc gives
    logging.OFF (inferred)."""
    import neuronxcc.nki.language.constants as constants

    assert constants.sbuf_min_align == onl.constants.sbuf_min_align == onl.tile_size.sbuf_min_align
    assert constants.psum_min_align == 4 and constants.sizeinbytes(onl.bfloat16) == 2
    assert logging.OFF > logging.CRITICAL


# ---- nki, SDK 2.27 on --------------------------------------------------------------------------
def test_keywords_for_memories():
    """Quick start of SDK 2.27: `sbuf` and `hbm` are keywords of every kernel, with .view()."""
    @nki.jit
    def add(a, b):
        x = sbuf.view(dtype=a.dtype, shape=a.shape)  # noqa: F821
        y = sbuf.view(b.dtype, b.shape)  # noqa: F821
        nisa.dma_copy(dst=x, src=a)
        nisa.dma_copy(dst=y, src=b)
        nisa.tensor_tensor(dst=x, data1=x, data2=y, op=nl.add)
        out = hbm.view(dtype=a.dtype, shape=a.shape)  # noqa: F821
        nisa.dma_copy(dst=out, src=x)
        return out

    np.testing.assert_array_equal(add(X, X), X + X)
    with pytest.raises(NameError):
        sbuf  # noqa: B018, F821 (no name outside a kernel)


def test_par_dim_is_a_size():
    """neuronxcc.nki's marker of the partition dimension: the first one's size, with a hint."""
    def body(out, x):
        tile = nl.ndarray((nl.par_dim(128), 8), dtype=nl.float32, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=x)
        nisa.dma_copy(dst=out, src=tile)

    with pytest.warns(UserWarning, match="the size alone says the same"):
        np.testing.assert_array_equal(new(body, X), X)
    with pytest.raises(nkisim.Error, match="marks another dimension than the first"), \
            warnings.catch_warnings():
        warnings.simplefilter("ignore")
        new(lambda out, x: nl.ndarray((2, nl.par_dim(128), 8)), X)


@pytest.mark.parametrize("clear", ["zeros", "memset"])
def test_accumulate_onto_zeros(clear, monkeypatch):
    """isa.nc_matmul of NKI 0.3: "the result is added to the existing content"; undefined on trn2
    since 2.32 only."""
    a, b = RNG.random((128, 64), np.float32), RNG.random((128, 256), np.float32)

    def body(out, a, b):
        acc = nl.ndarray((64, 256), dtype=nl.float32, buffer=nl.psum)
        if clear == "zeros":
            acc = nl.zeros((64, 256), dtype=nl.float32, buffer=nl.psum)
        else:
            nisa.memset(acc, value=1.0)
        nisa.nc_matmul(dst=acc, stationary=nl.load(a), moving=nl.load(b), accumulate=True)
        nl.store(out, nl.copy(acc))

    with pytest.warns(UserWarning, match="since SDK 2.32"):
        found = new(body, a, b, shape=(64, 256))
    np.testing.assert_allclose(found, a.T @ b + (clear == "memset"), rtol=1e-5)
    monkeypatch.setenv("NKISIM_STRICT", "1")
    with pytest.raises(nkisim.Error, match="another engine wrote last"):
        new(body, a, b, shape=(64, 256))


def test_fields_without_defaults():
    """Language guide, class support: with and without @dataclass, a field without one is None."""
    class Plain(nl.NKIObject):
        x: int
        y: bool = False

    @dataclass
    class Data(nl.NKIObject):
        x: int
        y: bool = False
        z: list = field(default_factory=list)

    @dataclass
    class Derived(Data):
        y: bool
        w: int = 4

    assert Plain().x is None and Plain(3).x == 3 and Plain().y is False
    assert Data() == Data(None, False, []) and Data(x=1).x == 1
    assert Derived(1).w == 4 and Derived(1).y is False  # the base's default, as Python has it


@pytest.mark.parametrize("dtype, word", [(nl.float8_e4m3fn_x4, "u4"), (nl.float8_e5m2_x4, "u4"),
                                         (nl.float4_e2m1fn_x4, "u2")], ids=str)
def test_packed_types_in_numpy(dtype, word):
    """MX deep dive, and nki-library's tests: np.zeros(shape, dtype=nl.float8_e4m3fn_x4)."""
    made = np.zeros((2, 3), dtype=dtype)
    assert str(dtype) in str(made.dtype) and made.view(word).shape == (2, 3)

    def body(out, x):
        assert x.dtype == dtype
        tile = nl.ndarray((2, 3), dtype=dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=x)
        nisa.dma_copy(dst=out, src=tile)

    words = RNG.integers(0, 2 ** 16, (2, 3)).astype(word)
    made.view(word)[...] = words
    found = new(body, made, shape=(2, 3), dtype=dtype)
    np.testing.assert_array_equal(found.view(word), words)


def test_empty_slices():
    """An empty slice that is never used is no error; using it is."""
    def unused(out, x):
        assert x[nl.ds(0, 0)].shape == (0, 8) and x[:, 3:3].shape == (128, 0)
        nl.store(out, nl.load(x))

    np.testing.assert_array_equal(new(unused, X), X)
    for use in (lambda out, x: nisa.dma_copy(dst=out[:, 3:3], src=x[:, 3:3]),
                lambda out, x: nl.load(x[4:4]), lambda out, x: nl.store(out[0:0], nl.load(x)[0:0])):
        with pytest.raises(nkisim.Error, match="is empty|size 0|dimension 0"):
            new(use, X)
    with pytest.raises(nkisim.Error, match="out of bounds|empty"):
        new(lambda out, x: nl.load(x[200:200]), X)


# ---- nki.collectives in a group of one rank ----------------------------------------------------
ONE = nccl.ReplicaGroup([[0]])
COLLECTIVES = {
    "all_reduce": lambda s, d: nccl.all_reduce([s], [d], ONE, nl.add),
    "all_gather": lambda s, d: nccl.all_gather([s], [d], ONE, 0),
    "reduce_scatter": lambda s, d: nccl.reduce_scatter([s], [d], ONE, 0, nl.add),
    "all_to_all": lambda s, d: nccl.all_to_all([s], [d], ONE, 0),
    "collective_permute": lambda s, d: nccl.collective_permute([s], [d], [(0, 0)]),
    "collective_permute_implicit": lambda s, d: nccl.collective_permute_implicit([[s]], [[d]], ONE)}


@pytest.mark.parametrize("name", COLLECTIVES)
@pytest.mark.parametrize("buffer", [nl.sbuf, nl.hbm], ids=str)
def test_a_collective_of_one_rank_is_a_copy(name, buffer):
    def body(out, x):
        src, dst = (nl.ndarray((128, 8), dtype=nl.float32, buffer=buffer) for _ in range(2))
        nisa.dma_copy(dst=src, src=x)
        COLLECTIVES[name](src, dst)
        nisa.dma_copy(dst=out, src=dst)

    np.testing.assert_array_equal(new(body, X), X)


def test_a_reducing_permutation_of_one_rank_reduces():
    def body(out, x, y):
        nccl.collective_permute_implicit_reduce([[x]], [[y]], [[out]], ONE, nl.add)

    np.testing.assert_array_equal(new(body, X, X[::-1].copy()), X + X[::-1])


def test_collectives_of_several_ranks_are_refused():
    for group in ([[0, 1]], [[0], [2, 3]]):
        with pytest.raises(nkisim.Error, match="a group of 2 ranks; one of one rank is required"):
            new(lambda out, x: nccl.all_reduce([x], [out], nccl.ReplicaGroup(group), nl.add), X)


def test_the_rank_is_a_register():
    def body(out, x):
        nisa.dma_copy(dst=out, src=x)
        rank = nccl.rank_id()
        nisa.dma_copy(dst=out[nl.ds(rank, 1), :], src=x[1:2, :])

    expected = X.copy()
    expected[0] = X[1]
    np.testing.assert_array_equal(new(body, X), expected)


# ---- names and messages ------------------------------------------------------------------------
def test_internals_are_no_names_of_the_language():
    for module in (nl, onl, nisa, oisa):
        assert not {"np", "sys", "builtins", "Expr", "isa", "state", "fail", "Region", "OPS", "current",
                    "resolve", "define", "strict", "enums", "hint"} & set(dir(module))
    assert not {"copy", "float32", "uint32", "masked_product"} & set(dir(oisa))


def test_a_broadcast_error_names_the_function_and_the_shapes():
    x, y = np.zeros((128, 8), np.float32), np.zeros((128, 5), np.float32)
    with pytest.raises(nkisim.Error, match=r"multiply: shapes \(128, 8\) and \(128, 5\) do not"):
        legacy(onl.multiply, x, y)
    x, y = np.zeros((128, 2, 14), np.float32), np.zeros((128, 14), np.float32)
    with pytest.raises(nkisim.Error, match=r"multiply: shapes \(128, 2, 14\) and \(128, 14\) do"):
        legacy(onl.multiply, x, y)


def test_saved_arrays_can_be_loaded(tmp_path):
    """np.load refuses what np.save calls '<f1'."""
    for dtype in ("float8_e5m2", "float8_e4m3", "bfloat16", "float32"):
        dtype = np.dtype(getattr(ml_dtypes, dtype, dtype))
        x = RNG.integers(0, 5, (4, 8)).astype(dtype)
        result = nkisim.run(lambda a: nl_copy(a), x, timing=False)
        result.save(tmp_path / "k.nisa")
        for name in ("k.npz", "k.expected.npz"):
            with np.load(tmp_path / name) as arrays:
                (array,) = arrays.values()
                np.testing.assert_array_equal(array.view(dtype), x)


def nl_copy(a):
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    nl.store(out, nl.load(a))
    return out


@pytest.mark.parametrize("index", [
    lambda offset, i: offset + i, lambda offset, i: i + offset, lambda offset, i: i + 2 + offset - 2,
    lambda offset, i: onl.add(offset, i), lambda offset, i: offset + 0 + onl.add(i, 0),
    lambda offset, i: 9 - (9 - (offset + i))],
    ids=["tile first", "index first", "numbers", "nl.add", "nl.add of indices", "subtracted"])
def test_run_time_offset_plus_an_index_tile(index):
    """isa.tensor_copy_dynamic_src, 2.21 to 2.27: "src_tensor_sbuf[ix, offsets_sbuf[0, idx] + iy]"."""
    offsets = np.array([[3, 0, 5]], np.int32)

    @old.jit
    def kernel(x, offsets):
        out = onl.ndarray((128, 6), dtype=onl.float32, buffer=onl.shared_hbm)
        tile, at = onl.load(x), onl.load(offsets)
        gathered = onl.ndarray((128, 6), dtype=onl.float32, buffer=onl.sbuf)
        ix, iy = onl.mgrid[0:128, 0:2]
        for k in onl.affine_range(3):
            gathered[ix, 2 * k + iy] = oisa.tensor_copy_dynamic_src(tile[ix, index(at[0, k], iy)])
        onl.store(out, value=gathered)
        return out

    expected = np.concatenate([X[:, k:k + 2] for k in offsets[0]], axis=1)
    np.testing.assert_array_equal(old.simulate_kernel(kernel, X, offsets), expected)


def test_run_time_offset_beyond_the_tensor():
    @old.jit
    def kernel(x, offsets):
        out = onl.ndarray((128, 2), dtype=onl.float32, buffer=onl.shared_hbm)
        tile, at = onl.load(x), onl.load(offsets)
        ix, iy = onl.mgrid[0:128, 0:2]
        onl.store(out, value=oisa.tensor_copy_dynamic_src(tile[ix, at[0, 0] + iy]))
        return out

    with pytest.raises(nkisim.Error, match=r"is 7; an index in 0\.\.6"):  # two of eight columns
        old.simulate_kernel(kernel, X, np.array([[7]], np.int32))


def test_memory_regions():
    """nki-language-guide, 2.27 ("Creating Tensors (the hard way)"): sbuf.ptr(size=(partitions, bytes),
    offset=(partition, byte)), regions within regions, tensors of either."""
    def body(out, x):
        region = nl.sbuf.ptr(size=(128, 64))
        left, right = region.ptr(size=(128, 16)), region.ptr(size=(128, 16), offset=(0, 16))
        nisa.dma_copy(dst=left.view(nl.float32, (128, 4)), src=x[:, 4:8])
        nisa.dma_copy(dst=nl.ndarray((128, 2, 2), nl.float32, buffer=right), src=x[:, 0:4])
        low = nl.sbuf.ptr(size=(64, 32), offset=(64, 1024))
        kept = low.ptr(size=(64, 16), offset=(0, 16)).view(nl.float32, (64, 4))
        both = region.view(nl.float32, (128, 8))
        nisa.tensor_copy(dst=kept, src=both[64:128, 0:4])
        nisa.tensor_scalar(dst=both[64:128, 4:8], data=kept, op0=nl.add, operand0=1.0)
        nisa.dma_copy(dst=out, src=both)

    expected = np.concatenate([X[:, 4:8], X[:, 0:4]], axis=1)
    expected[64:, 4:] = expected[64:, :4] + 1
    np.testing.assert_array_equal(new(body, X), expected)


@pytest.mark.parametrize("offset", [None, (0, 1024)], ids=["placed by the compiler", "with an address"])
def test_regions_within_regions_have_places_of_their_own(offset):
    def body(out, x):
        region = nl.sbuf.ptr(size=(128, 64), **({} if offset is None else {"offset": offset}))
        left, right = region.ptr(size=(128, 32)), region.ptr(size=(128, 32), offset=(0, 32))
        first = right.ptr(size=(128, 16)).view(nl.float32, (128, 4))
        second = right.ptr(size=(128, 16), offset=(0, 16)).view(nl.float32, (128, 4))
        nisa.dma_copy(dst=first, src=x[:, 0:4])
        nisa.dma_copy(dst=second, src=x[:, 4:8])
        nisa.memset(left.view(nl.float32, (128, 8)), 7.0)
        nisa.dma_copy(dst=out[:, 0:4], src=first)
        nisa.dma_copy(dst=out[:, 4:8], src=second)

    np.testing.assert_array_equal(new(body, X), X)


@pytest.mark.parametrize("use, words", [
    (lambda r: r.ptr(size=(128, 65)), "65 bytes from 0 on are beyond the region, which has 64"),
    (lambda r: r.ptr(size=(64, 8), offset=(65, 0)), "64 partitions from 65 on"),
    (lambda r: r.view(nl.float32, (128, 17)), "128 partitions of 68 bytes; the region has 128 of 64"),
    (lambda r: r.ptr(size=64), r"size is 64; \(partitions, bytes\) is required"),
    (lambda r: nl.shared_hbm.ptr(size=(1, 64)), "a region of sbuf or psum is required")], ids=range(5))
def test_what_no_region_can_be(use, words):
    with pytest.raises(nkisim.Error, match=words):
        new(lambda out, x: use(nl.sbuf.ptr(size=(128, 64))), X)


def test_a_schedule_of_named_instructions():
    """how-to-scheduling-apis, 2.28 to 2.32: pairs of names, or a name and a list."""
    @nki.jit
    def kernel(t):
        x = nl.load(t)
        a = nl.ndarray(t.shape, t.dtype, buffer=nl.sbuf)
        b = nl.ndarray(t.shape, t.dtype, buffer=nl.sbuf)
        nisa.tensor_scalar(dst=a, data=x, op0=nl.multiply, operand0=2, name="twice")
        nisa.tensor_scalar(dst=b, data=x, op0=nl.add, operand0=1, name="plus1")
        nisa.tensor_tensor(dst=b, data1=a, data2=b, op=nl.add)
        out = nl.ndarray(t.shape, t.dtype, buffer=nl.hbm)
        nisa.dma_copy(dst=out, src=b)
        return out

    for edges in ([("plus1", "twice")], [("plus1", ["twice"])], []):
        scheduled = kernel.with_schedule(edges)
        np.testing.assert_array_equal(scheduled(X), 2 * X + (X + 1))
        assert scheduled.result.compiled.ordered == len(edges)
    with pytest.raises(nkisim.Error, match="a pair of names"):
        kernel.with_schedule([("plus1", 3)])


def test_iota_of_a_number():
    """nki.errors, 2.20 to 2.26: nisa.iota(i, dtype=nl.uint32).broadcast_to(data.shape), i of a loop."""
    @old.jit
    def kernel(x):
        out = onl.ndarray((128, 8), dtype=onl.float32, buffer=onl.shared_hbm)
        data = onl.load(x)
        for i in onl.sequential_range(4):
            data[...] = data + oisa.iota(i, dtype=onl.uint32).broadcast_to(data.shape)
        onl.store(out, value=data)
        return out

    np.testing.assert_allclose(old.simulate_kernel(kernel, X), X + 6, rtol=1e-6)
