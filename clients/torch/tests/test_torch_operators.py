"""Tests kernels as operators of PyTorch: nki_op, torch.compile, torch.export, autograd."""

import warnings

import numpy as np
import pytest

import nkisim

nkisim.install()

torch = pytest.importorskip("torch", reason="PyTorch is not installed (scripts/setup --frameworks)")

import nki  # noqa: E402
import nki.isa as nisa  # noqa: E402
import nki.language as nl  # noqa: E402
from torch_neuronx import nki_jit, nki_op, wrap_nki  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


@nki.jit
def sine(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nl.store(out, nl.sin(nl.load(x)))
    return out


@nki.jit
def cosine(x, out):
    nl.store(out, nl.cos(nl.load(x)))


@nki.jit
def add_to(total, x, factor=1.0):
    nl.store(total, nl.add(nl.load(total), nl.multiply(nl.load(x), factor)))


@nki_op("nkisim_tests::sin", mutates_args={})
def sin_op(x: torch.Tensor) -> torch.Tensor:
    return sine(x)


@nki_op("nkisim_tests::cos", mutates_args={})
def cos_op(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    cosine(x, out)
    return out


@nki_op("nkisim_tests::add_to", mutates_args={"total"})
def add_to_op(total: torch.Tensor, x: torch.Tensor, factor: float) -> None:
    add_to(total, x, factor)


sin_op.register_autograd(lambda ctx, grad: grad * cos_op(ctx.saved_tensors[0]),
                         setup_context=lambda ctx, inputs, output: ctx.save_for_backward(inputs[0]))

X = torch.linspace(-1.5, 1.5, 64 * 8).reshape(64, 8)


def test_an_operator_gives_what_the_function_gives():
    torch.testing.assert_close(torch.ops.nkisim_tests.sin(X), torch.sin(X), rtol=0, atol=2e-6)
    torch.testing.assert_close(cos_op(X), torch.cos(X), rtol=0, atol=2e-6)


@pytest.mark.parametrize("arguments", [(sin_op, (X,)), (sin_op, (X.clone().requires_grad_(),)),
                                       (cos_op, (X,)), (add_to_op, (X.clone(), X, 2.0))])
def test_opcheck(arguments):
    torch.library.opcheck(*arguments)


def test_gradcheck():
    x = X[:4, :4].clone().contiguous().requires_grad_()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # float32 inputs: the device has no float64
        # Central differences of sin at 1e-2: 1.7e-5 from the third derivative, 1e-4 from rounding.
        assert torch.autograd.gradcheck(sin_op, (x,), eps=1e-2, atol=3e-4, rtol=0)


def test_a_fake_tensor_gets_shape_dtype_and_no_run():
    from torch._subclasses.fake_tensor import FakeTensorMode
    with FakeTensorMode():
        y = sin_op(torch.empty(128, 7, dtype=torch.bfloat16))
        assert y.shape == (128, 7) and y.dtype == torch.bfloat16
    y = sine(torch.empty(128, 7, device="meta"))
    assert y.device.type == "meta" and y.shape == (128, 7)


@pytest.mark.process
@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_compiled_is_equal_to_eager(backend):
    def model(x):
        return (sin_op(2 * x) + 1).relu() * cos_op(x.detach())

    _equal_with_gradients(model, torch.compile(model, fullgraph=True, backend=backend))


def _equal_with_gradients(model, compiled):
    x, y = X.clone().requires_grad_(), X.clone().requires_grad_()
    expected, found = model(x), compiled(y)
    assert torch.equal(expected, found)
    expected.sum().backward()
    found.sum().backward()
    torch.testing.assert_close(x.grad, y.grad)


def test_a_compiled_operator_writes_its_argument():
    @torch.compile(fullgraph=True, backend="aot_eager")
    def model(total, x):
        add_to_op(total, x, 2.0)
        return total + 1

    total = torch.ones(64, 8)
    assert torch.equal(model(total, X), total + 1)
    torch.testing.assert_close(total, 1 + 2 * X)


def test_export_has_the_operator_in_its_graph():
    class Model(torch.nn.Module):
        def forward(self, x):
            return sin_op(x) + 1

    program = torch.export.export(Model(), (X,))
    targets = [n.target for n in program.graph.nodes if n.op == "call_function"]
    assert torch.ops.nkisim_tests.sin.default in targets
    assert torch.equal(program.module()(X), sin_op(X) + 1)


def test_a_wrong_gradient_is_noticed():
    @nki_op("nkisim_tests::wrong", mutates_args={})
    def wrong(x: torch.Tensor) -> torch.Tensor:
        return sine(x)

    wrong.register_autograd(lambda ctx, grad: grad)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(RuntimeError, match="Jacobian mismatch"):
            torch.autograd.gradcheck(wrong, (X[:4].clone().requires_grad_(),), eps=1e-2, atol=3e-4)


@pytest.mark.process
@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_a_kernel_called_directly_is_compiled_too(backend):
    def model(x, total):
        add_to(total, x, factor=3.0)
        return wrap_nki(sine)[1](x) + total

    totals = [torch.ones(64, 8), torch.ones(64, 8)]
    expected = model(X, totals[0])
    found = torch.compile(model, fullgraph=True, backend=backend)(X, totals[1])
    assert torch.equal(expected, found) and torch.equal(*totals)
    torch.testing.assert_close(totals[0], 1 + 3 * X)


def test_the_same_tensor_twice_and_calls_that_differ_in_a_constant():
    @torch.compile(fullgraph=True, backend="aot_eager")
    def model(x, y):
        add_to(x, x, 1.0)
        add_to(y, x, 1)
        add_to(y, x, True)
        return y

    x = torch.ones(16, 4)
    assert torch.equal(model(x, torch.zeros(16, 4)), torch.full((16, 4), 4.0))
    assert torch.equal(x, torch.full((16, 4), 2.0))


def test_errors_of_a_traced_kernel_name_its_line():
    @nki.jit
    def too_wide(x):
        nisa.dma_copy(nl.ndarray((129, 4), dtype=x.dtype, buffer=nl.sbuf), x)  # here
        return x

    with pytest.raises(nkisim.Error, match="129") as caught:
        too_wide(torch.empty(129, 4, device="meta"))
    assert "here" in caught.value.source


def test_nki_jit_in_its_spellings():
    def old(a, b, c):
        from neuronxcc.nki import language as legacy
        legacy.store(c, legacy.add(legacy.load(a), legacy.load(b)))

    for kernel in (nki_jit(old), nki_jit()(old), nki_jit(func=old), nki_jit(nki_jit(old))):
        c = torch.zeros(4, 4)
        kernel(torch.ones(4, 4), torch.ones(4, 4), c)
        assert torch.equal(c, torch.full((4, 4), 2.0))


def test_what_the_packages_lack_they_say():
    import torch_neuronx
    with pytest.raises(AttributeError, match="torch_neuronx.trace is not part of nkisim"):
        torch_neuronx.trace()
    assert np.isfinite(sine(X).numpy()).all()


@nki_op("nkisim_tests::add_and_return", mutates_args={"total"})
def add_and_return(total: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    add_to(total, x)
    return total


@nki_op("nkisim_tests::add_by_mode", mutates_args={"total"})
def add_by_mode(total: torch.Tensor, x: torch.Tensor, mode: str) -> None:
    add_to(total, x, 2.0 if mode == "twice" else 1.0)


@pytest.mark.parametrize("compiled", [False, True])
def test_an_operator_that_returns_what_it_writes(compiled):
    """As a cache that is updated and handed on; what comes back is its values."""
    use = torch.compile(add_and_return, backend="neuron", fullgraph=True) if compiled else add_and_return
    total = torch.ones_like(X)
    back = use(total, X)
    torch.testing.assert_close(total, 1 + X)
    torch.testing.assert_close(back, 1 + X)


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("by_name", [False, True])
def test_an_operator_with_a_parameter_called_mode(compiled, by_name):
    def use(total, x):
        add_by_mode(total, x, mode="twice") if by_name else add_by_mode(total, x, "twice")

    total = torch.ones_like(X)
    (torch.compile(use, backend="neuron", fullgraph=True) if compiled else use)(total, X)
    torch.testing.assert_close(total, 1 + 2 * X)
