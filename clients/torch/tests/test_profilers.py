"""Tests the profilers of torch_neuronx and torch_xla: kernels that run within their blocks leave profiles."""

import json
import os

import pytest

from nkisim_torch import profilers
from running import python

pytest.importorskip("torch", reason="PyTorch is not installed (scripts/setup --frameworks)")
pytestmark = pytest.mark.process

SCRIPT = """\
import os
import torch
import torch_neuronx
import torch_xla.debug.profiler as xp
from torch_neuronx.experimental import profiler
import nki
import nki.language as nl


@nki.jit
def doubled(x):
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    nl.store(out, nl.add(nl.load(x), nl.load(x)))
    return out


x = torch.ones(128, 64)
server = xp.start_server(9012)
doubled(x)
with profiler.profile(port=9012, profile_type="operator", ms_duration=10000,
                      neuron_tensorboard_plugin_dir="block"):
    with xp.StepTrace("step", step_num=3):
        doubled(torch.cat([x, x], 1))
doubled(torch.cat([x, x, x], 1))
xp.start_trace("trace")
xp.Trace("named")(lambda: doubled(x))()
xp.stop_trace()
assert "NEURON_RT_INSPECT_ENABLE" not in os.environ
"""


def test_blocks_and_traces_leave_profiles_of_what_ran_in_them(tmp_path):
    (tmp_path / "script.py").write_text(SCRIPT)
    env = {k: v for k, v in os.environ.items() if not k.startswith("NEURON_RT_INSPECT")}
    python("-m", "nkisim", "script.py", cwd=tmp_path, env=env)
    for folder, name in (("block", "step"), ("trace", "named")):
        (place,) = (tmp_path / folder).iterdir()
        assert len(list(place.glob("neff_*.neff"))) == 1 and len(list(place.glob("*.ntff"))) == 1
        events = json.loads((place / "system_profile.json").read_text())["traceEvents"]
        assert sum(e["name"] == name for e in events) == 1
    (written,) = (tmp_path / "block").glob("*/system_profile.json")
    (step,) = [e for e in json.loads(written.read_text())["traceEvents"] if e["name"] == "step"]
    assert step["args"] == {"step_num": 3} and step["dur"] > 0
    assert not (tmp_path / "output").exists()


@pytest.mark.parametrize("named, folder", [
    ({}, "logs/plugins/neuron"), ({"neuron_tensorboard_plugin_dir": "c"}, "c"), ({"output_dir": "b"}, "b"),
    ({"output_path": "a"}, "a"), ({"output_path": "a", "output_dir": "b", "neuron_tensorboard_plugin_dir": "c"}, "a"),
    ({"output_dir": "b", "neuron_tensorboard_plugin_dir": "c"}, "b")], ids=str)
def test_a_profile_goes_to_the_folder_that_is_named(named, folder, monkeypatch):
    monkeypatch.setenv("NEURON_RT_INSPECT_OUTPUT_DIR", "before")
    with profilers.profile(**named):
        assert os.environ["NEURON_RT_INSPECT_OUTPUT_DIR"] == folder and os.environ["NEURON_RT_INSPECT_ENABLE"] == "1"
    assert os.environ["NEURON_RT_INSPECT_OUTPUT_DIR"] == "before"
