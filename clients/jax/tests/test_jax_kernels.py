"""Tests kernels inside JAX's transformations, and jax_neuronx.nki_call."""

import numpy as np
import pytest

import nkisim

nkisim.install()

jax = pytest.importorskip("jax", reason="JAX is not installed (scripts/setup --frameworks)")

import jax.numpy as jnp  # noqa: E402
import nki  # noqa: E402
import nki.language as nl  # noqa: E402
from jax_neuronx import nki_call  # noqa: E402


@nki.jit
def sine(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nl.store(out, nl.sin(nl.load(x)))
    return out


@nki.jit
def cosine(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nl.store(out, nl.cos(nl.load(x)))
    return out


@nki.jit
def both(tensors, factor=2.0):
    a, b = nl.load(tensors["a"]), nl.load(tensors["b"])
    outs = [nl.ndarray(a.shape, dtype=d, buffer=nl.shared_hbm) for d in (nl.bfloat16, nl.float32)]
    nl.store(outs[0], nl.add(a, b))
    nl.store(outs[1], nl.multiply(a, factor))
    return {"sum": outs[0], "scaled": outs[1]}


@nki.jit
def write(cache, row, give):
    nl.store(cache[2:3], nl.load(row))
    return cache if give else None


@jax.custom_vjp
def sin_op(x):
    return sine(x)


sin_op.defvjp(lambda x: (sine(x), x), lambda x, gradient: (gradient * cosine(x),))

X = np.linspace(-1.5, 1.5, 32 * 4, dtype=np.float32).reshape(32, 4)


def test_jit_is_equal_to_eager():
    def model(x):  # XLA contracts x * y + z, which is exact here
        return sine(2 * x) * 4 + cosine(x)

    eager, jitted = model(jnp.asarray(X)), jax.jit(model)(X)
    assert isinstance(jitted, jax.Array)
    np.testing.assert_array_equal(eager, jitted)
    np.testing.assert_allclose(jitted, np.sin(2 * X) * 4 + np.cos(X), atol=8e-6)


def test_the_shapes_are_known_without_values():
    like = jax.eval_shape(lambda a: both({"a": a, "b": a}), jax.ShapeDtypeStruct(X.shape, X.dtype))
    assert like["sum"].dtype == jnp.bfloat16 and like["scaled"].shape == X.shape


def test_nested_arguments_and_constants_inside_jit():
    a, b = jnp.asarray(X), jnp.ones_like(X)
    found = jax.jit(lambda a: both({"a": a, "b": b}, factor=3.0))(a)
    np.testing.assert_array_equal(found["scaled"], 3 * X)
    np.testing.assert_array_equal(found["sum"], (X + 1).astype(jnp.bfloat16))


def test_grad():
    def loss(x):
        return (sin_op(x) * 4).sum() + x.sum()

    expected = 4 * np.cos(X) + 1
    np.testing.assert_allclose(jax.grad(loss)(X), expected, atol=4e-6)
    np.testing.assert_array_equal(jax.grad(loss)(X), jax.jit(jax.grad(loss))(X))
    with pytest.raises(ValueError, match="[Pp]ure callbacks do not support JVP"):
        jax.grad(lambda x: sine(x).sum())(X)


def test_vmap_maps_one_after_the_other():
    x = np.stack([X, 2 * X, 3 * X])
    found = jax.vmap(sine)(x)
    np.testing.assert_array_equal(found, np.stack([sine(part) for part in x]))
    rows = jax.jit(jax.vmap(lambda x, y: both({"a": x, "b": y})["scaled"], in_axes=(0, None)))(x, X)
    np.testing.assert_array_equal(rows, 2 * x)


def test_value_and_grad_inside_scan():
    def step(x, _):
        value, gradient = jax.value_and_grad(lambda v: sin_op(v).sum())(x)
        return x - 0.1 * gradient, value

    x, values = jax.jit(lambda x: jax.lax.scan(step, x, None, length=3))(X)
    expected = X
    for value in np.asarray(values):
        np.testing.assert_allclose(value, np.sin(expected).sum(), rtol=1e-4, atol=1e-4)
        expected = expected - 0.1 * np.cos(expected)
    np.testing.assert_allclose(x, expected, atol=1e-5)


def test_many_callbacks_run_side_by_side():
    @jax.jit
    def model(x):
        return sum(sine(x * n) for n in range(6))

    pending = [model(X + n) for n in range(3)]
    now = sine(X)  # while these run
    for n, found in enumerate(pending):
        expected = sum(np.sin((X + n) * m) for m in range(6))
        np.testing.assert_allclose(found, expected, atol=2e-5)
    np.testing.assert_allclose(now, np.sin(X), atol=2e-6)


def test_what_is_written_must_be_returned():
    cache, row = jnp.zeros((4, 8)), jnp.ones((1, 8))
    found = jax.jit(lambda c, r: write(c, r, True))(cache, row)
    assert np.asarray(found)[2].tolist() == [1] * 8 and np.asarray(found).sum() == 8
    with pytest.raises(nkisim.Error, match="argument cache, .*jax.* cannot change"):
        jax.jit(lambda c, r: write(c, r, False))(cache, row)


def test_a_grid_inside_jit():
    @nki.jit
    def parts(x):
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        i = nl.program_id(0)
        nl.store(out[16 * i:16 * i + 16], nl.load(x[16 * i:16 * i + 16]))
        return out

    np.testing.assert_array_equal(jax.jit(lambda x: parts[2](x))(X), X)


def _add(a, b, total, difference):
    from neuronxcc.nki import language as legacy
    legacy.store(total, legacy.add(legacy.load(a), legacy.load(b)))
    legacy.store(difference, legacy.subtract(legacy.load(a), legacy.load(b)))


def test_nki_call():
    like = jax.ShapeDtypeStruct(X.shape, X.dtype)

    def model(a, b):
        return nki_call(_add, a, b, out_shape=(like, like))

    for call in (model, jax.jit(model)):
        total, difference = call(jnp.asarray(X), jnp.ones_like(X))
        np.testing.assert_array_equal(total, X + 1)
        np.testing.assert_array_equal(difference, X - 1)
