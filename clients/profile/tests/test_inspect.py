"""Tests the variables NEURON_RT_INSPECT_* around an unchanged script: files for neuron-explorer,
and SQL on them.
"""

import json
import os
import pathlib
import sys

import pytest

from running import ROOT, run

duckdb = pytest.importorskip("duckdb")
pytestmark = pytest.mark.process

SCRIPT = """\
import numpy as np
import nkisim

nkisim.install()
import nki
import nki.isa as nisa
import nki.language as nl


@nki.jit
def doubled(x):
    tile = nl.ndarray(x.shape, x.dtype, nl.sbuf)
    nisa.dma_copy(tile, x)
    nisa.tensor_tensor(tile, tile, tile, nl.add)
    out = nl.ndarray(x.shape, x.dtype, nl.shared_hbm)
    nisa.dma_copy(out, tile)
    return out


for columns in (64, 64, 128):
    x = np.ones((128, columns), np.float32)
    assert np.array_equal(doubled(x), 2 * x)
print("done")
"""


@pytest.fixture
def place(tmp_path):
    (tmp_path / "script.py").write_text(SCRIPT)
    return tmp_path


def shell(command, place, **variables):
    path = f"{ROOT / 'clients' / 'profile' / 'bin'}:{pathlib.Path(sys.executable).parent}:{os.environ['PATH']}"
    env = {**os.environ, **variables, "PATH": path}
    return run("bash", "-eo", "pipefail", "-c", command, cwd=place, env=env)


def test_the_guides_variables_write_what_the_explorer_reads(place):
    """neuron-explorer's guide: set the variables, run, view -d ./output."""
    done = shell("python script.py && neuron-explorer view -d ./output --output-format summary-json > s.json",
                 place, NEURON_RT_INSPECT_ENABLE="1", NEURON_RT_INSPECT_DEVICE_PROFILE="1",
                 NEURON_RT_INSPECT_OUTPUT_DIR="./output")
    assert "done" in done.stdout
    [folder] = (place / "output").iterdir()
    assert folder.name.startswith("i-") and "_pid_" in folder.name
    programs = {p.stem.removeprefix("neff_") for p in folder.glob("neff_*.neff")}
    sessions = {p.name.removesuffix("_instid_0_vnc_0.ntff") for p in folder.glob("*.ntff")}
    assert programs == sessions and len(programs) == 2  # of three runs two programs
    metrics = json.loads((place / "s.json").read_text())
    assert len(metrics) == 2
    assert all(m["total_time"] > 0 and m["dma_transfer_count"] > 0 for m in metrics.values())


def test_the_tables_answer_sql(place):
    shell("python script.py && neuron-explorer view -d ./output --output-format parquet --data-path data",
          place, NEURON_RT_INSPECT_ENABLE="1", NEURON_RT_INSPECT_DEVICE_PROFILE="1")
    folders = sorted((place / "data" / "profiles" / "global").iterdir())
    assert len(folders) == 2
    [table] = folders[0].rglob("Instruction.parquet")
    rows = duckdb.sql(f"select opcode, count(*) n, sum(duration_ns) t from '{table}' group by opcode").fetchall()
    assert any("TENSOR_TENSOR" in str(op).upper() for op, _, _ in rows)
    assert all(n > 0 and t >= 0 for _, n, t in rows)


def test_the_system_profile_has_what_the_host_did(place):
    shell("python script.py", place, NEURON_RT_INSPECT_ENABLE="1", NEURON_RT_INSPECT_OUTPUT_DIR="prof")
    [folder] = (place / "prof").iterdir()
    assert [p.name for p in folder.iterdir()] == ["system_profile.json"]  # no device profile asked for
    events = json.loads((folder / "system_profile.json").read_text())["traceEvents"]
    names = [e["name"] for e in events]
    assert names.count("nrt_execute") == names.count("doubled") == 3
    assert names.count("compile") == 2 and names.count("trace") == 1
    written = [e["args"]["bytes"] for e in events if e["name"] == "nrt_tensor_write"]
    assert written == [128 * n * 4 for n in (64, 64, 128)]
    assert written == [e["args"]["bytes"] for e in events if e["name"] == "nrt_tensor_read"]
    device = [e for e in events if e["cat"] == "device"]
    assert all(e["dur"] * 1e3 == pytest.approx(e["args"]["latency_ns"]) for e in device)


def test_profile_files_and_warm_up(place):
    shell("python script.py", place, NEURON_RT_INSPECT_ENABLE="1", NEURON_RT_INSPECT_DEVICE_PROFILE="session",
          NEURON_RT_INSPECT_SYSTEM_PROFILE="0")
    [folder] = (place / "output").iterdir()
    assert len(list(folder.glob("*.ntff"))) == 3 and not (folder / "system_profile.json").exists()
    shell("python script.py", place, NEURON_RT_INSPECT_ENABLE="1", NEURON_RT_INSPECT_DEVICE_PROFILE="1",
          NEURON_RT_INSPECT_OUTPUT_DIR="warm", NEURON_RT_INSPECT_DEVICE_PROFILE_NUM_WARMUP="1")
    [folder] = (place / "warm").iterdir()
    assert len(list(folder.glob("*.ntff"))) == 1  # only one program ran twice


@pytest.mark.parametrize("variables, said", [
    ({"NEURON_RT_INSPECT_OUTPUT_DIR": "/dev/null"}, "NEURON_RT_INSPECT_OUTPUT_DIR=/dev/null: Not a directory"),
    ({"NEURON_RT_INSPECT_OUTPUT_DIR": "/proc/x"}, "NEURON_RT_INSPECT_OUTPUT_DIR=/proc/x: No such file"),
    ({"NEURON_RT_INSPECT_OUTPUT_DIR": "script.py"}, "script.py: Not a directory"),
    ({"NEURON_RT_INSPECT_DEVICE_PROFILE_NUM_WARMUP": "x"}, "NUM_WARMUP is 'x'; a number is required"),
    ({"NEURON_RT_INSPECT_DEVICE_PROFILE_NUM_WARMUP": "-1"}, "NUM_WARMUP is '-1'; a number is required")])
def test_a_script_goes_on_without_its_profile(place, variables, said):
    done = shell("python script.py", place, NEURON_RT_INSPECT_ENABLE="1", NEURON_RT_INSPECT_DEVICE_PROFILE="1",
                 **variables)
    assert done.stdout == "done\n" and said in done.stderr and "Traceback" not in done.stderr


def test_a_folder_is_where_its_links_lead(place):
    (place / "real" / "deep").mkdir(parents=True)
    (place / "link").symlink_to(place / "real" / "deep")
    shell("python script.py", place, NEURON_RT_INSPECT_ENABLE="1", NEURON_RT_INSPECT_DEVICE_PROFILE="1",
          NEURON_RT_INSPECT_OUTPUT_DIR="link/../out")
    assert list((place / "real" / "out").glob("i-*/*.ntff"))


def test_a_program_that_cannot_be_saved_is_a_warning(place):
    """NEURON_FRAMEWORK_DEBUG=1 saves to the working folder."""
    done = shell(f"cd /proc && python {place / 'script.py'}", place, NEURON_FRAMEWORK_DEBUG="1")
    assert done.stdout == "done\n" and "no profile is kept" in done.stderr and "Traceback" not in done.stderr


def test_without_the_switch_nothing_is_written(place):
    shell("python script.py", place, NEURON_RT_INSPECT_DEVICE_PROFILE="1")
    assert not (place / "output").exists()


WORLD = """\
import nkisim
import numpy as np

nkisim.install()
import nki.collectives as ncc
import nki.isa as nisa
import nki.language as nl


def summed(x):
    src, dst, out = (nl.ndarray(x.shape, x.dtype, nl.shared_hbm) for _ in range(3))
    nisa.dma_copy(src, x)
    ncc.all_reduce([src], [dst], ncc.ReplicaGroup([[0, 1, 2, 3]]), nl.add)
    nisa.dma_copy(out, dst)
    return out


r = nkisim.run(summed, nkisim.per_rank([np.full((128, 64), n, np.float32) for n in range(4)]), ranks=4)
assert all((each.outputs == 6).all() for each in r)
print(*(each.latency_ns for each in r))
print(r.record_seconds, r.run_seconds)
"""


@pytest.mark.parametrize("mode, warm, times, sessions", [
    ("1", "0", 2, [""]), ("1", "1", 1, []), ("1", "1", 2, [""]), ("session", "1", 2, ["_exec_1", "_exec_2"])])
def test_which_runs_of_a_world_have_profile_files(place, mode, warm, times, sessions):
    (place / "world.py").write_text(WORLD.replace("r = nkisim", f"for _ in range({times}):\n    r = nkisim"))
    shell("python world.py", place, NEURON_RT_INSPECT_ENABLE="1", NEURON_RT_INSPECT_DEVICE_PROFILE=mode,
          NEURON_RT_INSPECT_DEVICE_PROFILE_NUM_WARMUP=warm)
    [folder] = (place / "output").iterdir()
    assert {p.stem.split("_vnc_")[1] for p in folder.glob("*.ntff")} == {f"{r}{s}" for r in range(4) for s in sessions}


def test_a_world_has_every_rank(place):
    (place / "world.py").write_text(WORLD)
    done = shell("python world.py && neuron-explorer view -d ./output --output-format summary-json > s.json", place,
                 NEURON_RT_INSPECT_ENABLE="1", NEURON_RT_INSPECT_DEVICE_PROFILE="1")
    lines = done.stdout.splitlines()
    latencies = [float(t) for t in lines[0].split()]
    [folder] = (place / "output").iterdir()
    assert {p.stem[-1] for p in folder.glob("*_vnc_*.ntff")} == set("0123")
    assert not list(folder.glob(".*"))
    assert len(json.loads((place / "s.json").read_text())) == 4
    events = json.loads((folder / "system_profile.json").read_text())["traceEvents"]
    device = {e["args"]["rank"]: e for e in events if e["cat"] == "device"}
    assert [device[r]["args"]["latency_ns"] for r in range(4)] == latencies
    assert len({e["tid"] for e in device.values()}) == 4
    for name in ("nrt_tensor_write", "nrt_tensor_read"):
        assert [e["args"]["bytes"] for e in events if e["name"] == name] == [128 * 64 * 4] * 4
    assert [e["name"] for e in events].count("nrt_execute") == 1
    # Recorded, then written, run and read: whichever rank's tensors they are.
    [traced] = [e for e in events if e["name"] in ("compile", "trace")]
    record, run = (1e6 * float(t) for t in lines[1].split())
    for name, after in (("nrt_tensor_write", record), ("nrt_tensor_read", record + run)):
        assert [e["ts"] - traced["ts"] for e in events if e["name"] == name] == [pytest.approx(after, abs=2)] * 4
