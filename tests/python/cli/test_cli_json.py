"""Tests --json on every command: its result and its errors, with the exit codes of the plain form."""

import json
import xml.etree.ElementTree as xml

import pytest

from running import ROOT, cli

pytestmark = pytest.mark.process
TRACE = ROOT / "traces" / "softmax.jsonl"
PROFILE = sorted((ROOT / "clients" / "validation" / "table" / "profiles").glob("*.json*"))
BROKEN = """{"nisa": 1, "target": "trn2", "name": "broken"}
{"tensor": {"name": "x", "space": "hbm", "shape": [128, 8], "dtype": "float32", "role": "output"}}
{"tensor": {"name": "t", "space": "sbuf", "shape": [128, 8], "dtype": "float32", "address": 0}}
{"i": "tensor_tensor", "dst": "t", "data1": "t", "data2": "x", "op": "add", "loc": "k.py:7"}
"""


@pytest.fixture(scope="module")
def session(tmp_path_factory):
    path = tmp_path_factory.mktemp("session") / "s.npz"
    cli("run", TRACE, "-q", "--session", path)
    return path


@pytest.mark.parametrize("words, key", [
    (("run", TRACE), "summary"),
    (("run", TRACE, "--functional"), "instructions"),
    (("run", TRACE, "--explain"), "verdict"),
    (("run", TRACE, "--targets", "trn1,trn2"), "targets"),
    (("run", TRACE, "--expect", TRACE.with_suffix(".npz"), "--rtol", 1e-4), "outputs"),
    (("check", TRACE), "tensors"), (("disasm", TRACE), "instructions"),
    (("disasm", TRACE, "--parts"), "instructions"), (("isa",), "instructions"),
    (("isa", "show", "nc_matmul"), "name"), (("config",), "configs"),
    (("config", "show", "trn2"), "target"), (("config", "validate", "trn2"), "config"),
    (("convert", TRACE, "-o", "OUT/k.nisa"), "file"), (("explain",), "metrics"),
    (("collective", "all_reduce", "8K", "--ranks", 4), "duration_ns"), (("chip",), "modules"),
    (("chip", TRACE, "--svg", "OUT/c.svg"), "modules"),
    (("explain", "total_time"), "meaning"), (("completion", "bash"), "script"),
    (("view", "SESSION"), "nc_0"), (("view", "SESSION", "-f", "chrome", "-o", "OUT/k.json"), "output"),
    (("report", "SESSION", "-o", "OUT/r.html"), "ok"), (("compare", "SESSION", "SESSION"), "summary"),
])
def test_results(words, key, session, tmp_path):
    words = [str(w).replace("OUT", str(tmp_path)).replace("SESSION", str(session)) for w in words]
    plain, done = cli(*words), cli(*words, "--json")
    assert done.returncode == plain.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert key in result
    assert result.get("ok", True) is True


@pytest.mark.skipif(not PROFILE, reason="no device profile in the repository")
def test_profiles(tmp_path):
    out = tmp_path / "k.nisa"
    done = cli("import-profile", PROFILE[0], "-o", out, "--json")
    assert json.loads(done.stdout)["instructions"] > 0
    diff = json.loads(cli("diff-profile", out, PROFILE[0], "--json").stdout)
    assert diff["instructions"] > 0


def test_an_error_names_its_parts(tmp_path):
    path = tmp_path / "broken.jsonl"
    path.write_text(BROKEN)
    for command in ("run", "check", "disasm", "convert"):
        extra = ["-o", str(tmp_path / "x.nisa")] if command == "convert" else []
        done = cli(command, path, *extra, "--json", code=3)
        cli(command, path, *extra, code=3)
        result = json.loads(done.stdout)
        assert result["ok"] is False and result["exit_code"] == 3
        assert result["error"] == {
            "code": "bad_input", "kind": "memory", "rule": "operand_memory",
            "message": "data2 is in HBM; SBUF or PSUM is required",
            "text": f"{path}:4: tensor_tensor: data2 is in HBM; SBUF or PSUM is required (k.py:7) [operand_memory]",
            "file": str(path), "line": 4, "instruction": "tensor_tensor", "operand": "data2",
            "found": "in HBM", "required": "SBUF or PSUM", "kernel_file": "k.py", "kernel_line": 7}
        assert done.stderr.strip() == "nkisim: " + result["error"]["text"]


@pytest.mark.parametrize("words, code, kind", [
    (("run", "nothing.jsonl"), 3, "file"), (("run",), 2, "usage"), (("nonsense",), 2, "usage"),
    (("run", TRACE, "--no-such-option"), 2, "usage"), (("config", "show", "trn9"), 3, "config"),
    (("isa", "show", "nc_matmull"), 3, "unknown_name"), (("explain", "nonsense!"), 2, "usage"),
    (("collective", "all_reduce", "8Q"), 2, "usage"), (("collective", "all", "8"), 2, "usage"),
    (("collective", "all_reduce", "8", "--group", "0,,1"), 2, "usage"),
    (("collective", "all_reduce", "8", "--group", "0,64"), 2, "usage"),
    (("collective", "all_reduce", "8", "--lnc", 3), 2, "usage"),
    (("run", TRACE, "--budget", "total_tme<=3us"), 2, "usage"),
])
def test_errors(words, code, kind):
    done = cli(*words, "--json", code=code)
    result = json.loads(done.stdout)
    assert (result["exit_code"], result["error"]["kind"]) == (code, kind)


@pytest.mark.parametrize("words", [("view", "nothing.npz"), ("report", "nothing.npz", "-o", "r.html"),
                                   ("compare", "nothing.npz", "nothing.npz")])
def test_errors_of_reports(words):
    done = cli(*words, "--json", code=3)
    result = json.loads(done.stdout)
    assert result["exit_code"] == 3 and "nothing.npz" in result["error"]["message"]


def test_every_command_has_it():
    for command in ("run", "check", "disasm", "isa", "config", "convert", "import-profile",
                    "diff-profile", "explain", "collective", "chip", "completion", "view", "compare", "sweep", "demo",
                    "doctor"):
        assert "--json" in cli(command, "--help").stdout, command


# ---- budgets ----------------------------------------------------------------------------------
def test_budgets_and_junit(tmp_path):
    junit, words = tmp_path / "j.xml", ("run", TRACE, "--expect", TRACE.with_suffix(".npz"),
                                        "--rtol", "1e-4")
    latency = json.loads(cli(*words, "--json").stdout)["summary"]["nc_0"]["total_time"]
    done = cli(*words, "--budget", f"total_time<={latency * 1e6 * 1.001}us", "--budget",
               "hbm_read_bytes <= 1 KiB", "--budget", "tensor_engine_active_time_percent>=50%",
               "--junit", junit, "--json", code=1)
    result = json.loads(done.stdout)
    assert [b["kept"] for b in result["budgets"]] == [True, False, False]
    broken = [line for line in done.stderr.splitlines() if line.startswith("nkisim: over budget: ")]
    assert len(broken) == 2 and "at most 1 KiB is allowed" in broken[0]
    suite = xml.parse(junit).getroot().find("testsuite")
    assert (suite.get("tests"), suite.get("failures")) == ("4", "2")
    cases = {c.get("name"): c.find("failure") for c in suite}
    assert cases["output " + result["outputs"][0]["output"]] is None
    assert "at least 50 %" in cases["budget tensor_engine_active_time_percent>=50%"].get("message")


@pytest.mark.parametrize("budget, kept", [
    ("total_time<1s", True), ("total_time>=1ms", False), ("total_time<=100ns", False),
    ("dma_transfer_count<=1000", True), ("dma_transfer_count>1000", False),
    ("total_active_time_percent<=100%", True), ("hbm_read_bytes<=1GiB", True),
    ("hbm_read_bytes<=1KB", False), ("throttle_avg_util_limit_nc0_percent>=1%", False),
])
def test_units(budget, kept):
    done = cli("run", TRACE, "-q", "--budget", budget, code=0 if kept else 1)
    assert len(done.stderr.splitlines()) == (0 if kept else 1)


@pytest.mark.parametrize("budget, says", [
    ("totl_time<=3us", "did you mean total_time"), ("total_time<=3", "ns, us, ms, s is required"),
    ("total_time<=3%", "ns, us, ms, s is required"), ("total_time", "METRIC<=NUMBER"),
    ("total_time<=fast", "a number is required"), ("instance_type<=3", "not a number"),
    ("mfu_estimated_percent>=0.4", "% is required"),
])
def test_bad_budgets(budget, says):
    done = cli("run", TRACE, "--budget", budget, code=2)
    assert says in done.stderr and done.stdout == ""


def test_the_worst_core_decides():
    core = pytest.importorskip("nkisim")._core
    summary = json.dumps({"nc_0": {"total_time": 1e-6}, "nc_1": {"total_time": 3e-6}})
    found = core.check_budgets(["total_time<=2us", "total_time>=2us", "total_time<=4us"], summary)
    assert [kept for _, kept, _ in found] == [False, False, True]
    assert found[0][2] == "total_time is 3 us on nc_1; at most 2 us is allowed"
    assert found[1][2] == "total_time is 1 us on nc_0; at least 2 us is required"
