"""Tests neuronxcc.nki kernels that run on the chip but that an earlier nkisim refused, and kernels
like them.
"""
import ml_dtypes
import neuronxcc.nki as nki
import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl
import numpy as np
import pytest

import nkisim

RNG = np.random.default_rng(13)
F32, BF16 = np.float32, ml_dtypes.bfloat16
WIDE = RNG.standard_normal((128, 4, 8)).astype(F32)
COLUMN = RNG.standard_normal((128, 1)).astype(F32)


def run(body, *arrays, shape, dtype=F32, target="trn2"):
    @nki.jit
    def kernel(*tensors):
        out = nl.ndarray(shape, dtype=dtype, buffer=nl.shared_hbm)
        nl.store(out, body(*[nl.load(t) for t in tensors]))
        return out

    return nkisim.run(kernel, *arrays, target=target)


def exact(body, *arrays, expected, **settings):
    expected = np.asarray(expected)
    found = run(body, *arrays, shape=expected.shape, dtype=expected.dtype, **settings)
    np.testing.assert_array_equal(found.outputs, expected)
    return found


# ---- tensor_tensor of [128, a, b] with [128, 1] -----------------------------------------------
@pytest.mark.parametrize("target", ["trn1", "trn2"])
@pytest.mark.parametrize("engine", [None, "vector_engine", "gpsimd_engine"])
def test_a_column_with_a_tile_of_any_rank(target, engine):
    given = {} if engine is None else {"engine": getattr(nisa, engine)}
    for shape in ((128, 32), (128, 4, 8), (128, 2, 2, 8)):
        x = WIDE.reshape(shape)
        column = COLUMN.reshape((128,) + (1,) * (len(shape) - 1))
        for first in (True, False):
            found = exact(lambda a, b: nisa.tensor_tensor(*((a, b) if first else (b, a)),
                                                          op=np.subtract, **given), x, COLUMN,
                          expected=x - column if first else column - x, target=target)
            assert found.instructions == 4  # two loads, one sum, one store


@pytest.mark.parametrize("index", [np.s_[:, :, :1], np.s_[:, :1], np.s_[:, :1, :1]])
def test_dimensions_of_one(index):
    other = WIDE[index].copy()
    exact(lambda a, b: nisa.tensor_tensor(a, b, op=np.multiply), WIDE, other, expected=WIDE * other)


def test_columns_of_other_dtypes():
    narrow = COLUMN.astype(BF16)
    exact(lambda a, b: nisa.tensor_tensor(a, b, op=np.multiply), WIDE, narrow,
          expected=WIDE * narrow.astype(F32)[:, :, None])
    exact(lambda a, b: nisa.tensor_tensor(a, b, op=np.multiply, dtype=nl.bfloat16), WIDE, COLUMN,
          expected=(WIDE * COLUMN[:, :, None]).astype(BF16))
    whole = RNG.integers(-99, 99, (128, 4, 8)).astype(np.int32)
    exact(lambda a, b: nisa.tensor_tensor(a, b, op=np.add), whole, whole[:, 0, :1].copy(),
          expected=whole + whole[:, :1, :1])


def test_a_column_from_psum_and_under_a_mask():
    def from_psum(x, column):
        tile = nl.zeros((128, 4, 8), dtype=nl.float32, buffer=nl.psum)
        tile[...] = nl.copy(x)
        return nisa.tensor_tensor(tile, column, op=np.multiply)

    def masked(x, column):
        p, i, j = nl.mgrid[0:128, 0:4, 0:8]
        result = nl.zeros((128, 4, 8), dtype=nl.float32, buffer=nl.sbuf)
        result[p, i, j] = nisa.tensor_tensor(x[p, i, j], column, op=np.multiply, mask=(p < 100))
        return result

    expected = WIDE * COLUMN[:, :, None]
    exact(from_psum, WIDE, COLUMN, expected=expected)
    expected[100:] = 0
    exact(masked, WIDE, COLUMN, expected=expected)


def test_what_does_not_broadcast_says_so():
    for other in (WIDE[:, 0].copy(), WIDE[:, :, 0].copy(), WIDE[:, :3].copy()):
        with pytest.raises(nkisim.Error, match="do not broadcast"):
            run(lambda a, b: nisa.tensor_tensor(a, b, op=np.add), WIDE, other, shape=WIDE.shape)


# ---- activation(op=nl.copy) -------------------------------------------------------------------
@pytest.mark.parametrize("target", ["trn1", "trn2", "trn3"])
@pytest.mark.parametrize("op", [nl.copy, np.copy], ids=["nl", "np"])
def test_activation_copies(target, op):
    for x in (WIDE, WIDE.astype(BF16), WIDE.astype(np.float16), (100 * WIDE).astype(np.int32)):
        found = exact(lambda t: nisa.activation(op=op, data=t), x, expected=x, target=target)
        assert found.summary["nc_0"]["scalar_engine_instruction_count"] >= 1


def test_a_copy_with_scale_bias_and_mask():
    x = WIDE[:, 0].copy()
    exact(lambda t, b: nisa.activation(op=nl.copy, data=t, bias=b, scale=2.0), x, COLUMN,
          expected=(2 * x + COLUMN))
    exact(lambda t: nisa.activation(op=nl.copy, data=t, dtype=nl.bfloat16), x,
          expected=x.astype(BF16))

    def masked(t):
        p, i = nl.mgrid[0:128, 0:8]
        result = nl.zeros((128, 8), dtype=nl.float32, buffer=nl.sbuf)
        result[p, i] = nisa.activation(op=nl.copy, data=t[p, i], mask=(i < 5))
        return result

    exact(masked, x, expected=np.where(np.arange(8) < 5, x, 0))


# ---- nc_transpose beyond 32 x 32 on VectorE ---------------------------------------------------
@pytest.mark.parametrize("target", ["trn1", "trn2"])
@pytest.mark.parametrize("rows, columns", [(128, 128), (64, 128), (128, 32), (100, 60), (33, 32),
                                           (1, 128), (128, 1), (32, 32), (16, 16)])
def test_a_transpose_is_one_instruction_for_each_block(target, rows, columns):
    x = RNG.standard_normal((rows, columns)).astype(F32)
    found = exact(lambda t: nisa.nc_transpose(t, engine=nisa.vector_engine), x, expected=x.T,
                  target=target)
    blocks = -(-rows // 32) * -(-columns // 32)
    assert found.summary["nc_0"]["vector_engine_instruction_count"] == blocks
    assert found.summary["nc_0"]["tensor_engine_instruction_count"] == 0


def test_a_block_takes_its_own_time():
    """16 blocks of 32 x 32 are not faster than 4, nor slower than 4 times 4 and their start."""
    few, many = (run(lambda t: nisa.nc_transpose(t, engine=nisa.vector_engine),
                     np.zeros((n, n), F32), shape=(n, n)).summary["nc_0"] for n in (64, 128))
    name = "vector_engine_instruction_time"
    assert many[name] == pytest.approx(4 * few[name], rel=0.01)


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int16, np.uint16, np.int32, np.uint32,
                                   np.float16, BF16, F32], ids=lambda d: np.dtype(d).name)
@pytest.mark.parametrize("engine", ["vector_engine", None])
def test_a_transpose_keeps_every_dtype(dtype, engine):
    """The documents take any dtype; without an engine the compiler chooses one that can."""
    if np.dtype(dtype).kind in "iu":
        limits = np.iinfo(dtype)
        x = RNG.integers(limits.min, limits.max, (128, 96), dtype, endpoint=True)
        if engine is None and x.itemsize > 1:
            x = (x % 99).astype(dtype)  # TensorE: as the fp32 numbers they are
    else:
        x = RNG.standard_normal((128, 96)).astype(dtype)
    given = {} if engine is None else {"engine": getattr(nisa, engine)}
    exact(lambda t: nisa.nc_transpose(t, **given), x, expected=x.T)


def test_bits_that_are_no_numbers_are_moved_on_the_vector_engine():
    x = RNG.integers(0, 2 ** 32, (128, 128), np.uint32).view(F32)
    found = run(lambda t: nisa.nc_transpose(t, engine=nisa.vector_engine), x, shape=(128, 128))
    np.testing.assert_array_equal(found.outputs.view(np.uint32), x.T.view(np.uint32))


@pytest.mark.parametrize("engine", ["gpsimd_engine", "scalar_engine"])
def test_engines_that_do_not_transpose(engine):
    with pytest.raises(nkisim.Error, match="tensor, vector is required"):
        run(lambda t: nisa.nc_transpose(t, engine=getattr(nisa, engine)), WIDE[:, 0].copy(),
            shape=(8, 128))
