"""Tests that a value beyond the range of the dtype that it is cast to is reported once, by every way of a cast;
and integers that wrap.
"""

import warnings

import ml_dtypes
import numpy as np
import pytest

import nkisim

nkisim.install()

import nki.isa as nisa  # noqa: E402
import nki.language as nl  # noqa: E402

P, N = 4, 8
# Element [1, 2] is 300: beyond int8, uint8 and float8_e4m3, within float16, int16 and float8_e5m2.
X = np.where(np.arange(P * N).reshape(P, N) == N + 2, 300, 1).astype(np.float32)
FITS = np.ones((P, N), np.float32)


def tile(dtype, shape=(P, N), buffer=None):
    return nl.ndarray(shape, dtype=dtype, buffer=buffer or nl.sbuf)


def copy(x, to):
    nisa.tensor_copy(dst=to, src=x)


def copy_by_scalar(x, to):
    nisa.tensor_copy(dst=to, src=x, engine=nisa.engine.scalar)


def activation(x, to):
    nisa.activation(dst=to, op=nl.copy, data=x)


def tensor_scalar(x, to):
    nisa.tensor_scalar(dst=to, data=x, op0=nl.multiply, operand0=1.0)


def tensor_tensor(x, to):
    nisa.tensor_tensor(dst=to, data1=x, data2=x, op=nl.maximum)


def scalar_tensor_tensor(x, to):
    nisa.scalar_tensor_tensor(dst=to, data=x, op0=nl.maximum, operand0=0.0, op1=nl.maximum, operand1=x)


def every_second(x, to):
    nisa.tensor_copy(dst=to[:, 0:N:2], src=x[:, 0:N:2])
    nisa.tensor_copy(dst=to[:, 1:N:2], src=x[:, 1:N:2])


def select(x, to):
    nisa.affine_select(dst=to, pattern=[[1, N]], channel_multiplier=0, on_true_tile=x, on_false_value=0.0,
                       cmp_op=nl.greater_equal)


def reduced(x, to):
    nisa.tensor_reduce(dst=to[:, 2:3], data=x, op=nl.maximum, axis=1)
    nisa.memset(to[:, 0:2], 0)
    nisa.memset(to[:, 3:N], 0)


def matmul(x, to):
    ones = tile(nl.float32)
    psum = tile(nl.float32, (N, N), nl.psum)
    nisa.memset(ones, 1.0)
    nisa.nc_matmul(dst=psum, stationary=x, moving=ones)
    nisa.tensor_copy(dst=to, src=psum[0:P, :])


def dma(x, to):
    nisa.dma_copy(dst=to, src=x)


def dma_sum(x, to):
    nisa.dma_compute(dst=to, srcs=[x, x], scales=[1.0, 1.0], reduce_op=nl.add)


WAYS = [copy, copy_by_scalar, activation, tensor_scalar, tensor_tensor, scalar_tensor_tensor, every_second, select,
        reduced, dma, dma_sum]
LINES = {way: way.__code__.co_firstlineno for way in [*WAYS, matmul]}


def kernel_of(way, dtype):
    def kernel(x):
        given, to = tile(x.dtype), tile(dtype)
        out = nl.ndarray((P, N), dtype=dtype, buffer=nl.shared_hbm)
        nisa.dma_copy(dst=given, src=x)
        way(given, to)
        nisa.dma_copy(dst=out, src=to)
        return out
    return kernel


def found(kernel, *inputs, **options):
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        result = nkisim.run(kernel, *inputs, **options)
    return [str(w.message) for w in said if "cannot hold" in str(w.message)], result


@pytest.mark.parametrize("dtype, becomes", [("int8", "127"), ("uint8", "255"), ("float8_e4m3", "inf")])
@pytest.mark.parametrize("way", WAYS, ids=lambda w: w.__name__)
def test_every_way_reports_it(way, dtype, becomes):
    texts, _ = found(kernel_of(way, getattr(nl, dtype)), X)
    assert len(texts) == 1, texts
    assert f"which {dtype} (" in texts[0] and f"it becomes {becomes}" in texts[0] and "element [1, 2] of " in texts[0]
    line = LINES[way]
    assert any(f"test_cast_overflow.py:{k})" in texts[0] for k in range(line + 1, line + 4)), (texts, line)
    assert texts[0].endswith("[cast_overflow]")
    assert found(kernel_of(way, getattr(nl, dtype)), FITS)[0] == []


def test_a_product_in_psum_reports_it_at_its_copy():
    texts, _ = found(kernel_of(matmul, nl.int8), X)
    assert len(texts) == 1 and "300" not in texts[0] or "303" in texts[0], texts


@pytest.mark.parametrize("dtype, value, kept", [
    ("int8", -128.5, True), ("int8", -129, False), ("uint8", -0.5, True), ("uint8", -1, False), ("int16", 32768, False),
    ("uint16", 65535.25, True), ("int32", 2.0**31, True), ("int32", 3e9, False), ("uint32", 2.0**32, True),
    ("uint32", -1, False), ("float16", 65519, True), ("float16", 65520, False), ("float8_e5m2", 61439, True),
    ("float8_e5m2", 61440, False), ("float8_e4m3", 247, True), ("float8_e4m3", 248, False), ("bfloat16", 3.4e38, True),
    ("float8_e4m3", np.inf, True), ("int8", np.inf, False), ("int8", np.nan, False), ("float8_e4m3", np.nan, True)])
def test_the_ends_of_each_range(dtype, value, kept):
    x = FITS.copy()
    x[2, 3] = value
    texts, result = found(kernel_of(copy, getattr(nl, dtype)), x)
    assert len(texts) == (not kept), texts
    assert kept or "element [2, 3] of " in texts[0]
    if dtype.startswith("float8"):  # the value itself stays what the documents say
        with np.errstate(over="ignore"):
            wanted = x.astype(getattr(ml_dtypes, dtype))
        assert np.array_equal(np.asarray(result.output).view(np.uint8), wanted.view(np.uint8))


def test_clipped_values_are_quiet():
    def clipped(x, to):
        nisa.tensor_scalar(dst=to, data=x, op0=nl.minimum, operand0=240.0, op1=nl.maximum, operand1=-240.0)

    assert found(kernel_of(clipped, nl.float8_e4m3), X * 1000)[0] == []


def test_what_depends_on_undefined_bytes_is_not_named():
    def half(x, to):
        wide = tile(nl.float32)
        nisa.tensor_copy(dst=wide[:, 0:4], src=x[:, 0:4])
        nisa.tensor_copy(dst=to, src=wide)  # columns 4 to 7 are NaN, and undefined
        nisa.tensor_copy(dst=to[:, 4:N], src=x[:, 4:N])

    assert found(kernel_of(half, nl.int8), FITS)[0] == []
    assert len(found(kernel_of(half, nl.int8), X)[0]) == 1  # of a defined element


def test_a_place_is_named_once_however_often_it_runs():
    def many(x, to):
        for _ in range(5):
            nisa.tensor_copy(dst=to, src=x)

    assert len(found(kernel_of(many, nl.int8), X, rules={"suppress": "result_lost"})[0]) == 1


def test_it_is_suppressed_or_made_an_error():
    assert found(kernel_of(copy, nl.int8), X, rules={"suppress": "cast_overflow"})[0] == []
    with pytest.raises(nkisim.Error, match="300, which int8 .-128 to 127. cannot hold") as caught:
        found(kernel_of(copy, nl.int8), X, rules={"error": "cast_overflow"})
    assert caught.value.rule == "cast_overflow"


def test_a_register_keeps_its_low_bits_and_says_so():
    def kernel(x):
        out = nl.ndarray((1, 1), dtype=nl.int8, buffer=nl.shared_hbm)
        register = nisa.register_alloc(300)
        to = tile(nl.int8, (1, 1))
        nisa.register_store(to, register)
        nisa.dma_copy(dst=out, src=to)
        return out

    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        result = nkisim.run(kernel, FITS)
    assert int(np.asarray(result.output)[0, 0]) == 44
    assert any("the register holds 300, and int8 gets its low 8 bits" in str(w.message) for w in said)


def test_a_constant_of_a_predicated_copy_fits_its_bits():
    def kernel(x, value):
        given, to = tile(x.dtype), tile(nl.int8)
        out = nl.ndarray((P, N), dtype=nl.int8, buffer=nl.shared_hbm)
        nisa.dma_copy(dst=given, src=x)
        nisa.memset(to, 0)
        nisa.tensor_copy_predicated(dst=to, src=value, predicate=given)
        nisa.dma_copy(dst=out, src=to)
        return out

    mask = np.ones((P, N), np.uint8)
    assert (np.asarray(nkisim.run(kernel, mask, -128).output) == -128).all()
    with pytest.raises(nkisim.Error, match="an integer of 8 bits"):
        nkisim.run(kernel, mask, 300)


def test_a_sum_over_ranks_reports_it():
    from nki.collectives import ReplicaGroup, all_reduce

    def kernel(x):
        mine = nl.ndarray((P, N), dtype=nl.int8, buffer=nl.hbm)
        total = nl.ndarray((P, N), dtype=nl.int8, buffer=nl.hbm)
        out = nl.ndarray((P, N), dtype=nl.int8, buffer=nl.shared_hbm)
        nisa.dma_copy(dst=mine, src=x)
        all_reduce(srcs=[mine], dsts=[total], replica_group=ReplicaGroup([[0, 1]]), op=nl.add)
        nisa.dma_copy(dst=out, src=total)
        return out

    x = np.where(X > 1, 100, 1).astype(np.int8)
    texts, result = found(kernel, x, ranks=2)
    assert texts and "is 200, which int8" in texts[0]
    assert int(np.asarray(result[1].output)[1, 2]) == 127


def rounded(kernel, *inputs, **options):
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        nkisim.run(kernel, *inputs, **options)
    return [str(w.message) for w in said if "fractions" in str(w.message)]


NORMAL = np.random.default_rng(3).standard_normal((P, N)).astype(np.float32)


@pytest.mark.parametrize("way, dtype, scale, named", [
    (dma, "int8", 1, True), (copy, "int8", 1, True), (activation, "uint8", 1, True), (dma, "int32", 1, True),
    (copy, "int32", 1, False),       # fractions of positions are dropped so
    (copy, "int8", 40, False),       # quantised
    (copy, "int8", 6, True), (copy, "int16", 6, False),
    (copy, "float8_e4m3", 1, False), (copy, "float16", 1, False)])
def test_small_fractions_that_become_integers_are_named(way, dtype, scale, named):
    x = np.abs(NORMAL) * scale if dtype == "uint8" else NORMAL * scale
    texts = rounded(kernel_of(way, getattr(nl, dtype)), x)
    assert len(texts) == named, texts
    if named:
        assert f"rounds 32 of 32 numbers to integers of {dtype}" in texts[0] and "[fractions_lost]" in texts[0]
    assert rounded(kernel_of(way, getattr(nl, dtype)), np.rint(x)) == []
    assert rounded(kernel_of(way, getattr(nl, dtype)), x, rules={"suppress": "fractions_lost"}) == []


def test_zeros_say_nothing_of_fractions():
    sparse = np.where(np.arange(N) % 2 == 0, NORMAL, 0)  # 16 numbers but zeros
    assert len(rounded(kernel_of(copy, nl.int8), sparse)) == 1


def test_one_large_number_of_a_place_shows_that_it_quantises():
    def many(x, to):
        for k in range(3):
            y = tile(nl.float32)
            nisa.tensor_scalar(dst=y, data=x, op0=nl.multiply, operand0=1.0 if k else 40.0)
            nisa.tensor_copy(dst=to, src=y)

    assert rounded(kernel_of(many, nl.int8), NORMAL, rules={"suppress": "result_lost"}) == []


#: Operands of exact integer arithmetic on GpSimd, and the exact result of each operation.
WORDS = [(nl.multiply, 100_000, 100_000, 10**10), (nl.multiply, -46341, 46341, -2147488281),
         (nl.multiply, 46340, 46341, None), (nl.add, 2**31 - 1, 1, 2**31), (nl.add, 2**31 - 1, 0, None),
         (nl.subtract, -2**31, 1, -2**31 - 1), (nl.subtract, -1, 2**31 - 1, None),
         (nl.maximum, 2**31 - 1, -2**31, None)]


def of_words(form, op, dtype=nl.int32):
    def kernel(a, b):
        x, y, to = (tile(dtype) for _ in range(3))
        out = nl.ndarray((P, N), dtype=dtype, buffer=nl.shared_hbm)
        nisa.dma_copy(dst=x, src=a)
        nisa.dma_copy(dst=y, src=b)
        if form == "tensor":
            nisa.tensor_tensor(dst=to, data1=x, data2=y, op=op)
        else:
            nisa.tensor_scalar(dst=to, data=x, op0=op, operand0=y[:, 2:3])
        nisa.dma_copy(dst=out, src=to)
        return out
    return kernel


def words(value, dtype=np.int32):
    given = np.ones((P, N), dtype)
    given[1, 2] = value
    return given


@pytest.mark.parametrize("form", ["tensor", "scalar"])
@pytest.mark.parametrize("op, a, b, exact", WORDS, ids=lambda v: v.__name__ if callable(v) else None)
def test_an_integer_that_wraps_is_named(form, op, a, b, exact):
    if form == "scalar" and op is nl.maximum:
        return  # no exact integer operator of tensor_scalar
    texts, result = found(of_words(form, op), words(a), words(b))
    if exact is None:
        assert texts == []
        return
    wrapped = (exact + 2**31) % 2**32 - 2**31
    assert np.asarray(result.output)[1, 2] == wrapped
    assert len(texts) == 1 and f"is {exact}, which int32 (-2^31 to 2^31 - 1) cannot hold" in texts[0]
    assert f"it wraps to {wrapped}" in texts[0] and "element [1, 2] of " in texts[0] and "[cast_overflow]" in texts[0]


def test_unsigned_integers_are_modular():
    """As hashes and random generators have them."""
    texts, result = found(of_words("tensor", nl.multiply, nl.uint32), words(100_000, np.uint32),
                          words(100_000, np.uint32))
    assert texts == [] and np.asarray(result.output)[1, 2] == 10**10 % 2**32


def test_a_sum_over_partitions_wraps_and_says_so():
    def kernel(a):
        x, to = tile(nl.int32), tile(nl.int32, (1, N))
        out = nl.ndarray((1, N), dtype=nl.int32, buffer=nl.shared_hbm)
        nisa.dma_copy(dst=x, src=a)
        nisa.tensor_partition_reduce(dst=to, op=nl.add, data=x)
        nisa.dma_copy(dst=out, src=to)
        return out

    texts, _ = found(kernel, words(2**31 - 3))
    assert len(texts) == 1 and "is 2147483648, which int32" in texts[0] and "element [0, 2] of " in texts[0]
    assert found(kernel, words(2**31 - 4))[0] == []


def by_fp32(op, operand, dtype=nl.int32, engine=nisa.engine.vector):
    """data op operand on an engine that computes in FP32."""
    def kernel(a):
        x, to = tile(dtype), tile(dtype)
        out = nl.ndarray((P, N), dtype=dtype, buffer=nl.shared_hbm)
        nisa.dma_copy(dst=x, src=a)
        nisa.tensor_scalar(dst=to, data=x, op0=op, operand0=operand, engine=engine)
        nisa.dma_copy(dst=out, src=to)
        return out
    return kernel


@pytest.mark.parametrize("op, operand, value, gives", [
    (nl.multiply, 1001, 50_001, 50_051_000), (nl.add, 1, 2**24 + 1, None), (nl.add, 3, 2**24, 2**24 + 4),
    (nl.add, 0, 2**24, None), (nl.multiply, 4096, 50_001, None), (nl.maximum, 0, 2**31 - 1, None),
    (nl.add, 1, 2**24 - 1, None), (nl.subtract, 5, -2**25, -2**25 - 4)])
def test_integers_beyond_those_of_fp32_are_named(op, operand, value, gives):
    """Beyond 2^24 only; limits and multiples of 4096 are left alone. 2^24 + 1 is read as 2^24."""
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        result = nkisim.run(by_fp32(op, operand), words(value))
    texts = [str(w.message) for w in said if "integer_rounded" in str(w.message)]
    assert len(texts) == (gives is not None), texts
    if gives is not None:
        assert np.asarray(result.output)[1, 2] == gives
        assert "element [1, 2] of " in texts[0]
        assert f" is {gives}: the engine computes in FP32, which lacks integers beyond 16777216" in texts[0]


def test_a_suppressed_rule_leaves_the_other():
    def said(kernel, given, suppressed):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            nkisim.run(kernel, given, rules={"suppress": suppressed})
        return {rule for rule in ("cast_overflow", "integer_rounded") for w in caught if f"[{rule}]" in str(w.message)}

    rounds, wraps = (by_fp32(nl.multiply, 1001), words(50_001)), (by_fp32(nl.multiply, 2**16), words(2**20))
    assert said(*rounds, "cast_overflow") == {"integer_rounded"} and said(*rounds, "integer_rounded") == set()
    assert said(*wraps, "integer_rounded") == {"cast_overflow"} and said(*wraps, "cast_overflow") == set()


def test_exact_and_float_arithmetic_is_not_named():
    for kernel, given in ((of_words("tensor", nl.add), (words(2**24 + 1), words(2))),
                          (by_fp32(nl.multiply, 3.0, nl.float32), (words(2**25 + 4).astype(np.float32),))):
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            nkisim.run(kernel, *given)
        assert not [w for w in said if "integer_rounded" in str(w.message)]
