"""Tests AWS's way of profiling on simulated runs: a run saves its program, neuron-profile captures
and views it.
"""

import json
import os
import pathlib
import sys
import zipfile

import numpy as np
import pytest

import nkisim
from running import ROOT, run

nkisim.install()

import nki  # noqa: E402
import nki.language as nl  # noqa: E402
import neuronxcc.nki as legacy  # noqa: E402
from neuronxcc.nki.typing import tensor  # noqa: E402
from nkisim_profile import container  # noqa: E402
from nkisim_profile.session import BadSession, Session  # noqa: E402

pytestmark = pytest.mark.process
BIN = ROOT / "clients" / "profile" / "bin"


def exponential(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    for i in range(0, x.shape[0], 128):
        nl.store(out[i:i + 128], nl.exp(nl.load(x[i:i + 128])))
    return out


X = np.linspace(-1, 1, 256 * 64, dtype=np.float32).reshape(256, 64)


def tool(words, folder):
    env = {**os.environ, "PATH": f"{BIN}:{pathlib.Path(sys.executable).parent}:{os.environ['PATH']}"}
    return run("sh", "-c", words, code=None, cwd=folder, env=env)


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_debug_saves_each_program_once(here, monkeypatch):
    kernel = nki.jit(exponential)
    kernel(X)
    assert not list(here.iterdir())
    monkeypatch.setenv("NEURON_FRAMEWORK_DEBUG", "1")
    for x in (X, 2 * X, X[:128]):  # the second is another input of the same program
        kernel(x)
    found = sorted(here.glob("MODULE_0_SyncTensorsGraph.*.neff"))
    assert len(found) == 2 and len(list(here.iterdir())) == 2
    assert {container.manifest(f)["kernel"] for f in found} == {"exponential"}


def test_capture_and_view_give_the_runs_latency(here):
    result = nkisim.run(exponential, X, target="trn3")
    result.save("k.neff")
    done = tool("neuron-profile capture -n k.neff -s profile.ntff --profile-nth-exec=2", here)
    assert done.returncode == 0, done.stderr
    assert sorted(p.name for p in here.iterdir()) == ["k.neff", "profile_exec_2.ntff"]
    done = tool("neuron-profile view -n k.neff -s profile_exec_2.ntff --output-format summary-json",
                here)
    summary = json.loads(done.stdout)["nc_0"]
    assert 1e9 * summary["total_time"] == pytest.approx(result.latency_ns, rel=1e-12)
    assert summary["hbm_read_bytes"] == X.nbytes == summary["hbm_write_bytes"]
    done = tool("neuron-explorer capture --neff-path k.neff --enable-dge-notifs", here)
    assert done.returncode == 0 and (here / "profile.ntff").exists()


def test_a_saved_program_keeps_how_it_was_run(here):
    slow = nkisim.run(exponential, X, overrides={"dma.bytes_per_ns": 1})
    fast = nkisim.run(exponential, X)
    slow.save("slow.neff")
    container.capture("slow.neff", "slow.ntff")
    found = 1e9 * Session("slow.ntff").summary(0)["total_time"]
    assert found == pytest.approx(slow.latency_ns, rel=1e-12) and found > 1.5 * fast.latency_ns


def test_what_opens_the_file_reads_what_it_is(here):
    nkisim.run(exponential, X).save("k.neff")
    with open("k.neff", "rb") as file:
        assert file.readline().startswith(b"nkisim program, not an AWS NEFF: it runs on no device")
    with zipfile.ZipFile("k.neff") as archive:
        assert set(archive.namelist()) == {"manifest.json", "program.nisa", "program.npz",
                                           "program.expected.npz"}
    pathlib.Path("real.neff").write_bytes(bytes(range(256)) * 8)
    pathlib.Path("cut.neff").write_bytes(pathlib.Path("k.neff").read_bytes()[:2000])
    for name, message in (("real.neff", "is not a program of nkisim"), ("cut.neff", "is damaged"),
                          ("none.neff", "No such file")):
        done = tool(f"neuron-profile capture -n {name} -s p.ntff", here)
        assert done.returncode == 3 and message in done.stderr and not done.stdout
    assert "needs a program" in tool("neuron-profile capture -s p.ntff", here).stderr


@pytest.mark.parametrize("decorator", [legacy.benchmark, legacy.baremetal])
def test_save_names(here, decorator):
    kernel = decorator(save_neff_name="file.neff", save_trace_name="profile.ntff")(exponential)
    np.testing.assert_allclose(kernel(X), np.exp(X), rtol=1e-5)
    assert container.manifest("file.neff")["target"] == "trn2"
    latency = kernel.benchmark_result.nc_latency.get_latency_percentile(50)
    assert 1e6 * Session("profile.ntff").summary(0)["total_time"] == pytest.approx(latency)


def test_profile_saves_in_its_folder_and_overwrites_only_when_asked(here):
    folder = here / "profiles"
    kernel = legacy.profile(working_directory=str(folder))(exponential)
    kernel(X)
    assert sorted(p.name for p in folder.iterdir()) == ["file.neff", "profile.ntff"]
    with pytest.raises(nkisim.Error, match="file.neff exists; overwrite=True is required"):
        kernel(X)
    legacy.profile(working_directory=str(folder), overwrite=True)(exponential)(X)


def test_an_argument_may_be_a_shape(here):
    kernel = legacy.benchmark(exponential)
    y = kernel(tensor[[256, 64], nl.float32])
    assert y.shape == (256, 64) and y.min() >= 1 and y.max() < np.e and y.std() > 0.4
    assert np.array_equal(y, kernel(tensor[[256, 64], nl.float32]))


def test_never_written_bytes_that_were_read_as_zeros(here):
    def half(x):
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        nl.store(out[0:64], nl.load(x[0:64]))
        return out

    nkisim.run(half, X[:128], allow_unwritten=True).save("half.neff")
    container.capture("half.neff", "half.ntff")
    assert Session("half.ntff").summary(0)["hbm_write_bytes"] == 64 * 64 * 4


def test_a_damaged_manifest(here):
    container.write("new.neff", str(here), {"version": 99})
    with pytest.raises(BadSession, match="is of version 99; 1 is required"):
        container.manifest("new.neff")
