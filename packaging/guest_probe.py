"""Prints facts about other packages of an environment, for packaging/try_guest: it shows that
installing nkisim changes none of them. With --wheel FOLDER it writes a wheel that stands for
AWS's packages there.
"""

import importlib.metadata
import importlib.util
import pickle
import sys
import zipfile

NAMES = ("nki", "neuronxcc", "torch_neuronx", "jax_neuronx", "torch_xla", "libneuronxla", "nki_cpu_simulator",
         "neuron_dtypes")


def line(name, question):
    try:
        print(name, str(question()).replace("\n", " ")[:200])
    except BaseException as problem:
        print(name, type(problem).__name__, (str(problem).splitlines() or [""])[0][:200])


def stand_in(folder):
    names = [n for n in NAMES if n not in ("torch_xla", "libneuronxla")]  # which would need real ones behind them
    files = {f"{n}/__init__.py": f"__version__ = 'AWS {n}'\n" for n in names}
    info = "aws_stand_in-1.0.dist-info"
    files[f"{info}/METADATA"] = "Metadata-Version: 2.1\nName: aws-stand-in\nVersion: 1.0\n"
    files[f"{info}/WHEEL"] = "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    files[f"{info}/RECORD"] = "".join(f"{n},,\n" for n in [*files, f"{info}/RECORD"])
    with zipfile.ZipFile(f"{folder}/aws_stand_in-1.0-py3-none-any.whl", "w") as wheel:
        for name, text in files.items():
            wheel.writestr(name, text)


def script_tensor():
    import torch

    def f(x: int):
        return torch.tensor(x) + 1
    return torch.jit.script(f)(2)


def default_device():
    import torch
    torch.set_default_device("meta")
    try:
        return torch.tensor([1.0]).device
    finally:
        torch.set_default_device(None)


def compiled(backend):
    import torch
    return torch.compile(lambda x: torch.tensor([1., 2.]) + x, backend=backend, fullgraph=True)(torch.ones(2))


def exported():
    import torch

    class Plus(torch.nn.Module):
        def forward(self, x):
            return x + torch.tensor(1.0)
    return torch.export.export(Plus(), (torch.ones(2),)).module()(torch.ones(2))


def modes():
    import torch
    from torch._subclasses.fake_tensor import FakeTensorMode
    with FakeTensorMode():
        return type(torch.tensor([1.0])).__name__


def trained():
    import torch
    from transformers import Trainer, TrainingArguments
    model = torch.nn.Linear(1, 1)
    arguments = TrainingArguments(output_dir="out", report_to=[], use_cpu=False)
    return type(Trainer(model, arguments)).__name__, arguments.device


def main():
    import torch
    import torch.utils.checkpoint
    for name in NAMES:
        line(f"found {name}", lambda name=name: importlib.util.find_spec(name) is not None)
        line(f"version {name}", lambda name=name: importlib.import_module(name).__version__)
    line("hooks", lambda: [getattr(h, "__name__", type(h).__name__) for h in sys.meta_path])
    line("pytest plugins", lambda: sorted(e.name for e in importlib.metadata.entry_points(group="pytest11")))
    import transformers.utils as u
    for name in sorted(n for n in dir(u) if n.startswith("is_torch_") and n.endswith("_available")):
        line(name, getattr(u, name))
    line("trainer", trained)
    line("accelerate", lambda: __import__("accelerate").Accelerator().device)
    line("lightning", lambda: sorted(__import__("lightning").pytorch.accelerators.AcceleratorRegistry
                                     .available_accelerators()))
    line("lightning's choice", lambda: type(__import__("lightning").Trainer(
        logger=False, enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False).accelerator))
    line("functions", lambda: [type(getattr(torch, n)).__name__ for n in ("tensor", "as_tensor", "asarray", "ones")])
    line("jit.script", script_tensor)
    line("pickle", lambda: pickle.loads(pickle.dumps(torch.tensor)) is torch.tensor)
    line("default device", default_device)
    for backend in ("eager", "aot_eager"):
        line(f"compile {backend}", lambda backend=backend: compiled(backend))
    line("export", exported)
    line("fake", modes)
    line("accelerator", lambda: (torch.accelerator.is_available(), torch.accelerator.device_count()))
    line("pinned", lambda: next(iter(torch.utils.data.DataLoader(torch.arange(4.), pin_memory=True))))
    line("xla device", lambda: torch.ones(2, device="xla"))
    line("neuron device", lambda: torch.ones(2, device="neuron"))
    line("privateuseone", lambda: torch.ones(2, device="privateuseone"))
    line("rename", lambda: torch.utils.rename_privateuse1_backend("mydevice"))


if __name__ == "__main__":
    stand_in(sys.argv[2]) if sys.argv[1:2] == ["--wheel"] else main()
