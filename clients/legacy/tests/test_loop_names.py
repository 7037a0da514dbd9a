"""Tests Python variables in neuronxcc.nki loops, whose body AWS's compiler went through only once."""

import warnings

import numpy as np
import pytest

import nkisim

nkisim.install()

import neuronxcc.nki as nki  # noqa: E402
import neuronxcc.nki.language as nl  # noqa: E402

X = np.ones((4, 128, 8), np.float32)


def run(kernel, *args):
    """(output, notes about names)."""
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        out = np.asarray(nki.jit(kernel)(*args))
    return out, [str(w.message) for w in found if "traced" in str(w.message)]


def affine(x):
    out, factor = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm), 1.0
    for i in nl.affine_range(4):
        factor = factor * 2
        nl.store(out[i], nl.multiply(nl.load(x[i]), factor))
    return out


def sequential(x):
    out, factor = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm), 1.0
    for i in nl.sequential_range(4):
        factor *= 2
        nl.store(out[i], nl.multiply(nl.load(x[i]), factor))
    return out


def static(x):
    out, factor = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm), 1.0
    for i in nl.static_range(4):
        factor = factor * 2
        nl.store(out[i], nl.multiply(nl.load(x[i]), factor))
    return out


def nested(x):
    """In one trace the inner body doubles once; what the outer body sets before it is read is no state."""
    out, factor = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm), 3.0
    for i in nl.affine_range(2):
        fresh = 1.0
        for j in nl.affine_range(2):
            factor, fresh = factor * 2, fresh + 1
            nl.store(out[2 * i + j], nl.multiply(nl.load(x[2 * i + j]), factor + 10 * fresh))
    return out


def of_the_index(x):
    out, at = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm), 1
    for i in nl.affine_range(4):
        at = at + i
        nl.store(out[i], nl.multiply(nl.load(x[i]), at))
    return out


def in_a_branch(x):
    out, first = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm), True
    for i in nl.affine_range(4):
        nl.store(out[i], nl.multiply(nl.load(x[i]), 2.0 if first else 1.0))
        if first:
            first = False
    return out


def set_first(x):
    """No iteration reads what another one set."""
    out, factor = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm), 1.0
    for i in nl.affine_range(4):
        factor = 5.0 + i
        nl.store(out[i], nl.multiply(nl.load(x[i]), factor))
        factor = factor + 1
    return out


@pytest.mark.parametrize("kernel, factors, notes", [
    (affine, [2, 2, 2, 2], 1), (sequential, [2, 2, 2, 2], 1), (static, [2, 4, 8, 16], 0), (nested, [26, 26, 26, 26], 3),
    (of_the_index, [1, 2, 3, 4], 1), (in_a_branch, [2, 2, 2, 2], 1), (set_first, [5, 6, 7, 8], 0)])
def test_an_iteration_begins_with_what_was_there_before_the_loop(kernel, factors, notes):
    out, said = run(kernel, X)
    assert out[:, 0, 0].tolist() == factors
    assert len(said) == notes, said


def test_the_note_is_at_the_loop():
    with pytest.warns(UserWarning, match="factor is 2.0 after an iteration; .* begins with 1.0, as here") as caught:
        nki.jit(affine)(X)
    assert caught[0].lineno == affine.__code__.co_firstlineno + 2 and caught[0].filename == __file__


def tile(x):
    out, sums = nl.ndarray((128, 8), dtype=x.dtype, buffer=nl.shared_hbm), nl.load(x[0])
    for i in nl.sequential_range(3):
        sums = nl.add(sums, nl.load(x[i + 1]))
    nl.store(out, sums)
    return out


def test_a_tile_that_is_set_anew_is_reported():
    out, said = run(tile, X)
    assert len(said) == 1 and "sums was a tile before the loop" in said[0] and "sums[...] = is required" in said[0]


def flat(x):
    nl.zeros((128,), dtype=x.dtype)


def guessed(x):
    nl.load(x.reshape((-1, 8)))


@pytest.mark.parametrize("body, text", [
    (flat, r"shape is \(128,\), which has no partition and free dimension; \(128, 1\) or \(1, 128\) is required"),
    (guessed, "is -1; each size is required")])
def test_what_its_simulator_refuses(body, text):
    @nki.jit
    def kernel(x):
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        body(x)
        nl.store(out, nl.load(x))
        return out

    with pytest.raises(nkisim.Error, match=text):
        kernel(X[0])


def test_a_masked_store_takes_the_first_elements_of_a_wider_value():
    @nki.jit
    def kernel(x):
        out = nl.ndarray((128, 15, 7), dtype=x.dtype, buffer=nl.shared_hbm)
        nl.store(out[:, 0:16, :], value=nl.load(x), mask=(nl.arange(16)[None, :, None] < 15))
        return out

    x = np.random.default_rng(0).random((128, 16, 8), np.float32)
    with pytest.warns(UserWarning, match=r"\(128, 16, 8\) is stored to a place of shape \(128, 16, 7\)"):
        np.testing.assert_array_equal(kernel(x), x[:, :15, :7])


@pytest.mark.parametrize("turned", [False, True])
def test_a_product_of_two_widths(turned):
    @nki.jit
    def kernel(a, b):
        out = nl.ndarray((128, 64), dtype=nl.float32, buffer=nl.shared_hbm)
        narrow, wide = nl.copy(nl.load(a), dtype=nl.bfloat16), nl.load(b)
        nl.store(out, nl.copy(nl.matmul(narrow, wide, transpose_x=turned)))
        return out

    rng = np.random.default_rng(1)
    a = rng.integers(-8, 9, (128, 128)).astype(np.float32)  # exact in bfloat16
    b = rng.random((128, 64), np.float32)
    np.testing.assert_allclose(kernel(a, b), (a.T if turned else a) @ b.astype(np.float64), rtol=1e-5, atol=1e-4)


class Held:
    factor = 1.0


def _times(x, out, i, factor):
    nl.store(out[i], nl.multiply(nl.load(x[i]), factor))


def of_a_list(x):
    out, factors = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm), []
    for i in nl.affine_range(4):
        factors.append(1.0)
        _times(x, out, i, len(factors))
    return out


def of_a_list_made_anew(x):
    out, factors = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm), []
    for i in nl.sequential_range(4):
        factors = factors + [1.0]
        _times(x, out, i, len(factors))
    return out


def of_a_dictionary(x):
    out, held = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm), {"factor": 1.0}
    for i in nl.affine_range(4):
        held["factor"] *= 2
        _times(x, out, i, held["factor"])
    return out


def of_an_attribute(x):
    out, held = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm), Held()
    for i in nl.affine_range(4):
        held.factor = held.factor * 2
        _times(x, out, i, held.factor)
    return out


def _called(x, out):
    factor = 1.0
    for i in nl.affine_range(4):
        factor = factor * 2
        _times(x, out, i, factor)


def of_a_called_function(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    _called(x, out)
    return out


def of_a_closure(x):
    out, factor = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm), 1.0

    def double():
        nonlocal factor
        factor = factor * 2

    for i in nl.affine_range(4):
        double()
        _times(x, out, i, factor)
    return out


_factor = 1.0


def of_the_module(x):
    global _factor
    out, _factor = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm), 1.0
    for i in nl.affine_range(4):
        _factor = _factor * 2
        _times(x, out, i, _factor)
    return out


def of_a_range_with_a_name(x):
    out, factor, indices = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm), 1.0, nl.affine_range(4)
    for i in indices:
        factor = factor * 2
        _times(x, out, i, factor)
    return out


def of_an_iterator(x):
    out, factors = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm), iter((1.0, 2.0, 3.0, 4.0))
    for i in nl.affine_range(4):
        _times(x, out, i, next(factors))
    return out


def counted(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    for n, i in enumerate(nl.affine_range(4)):
        _times(x, out, i, n)
    return out


def comprehended(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tiles = [nl.load(x[i]) for i in nl.affine_range(4)]
    for i in range(4):
        nl.store(out[i], tiles[i])
    return out


@pytest.mark.parametrize("kernel, names", [
    (of_a_list, "factors (a list)"), (of_a_list_made_anew, "factors (a list)"), (of_a_dictionary, "held (a dict)"),
    (of_an_attribute, "held (a Held)"), (of_a_called_function, "factor (1.0, then 2.0)"),
    (of_a_closure, "factor (1.0, then 2.0)"), (of_the_module, "_factor (1.0, then 2.0)"),
    (of_a_range_with_a_name, "factor (1.0, then 2.0)"), (of_an_iterator, "an iterator (next)"),
    (counted, "what enumerate makes of it"), (comprehended, "what a comprehension makes of it")])
def test_what_one_trace_would_change_once_is_reported(kernel, names, monkeypatch):
    _, said = run(kernel, X)
    assert len(said) == 1 and f"changes {names}: the compiler, which traced the body once" in said[0], said
    monkeypatch.setenv("NKISIM_STRICT", "1")
    monkeypatch.setenv("NKISIM_SDK", "2.26")
    with pytest.raises(nkisim.Error, match="affine or sequential loop changes"):
        run(kernel, X)


def within(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)

    def body():
        factor = 1.0
        for i in nl.affine_range(4):
            factor = factor * 2
            _times(x, out, i, factor)
    body()
    return out


def in_an_expression(x):
    out, factor = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm), 1.0
    for i in nl.affine_range(4):
        _times(x, out, i, (factor := factor * 2))
    return out


def of_a_tuple(x):
    out, factors = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm), (1.0,)
    for i in nl.affine_range(4):
        factors += (1.0,)
        _times(x, out, i, len(factors))
    return out


@pytest.mark.parametrize("kernel", [within, in_an_expression, of_a_tuple])
def test_these_begin_with_what_was_there_too(kernel):
    out, said = run(kernel, X)
    assert out[:, 0, 0].tolist() == [2, 2, 2, 2] and len(said) == 1, said


def no_state(x):
    """Names, lists and objects that an iteration makes itself, and those that it only reads."""
    out, factors, held = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm), [2.0, 3.0], Held()
    for i in nl.affine_range(4):
        own = [held.factor]
        own.append(factors[1])
        made = {n: 1.0 for n in range(2)}
        made[0] = sum(own)
        _times(x, out, i, made[0])
    for i in nl.static_range(4):
        factors.append(i)
    for i in range(4):
        factors.append(i)
    return out


def test_a_body_without_state_is_not_reported():
    out, said = run(no_state, X)
    assert out[:, 0, 0].tolist() == [4, 4, 4, 4] and said == []
