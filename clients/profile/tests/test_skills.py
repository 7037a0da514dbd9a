"""Tests the commands of AWS's agent skills for profiling (neuron-agentic-development: neuron-nki-profiling,
neuron-nki-profile-querying, neuron-explorer-profile-schema), byte for byte where a line of one stands here."""

import json
import os
import pathlib
import re
import socket
import subprocess
import sys

import pytest

from running import ROOT, run

duckdb = pytest.importorskip("duckdb")
pytestmark = pytest.mark.process

KERNEL = """\
import os
os.environ['NEURON_RT_INSPECT_ENABLE'] = '1'
os.environ['NEURON_RT_INSPECT_DEVICE_PROFILE'] = '1'
os.environ['NEURON_RT_INSPECT_OUTPUT_DIR'] = './output'
os.environ['NEURON_CC_FLAGS'] = '--target trn2 --lnc 1'
os.environ['NEURON_RT_VISIBLE_CORES'] = '0'

import ml_dtypes
import nkisim
import numpy as np

nkisim.install()
import nki
import nki.isa as nisa
import nki.language as nl


@nki.jit
def product(a, b):
    left, right = (nl.ndarray((128, 512), nl.bfloat16, nl.sbuf) for _ in range(2))
    nisa.dma_copy(left, a)
    nisa.dma_copy(right, b)
    turned = nl.ndarray((128, 128), nl.bfloat16, nl.psum)
    nisa.nc_transpose(turned, left[:, 0:128])
    weights = nl.ndarray((128, 128), nl.bfloat16, nl.sbuf)
    nisa.tensor_copy(weights, turned)
    sums = nl.ndarray((128, 512), nl.float32, nl.psum)
    nisa.nc_matmul(sums, weights, right)
    tile = nl.ndarray((128, 512), nl.float32, nl.sbuf)
    nisa.tensor_copy(tile, sums)
    out = nl.ndarray((128, 512), nl.float32, nl.shared_hbm)
    nisa.dma_copy(out, tile)
    return out


x = np.ones((128, 512), ml_dtypes.bfloat16)
assert (product(x, x.copy()) == 128).all()
"""
CAPTURE = """NEFF_PATH=$(find ./output -name "*.neff" | head -1)
NEURON_RT_ENABLE_DGE_NOTIFICATIONS=1 neuron-explorer capture \\
  -n "$NEFF_PATH" \\
  -s profile.ntff \\
  --profile-nth-exec=2
"""
PROFILING = """mkdir -p ./profiles/run_001
NEFF_PATH=$(find ./output -name "*.neff" | head -1)
neuron-explorer capture \\
    -n $NEFF_PATH \\
    -s ./profiles/run_001/profile.ntff \\
    --profile-nth-exec=2 \\
    --enable-dge-notifs
neuron-explorer view \\
    --output-format summary-json \\
    -n $NEFF_PATH \\
    -s ./profiles/run_001/profile.ntff > ./profiles/run_001/metrics.json
"""
INGEST = """neuron-explorer view \\
  -n "$NEFF_PATH" \\
  -s "$NTFF_PATH" \\
  --data-path "$NE_DATA_PATH" \\
  --display-name "$PROFILE_NAME" \\
"""
QUERIES = {
    "Summary": "SELECT total_time, mfu_estimated_percent, tensor_engine_active_time_percent, "
               "vector_engine_active_time_percent, dma_active_time_percent, hbm_read_bytes, hbm_write_bytes FROM "
               "Summary",
    "Instruction": "SELECT engine, opcode, COUNT(*) as cnt, SUM(duration_ns) as total_dur_ns, SUM(evt_wait_time_ns) as "
                   "total_evt_wait_ns FROM Instruction GROUP BY engine, opcode ORDER BY total_dur_ns DESC",
    "DmaPacket": "SELECT COUNT(*) as cnt FROM DmaPacket",
    "SchemaFields": "SELECT table_name, field_name, field_description, field_unit FROM SchemaFields WHERE field_name "
                    "ILIKE '%matmul%'",
}
LINES = ("SELECT bir_debug_info_source_location, engine, opcode, COUNT(*) as cnt, SUM(duration_ns) as total_dur_ns "
         "FROM Instruction WHERE bir_debug_info_source_location IS NOT NULL GROUP BY bir_debug_info_source_location, "
         "engine, opcode ORDER BY total_dur_ns DESC LIMIT 10")


def environment(**more):
    path = f"{ROOT / 'clients' / 'profile' / 'bin'}:{pathlib.Path(sys.executable).parent}:{os.environ['PATH']}"
    return {**os.environ, "PATH": path, **more}


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """The folder in which the skills' steps up to the tables have run."""
    place = tmp_path_factory.mktemp("skills")
    (place / "my_kernel.py").write_text(KERNEL)
    variables = {"NTFF_PATH": "profile_exec_2.ntff", "NE_DATA_PATH": str(place / "data"), "PROFILE_NAME": "my-matmul"}
    steps = f"python my_kernel.py\n{PROFILING}{CAPTURE}{INGEST}  --ingest-only\n"
    run("bash", "-eo", "pipefail", "-c", steps, cwd=place, env=environment(**variables))
    return place


@pytest.fixture
def ask(place):
    """One number of a SELECT over the tables; the skills load the same files by pandas."""
    database = duckdb.connect()
    for path in (place / "data" / "profiles" / "global" / "my-matmul@latest").glob("*.parquet"):
        database.execute(f"CREATE VIEW {path.stem} AS SELECT * FROM '{path}'")
    return lambda text: database.execute(text).fetchone()[0]


def test_the_files_are_where_the_skills_look(place):
    [folder] = (place / "output").iterdir()
    assert folder.name.startswith("i-") and "_pid_" in folder.name
    assert (place / "profile_exec_2.ntff").exists()
    [metrics] = json.loads((place / "profiles" / "run_001" / "metrics.json").read_text()).values()
    for field in ("tensor_engine_active_time_percent", "vector_engine_active_time_percent", "hbm_read_bytes",
                  "hbm_write_bytes", "mm_arithmetic_intensity", "peak_flops_bandwidth_ratio", "total_time"):
        assert metrics[field] > 0, field


@pytest.mark.parametrize("name", QUERIES)
def test_sql_of_the_skills_over_parquet(place, name):
    database = duckdb.connect()
    path = place / "data" / "profiles" / "global" / "my-matmul@latest" / f"{name}.parquet"
    database.execute(f"CREATE VIEW {name} AS SELECT * FROM '{path}'")
    assert database.execute(QUERIES[name]).fetchall()


def test_the_bounds_of_the_skills_come_out(ask):
    """performance-bounds.md: which fields of which tables the bounds are computed from, worked out here anew."""
    assert ask("SELECT count(*) FROM Flow") and ask("SELECT count(*) FROM DmaPacketAggregated")
    assert ask("SELECT dma_ddr_bandwidth FROM Metadata") > 0
    peak = ask("SELECT tensor_engine_num_rows * tensor_engine_num_cols * 2e9 * tensor_engine_clock_freq FROM Metadata")
    products = "FROM Instruction WHERE engine = 'Tensor' AND opcode = 'MATMUL'"
    transposes = ask(f"SELECT sum(adjusted_flops) {products} AND tensor_instruction_type = 'TRANSPOSE'")
    useful = ask(f"SELECT sum(adjusted_flops) {products}") - transposes
    assert useful == 2 * 128 * 128 * 512 and transposes
    tensor = float(ask("SELECT sum(duration_ns) FROM ActiveTime WHERE engine = 'tensor'")) / 1e9
    assert 0 < useful / peak < tensor < ask("SELECT total_time FROM Summary")
    moved = ask("SELECT sum(transfer_bytes) FROM DmaPacket WHERE queue_type != 'instruction' AND transfer_bytes > 4")
    necessary = ask("SELECT sum(size) FROM TensorInfo WHERE type IN ('IN', 'OUT')")
    assert moved == necessary == 2 * 128 * 512 * 2 + 128 * 512 * 4


OVERLAP = """
    SELECT
        CASE WHEN lw.end_ts <= mm.start_ts THEN 'lw_before'
             WHEN lw.start_ts >= mm.end_ts THEN 'lw_after'
             ELSE 'overlap' END as rel,
        COUNT(*) as cnt
    FROM Instruction mm
    JOIN Instruction lw ON mm.bir_id = lw.bir_id
    WHERE mm.opcode = 'MATMUL' AND lw.opcode = 'LDWEIGHTS'
      AND mm.tensor_instruction_type = 'REGULAR'
      AND lw.tensor_instruction_type = 'REGULAR'
    GROUP BY rel
"""


def test_the_skills_overlap_of_weights_and_products(ask):
    assert ask(f"SELECT sum(cnt) FROM ({OVERLAP})") == 1


def test_the_skills_investigations_lead_from_bytes_to_lines(ask):
    """investigations/*.md: joins over Flow from a line of the kernel to the tensor that it loads, worked out anew."""
    joined = ("Flow JOIN Instruction i ON in_table = 'Instruction' AND in_id = i.id JOIN DmaPacketAggregated d "
              "ON out_table = 'DmaPacketAggregated' AND out_id = d.id "
              "JOIN TensorInfo t ON t.variable_name = d.variable")
    loads = f"{joined} WHERE i.hbm_read_bytes > 0 AND source = '[[INPUT]]' AND dest = '[SB]'"
    line = "split_part(bir_debug_info_source_location, '/', -1)"
    first = KERNEL[:KERNEL.index("nisa.dma_copy(left")].count("\n") + 1
    assert ask(f"SELECT list(({line}, variable, transfer_bytes / size, write_num_sbuf_partitions) ORDER BY variable) "
               f"FROM {loads}") == [(f"my_kernel.py:{first}", "a", 1, 128), (f"my_kernel.py:{first + 1}", "b", 1, 128)]
    assert ask(f"SELECT list((variable, i.hbm_write_bytes, read_num_sbuf_partitions)) FROM {joined} WHERE "
               "source = '[[SB]]' AND dest = '[OUTPUT]' AND is_transpose_mode != true") == [("out", 128 * 512 * 4, 128)]
    assert ask("SELECT count(*) FROM DmaPacketAggregated WHERE source LIKE '%VIRTUAL%' OR dest LIKE '%VIRTUAL%'") == 0


def test_the_skills_read_a_products_sizes_from_its_operands(ask):
    """te_inefficiency.md: "K*M as the trailing pair and N as the first element of the src stride"."""
    text = ask("SELECT operands FROM Instruction WHERE opcode = 'MATMUL' AND tensor_instruction_type = 'REGULAR'")
    assert re.search(r"(\d+)\*(\d+)\s*$", text).groups() == ("128", "128")
    assert re.search(r"src=\S+\[[\d,\-]+\]\[(\d+),", text)[1] == "512"


def test_the_version_and_the_schema_are_reported(place):
    shown = run("bash", "-eo", "pipefail", "-c", "which neuron-explorer && neuron-explorer --version && "
                "neuron-explorer --show-profile-schema", cwd=place, env=environment()).stdout
    assert "\n---\nInstruction:\n" in shown and "evt_wait_time_ns:" in shown


@pytest.fixture(scope="module")
def server(place):
    """The skills' server in the background; its port. (Theirs is 3002, which others may have here.)"""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    script = INGEST + f"  --disable-ui --port {port}"
    variables = {"NEFF_PATH": "none", "NTFF_PATH": "profile_exec_2.ntff", "NE_DATA_PATH": str(place / "data"),
                 "PROFILE_NAME": "served"}
    process = subprocess.Popen(["bash", "-c", f"exec {script}"], cwd=place, env=environment(**variables),
                               stdout=subprocess.PIPE, text=True)
    for line in process.stdout:
        if "http://" in line:
            break
    yield port
    process.terminate()
    process.wait()


def post_query(port, request, code=0):
    return json.loads(run(
        "curl", "-s", "-X", "POST", f"http://localhost:{port}/api/v1/db/served/_search", "-H",
        "Content-Type: application/json", "-d", json.dumps(request), code=code).stdout)


def test_the_server_answers_the_skills_requests(server):
    assert "healthy" in run("curl", "-s", f"http://localhost:{server}/api/v1/health").stdout
    for name, text in {**QUERIES, "lines": LINES}.items():
        found = post_query(server, {"type": "databaseExplorerQuery", "tableName": name, "query": text})
        assert found["rows"] and list(found["rows"][0]) == found["columns"], found
    assert "Instruction.parquet" in post_query(server, {"type": "listDbFiles"})["files"]
    fields = post_query(server, {"type": "tableSchema", "tableName": "Instruction"})["fields"]
    assert "duration_ns" in [f["name"] for f in fields]


@pytest.mark.parametrize("text", [
    "DROP TABLE Summary", "SELECT * FROM read_csv('/etc/passwd')", "SELECT * FROM '/etc/passwd'",
    "SELECT 1; COPY Summary TO 'x.csv'", "WITH a AS (SELECT 1) SELECT * FROM nothing", ""])
def test_the_server_reads_tables_and_nothing_else(server, place, text):
    found = post_query(server, {"type": "databaseExplorerQuery", "tableName": "Summary", "query": text})
    assert set(found) == {"error"}
    assert not (place / "x.csv").exists()


def test_what_is_no_request_is_reported(server):
    assert "error" in post_query(server, {"type": "other"})
    assert "error" in post_query(server, [1])
