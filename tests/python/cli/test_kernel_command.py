"""Tests `nkisim kernel`, which runs a kernel of a Python file: its output, files and exit codes."""

import json
import pathlib

import pytest

from nkisim.tools import kernel_cli
from running import ROOT, cli, needs_clients

SOURCE = '''
import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np


@nki.jit
def scale(x, factor=2.0):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.load(x)
    nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=factor)
    nl.store(out, tile)
    return out


def expected(x, factor=2.0):
    return x * factor


def wrong(x, factor=2.0):
    return x * factor + (np.arange(x.shape[1]) == 3)


@nki.jit
def into(x, y):
    nisa.dma_copy(dst=y, src=nl.load(x))


def copied(x, y):
    return x


@nki.jit
def broken(x):
    return nl.load(x, no_such_keyword=1)


@nki.jit
def out_of_bounds(x):
    return x[0:1000]
'''


@pytest.fixture
def kernel(tmp_path):
    (tmp_path / "k.py").write_text(SOURCE)

    def run(name, *words):
        try:
            return kernel_cli.main([f"{tmp_path / 'k.py'}:{name}", *words])
        except SystemExit as stop:
            return stop.code

    return run


X = ("--arg", "x=f32[128,64]:normal")


def test_a_run_is_verified_and_written(kernel, tmp_path, capsys):
    trace, timeline, summary = (str(tmp_path / n) for n in ("k.nisa", "k.pftrace", "s.json"))
    code = kernel("scale", *X, "--arg", "factor=3.0", "--target", "trn1", "--expect", "expected",
                  "-o", trace, "--perfetto", timeline, "--summary-json", summary)
    assert code == 0
    text = capsys.readouterr().out
    assert "scale on trn1" in text and "output 0: matches" in text and "MFU" in text
    assert all(pathlib.Path(f).stat().st_size > 0 for f in (trace, timeline))
    assert json.loads(pathlib.Path(summary).read_text())["nc_0"]["total_time"] > 0


def test_differences_are_located(kernel, capsys):
    assert kernel("scale", *X, "--expect", "wrong") == 1
    assert "128 of 8192 differ, first at [0, 3]" in capsys.readouterr().out


def test_written_arguments_are_outputs(kernel):
    assert kernel("into", *X, "--arg", "y=f32[128,64]:zeros", "--expect", "copied") == 0


@pytest.mark.parametrize("words, text", [
    (("missing", *X), "has no missing"),
    (("scale",), "missing a required argument: 'x'"),
    (("scale", "--arg", "x=f77[2,2]"), "'f77' is not a dtype"),
    (("scale", "--arg", "x"), "NAME=DTYPE[SHAPE]"),
    (("scale", "--arg", "x=f32[128,64]:magic"), "'magic' fills nothing"),
    (("scale", "--arg", "x=f32[0,64]"), "sizes of at least 1 is required"),
    (("scale", "--arg", "x=f32[128"), "x=DTYPE[SHAPE] with a shape of whole numbers"),
    (("scale", "--arg", "x=bf16[-128,64]"), "with a shape of whole numbers"),
    (("scale", "--arg", "x=x.npy"), "x=DTYPE[SHAPE]:x.npy is required"),
    (("scale", *X, "--target", "trn9"), "trn9"),
    (("scale", *X, "--set", "dma"), "PATH=VALUE"),
    (("scale", *X, "--expect", "nothing"), "has no nothing"),
])
def test_usage(kernel, capsys, words, text):
    assert kernel(*words) == 2
    assert text in capsys.readouterr().err


@pytest.mark.parametrize("words, text", [
    (("broken", *X), "no_such_keyword"),
    (("out_of_bounds", *X), "k.py:41"),
    (("scale", "--arg", "x=f32[256,64]"), "k.py:11"),
    (("scale", *X, "-o", "/no/such/folder/k.nisa"), "/no/such/folder"),
])
def test_bad_input(kernel, capsys, words, text):
    assert kernel(*words) == 3
    assert text in capsys.readouterr().err


@needs_clients
def test_every_report_is_written(kernel, tmp_path, capsys):
    names = ("session", "accounting-json", "perfetto", "chrome", "vcd", "html", "junit")
    files = {n: tmp_path / n for n in names}
    words = [str(w) for n, f in files.items() for w in (f"--{n}", f)]
    assert kernel("scale", *X, *words, "--explain", "--budget", "total_time<=1s") == 0
    text = capsys.readouterr().out
    assert "critical path" in text and "verdict" in text and "budget        total_time<=1s" in text
    assert all(f.stat().st_size > 100 for f in files.values())
    from nkisim_profile.session import Session

    session = Session(files["session"])
    assert session.facts["what_if"] and session.facts["partial"] is False
    events = json.loads(files["chrome"].read_text())["traceEvents"]
    assert sum(e["ph"] == "X" and e["name"] == "TENSOR_SCALAR" for e in events) == 1


def test_what_ifs_of_a_kernel_are_changed_runs(kernel, tmp_path, capsys):
    session = tmp_path / "s.npz"
    assert kernel("scale", *X, "--explain", "--session", str(session)) == 0
    from nkisim_profile.session import Session

    facts = Session(session).facts
    four = next(w for w in facts["what_if"] if "four queues" in w["change"])
    assert kernel("scale", *X, "--set", "compiler.dma_queues_per_engine=4", "--accounting-json",
                  str(tmp_path / "a.json")) == 0
    assert json.loads((tmp_path / "a.json").read_text())["end_fs"] == four["end_fs"]


def test_budgets(kernel, capsys, tmp_path):
    junit = tmp_path / "j.xml"
    assert kernel("scale", *X, "--budget", "total_time<=1ns", "--budget", "hbm_read_bytes<=1GiB",
                  "--junit", str(junit)) == 1
    assert "over budget: total_time is" in capsys.readouterr().err
    assert 'tests="2" failures="1"' in junit.read_text()
    assert kernel("scale", *X, "--budget", "totl_time<=1ns") == 2
    assert "did you mean total_time" in capsys.readouterr().err


def test_json(kernel, capsys):
    assert kernel("scale", *X, "--expect", "expected", "--json") == 0
    result = json.loads(capsys.readouterr().out)
    assert result["ok"] and result["summary"]["nc_0"]["total_time"] > 0
    assert result["outputs"][0]["equal"] is True


@pytest.mark.parametrize("words, code, expected", [
    (("scale", *X, "--expect", "wrong"), 1, None),
    (("scale", "--arg", "x=f77[2,2]"), 2, {"code": "usage", "kind": "usage"}),
    (("scale", *X, "--no-such-option"), 2, {"code": "usage"}),
    (("out_of_bounds", *X), 3, {"code": "bad_input", "kind": "bounds", "kernel_line": 41}),
    (("broken", *X), 3, {"code": "bad_input"}),
    (("scale", "--arg", "x=f32[256,64]"), 3, {"kind": "partitions"}),
])
def test_json_errors(kernel, capsys, words, code, expected):
    assert kernel(*words, "--json") == code
    result = json.loads(capsys.readouterr().out)
    assert result["ok"] is False and result["exit_code"] == code
    if expected:
        assert expected.items() <= result["error"].items()


def test_a_stop_is_printed(kernel, capsys):
    assert kernel("scale", *X, "--stop-at", "1s", "--dump", "x") == 0
    text = capsys.readouterr().out
    assert "instructions are complete, 0 under way" in text and "\n  x float32" in text
    assert kernel("scale", *X, "--stop-at", "1ns", "--json") == 0
    assert json.loads(capsys.readouterr().out)["stop"]["complete"] == 0


@pytest.mark.process
def test_a_file_without_a_function_names_one(tmp_path):
    (tmp_path / "k.py").write_text("import nki\n\ndef other():\n    pass\n\n"
                                   "@nki.jit(debug=True)\ndef first(x):\n    return x\n")
    said = cli("kernel", tmp_path / "k.py", code=2).stderr
    assert "FILE.py:FUNCTION is required" in said and "k.py:first" in said


@pytest.mark.process
def test_a_file_of_another_kind_names_its_command(tmp_path):
    trace = ROOT / "traces" / "softmax.jsonl"
    assert "is a trace, which `nkisim run` runs" in cli("kernel", trace, code=2).stderr
    for name in ("k.py", "k.py:scale"):
        assert "is Python; a trace is required" in cli("run", tmp_path / name, code=3).stderr
    assert "holds arrays; a trace is required" in cli("run", trace.with_suffix(".npz"), code=3).stderr


@needs_clients
@pytest.mark.process
def test_a_page_in_a_folder_that_is_not_there_is_named(tmp_path):
    said = cli("run", ROOT / "traces" / "softmax.jsonl", "--quiet", "--html", tmp_path / "no" / "k.html", code=3).stderr
    assert "no/k.html cannot be written: No such file or directory" in said and ".part" not in said
