"""Tests torch.accelerator on the simulated device: its C++ part is compiled once and kept in the
user's cache.
"""

import os

import pytest

from running import python

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.process
REPORTED = """
import torch, torch_neuronx
reported = torch.accelerator
print(reported.memory_allocated())
x = torch.ones(256, 4, device="neuron")
part, y = x[1:], torch.zeros(100, device="neuron", dtype=torch.bfloat16)
print(reported.memory_allocated(), torch.neuron.memory_allocated(), reported.memory_reserved())
del y
print(reported.memory_allocated(), reported.max_memory_allocated())
reported.reset_peak_memory_stats()
print(reported.max_memory_allocated())
del x
print(reported.memory_allocated())
del part
print(reported.memory_allocated())
"""
WAITED = """
import torch, torch_neuronx
reported = torch.accelerator
print(reported.synchronize(), reported.synchronize("neuron:0"), reported.empty_cache())
print(reported.current_device_index(), reported.device_count())
stream, event = torch.Stream(device="neuron"), torch.Event(device="neuron")
event.record()
print(stream.query(), event.query(), stream.synchronize(), event.synchronize())
print((torch.ones(2, device="neuron") + 1).cpu().tolist())
"""
TIMED = """
import numpy as np, torch, torch_neuronx, nkisim, nki
import nki.isa as nisa, nki.language as nl

@nki.jit
def twice(x):
    t, out = nl.ndarray(x.shape, x.dtype, buffer=nl.sbuf), nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(t, x)
    nisa.tensor_tensor(t, t, t, nl.add)
    nisa.dma_copy(out, t)
    return out

alone = nkisim.run(twice, np.ones((128, 512), np.float32)).latency_ns
x = torch.ones(128, 512, device="neuron")
events = [torch.Event(device="neuron", enable_timing=True) for _ in range(3)]
for event, runs in zip(events, (2, 1, 0)):
    event.record()
    for _ in range(runs):
        y = twice(x)
    x + x
first, second, third = events
print([round(ns * 1e6, 3) == round(runs * alone, 3) for ns, runs in (
    (first.elapsed_time(second), 2), (second.elapsed_time(third), 1), (first.elapsed_time(third), 3),
    (second.elapsed_time(second), 0))])
"""
CAPABLE = """
import torch, torch_neuronx
x = torch.ones(1024, device="neuron")
print(*torch.accelerator.get_memory_info())
print(torch.bfloat16 in torch.accelerator.get_device_capability()["supported_dtypes"])
"""
FAILS = """
import torch, torch_neuronx
try:
    torch.accelerator.synchronize()
except RuntimeError as problem:
    print("RuntimeError")
print((torch.ones(2, device="neuron") + 1).cpu().tolist())
"""


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    return tmp_path_factory.mktemp("cache")


def lines(code, cache, **environment):
    return python("-c", code, env={**os.environ, "XDG_CACHE_HOME": str(cache), **environment}).stdout.splitlines()


def test_memory_is_that_of_the_tensors_on_the_device(cache):
    # 256 x 4 float32 and a view of them, 100 bfloat16.
    assert lines(REPORTED, cache) == ["0", "4296 4296 4296", "4096 4296", "4096", "4096", "0"]


def test_the_device_has_done_what_it_is_waited_for(cache):
    assert lines(WAITED, cache) == ["None None None", "0 1", "True True None None", "[2.0, 2.0]"]
    [built] = (cache / "nkisim").iterdir()
    written = built.stat().st_mtime_ns
    lines(WAITED, cache)
    assert built.stat().st_mtime_ns == written  # compiled once


def test_time_between_events_is_that_of_the_kernels(cache):
    assert lines(TIMED, cache) == [str([True] * 4)]


@pytest.mark.skipif(not hasattr(torch.accelerator, "get_memory_info"), reason="this torch does not ask")
@pytest.mark.parametrize("target,gib", [("trn1", 16), ("trn2", 2 * 12), ("trn3", 2 * 18)])
def test_capacity_is_that_of_a_logical_core(cache, target, gib):
    # 32 GiB of 2 cores, 96 of 8 and 144 of 8; 4 KiB of it are taken.
    assert lines(CAPABLE, cache, NKISIM_TARGET=target) == [f"{gib * 2**30 - 4096} {gib * 2**30}", "True"]


def test_where_it_is_not_wanted_nothing_is_compiled(tmp_path):
    assert lines(FAILS, tmp_path, NKISIM_TORCH_NATIVE="0") == ["RuntimeError", "[2.0, 2.0]"]
    assert not any(tmp_path.iterdir())


def test_a_submitted_kernel_starts_no_compiler(tmp_path):
    assert lines("import sys; sys.modules['nkisim_evaluate.candidate'] = sys\n" + FAILS, tmp_path)[0] == "RuntimeError"
    assert not any(tmp_path.iterdir())


def test_a_compiler_that_fails_is_tried_once(tmp_path):
    compiler = tmp_path / "compiler"
    compiler.write_text(f"#!/bin/sh\necho tried >> {tmp_path}/tries\nexit 1\n")
    compiler.chmod(0o755)
    for _ in range(2):
        assert lines(FAILS, tmp_path / "cache", CXX=str(compiler)) == ["RuntimeError", "[2.0, 2.0]"]
    assert (tmp_path / "tries").read_text() == "tried\n"


def test_a_cache_that_cannot_be_written_leaves_the_device(tmp_path):
    (tmp_path / "file").write_text("")
    assert lines(FAILS, tmp_path / "file") == ["RuntimeError", "[2.0, 2.0]"]
