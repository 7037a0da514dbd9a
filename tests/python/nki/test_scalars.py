"""Tests scalars of the device (NKI 0.7): they wrap as NumPy's do, in runs with and without timing.

NKISIM_DRAWN_CASES=10000 for the large run; a case is one kernel, its seed its number.
"""

import os

import numpy as np
import pytest

import nkisim

nkisim.install()

import nki  # noqa: E402
import nki.isa as nisa  # noqa: E402
import nki.language as nl  # noqa: E402

CASES = int(os.environ.get("NKISIM_DRAWN_CASES", "40"))
TYPES = {"int32": np.int32, "int64": np.int64}


def one(value, kind):
    return np.array([[value]], TYPES[kind])


def loaded(src, buffer=nl.sbuf):
    if buffer is not nl.sbuf:
        return nisa.scalar_load(src)
    tile = nl.ndarray((1, 1), src.dtype, nl.sbuf)
    nisa.dma_copy(tile, src)
    return nisa.scalar_load(tile)


def stored(value):
    tile = nl.ndarray((1, 1), value.dtype, nl.sbuf)
    nisa.scalar_store(tile, value)
    out = nl.ndarray((1, 1), value.dtype, nl.shared_hbm)
    nisa.dma_copy(out, tile)
    return out


# ---- AWS's page (nki/deep-dives/nki-scalar, NkiScalar) -----------------------------------------
def test_the_pages_first_example():
    @nki.jit
    def scalar_arithmetic(index):
        index_tile = nl.ndarray((1, 1), dtype=nl.int32, buffer=nl.sbuf)
        nisa.dma_copy(dst=index_tile, src=index)
        i = nisa.scalar_load(index_tile)
        assert isinstance(i, nisa.NkiScalar) and i.dtype == nl.int32
        i = i * 4 + 1
        result = nl.ndarray((1, 1), dtype=nl.int32, buffer=nl.sbuf)
        nisa.scalar_store(result, i)
        out = nl.ndarray((1, 1), dtype=nl.int32, buffer=nl.shared_hbm)
        nisa.dma_copy(dst=out, src=result)
        return out

    assert nki.simulate(scalar_arithmetic)(one(3, "int32")) == 13


@pytest.mark.parametrize("kind, factor, product", [("int32", 100000, 1410065408), ("int64", 100000, 10000000000)])
def test_products_wrap_at_the_scalars_width(kind, factor, product):
    out = nkisim.run(lambda x: stored(loaded(x) * factor), one(100000, kind)).outputs
    assert out == product and out.dtype == TYPES[kind]


@pytest.mark.parametrize("kind", TYPES)
def test_one_more_than_the_largest_is_the_smallest(kind):
    largest = int(np.iinfo(TYPES[kind]).max)
    assert nkisim.run(lambda x: stored(loaded(x) + 1), one(largest, kind)).outputs == -largest - 1


# ---- drawn expressions -------------------------------------------------------------------------
class RandomCase:
    """An expression of up to eight operations on two scalars, and its value by NumPy's wrap."""

    def __init__(self, seed):
        rng = np.random.default_rng(seed)
        self.kind = ["int32", "int64"][seed % 2]
        limits = np.iinfo(TYPES[self.kind])
        edge = [limits.min, limits.max, 0, 1, -1]
        draw = lambda: int(rng.choice(edge) if rng.random() < 0.2 else  # noqa: E731
                           rng.integers(limits.min, limits.max, endpoint=True)
                           if rng.random() < 0.5 else rng.integers(-1000, 1000))
        self.inputs = [draw(), draw()]
        self.steps = [(rng.choice(["+", "-", "*", "neg"]), int(rng.integers(3)), draw(),
                       bool(rng.integers(2))) for _ in range(int(rng.integers(1, 9)))]
        self.memory = [nl.sbuf, nl.shared_hbm][int(rng.integers(2))]

    def value(self, scalars):
        values = list(scalars)
        for op, which, number, swapped in self.steps:
            a = values[-1]
            b = values[which] if which < 2 else number
            if swapped:
                a, b = b, a
            if op == "neg":
                values.append(-values[-1])
            elif not hasattr(a, "dtype") and not hasattr(b, "dtype"):
                values.append(values[-1])
            else:
                values.append(a + b if op == "+" else a - b if op == "-" else a * b)
        return values[-1]

    def expected(self):
        kind = TYPES[self.kind]
        wrapped = [np.array(n, kind) for n in self.inputs]

        class Wrapped:
            dtype = kind

            def __init__(self, n):
                self.n = np.array(n, kind)

            def _with(self, other, op):
                other = other.n if isinstance(other, Wrapped) else np.array(other, kind)
                with np.errstate(over="ignore"):
                    return Wrapped(op(self.n, other))

            def __add__(self, o):
                return self._with(o, np.add)

            def __sub__(self, o):
                return self._with(o, np.subtract)

            def __mul__(self, o):
                return self._with(o, np.multiply)

            __radd__, __rmul__ = __add__, __mul__

            def __rsub__(self, o):
                return self._with(o, lambda a, b: np.subtract(b, a))

            def __neg__(self):
                return self._with(0, lambda a, b: np.subtract(b, a))

        return self.value([Wrapped(n) for n in wrapped]).n


@pytest.mark.parametrize("seed", range(CASES))
def test_a_random_expression_is_numpys(seed):
    case = RandomCase(seed)

    def kernel(a, b):
        return stored(case.value([loaded(a, case.memory), loaded(b, case.memory)]))

    given = [one(n, case.kind) for n in case.inputs]
    runs = [nkisim.run(kernel, *given, timing=timing, grid=2 if seed % 8 < 2 else None,
                       allow_races=True).outputs for timing in (False, True)]
    assert runs[0] == runs[1] == case.expected(), (case.inputs, case.steps)


# ---- where scalars are used --------------------------------------------------------------------
@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("at", [0, 3, 6])
def test_a_scalar_offsets_an_access_pattern_in_hbm(kind, at):
    def kernel(x, index):
        i = loaded(index)
        tile = nl.ndarray((2, 4), x.dtype, nl.sbuf)
        nisa.dma_copy(tile, x.ap([[4, 2], [1, 4]], scalar_offset=i))
        out = nl.ndarray((2, 4), x.dtype, nl.shared_hbm)
        nisa.dma_copy(out, tile)
        return out

    x = np.arange(32, dtype=np.float32).reshape(8, 4)
    for timing in (False, True):
        assert np.array_equal(nkisim.run(kernel, x, one(at, kind), timing=timing).outputs, x[at:at + 2])


@pytest.mark.parametrize("timing", [False, True])
def test_a_scalar_of_64_bits_reaches_beyond_4_gb(timing):
    """Bytes of a tensor of 5 GiB, written at a run-time address, moved at fixed ones, and read back."""
    rows = 5 << 30

    def kernel(index, x):
        far = nl.ndarray((rows, 1), x.dtype, nl.private_hbm)
        at = loaded(index) * 1024 + 1
        tile = nl.ndarray((1, 4), x.dtype, nl.sbuf)
        back = nl.ndarray((1, 4), x.dtype, nl.sbuf)
        nisa.dma_copy(tile, x)
        nisa.dma_copy(far.ap([[4, 1], [1, 4]], scalar_offset=at), tile)
        nisa.dma_copy(back, far[rows - 1023:rows - 1019, 0:1].reshape((1, 4)))
        nisa.dma_copy(far[rows - 2047:rows - 2043, 0:1].reshape((1, 4)), back)
        nisa.dma_copy(tile, far.ap([[4, 1], [1, 4]], scalar_offset=at - 1024))
        out = nl.ndarray((1, 4), x.dtype, nl.shared_hbm)
        nisa.dma_copy(out, tile)
        return out

    x = np.arange(1, 5, dtype=np.uint8).reshape(1, 4)
    assert np.array_equal(nkisim.run(kernel, one(rows // 1024 - 1, "int64"), x, timing=timing).outputs, x)


def test_an_offset_that_no_tensor_has_is_refused_and_does_not_wrap():
    def kernel(x, index):
        tile = nl.ndarray((1, 4), x.dtype, nl.sbuf)
        nisa.dma_copy(tile, x.ap([[4, 1], [1, 4]], scalar_offset=loaded(index)))
        out = nl.ndarray((1, 4), x.dtype, nl.shared_hbm)
        nisa.dma_copy(out, tile)
        return out

    x = np.ones((8, 4), np.float32)
    for at in (1 << 62, -(1 << 62), 1 << 33):  # times 4 bytes, modulo 2**64 or 2**32, they are 0
        with pytest.raises(nkisim.Error, match="within its 128 bytes"):
            nkisim.run(kernel, x, one(at, "int64"))


def test_an_integer_widens_and_narrows_on_its_way_to_a_scalar_of_its_width():
    def kernel(narrow, wide):
        made = [nl.ndarray((1, 1), kind, nl.sbuf) for kind in (nl.int64, nl.int32)]
        nisa.dma_copy(made[0], narrow)
        nisa.dma_copy(made[1], wide)
        return stored(nisa.scalar_load(made[0]) * 3), stored(nisa.scalar_load(made[1]))

    a, b = nkisim.run(kernel, one(-2147483648, "int32"), one(1 << 40, "int64")).outputs
    assert a == -6442450944 and a.dtype == np.int64
    assert b == 2147483647 and b.dtype == np.int32


@pytest.mark.parametrize("timing", [False, True])
def test_a_scalar_bounds_a_loop_and_is_its_index(timing):
    def kernel(x, count):
        out = nl.ndarray(x.shape, x.dtype, nl.shared_hbm)
        zero = nl.ndarray(x.shape, x.dtype, nl.sbuf)
        nisa.memset(zero, 0)
        nisa.dma_copy(out, zero)
        seen = []

        def body(i):
            seen.append(i)
            tile = nl.ndarray((1, 4), x.dtype, nl.sbuf)
            nisa.dma_copy(tile, x.ap([[4, 1], [1, 4]], scalar_offset=i + 1))
            nisa.dma_copy(out.ap([[4, 1], [1, 4]], scalar_offset=i + 1), tile)

        nl.fori_loop(0, loaded(count) - 1, body)
        assert isinstance(seen[0], nisa.NkiScalar)
        return out

    x = np.arange(32, dtype=np.float32).reshape(8, 4)
    expected = np.zeros_like(x)
    expected[1:5] = x[1:5]
    assert np.array_equal(nkisim.run(kernel, x, one(5, "int32"), timing=timing).outputs, expected)


def test_the_index_is_a_register_where_a_bound_is_one():
    def kernel(x):
        seen = []
        nl.fori_loop(0, nisa.register_alloc(2), seen.append)
        nl.fori_loop(0, 2, seen.append)
        assert type(seen[0]) is nl.VirtualRegister and type(seen[1]) is nisa.NkiScalar
        return stored(loaded(x))

    assert nkisim.run(kernel, one(7, "int32")).outputs == 7


# ---- refusals ----------------------------------------------------------------------------------
REFUSED = {
    "64 bits on chip": (lambda a, b: nisa.tensor_copy(
        nl.ndarray((1, 1), nl.int32, nl.sbuf), nl.ndarray((1, 4), nl.int32, nl.sbuf).ap(
            [[4, 1], [1, 1]], scalar_offset=loaded(b))), "int64 reaches into HBM alone"),
    "64 bits as a bound": (lambda a, b: nl.fori_loop(0, loaded(b), lambda i: None), "int64"),
    "64 bits compared": (lambda a, b: loaded(b) < 3, "no comparison of 64 bits"),
    "two widths": (lambda a, b: loaded(a) + loaded(b), "one of int32"),
    "stored narrower": (lambda a, b: nisa.scalar_store(nl.ndarray((1, 1), nl.int32, nl.sbuf), loaded(b)),
                        "one width"),
    "computed with": (lambda a, b: nisa.tensor_scalar(
        nl.ndarray((1, 1), nl.int64, nl.sbuf), b, nl.add, 1.0), "dst is int64"),
    "cast": (lambda a, b: nisa.dma_copy(nl.ndarray((1, 1), nl.float32, nl.sbuf), b), "int64"),
    "65 bits": (lambda a, b: loaded(b) + (1 << 63), "64 bits"),
    "unsigned": (lambda a, b: nisa.scalar_load(nl.ndarray((1, 1), nl.uint32, nl.sbuf)), "int32"),
    "two elements": (lambda a, b: nisa.scalar_load(nl.ndarray((1, 2), nl.int32, nl.sbuf)), "1x1"),
    "a Python int": (lambda a, b: nisa.scalar_store(nl.ndarray((1, 1), nl.int32, nl.sbuf), 3), "NkiScalar"),
    "float": (lambda a, b: loaded(a) + 1.5, "an integer or a scalar"),
    "large": (lambda a, b: loaded(a) + (1 << 31), "32 bits"),
    "divided": (lambda a, b: loaded(a) // 2, "arithmetic on a register"),
    "used comparison": (lambda a, b: (loaded(a) < 3) + 1, "result of a comparison"),
    "truth": (lambda a, b: bool(loaded(a)), "a truth value"),
    "int": (lambda a, b: int(loaded(a)), "a Python integer"),
    "range": (lambda a, b: list(range(loaded(a))), "a Python integer"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_wrong_use_of_a_scalar_is_refused(name):
    call, said = REFUSED[name]
    with pytest.raises((TypeError, ValueError, nkisim.Error), match=said) as raised:
        nkisim.run(lambda a, b: call(a, b), one(1, "int32"), one(1, "int64"))
    assert raised.value.kernel_file == __file__


def test_a_comparison_itself_is_taken():
    assert nkisim.run(lambda x: (loaded(x) < 3, stored(loaded(x)))[1], one(2, "int32")).outputs == 2
