"""Tests torch tensors on the simulated devices "neuron" and "xla", and kernels called with them."""

import copy
import io
import os

import pytest

import nkisim
from running import ROOT, python

nkisim.install()

torch = pytest.importorskip("torch", reason="PyTorch is not installed (scripts/setup --frameworks)")

import nki  # noqa: E402
import nki.language as nl  # noqa: E402
import torch_neuronx  # noqa: E402, F401
import torch_xla  # noqa: E402
import torch_xla.core.xla_model as xm  # noqa: E402

OURS = "nkisim" in torch_xla.__version__
DEVICES = ["neuron", pytest.param("xla", marks=pytest.mark.skipif(
    not OURS, reason="torch_xla is installed, so that its device counts"))]
pytestmark = pytest.mark.parametrize("device", DEVICES)


@nki.jit
def doubled(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nl.store(out, nl.multiply(nl.load(x), 2.0))
    return out


@nki.jit
def fill_row(cache, row, at):
    nl.store(cache[at:at + 1], nl.load(row))


def test_factories_and_moves(device):
    for x in (torch.ones(4, 3, device=device), torch.ones(4, 3).to(device),
              torch.ones(4, 3).to(torch.device(device)), torch.full((4, 3), 1.0, device=device),
              torch.tensor([[1.0] * 3] * 4, device=device), torch.ones(4, 3).to(device=device),
              torch.ones(4, 3, dtype=torch.float64).to(device, torch.float32),
              torch.empty(4, 3, device=f"{device}:0").fill_(1), torch.eye(4, 3, device=device) * 0 + 1,
              torch.as_tensor([[1.0] * 3] * 4, device=device)):
        assert x.device == torch.device(device, 0) and x.dtype == torch.float32
        assert type(x.cpu()) is torch.Tensor and x.cpu().device.type == "cpu"
        assert torch.equal(x.cpu(), torch.ones(4, 3))
        assert torch.zeros_like(x).device == x.device == x.new_ones(2).device
    assert torch.ones(3, device=device).new_tensor([4.0]).device == torch.device(device, 0)
    assert torch.arange(5, device=device).tolist() == [0, 1, 2, 3, 4]


def test_xlas_random_numbers_begin_anew(device):
    torch.manual_seed(3)
    expected = torch.randn(5, device=device).cpu()
    torch.manual_seed(4)
    xm.set_rng_state(3, torch.device(device))
    assert torch.equal(torch.randn(5, device=device).cpu(), expected)


def test_random_numbers_are_the_hosts(device):
    torch.manual_seed(3)
    expected = torch.randn(5), torch.rand(5), torch.randint(9, (5,))
    torch.manual_seed(3)
    found = (torch.randn(5, device=device), torch.rand(5, device=device),
             torch.randint(9, (5,), device=device))
    assert all(torch.equal(a, b.cpu()) for a, b in zip(expected, found))


def test_views_share_memory_and_operators_keep_the_device(device):
    x = torch.zeros(4, 6, device=device)
    x[1:3, ::2].add_(2)
    x.T[0] = 7
    expected = torch.zeros(4, 6)
    expected[1:3, ::2] += 2
    expected[:, 0] = 7
    assert torch.equal(x.cpu(), expected)
    y = (x @ x.T).softmax(-1).reshape(2, 8).permute(1, 0).contiguous()
    assert y.device == x.device and y.shape == (8, 2)
    assert x.sum().item() == expected.sum().item() and bool((x == x).all())
    assert torch.cat([x, x]).device == x.device and x[x > 6].tolist() == [7.0] * 4


def test_printing(device):
    x = torch.tensor([1.0, 2.5], device=device)
    assert repr(x) == f"tensor([1.0000, 2.5000], device='{device}:0')"
    assert "requires_grad=True" in repr(x.requires_grad_())
    assert f"{x.detach()[1]:.2f}" == "2.50"


def test_devices_are_not_mixed(device):
    x = torch.ones(3, device=device)
    with pytest.raises(RuntimeError, match=f"two devices, {device}:0 and cpu"):
        x + torch.ones(3)
    assert (x + torch.tensor(1.0)).tolist() == [2.0] * 3  # a number
    with pytest.raises(TypeError, match="convert .* device type tensor to numpy"):
        x.numpy()


def test_gradients_go_to_where_the_leaf_is(device):
    x = torch.linspace(0, 1, 12).reshape(4, 3)
    leaf = x.to(device).detach().requires_grad_()
    host = x.clone().requires_grad_()
    (leaf.sin() * host.to(device)).sum().backward()
    assert leaf.grad.device == leaf.device and host.grad.device.type == "cpu"
    torch.testing.assert_close(leaf.grad.cpu(), x.cos() * x)
    torch.testing.assert_close(host.grad, x.sin())


def test_a_module_trains_as_on_the_host(device):
    torch.manual_seed(0)
    x, modules = torch.randn(8, 4), []
    base = torch.nn.Sequential(torch.nn.Linear(4, 16), torch.nn.GELU(), torch.nn.LayerNorm(16),
                               torch.nn.Linear(16, 2))
    for where in ("cpu", device):
        module = copy.deepcopy(base).to(where)
        optimizer = torch.optim.AdamW(module.parameters(), lr=0.1)
        for _ in range(3):
            optimizer.zero_grad()
            module(x.to(where)).square().mean().backward()
            xm.optimizer_step(optimizer)
            xm.mark_step()
        modules.append(module)
    for a, b in zip(modules[0].parameters(), modules[1].parameters()):
        assert isinstance(b, torch.nn.Parameter) and b.device.type == device
        torch.testing.assert_close(a.detach(), b.detach().cpu())


def test_kernels_give_and_write_tensors_where_their_arguments_are(device):
    x = torch.arange(12.0, device=device).reshape(4, 3)
    y = doubled(x)
    assert y.device == x.device and torch.equal(y.cpu(), 2 * x.cpu())
    cache = torch.zeros(4, 3, device=device)
    fill_row(cache, x[3:4], 2)
    assert cache.tolist() == [[0] * 3, [0] * 3, [9, 10, 11], [0] * 3]


def test_an_operator_and_a_compiled_model(device):
    @torch.compile(fullgraph=True, backend="neuron")
    def model(x):
        return (doubled(x + 1) - 1).relu()

    x = torch.linspace(-2, 2, 12).reshape(4, 3)
    y = model(x.to(device))
    assert torch.equal(y.cpu(), (2 * (x + 1) - 1).relu()) and y.device.type == device


def test_autocast(device):
    x = torch.ones(4, 4, device=device)
    with torch.autocast(device_type="neuron", dtype=torch.bfloat16):
        assert (x @ x).dtype == torch.bfloat16 == torch.nn.functional.linear(x, x).dtype
        assert (x @ x).softmax(-1).dtype == torch.float32 and (x + x).dtype == torch.float32
    assert (x @ x).dtype == torch.float32


def test_saving_and_copying(device):
    x = torch.arange(6.0, device=device)
    file = io.BytesIO()
    torch.save(x, file)
    file.seek(0)
    y = torch.load(file, weights_only=False)
    assert y.device == x.device and torch.equal(x.cpu(), y.cpu())
    z = copy.deepcopy(x)
    z.add_(1)
    assert x.tolist() == list(range(6)) and z.tolist() == list(range(1, 7))


@pytest.mark.process
def test_the_device_is_there_without_an_import_of_torch_neuronx(device, tmp_path):
    script = tmp_path / "script.py"
    script.write_text("import torch\n" + ("import torch_xla\n" if device == "xla" else "") +
                      f"print(torch.ones(2, device='{device}') * 2)\n"
                      "print(torch.neuron.device_count(), torch.accelerator.is_available())\n")
    run = python("-m", "nkisim", script, code=None)
    assert run.stdout == f"tensor([2., 2.], device='{device}:0')\n1 True\n", run.stderr


@pytest.mark.process
def test_an_installation_that_is_asked_has_the_stand_in(device):
    if not OURS:
        pytest.skip("torch_xla is installed")
    folder = ROOT / "python"
    code = (f"import site; site.addpackage({str(folder)!r}, 'nkisim_simulator.pth', set())\n"
            "import torch, torch_xla\n"
            f"print(torch.ones(2).to({device!r}))")
    run = python("-c", code, code=None, env={**os.environ, "NKI_SIMULATOR": "1"})
    assert run.stdout == f"tensor([1., 1.], device='{device}:0')\n", run.stderr


def test_a_function_of_torch_in_a_kernel_names_ours(device):
    @nki.jit
    def kernel(x):
        return torch.exp(nl.load(x))

    with pytest.raises(TypeError, match=r"torch.exp is called with .*nl.exp\(...\) is required") as caught:
        kernel(torch.ones(4, 3, device=device))
    assert caught.value.rule == "tensor_required" and caught.value.kernel_file == __file__


@pytest.mark.process
def test_torch_neuronx_brings_the_stand_in_and_its_modes(device):
    if not OURS:
        pytest.skip("torch_xla is installed")
    run = python("-c", """\
import torch_neuronx
import torch_xla
import torch_xla.debug.profiler
from torch_xla.experimental.eager import eager_mode_context, is_eager_mode

torch_xla.experimental.eager_mode(True)
with eager_mode_context(False) as before:
    print(before, is_eager_mode())

@torch_xla.compile(full_graph=True)
def twice(x):
    return 2 * x

with torch_xla.compile():
    print(is_eager_mode(), twice(1), torch_xla.compile(abs)(-3), torch_xla.experimental.compile(abs)(-4))
""", code=None)
    assert run.stdout == "True False\nTrue 2 3 4\n", run.stderr


def test_a_likeness_on_neuron_is_where_the_original_is(device):
    x = torch.arange(6, dtype=torch.float32).reshape(2, 3).to(device)
    for like in (torch.ones_like(x, device="neuron"), torch.zeros_like(x), torch.full_like(x, 2, device=device)):
        assert like.device.type == x.device.type and like.shape == x.shape
    assert torch.ones_like(x, device="cpu").device.type == "cpu"
    assert torch.ones_like(x, device="neuron").cpu().tolist() == [[1, 1, 1], [1, 1, 1]]
