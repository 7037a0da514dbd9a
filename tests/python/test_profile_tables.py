"""The tables of a session: the published schema column by column, and sums against the summary."""
import json
import os
import pathlib
import subprocess
import sys

import pytest

pa = pytest.importorskip("pyarrow")
import pyarrow.compute as pc  # noqa: E402
import pyarrow.parquet as pq  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = os.environ.get("NKISIM_PROGRAM", str(ROOT / "build" / "release" / "nkisim"))
SHIM = ROOT / "python" / "bin" / "neuron-profile"
SCHEMA = json.loads((ROOT / "python/nkisim_profile/schema_7_4_0.json").read_text())["tables"]
TYPES = {"integer (int64)": pa.int64(), "integer (int32)": pa.int32(), "boolean": pa.bool_(),
         "number (float)": pa.float64(), "number (double)": pa.float64()}
TRACES = sorted((ROOT / "traces").glob("*.jsonl"))


def shim(*words):
    return subprocess.run([sys.executable, str(SHIM), *map(str, words)], check=True, text=True,
                          stdout=subprocess.PIPE).stdout


@pytest.fixture(scope="module", params=TRACES, ids=lambda p: p.stem)
def run(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp(request.param.stem)
    session = folder / "profile.ntff"
    subprocess.run([PROGRAM, "run", str(request.param), "--quiet", "--session", str(session)],
                   check=True)
    shim("view", "-n", "k.neff", "-s", session, "--output-format", "parquet",
         "--output-file", folder / "tables")
    summary = json.loads(shim("view", "-s", session, "--output-format", "summary-json"))
    tables = {p.stem: pq.read_table(p) for p in (folder / "tables").glob("*.parquet")}
    return session, next(iter(summary.values())), tables


def test_columns_are_those_of_the_schema(run):
    _, _, tables = run
    assert {"Summary", "Instruction", "DmaPacketAggregated", "ActiveTime", "Metadata"} <= set(tables)
    for name, table in tables.items():
        assert table.column_names == [c[0] for c in SCHEMA[name]], name
        for column, kind, _, required in SCHEMA[name]:
            data = table.column(column)
            assert data.type == TYPES.get(kind, pa.string()), (name, column)
            if required:
                assert data.null_count == 0, (name, column)


def test_tables_add_up_to_the_summary(run):
    _, summary, tables = run
    instructions = tables["Instruction"]
    if max(instructions["pcore_idx"].to_pylist()) > 0:
        instructions = instructions.filter(pc.equal(instructions["pcore_idx"], 0))
    for engine in ("Tensor", "Vector", "Scalar", "GpSimd", "Sync"):
        mine = instructions.filter(pc.equal(instructions["engine"], engine))
        assert mine.num_rows == summary[f"{engine.lower()}_engine_instruction_count"]
        active = tables["ActiveTime"]
        rows = active.filter(pc.and_(pc.equal(active["engine"], engine),
                                     pc.equal(active["pcore_idx"], 0)))
        total = pc.sum(rows["duration_ns"]).as_py() or 0
        assert abs(total - summary[f"{engine.lower()}_engine_active_time"] * 1e9) <= rows.num_rows
    assert pc.sum(instructions["sbuf_read_bytes"]).as_py() <= summary["sbuf_read_bytes"]
    assert pc.sum(instructions["raw_flops"]).as_py() == summary["hardware_flops"]
    transfers = tables["DmaPacketAggregated"]
    transfers = transfers.filter(pc.equal(transfers["pcore_idx"], 0))
    assert transfers.num_rows == summary["dma_transfer_count"]
    assert pc.sum(transfers["transfer_bytes"]).as_py() == summary["dma_transfer_total_bytes"]
    assert tables["Metadata"]["is_simulation"].to_pylist() == [True]


def test_show_session_and_json(run):
    session, summary, tables = run
    graphs = json.loads(shim("show-session", "-s", session, "-j"))["NeffNodes"][0]["NodeInfo"]
    assert graphs["Graphs"][0]["CycleCount"] == summary["neuroncore_cycle_count"]
    events = json.loads(shim("view", "-s", session, "--output-format", "json"))
    assert len(events["instruction"]) == tables["Instruction"].num_rows
    assert {"timestamp", "duration", "label", "subgroup", "opcode", "operands", "evt_wait_time",
            "id", "pc", "inst_dep_ids", "nki_source_location"} <= set(events["instruction"][0])
    assert events["metadata"][0]["ticks_per_nanosec"] == 1
    text = shim("view", "-s", session, "--output-format", "summary-text")
    assert "dma_transfer_count" in text and "total_time" in text


def test_duckdb_reproduces_the_summary(run, tmp_path):
    duckdb = pytest.importorskip("duckdb")
    _, summary, tables = run
    Instruction = tables["Instruction"]  # noqa: F841, N806: named in the query
    (count,) = duckdb.sql("select count(*) from Instruction where opcode = 'MATMUL' and "
                          "pcore_idx = 0").fetchall()[0]
    assert count == summary["matmul_instruction_count"]


def test_a_file_that_is_no_session(tmp_path):
    bad = tmp_path / "bad.npz"
    bad.write_bytes(b"PK nothing")
    done = subprocess.run([sys.executable, str(SHIM), "view", "-s", str(bad)], text=True,
                          capture_output=True)
    assert done.returncode == 3
    assert "not a session" in done.stderr and "Traceback" not in done.stderr
