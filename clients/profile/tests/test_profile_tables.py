"""Tests the profile tables of a simulated run: the published schema column by column, and SQL
against the summary.
"""
import csv
import json
import re

import pytest

from nkisim_profile.session import Session
from nkisim_profile.tables import TABLES, collectives
from running import ROOT, cli, python

pa = pytest.importorskip("pyarrow")
duckdb = pytest.importorskip("duckdb")
import pyarrow.parquet as pq  # noqa: E402

pytestmark = pytest.mark.process
SHIM = ROOT / "clients" / "profile" / "bin" / "neuron-profile"
SCHEMA = json.loads((ROOT / "clients/profile/nkisim_profile/schema_7_4_0.json").read_text())["tables"]
TYPES = {"integer (int64)": pa.int64(), "integer (int32)": pa.int32(), "boolean": pa.bool_(),
         "number (float)": pa.float64(), "number (double)": pa.float64()}
TRACES = sorted((ROOT / "traces").glob("*.jsonl"))
ALWAYS = {"Summary", "Instruction", "ActiveTime", "OpcodeSummary", "Metadata", "SchemaFields",
          "KernelInstructions", "KernelStackFrames", "StackFrame", "StackFrameFileLocation",
          "StackFrameFileName", "StackFrameFunctionName", "ExecutionInfo", "SbufUsage",
          "SbufAllocation", "DmaPacket", "DmaPacketAggregated", "DmaUsage", "DmaQueuesInfo",
          "PendingDma", "HbmUsage", "HbmUsageSummaryByType", "TensorInfo"}


def shim(*words):
    return python(SHIM, *words).stdout


#: Columns without a value in runs of one core and rank: what a simulation does not have, and the first of its kind, 0.
EMPTY = {
    "Summary": {"model_flops", "weight_size_bytes", "spill_save_bytes", "spill_reload_bytes", "output_queue_bytes",
                "weight_queue_bytes", "mfu_hlo_estimated_percent", "mfu_hlo_max_achievable_estimated_percent"},
    "Instruction": {"hlo_name", "layer", "input_queue_bytes", "output_queue_bytes", "weight_queue_bytes",
                    "spill_save_bytes", "spill_reload_bytes"},
    "DmaPacket": {"crc"},
    "DmaPacketAggregated": {f"{end}_{what}" for end in ("read", "write")
                            for what in ("sbuf_partitions", "shape", "offset", "steps")},
    "DmaQueuesInfo": {"axi_port", "dram_channel"}, "SbufAllocation": {"partition"},
    "PsumUsage": {"bank_6_util_percent", "bank_7_util_percent"},
    "HbmUsageSummaryByType": {"neuron_device_idx", "neuroncore_idx"}, "ThrottleSummary": {"nc_idx"},
    "TensorInfo": {"node"},
    "Metadata": {"ntff_version", "vnc_enabled", "first_hw_timestamp", "neuroncore_idx", "neuron_device_idx"},
    "ExecutionInfo": {"execution_index", "execution_start_ts"},
    "SchemaFields": {"table_description", "field_description"}}


def test_every_column_has_values_in_some_run(tmp_path):
    found = {}
    for trace in TRACES:
        cli("run", trace, "--quiet", "--session", tmp_path / "run.npz", cwd=ROOT)
        session = Session(tmp_path / "run.npz")
        for name, table in TABLES.items():
            for column, values in table(session).items():
                said = any(v not in (None, "", 0) and v == v for v in values)
                found.setdefault(name, {}).setdefault(column, []).append(said)
    for name, columns in found.items():
        without = {c for c, said in columns.items() if not any(said)} - {"pcore_idx"}
        if without != set(columns) - {"pcore_idx"} and not name.startswith("Cc") and name != "CoreBarriers":
            assert without - {c for c in without if c.startswith("cc_")} == EMPTY.get(name, set()), name


@pytest.fixture(scope="module", params=TRACES, ids=lambda p: p.stem)
def run(request, tmp_path_factory):
    """The summary of core 0 and the folders of Parquet and CSV tables of one trace."""
    folder = tmp_path_factory.mktemp(request.param.stem)
    session = folder / "profile.ntff"
    cli("run", request.param, "--quiet", "--session", session, cwd=ROOT)
    for kind in ("parquet", "csv"):
        shim("view", "-s", session, "--output-format", kind, "--output-file", folder / kind)
    summary = json.loads(shim("view", "-s", session, "--output-format", "summary-json"))
    return next(iter(summary.values())), folder / "parquet", folder / "csv"


def test_parquet_is_the_published_schema(run):
    _, folder, _ = run
    found = {p.stem: pq.read_table(p) for p in folder.glob("*.parquet")}
    assert ALWAYS <= set(found)
    for name, table in found.items():
        assert table.column_names == [c[0] for c in SCHEMA[name]], name
        for column, kind, unit, required in SCHEMA[name]:
            data, field = table.column(column), table.schema.field(column)
            assert data.type == TYPES.get(kind, pa.string()), (name, column)
            assert field.nullable != required, (name, column)
            assert (field.metadata or {}).get(b"unit", b"").decode() == (unit or ""), (name, column)
            if required:
                assert data.null_count == 0, (name, column)


def parsed(kind, text):
    """The value of a CSV field; the empty text is null, and a ' keeps a text from being a formula."""
    if not text:
        return None
    if re.match("'[=+@-]", text):
        text = text[1:]
    return {"integer": int, "number": float, "boolean": {"True": True, "False": False}.get}.get(
        kind.split()[0], str)(text)


def test_durations_are_from_start_to_end(run):
    _, folder, _ = run
    timed = {}
    for path in folder.glob("*.parquet"):
        table = pq.read_table(path)
        if {"start_ts", "end_ts", "duration_ns"} <= set(table.column_names):
            timed[path.stem] = len(table)
            start, end, duration = (table[c].to_pylist() for c in ("start_ts", "end_ts", "duration_ns"))
            assert duration == [b - a for a, b in zip(start, end)], path.stem
    assert timed.get("DmaPacketAggregated")


def test_csv_holds_the_same_rows(run):
    _, parquet, folder = run
    assert {p.stem for p in folder.glob("*.csv")} == {p.stem for p in parquet.glob("*.parquet")}
    for path in folder.glob("*.csv"):
        with open(path, newline="") as file:
            header, *rows = csv.reader(file)
        schema = SCHEMA[path.stem]
        assert header == [c[0] for c in schema]
        table = pq.read_table(parquet / f"{path.stem}.parquet")
        assert len(rows) == table.num_rows
        for i, (column, kind, _, required) in enumerate(schema):
            texts = [row[i] for row in rows]
            assert [parsed(kind, t) for t in texts] == [
                v or None if isinstance(v, str) else v for v in table.column(column).to_pylist()
            ], (path.stem, column)
            assert not required or kind.startswith("string") or all(texts), (path.stem, column)


def sums(table, column, where="true"):
    return f"select coalesce(sum({column}), 0) from {table} where pcore_idx = 0 and {where}"


def counts(table, where="true"):
    return sums(table, "1", where)


QUERIES = {  # metric: query that gives it, exactly
    "matmul_instruction_count": counts("Instruction", "opcode = 'MATMUL'"),
    "activate_instruction_count": counts("Instruction", "opcode like 'ACTIVATE%'"),
    "hardware_flops": sums("Instruction", "raw_flops"),
    "transpose_flops": sums("Instruction", "flops_transpose"),
    "adjusted_hardware_flops": sums("Instruction", "adjusted_flops"),
    "adjusted_transpose_flops": sums("Instruction", "adjusted_flops_transpose"),
    "psum_read_bytes": sums("Instruction", "psum_read_bytes"),
    "psum_read_sbuf_write_bytes": sums("Instruction", "psum_read_sbuf_write_bytes"),
    "psum_read_sbuf_write_count": counts("Instruction", "psum_read_sbuf_write_bytes > 0"),
    "dma_transfer_count": counts("DmaPacketAggregated"),
    "dma_transfer_total_bytes": sums("DmaPacketAggregated", "transfer_bytes"),
    "hbm_read_bytes": sums("DmaPacketAggregated", "read_bytes", "source in ('[[INPUT]]', '[[OUTPUT]]', '[[VIRTUAL]]')"),
    "hbm_write_bytes": sums("DmaPacketAggregated", "write_bytes", "dest in ('[INPUT]', '[OUTPUT]', '[VIRTUAL]')"),
    "hardware_dynamic_dma_size": sums("DmaPacketAggregated", "transfer_bytes",
                                      "queue_type = 'hardware_dynamic'"),
    "software_dynamic_dma_size": sums("DmaPacketAggregated", "transfer_bytes",
                                      "queue_type = 'software_dynamic'"),
    "dma_queue_count": "select count(distinct queue_name) from DmaPacketAggregated "
                       "where pcore_idx = 0",
    **{f"{e}_engine_instruction_count": counts("Instruction", f"engine ilike '{e}'")
       for e in ("tensor", "vector", "scalar", "gpsimd", "sync")},
}
TIMES = {  # seconds: query in whole nanoseconds, one per row off at most
    **{f"{e}_engine_active_time": ("ActiveTime", f"engine ilike '{e}'")
       for e in ("tensor", "vector", "scalar", "gpsimd", "sync")},
    **{f"{e}_engine_instruction_time": ("Instruction", f"engine ilike '{e}'")
       for e in ("tensor", "vector", "scalar", "gpsimd", "sync")},
    "dma_active_time": ("ActiveTime", "engine = 'DMA'"),
    "dma_packet_time": ("DmaPacket", "true"),
}


@pytest.fixture()
def ask(run):
    """Answers a query over the Parquet files."""
    _, folder, _ = run
    database = duckdb.connect()
    for path in folder.glob("*.parquet"):
        database.sql(f"create view {path.stem} as select * from '{path}'")
    return lambda query: database.sql(query).fetchall()


def test_trace_events_are_the_rows_of_their_tables(run, ask):
    summary, folder, _ = run
    rows = {table: ask(counts(table))[0][0] if (folder / f"{table}.parquet").exists() else 0
            for table in ("Instruction", "DmaPacketAggregated", "SemaphoreUpdate")}
    assert summary["trace_count"] == sum(rows.values()) > rows["SemaphoreUpdate"]
    assert summary["event_count"] == rows["SemaphoreUpdate"]


def test_duckdb_reproduces_the_summary(run, ask):
    summary = run[0]
    found = {metric: ask(query)[0][0] for metric, query in QUERIES.items()}
    assert found == {metric: summary[metric] for metric in QUERIES}
    for metric, (table, where) in TIMES.items():
        (time,), (rows,) = (ask(f(table, *a, where))[0] for f, a in ((sums, ["duration_ns"]),
                                                                    (counts, [])))
        assert abs(time - summary[metric] * 1e9) <= rows, metric
    time, = ask(sums("DmaPacketAggregated", "end_ts - trigger"))[0]
    assert abs(time - summary["dma_transfer_time"] * 1e9) <= summary["dma_transfer_count"]
    row = ask("select * from Summary")
    names = [c[0] for c in SCHEMA["Summary"]]
    assert dict(zip(names, row[0])) == {name: summary[name] for name in names}


def test_bytes_of_hbm_are_those_of_the_instructions_that_trigger(run, ask):
    """DMAs that an instruction triggers count; semaphores may make one wait, and then it has two parts."""
    triggered = ask("select count(distinct out_id) from Flow where dependency_type = 'DGE_TRIGGER'")[0][0]
    if triggered == ask(counts("DmaPacketAggregated"))[0][0]:
        for metric in ("hbm_read_bytes", "hbm_write_bytes"):
            assert ask(sums("Instruction", metric)) == [(run[0][metric],)], metric
    assert triggered


def test_ids_lead_from_table_to_table(ask):
    """No reference points to a row that is not there."""
    for table, column, other in (
            ("Flow where in_table = 'Instruction'", "in_id", "Instruction"),
            ("Flow where in_table = 'DmaPacketAggregated'", "in_id", "DmaPacketAggregated"),
            ("Flow where out_table = 'Instruction'", "out_id", "Instruction"),
            ("Flow where out_table = 'DmaPacketAggregated'", "out_id", "DmaPacketAggregated"),
            ("DmaPacket", "packet_aggregation_id", "DmaPacketAggregated"),
            ("StackFrame", "cast(file_location_id as varchar)", "StackFrameFileLocation"),
            ("StackFrame where parent_frame_id <> '0'", "parent_frame_id", "StackFrame"),
            ("StackFrameFileLocation", "cast(file_name_id as varchar)", "StackFrameFileName"),
            ("StackFrameFileLocation", "cast(function_name_id as varchar)",
             "StackFrameFunctionName")):
        if table.startswith("Flow") and not ask(
                "select 1 from information_schema.tables where table_name = 'Flow'"):
            continue
        assert ask(f"select {column} from {table} except select id from {other}") == []
    assert ask("select stack_frame_id from KernelInstructions except "
               "select stack_frame_id from KernelStackFrames") == []
    assert ask("select is_simulation, tensor_engine_clock_freq < 10 from Metadata") == [
        (True, True)]


def test_the_limit_of_the_pe_array(run, ask):
    """Stretches do not overlap, their limit is trn2's 50 % or more, and the summary follows."""
    summary = run[0]
    if not summary.get("throttle_active_nc0_time_ns"):
        pytest.skip("nothing is throttled")
    assert ask("select min(k / n) >= 0.5, max(k / n) < 1 from Throttle") == [(True, True)]
    (total, limit), = ask("select throttle_active_time_ns, "
                          "max_achievable_util_with_throttling_percent from ThrottleSummary "
                          "where throttle_type = 'all'")
    assert total == ask("select sum(duration) from Throttle")[0][0]
    assert limit == ask("select sum(duration * k / n) / sum(duration) from Throttle")[0][0]
    # Each stretch's ends are whole nanoseconds in the table.
    stretches = ask("select count(*) from Throttle")[0][0]
    assert abs(summary["throttle_active_nc0_time_ns"] - total) <= stretches
    overlaps = ("select count(*) from (select timestamp - lag(timestamp + duration) over "
                "(order by timestamp) as gap from Throttle) where gap < 0")
    assert ask(overlaps) == [(0,)]


def test_functions_of_the_kernel(tmp_path):
    """A nested function's parent is the function around it."""
    from nkisim_profile.tables.source import functions

    text = "def a():\n    def b():\n        pass\n    return b\n\n\nclass C:\n    def d(self):\n        pass\n"
    assert functions(text) == ((1, 4, "a"), (2, 3, "a.b"), (8, 9, "C.d"))
    assert functions("def (") == ()


def test_barriers_of_two_cores(tmp_path):
    lines = [{"nisa": 1, "target": "trn2", "cores": 2},
             {"tensor": {"name": "x", "dtype": "float32", "shape": [128, 8], "role": "input",
                         "data": {"generator": "ones"}}},
             {"tensor": {"name": "y", "dtype": "float32", "shape": [128, 8], "role": "output"}},
             {"i": "dma_copy", "dst": "y", "src": "x", "core": 0},
             *({"i": "core_barrier", "data": "y", "cores": [0, 1], "core": c} for c in (0, 1))]
    trace, session = tmp_path / "k.jsonl", tmp_path / "k.npz"
    trace.write_text("\n".join(map(json.dumps, lines)))
    cli("run", trace, "--quiet", "--session", session)
    shim("view", "-s", session, "--output-format", "parquet", "--output-file", tmp_path)
    rows = pq.read_table(tmp_path / "CoreBarriers.parquet").to_pylist()
    assert [r["pcore_idx"] for r in rows] == [0, 1]
    moved = pq.read_table(tmp_path / "DmaPacketAggregated.parquet")["end_ts"].to_pylist()
    assert min(r["end_ts"] for r in rows) >= max(moved)  # no core leaves before what came before
    assert {r["compiler_opcode"] for r in rows} == {"PSEUDO_CORE_BARRIER"}
    assert [r["duration_ns"] for r in rows] == [r["end_ts"] - r["start_ts"] for r in rows]


@pytest.mark.parametrize("operation, factor", [("AllReduce", 1.5), ("AllGather", 0.75), ("ReduceScatter", 0.75),
                                               ("AllToAll", 0.75)])
def test_bandwidth_of_the_bus_by_hand(operation, factor):
    """nccom-test's: of 4 ranks each sends 3 of 4 parts, twice where the sums go back as well."""
    assert collectives.BUS[operation](4) == factor and collectives.BUS[operation](1) == 0
