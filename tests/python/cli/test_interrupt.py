"""Tests Ctrl-C during a long run: every report is complete as a file and says that the run is
partial.
"""

import base64
import contextlib
import gzip
import json
import os
import re
import signal
import subprocess
import sys
import time

import pytest

from accounting import check
from running import PROGRAM, ROOT

pytestmark = pytest.mark.process
#: More iterations than anyone waits for.
ENDLESS = [
    {"nisa": 1, "target": "trn2", "name": "endless"},
    {"tensor": {"name": "x", "space": "hbm", "shape": [128, 64], "dtype": "float32",
                "role": "input", "data": {"generator": "uniform", "seed": 1}}},
    {"tensor": {"name": "y", "space": "hbm", "shape": [128, 64], "dtype": "float32",
                "role": "output"}},
    {"tensor": {"name": "t", "space": "sbuf", "shape": [128, 64], "dtype": "float32",
                "address": 0}},
    {"i": "dma_copy", "dst": "t", "src": "x"},
    {"i": "loop_begin", "register": "r1", "start": 0, "stop": 2000000000, "step": 1},
    {"i": "tensor_scalar", "dst": "t", "data": "t", "op0": "multiply", "operand0": 1.0,
     "engine": "vector"},
    {"i": "dma_copy", "dst": "y", "src": "t"},
    {"i": "loop_end"},
]
KERNEL = """
import nki.isa as nisa
import nki.language as nl


def endless(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.load(x)
    for i in nl.dynamic_range(2000000000):
        nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=1.0)
    nl.store(out, tile)
    return out
"""


def interrupt(words, growing, send=signal.SIGINT, **popen):
    """Starts a command and sends the signal once the file (or its partial twin) has grown."""
    run = subprocess.Popen([*map(str, words)], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                           text=True, **popen)
    patience = time.monotonic() + 120
    while True:
        sizes = [p.stat().st_size for p in growing.parent.glob(growing.name + "*")]
        if sum(sizes) > 100_000:
            break
        assert run.poll() is None, run.communicate()
        assert time.monotonic() < patience
        time.sleep(0.05)
    run.send_signal(send)
    out, err = run.communicate(timeout=120)
    return run.returncode, out, err


def packed_text(html):
    """The page's compressed content."""
    blobs = re.findall(r"[A-Za-z0-9+/]{400,}={0,2}", html.read_text())
    return "".join(gzip.decompress(base64.b64decode(b)).decode(errors="replace") for b in blobs
                   if b.startswith("H4sI"))


@pytest.fixture
def trace(written):
    return written(ENDLESS, "endless.jsonl")


def check_reports(files):
    summary = json.loads(files["summary-json"].read_text())["nc_0"]
    assert summary["partial"] is True and summary["vector_engine_instruction_count"] > 100
    assert check(files["accounting-json"])["partial"] is True
    from nkisim_profile.session import Session

    session = Session(files["session"])
    assert session.facts["partial"] is True
    assert len(session.parts) == sum(summary[f"{e}_engine_instruction_count"] for e in
                                     ("tensor", "vector", "scalar", "gpsimd", "sync"))
    assert any("PARTIAL" in line for line in session.facts["verdict"])
    events = json.loads(files["chrome"].read_text())["traceEvents"]
    assert any("partial" in e["name"] for e in events if e["ph"] == "i")
    decode = pytest.importorskip("test_perfetto_decode")
    done, _ = decode.slices(files["perfetto"])
    vector = sum(len(rows) for track, rows in done.items() if track.startswith("Vector"))
    assert vector == summary["vector_engine_instruction_count"]


def requested(folder):
    return {n: folder / f"{n}.out" for n in ("summary-json", "accounting-json", "session",
                                             "perfetto", "chrome")}


@pytest.mark.parametrize("send, code", [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_run(trace, tmp_path, send, code):
    folder = tmp_path / "out"
    folder.mkdir()
    files = requested(folder)
    words = [w for n, p in files.items() for w in (f"--{n}", p)]
    html, outputs = folder / "r.html", folder / "outputs.npz"
    found, out, err = interrupt([PROGRAM, "run", trace, *words, "--html", html, "--outputs", outputs,
                                 "--junit", folder / "j.xml", "--json"], files["perfetto"], send)
    assert found == code, err
    result = json.loads(out)
    assert result["partial"] is True and result["ok"] is False and result["exit_code"] == code
    assert "interrupted after" in err
    check_reports(files)
    assert "PARTIAL" in packed_text(html)
    assert "interrupted" in (folder / "j.xml").read_text()
    # Nothing half written, and no outputs of a run that did not end.
    assert {p.name for p in folder.iterdir()} == {p.name for p in files.values()} | {"r.html",
                                                                                     "j.xml"}


@pytest.mark.parametrize("send, code", [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
@pytest.mark.parametrize("waits_for", ["o.npz", None], ids=["while the page is written", "while it runs"])
def test_a_signal_to_the_group_leaves_the_page(written, tmp_path, send, code, waits_for):
    """As a terminal, a shell or a scheduler sends it: also to the process that writes the page."""
    lines = [*ENDLESS[:5], {**ENDLESS[5], "stop": 20_000}, *ENDLESS[6:]]
    words = [PROGRAM, "run", written(lines, "loop.jsonl"), "-q", "--html", "o.html", "--session", "o.npz"]
    run = subprocess.Popen(words, cwd=tmp_path, stderr=subprocess.PIPE, text=True, start_new_session=True)
    begin = time.monotonic()
    while waits_for and not (tmp_path / waits_for).exists() and run.poll() is None:
        assert time.monotonic() < begin + 60
        time.sleep(0.01)
    time.sleep(0.1 if waits_for else 0.3)
    os.killpg(run.pid, send)
    _, err = run.communicate(timeout=120)
    assert run.returncode == code, err
    assert "</html>" in (tmp_path / "o.html").read_text()[-20:]


def test_functional_run(trace):
    run = subprocess.Popen([PROGRAM, "run", trace, "--functional"], stderr=subprocess.PIPE,
                           stdout=subprocess.PIPE, text=True)
    time.sleep(2)
    run.send_signal(signal.SIGINT)
    _, err = run.communicate(timeout=60)
    assert run.returncode == 130 and "interrupted after" in err


def test_kernel(tmp_path):
    (tmp_path / "k.py").write_text(KERNEL)
    folder = tmp_path / "out"
    folder.mkdir()
    files = requested(folder)
    words = [w for n, p in files.items() for w in (f"--{n}", p)]
    found, out, err = interrupt(
        [sys.executable, "-m", "nkisim", "kernel", f"{tmp_path / 'k.py'}:endless", "--arg",
         "x=f32[128,64]", *words, "--json"], files["perfetto"])
    assert found == 130, err
    result = json.loads(out)
    assert result["partial"] is True and "interrupted after" in err
    check_reports(files)
    assert {p.name for p in folder.iterdir()} == {p.name for p in files.values()}


def test_while_reading(tmp_path):
    """A pipe that goes on and on: nothing is written, and the error is JSON like any other."""
    pipe, out = tmp_path / "trace.jsonl", tmp_path / "out.npz"
    os.mkfifo(pipe)
    run = subprocess.Popen([PROGRAM, "run", pipe, "--session", out, "--json"], text=True,
                           stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    head, line = ENDLESS[:4], json.dumps(ENDLESS[4]) + "\n"
    with contextlib.suppress(BrokenPipeError), open(pipe, "w", encoding="utf-8") as feed:
        feed.writelines(json.dumps(part) + "\n" for part in head)
        feed.writelines([line] * 20_000)
        feed.flush()
        run.send_signal(signal.SIGINT)
        while run.poll() is None:
            feed.writelines([line] * 20_000)
    said, err = run.communicate(timeout=60)
    assert run.returncode == 130 and "interrupted before" in err
    assert json.loads(said)["error"]["code"] == "interrupted"
    assert not out.exists()


@pytest.mark.slow
def test_at_any_time(tmp_path):
    """To everybody in front of the terminal, from the first instruction of the program on: one exit code, no
    traceback, and a page that is whole or not there."""
    page = tmp_path / "page.html"
    ended = []
    for step in range(16):
        page.unlink(missing_ok=True)
        run = subprocess.Popen([PROGRAM, "run", ROOT / "traces" / "flash_attention.jsonl", "-q", "--html", page],
                               start_new_session=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        time.sleep(0.02 + 0.06 * step)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(run.pid, signal.SIGINT)
        _, err = run.communicate(timeout=60)
        if run.returncode == -signal.SIGINT and not ended and not err:
            continue  # before the first instruction of the program, on a busy machine
        ended.append(run.returncode)
        assert run.returncode in (0, 130) and "Traceback" not in err, (step, run.returncode, err)
        assert [p.name for p in tmp_path.iterdir()] in ([], ["page.html"]), step
        assert not page.exists() or page.read_text().rstrip().endswith("</html>"), step
    assert 130 in ended
