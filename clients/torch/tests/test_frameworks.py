"""Tests kernel arguments and results of PyTorch and JAX, where these are installed."""

import numpy as np
import pytest

import nkisim

nkisim.install()

import nki  # noqa: E402
import nki.isa as nisa  # noqa: E402
import nki.language as nl  # noqa: E402


@nki.jit
def scaled(x, factor=2.0):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(tile, x)
    nisa.tensor_scalar(tile, tile, nl.multiply, factor)
    nisa.dma_copy(out, tile)
    return out


@nki.jit
def append(cache, row, at):
    """Writes `row` into `cache`, an argument."""
    tile = nl.ndarray(row.shape, dtype=row.dtype, buffer=nl.sbuf)
    nisa.dma_copy(tile, row)
    nisa.dma_copy(cache[at:at + 1], tile)


@nki.jit
def pair(tensors):
    """Takes a dictionary and gives a tuple."""
    return scaled(tensors["a"]), scaled(tensors["b"], 3.0)


TORCH = ["float32", "bfloat16", "float16", "float8_e5m2", "int32", "uint8"]


@pytest.mark.parametrize("dtype", TORCH)
def test_torch_tensors(dtype):
    torch = pytest.importorskip("torch")
    x = (torch.arange(64 * 8) % 16).reshape(64, 8).to(getattr(torch, dtype))
    y = scaled(x)
    assert isinstance(y, torch.Tensor) and y.dtype == x.dtype
    assert torch.equal(y.float(), 2 * x.float())


def test_torch_views_and_tensors_that_need_gradients():
    torch = pytest.importorskip("torch")
    x = torch.arange(64.0 * 8).reshape(8, 64).T.requires_grad_()
    y = scaled(x)
    assert not y.requires_grad and torch.equal(y, 2 * x.detach())


def test_int64_tensors_are_narrowed():
    torch = pytest.importorskip("torch")
    x = torch.arange(64 * 8).reshape(64, 8)
    y = scaled(x)
    assert y.dtype == torch.int32 and torch.equal(y.long(), 2 * x)


def test_a_written_torch_argument_is_updated():
    torch = pytest.importorskip("torch")
    cache = torch.zeros(4, 16, dtype=torch.bfloat16)
    append(cache, torch.ones(1, 16, dtype=torch.bfloat16), 2)
    assert cache[2].eq(1).all() and cache[[0, 1, 3]].eq(0).all()


def test_nested_torch_arguments():
    torch = pytest.importorskip("torch")
    a, b = torch.rand(8, 4), torch.rand(8, 4)
    first, second = pair({"a": a, "b": b})
    assert torch.equal(first, 2 * a) and torch.equal(second, 3 * b)


def test_a_torch_operator_has_a_gradient():
    torch = pytest.importorskip("torch")

    class Scale(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, factor):
            ctx.factor = factor
            return scaled(x, factor)

        @staticmethod
        def backward(ctx, grad):
            return scaled(grad, ctx.factor), None

    x = torch.rand(16, 8, requires_grad=True)
    Scale.apply(x, 3.0).square().sum().backward()
    torch.testing.assert_close(x.grad, 18 * x.detach())


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16", "float8_e4m3fn", "int32"])
def test_jax_arrays(dtype):
    jax = pytest.importorskip("jax")
    x = (jax.numpy.arange(64 * 8) % 16).reshape(64, 8).astype(dtype)
    y = scaled(x)
    assert isinstance(y, jax.Array) and y.dtype == x.dtype
    np.testing.assert_array_equal(np.asarray(y, np.float32), 2 * np.asarray(x, np.float32))


def test_a_jax_callback_runs_a_kernel_under_jit():
    jax = pytest.importorskip("jax")

    @jax.jit
    def twice(x):
        return jax.pure_callback(lambda v: scaled(np.asarray(v)),
                                 jax.ShapeDtypeStruct(x.shape, x.dtype), x) + 1

    x = jax.numpy.arange(64.0 * 8).reshape(64, 8)
    np.testing.assert_array_equal(twice(x), 2 * x + 1)


def test_simulate_gives_what_it_was_given():
    torch, jax = pytest.importorskip("torch"), pytest.importorskip("jax")
    x = np.ones((8, 8), np.float32)
    assert isinstance(nki.simulate(scaled)(x), np.ndarray)
    assert isinstance(nki.simulate(scaled)(torch.from_numpy(x)), torch.Tensor)
    assert isinstance(nki.simulate(scaled)(jax.numpy.asarray(x)), jax.Array)


def test_what_a_kernel_writes_to_an_array_that_cannot_change():
    def kernel(x, y, give):
        nl.store(x, nl.load(y))
        return x if give else None

    y = np.ones((4, 4), np.float32)
    for x in _constants():
        result = nki.jit(kernel)(x, y, True)
        assert type(result) is type(x) and np.asarray(result).sum() == 16
        assert np.asarray(x).sum() == 0
        with pytest.raises(nkisim.Error, match="argument x, .* cannot change; its result"):
            nki.jit(kernel)(x, y, False)


def _constants():
    x = np.zeros((4, 4), np.float32)
    x.flags.writeable = False
    yield x
    try:
        import jax.numpy
    except ImportError:
        return
    yield jax.numpy.zeros((4, 4), jax.numpy.float32)


def test_a_turned_view_of_an_argument_is_no_argument():
    x = np.arange(16, dtype=np.float32).reshape(4, 4)
    out = np.zeros(16, np.float32)

    def kernel(x, out):
        nisa.dma_copy(out, x.reshape((16,)))
        return x.permute((1, 0)), x

    turned, same = nki.jit(kernel)(x, out)
    np.testing.assert_array_equal(turned, x.T)
    assert same is x
