"""Tests that an installed nkisim changes nothing in programs that do not ask for it.

The class of defect: what an installation adds to every process of its environment (names, import hooks,
plugins), and what asking for a part of it changes in the rest (functions of torch). Each test runs
processes that have an installation's folder and nothing else of ours.
"""

import os
import pathlib

import pytest
from running import ROOT, SOURCES, python

import nkisim

pytestmark = pytest.mark.process
KERNELS = ("nki", "neuronxcc", "nki_cpu_simulator", "neuron_dtypes")
FRAMEWORKS = ("torch_neuronx", "jax_neuronx", "torch_xla")


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """A folder as a wheel fills it (python/wheel.cmake), of links."""
    folder = tmp_path_factory.mktemp("site")
    package = folder / "nkisim"
    package.mkdir()
    for entry in pathlib.Path(nkisim.__file__).parent.iterdir():
        if entry.name != "__pycache__":
            (package / entry.name).symlink_to(entry)
    (package / "packages").mkdir()
    for found in (p.parent for source in SOURCES for p in source.glob("*/__init__.py")):
        if found.name != "nkisim":
            into = folder if found.name.startswith("nkisim_") else package / "packages"
            (into / found.name).symlink_to(found)
    (folder / "nkisim_simulator.pth").write_text((ROOT / "python" / "nkisim_simulator.pth").read_text())
    return folder


def output_of(site, code, *, path=(), **environment):
    """The output of a process that has `site` among its installations (None: that has not)."""
    env = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "NKI_SIMULATOR")}
    added = f"import site, sys; sys.path.extend({[str(p) for p in path]!r})\n"
    if site is not None:
        added += f"site.addsitedir({str(site)!r})\n"
    return python("-W", "ignore", "-c", added + code, env={**env, **environment}).stdout.splitlines()


FOUND = ("import importlib.util as u\n"
         f"print([n for n in {KERNELS + FRAMEWORKS!r} if u.find_spec(n)])\n")


def test_a_process_that_does_not_ask_sees_nothing(site):
    code = ("print(len(sys.meta_path), [m for m in sys.modules if m.startswith('nki')])\n"
            "import importlib.metadata as m\n" + FOUND)
    assert output_of(site, code) == output_of(None, code)
    assert output_of(site, FOUND) == ["[]"]


def test_an_import_brings_the_kernels_names_alone(site):
    assert output_of(site, "import nkisim\n" + FOUND) == [str(list(KERNELS))]
    assert output_of(site, "import nkisim, nki.language, neuronxcc.nki\n"
                      "print('torch' in sys.modules, nki.__version__)")[0].startswith("False ")


def test_asking_brings_all_names(site):
    every = [str(list(KERNELS + FRAMEWORKS))]
    assert output_of(site, "import nkisim; nkisim.install()\n" + FOUND) == every
    assert output_of(site, FOUND, NKI_SIMULATOR="1") == every
    assert output_of(site, FOUND, NKI_SIMULATOR="0") == ["[]"]


def test_an_installed_package_is_shadowed_by_asking_alone(site, tmp_path):
    (tmp_path / "nki").mkdir()
    (tmp_path / "nki" / "__init__.py").write_text("__version__ = 'another'\n")
    code = "import nki; print(nki.__version__)"
    assert output_of(site, code, path=[tmp_path]) == ["another"]
    assert output_of(site, "import nkisim\n" + code, path=[tmp_path]) == ["another"]
    ours = output_of(site, "import nkisim; nkisim.install()\n" + code, path=[tmp_path])
    assert ours == output_of(site, code, path=[tmp_path], NKI_SIMULATOR="1") != ["another"]


def test_nothing_loads_in_every_pytest_run():
    assert "pytest11" not in (ROOT / "pyproject.toml").read_text()


PLAIN = """
import io, pickle, warnings
warnings.simplefilter("ignore")
import torch
def line(name, work):
    try:
        print(name, work())
    except Exception as problem:
        print(name, type(problem).__name__, str(problem).split(chr(10))[0])
def scripted():
    def f(x):
        return x + torch.tensor([1.0])
    return torch.jit.script(f)(torch.ones(2))
def default(device):
    torch.set_default_device(device)
    try:
        return torch.tensor([1.0]).device, torch.as_tensor([1.0]).device, torch.asarray([1.0]).device
    finally:
        torch.set_default_device(None)
def within(device):
    with torch.device(device):
        return torch.tensor([1.0]).device
def modes():
    from torch.overrides import TorchFunctionMode
    seen = []
    class Mode(TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            seen.append(getattr(func, "__name__", str(func)))
            return func(*args, **(kwargs or {}))
    with Mode():
        torch.tensor([1.0]), torch.asarray([1.0]), torch.ones(2).to(torch.float16)
    return seen
def fake():
    from torch._subclasses.fake_tensor import FakeTensorMode
    with FakeTensorMode():
        return type(torch.tensor([1.0])).__name__
def g(x):
    return x + torch.tensor(1.0) + torch.as_tensor([1., 2.]) + torch.asarray(3.0)
line("functions", lambda: [getattr(torch, n) is getattr(torch._C._VariableFunctions, n)
                           for n in ("tensor", "as_tensor", "asarray", "ones", "empty")])
line("to", lambda: type(torch.Tensor.to).__name__)
line("default", lambda: default("meta"))
line("within", lambda: within("meta"))
line("jit.trace", lambda: torch.jit.trace(lambda x: x + torch.tensor([1.0]), torch.ones(2))(torch.ones(2)))
line("pickle", lambda: pickle.loads(pickle.dumps(torch.tensor)) is torch.tensor)
line("loader", lambda: next(iter(torch.utils.data.DataLoader(torch.arange(4.), pin_memory=True))))
line("modes", modes)
line("fake", fake)
line("fx", lambda: torch.fx.symbolic_trace(lambda x: x + torch.tensor(1.0)).code)
line("vmap", lambda: torch.vmap(lambda x: x * torch.tensor(2.0))(torch.ones(3)))
line("grad", lambda: torch.func.grad(lambda x: (x * torch.tensor(2.0)).sum())(torch.ones(3)))
line("seed", lambda: (torch.manual_seed(0), torch.randn(1))[1])
line("compile", lambda: torch.compile(g, fullgraph=True, backend="eager")(torch.ones(2)))
line("generator", lambda: torch.Generator().manual_seed(1).initial_seed())
line("checkpoint", lambda: torch.utils.checkpoint.checkpoint(
    lambda x: x * 2, torch.ones(2, requires_grad=True), use_reentrant=False).detach())
"""
ANOTHER = """
torch.utils.rename_privateuse1_backend("mydevice")
print(torch.device("mydevice"))
"""


@pytest.fixture(scope="module")
def plain(site):
    pytest.importorskip("torch")
    return output_of(None, PLAIN)


@pytest.mark.parametrize("before", ["", "import nkisim\n", "import nkisim; nkisim.install()\n",
                                    "import nkisim; nkisim.install(); import torch_neuronx\n"],
                         ids=["installed", "imported", "asked", "on the device"])
def test_plain_torch_says_the_same(site, plain, before):
    assert output_of(site, before + PLAIN) == plain
    assert all("Error" not in line for line in plain)


def test_another_back_end_registers(site, plain):
    for before in ("", "import nkisim; nkisim.install()\n"):
        assert output_of(site, before + "import torch\n" + ANOTHER) == ["mydevice"]


def test_what_torch_builds_in_cpp_reaches_the_device(site, plain):
    code = """
import nkisim; nkisim.install()
import torch, torch_neuronx
for make in (torch.tensor, torch.as_tensor, torch.asarray):
    x = make([1.0, 2.0], device="neuron")
    print(x.device, x.cpu().tolist())
print(torch.tensor([3.0], device="neuron", requires_grad=True).requires_grad)
torch.set_default_device("neuron")
print(torch.tensor(4).device)
"""
    assert output_of(site, code) == ["neuron:0 [1.0, 2.0]"] * 3 + ["True", "neuron:0"]
