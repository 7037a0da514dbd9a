"""Tests scripts written for neuron-profile and neuron-explorer on the profile of a simulated run."""
import json
import os
import pathlib
import sys

import pytest

from running import ROOT, cli, run

pytestmark = pytest.mark.process
TRACE = ROOT / "traces" / "flash_attention.jsonl"


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A session as a profile of the device would be named, and its summary."""
    folder = tmp_path_factory.mktemp("session")
    cli("run", TRACE, "--quiet", "--session", folder / "profile.ntff", "--summary-json",
        folder / "summary.json", cwd=ROOT)
    return folder / "profile.ntff", next(iter(
        json.loads((folder / "summary.json").read_text()).values()))


@pytest.fixture
def work(made, tmp_path):
    (tmp_path / "profile.ntff").write_bytes(made[0].read_bytes())
    return tmp_path


def shell(script, folder, code=0):
    """Runs a script with the shims in PATH, as its author would."""
    env = {**os.environ, "PATH": f"{ROOT / 'clients' / 'profile' / 'bin'}:{os.environ['PATH']}"}
    done = run("bash", "-eo", "pipefail", "-c", script, code=code, cwd=folder, env=env)
    return done


@pytest.fixture(autouse=True)
def interpreter(monkeypatch):
    """The shims start python3: the one of these tests."""
    monkeypatch.setenv("PATH", f"{pathlib.Path(sys.executable).parent}:{os.environ['PATH']}")


@pytest.mark.parametrize("command", [
    "neuron-profile view -n file.neff -s profile.ntff --output-format=summary-json > ntff.json",
    "neuron-profile view --output-format summary-json -s profile.ntff --output-file ntff.json",
    "neuron-profile view --neff-path f.neff --session-file profile.ntff "
    "--output-format summary-json --output-file=ntff.json --enable-memory-tracker",
    "neuron-explorer view -n f.neff -s profile.ntff --output-format summary-json > ntff.json",
    "neuron-explorer view -d . --output-format summary-json --disable-ui > ntff.json",
    "neuron-explorer view --session-dir . --output-format summary-json --ingest-only "
    "--output-file ntff.json --ignore-device-profile",
])
def test_summary_json(work, made, command):
    shell(command, work)
    found = next(iter(json.loads((work / "ntff.json").read_text()).values()))
    assert {k: found[k] for k in made[1]} == made[1]
    moved = found["hbm_read_bytes"] + found["hbm_write_bytes"]  # of 716 GB/s, a fraction
    assert found["mbu_estimated_percent"] == pytest.approx(moved / (716e9 * found["total_time"]))
    assert {"hardware_flops", "transpose_flops", "psum_read_sbuf_write_bytes"} <= set(found)


def test_summary_text(work, made):
    out = shell("neuron-profile view --output-format summary-text -n f.neff -s profile.ntff | "
                "grep -e total_time -e dma_transfer_count", work).stdout
    assert f"{made[1]['total_time'] * 1e6:.3f} us" in out
    assert str(made[1]["dma_transfer_count"]) in out


@pytest.mark.parametrize("options, file", [("", "ntff.json"),
                                           ("--output-file profile.json", "profile.json")])
def test_events_as_json(work, made, options, file):
    """json goes to a file also without --output-file, as AWS's does."""
    assert shell(f"neuron-profile view --output-format json {options} -n f.neff -s profile.ntff",
                 work).stdout == ""
    events = json.loads((work / file).read_text())
    assert events["summary"][0]["total_time"] == made[1]["total_time"]
    assert events["metadata"][0]["ticks_per_nanosec"] == 1
    assert {"timestamp", "duration", "label", "subgroup", "opcode", "operands", "evt_wait_time",
            "id", "pc", "inst_dep_ids", "nki_source_location"} <= set(events["instruction"][0])
    ids = {row["id"] for row in events["instruction"]} | {row["id"] for row in events["dma"]}
    waits = [i for row in events["instruction"] for i in row["inst_dep_ids"]]
    assert waits and set(waits) <= ids
    assert sum(row["opcode"] == "MATMUL" for row in events["instruction"]) == made[1][
        "matmul_instruction_count"]
    # The end of the last DMA, as nki-library finds it.
    assert 0 < max(d["timestamp"] + d["duration"] for d in events["dma"]) <= made[1][
        "total_time"] * 1e9 + 1


def test_parquet_is_the_explorers_default(work, made):
    pq = pytest.importorskip("pyarrow.parquet")
    shell("neuron-explorer view -n f.neff -s profile.ntff --data-path data --display-name run1 "
          "--ingest-only --db-bucket b", work)
    table = pq.read_table(work / "data/profiles/global/run1@latest/Summary.parquet")
    assert table["total_time"].to_pylist() == [made[1]["total_time"]]
    shell("neuron-explorer view -s profile.ntff", work)
    assert (work / "profiles/global/profile@latest/Instruction.parquet").exists()


def test_show_session(work, made):
    shell("neuron-profile show-session -s profile.ntff --show-errors -j > show_session_0.json", work)
    nodes = json.loads((work / "show_session_0.json").read_text())["NeffNodes"]
    graphs = [g for node in nodes for g in node["NodeInfo"]["Graphs"]]
    assert graphs == [{"NC": 0, "CycleCount": made[1]["neuroncore_cycle_count"]}]
    assert shell("neuron-profile show-session -j -e -i --session-file profile.ntff", work).stdout
    text = shell("neuron-profile show-session -s profile.ntff --show-trace --show-dma", work).stdout
    assert "Instruction trace for ND 0 NC 0" in text and "DMA trace for ND 0 NC 0" in text
    lines = [line.split() for line in text.splitlines()]
    starts = sum(line[0] == "MATMUL" and line[2] == "START" for line in lines)
    assert starts == made[1]["matmul_instruction_count"]
    moved = [int(t) for name, t, edge in (x for x in lines if len(x) == 3) if name.startswith("q")
             and edge == "END"]
    assert len(moved) == made[1]["dma_transfer_count"]


def test_a_folder_of_executions(work, made):
    """Files as neuron-profile capture --num-exec names them."""
    (work / "profile_exec_2.ntff").write_bytes(made[0].read_bytes())
    out = shell("neuron-profile view -d . --output-format summary-json", work).stdout
    nodes = json.loads(out)
    assert sorted(nodes) == ["profile_exec_2_nc_0", "profile_nc_0"]
    assert {n["total_time"] for n in nodes.values()} == {made[1]["total_time"]}
    assert shell("neuron-profile view -d . --output-format summary-text", work).stdout.count(
        "total_time") == 2
    shell("neuron-explorer view -d .", work)
    assert {p.name for p in (work / "profiles/global").iterdir()} == {
        "profile@latest", "profile_exec_2@latest"}
    error = shell("neuron-profile view -d . --output-format json", work, code=3).stderr
    assert "2 sessions" in error and "profile_exec_2.ntff" in error


def test_sources_elsewhere(work):
    """--nki-source-root says where the kernel's files are: the tables then know its functions."""
    (work / "src").mkdir()
    source = (ROOT / "traces/kernels/flash_attention.py").read_text()
    (work / "src" / "flash_attention.py").write_text(source.replace("def update(", "def renamed("))
    shell("neuron-explorer view -s profile.ntff --nki-source-root src --output-format csv "
          "--output-file tables", work)
    assert "renamed" in (work / "tables" / "StackFrameFunctionName.csv").read_text()


@pytest.mark.parametrize("command, message, code", [
    ("neuron-profile capture -n f.neff -s p.ntff --profile-nth-exec=2 --num-exec 4",
     "No such file or directory: 'f.neff'", 3),
    ("neuron-profile view -s none.ntff --output-format summary-json", "not a session", 3),
    ("neuron-profile view --output-format summary-json", "needs a session", 3),
    ("neuron-profile view -d src --output-format summary-json", "no session", 3),
    ("neuron-profile show-session -j", "needs a session", 2),
    ("neuron-profile view -s profile.ntff --output-format db", "invalid choice", 2),
    ("neuron-profile view -s profile.ntff --no-such-option", "unknown arguments", 2),
])
def test_mistakes(work, command, message, code):
    (work / "src").mkdir()
    done = shell(command, work, code)
    assert message in done.stderr and "Traceback" not in done.stderr
