"""Tests `nkisim sweep` (one run for each combination of settings): numbers, interruption, Dask."""
import csv
import fcntl
import json
import os
import pty
import signal
import stat
import struct
import subprocess
import sys
import termios
import time

import pytest

from nkisim_profile.session import BadSession
from nkisim_profile.sweep import output
from nkisim_profile.sweep.journal import Journal
from running import PROGRAM, ROOT, SOURCES, cli, python, run

pytest.importorskip("tqdm")

pytestmark = [pytest.mark.process, pytest.mark.apart]
SOFTMAX = ROOT / "traces" / "softmax.jsonl"
SETTING = "dma.bytes_per_ns"
KERNEL = '''
import nki
import nki.language as nl


@nki.jit
def double(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nl.store(out, nl.multiply(nl.load(x), 2.0))
    return out
'''


def command(*words):
    return [sys.executable, "-m", "nkisim_profile", "sweep", *map(str, words)]


def environment(program=PROGRAM):
    paths = [*map(str, reversed(SOURCES)), os.environ.get("PYTHONPATH", "")]
    return {**os.environ, "NKISIM_PROGRAM": str(program),
            "PYTHONPATH": os.pathsep.join(reversed(paths))}


def sweep(folder, *words, code=0, program=PROGRAM):
    return run(*command(*words), code=code, cwd=folder, env=environment(program))


def points(done):
    return {tuple(p["settings"].values()): p["summary"] for p in json.loads(done.stdout)["points"]}


def lines(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def slow_program(folder, seconds):
    """nkisim whose worker first sleeps, and leaves a line per job."""
    path = folder / "slow-nkisim"
    path.write_text(f'#!/bin/sh\n[ "$1" = worker ] || exec {PROGRAM} "$@"\n'
                    f'while read -r job; do echo job >> {folder}/calls; sleep {seconds}; '
                    f'printf "%s\\n" "$job"; done | {PROGRAM} worker\n')
    path.chmod(path.stat().st_mode | stat.S_IEXEC)
    return path


def test_every_point_is_the_single_run(tmp_path):
    done = sweep(tmp_path, SOFTMAX, "--set", f"{SETTING}=13.6,54.4", "--target", "trn1,trn2",
                 "--jobs", 2, "--json", "--csv", "s.csv", "--plot", "s.png")
    assert done.stderr == ""  # no progress where no one looks
    found = points(done)
    assert list(found) == [(t, v) for t in ("trn1", "trn2") for v in ("13.6", "54.4")]
    for (target, value), summary in found.items():
        single = cli("run", SOFTMAX, "--target", target, "--set", f"{SETTING}={value}",
                     "--timing-only", "--json")
        assert summary == next(iter(json.loads(single.stdout)["summary"].values()))
    with open(tmp_path / "s.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [(r["target"], r[SETTING]) for r in rows] == list(found)
    assert [float(r["total_time"]) for r in rows] == [s["total_time"] for s in found.values()]
    assert (tmp_path / "s.png").read_bytes().startswith(b"\x89PNG")


def test_a_second_run_simulates_only_what_is_new(tmp_path):
    program = slow_program(tmp_path, 0)
    first = sweep(tmp_path, SOFTMAX, "--set", f"{SETTING}=13.6,27.2", "--json", program=program)
    journal = tmp_path / "softmax.jsonl.sweep.jsonl"
    whole = journal.read_bytes()
    calls = (tmp_path / "calls").read_text()
    assert points(sweep(tmp_path, SOFTMAX, "--set", f"{SETTING}=13.6,27.2", "--json",
                        program=program)) == points(first)
    assert (tmp_path / "calls").read_text() == calls and journal.read_bytes() == whole
    journal.write_bytes(whole[:-20])  # cut short while the last line was written
    again = sweep(tmp_path, SOFTMAX, "--set", f"{SETTING}=13.6,27.2", "--json", program=program)
    assert points(again) == points(first)
    assert len(lines(journal)) == 3
    sweep(tmp_path, SOFTMAX, "--set", f"{SETTING}=13.6,27.2,54.4", program=program)
    assert [row["point"][SETTING] for row in lines(journal)[1:]][-1] == "54.4"
    assert len(lines(journal)) == 4


def test_another_program_is_simulated_again(tmp_path):
    trace = tmp_path / "k.jsonl"
    trace.write_bytes((ROOT / "traces" / "tensor_add.jsonl").read_bytes())
    before = points(sweep(tmp_path, trace, "--target", "trn2", "--json"))
    trace.write_bytes(SOFTMAX.read_bytes())
    assert points(sweep(tmp_path, trace, "--target", "trn2", "--json")) != before
    assert len(lines(tmp_path / "k.jsonl.sweep.jsonl")) == 3


def test_one_journal_has_one_writer(tmp_path):
    first = Journal(tmp_path / "j", lambda point: "stamp")
    with pytest.raises(BadSession, match="another sweep is writing this journal"):
        Journal(tmp_path / "j", lambda point: "stamp")
    assert first.rows == {}


@pytest.mark.parametrize("row, said", [
    ({"point": {"a": "1"}, "stamp": "stamp"}, None), ({"point": {"a": "1"}}, ":2: no point of a sweep"),
    ({"stamp": "stamp"}, ":2: no point of a sweep"), (["point", "stamp"], ":2: no point of a sweep")], ids=str)
def test_a_row_of_a_journal_names_its_point(tmp_path, row, said):
    """One without figures is of a point that failed: it is simulated again."""
    (tmp_path / "j").write_text(json.dumps({"nkisim_sweep": 1}) + "\n" + json.dumps(row) + "\n")
    if said:
        with pytest.raises(BadSession, match=said):
            Journal(tmp_path / "j", lambda point: "stamp")
    else:
        assert Journal(tmp_path / "j", lambda point: "stamp").rows == {}
        assert len(Journal(tmp_path / "j", lambda point: "stamp", finished=lambda row: True).rows) == 1


def test_ctrl_c_leaves_a_valid_journal(tmp_path):
    values = ",".join(str(10 + n) for n in range(12))
    words = (SOFTMAX, "--set", f"{SETTING}={values}", "--jobs", 2, "--json")
    program, journal = slow_program(tmp_path, 0.3), tmp_path / "softmax.jsonl.sweep.jsonl"
    process = subprocess.Popen(command(*words), cwd=tmp_path, env=environment(program), text=True,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    until = time.monotonic() + 60
    while not journal.exists() or len(journal.read_bytes().splitlines()) < 3:
        assert time.monotonic() < until and process.poll() is None
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=20)
    assert process.returncode == json.loads(out)["exit_code"] == 130
    done = len(lines(journal)) - 1
    assert 2 <= done < 12 and f"interrupted; {done} of 12 points" in err and "Traceback" not in err
    (tmp_path / "calls").unlink()
    assert len(points(sweep(tmp_path, *words, program=slow_program(tmp_path, 0)))) == 12
    assert len((tmp_path / "calls").read_text().split()) == 12 - done


def test_a_point_that_fails(tmp_path):
    done = sweep(tmp_path, SOFTMAX, "--set", f"{SETTING}=27.2,fast", code=3)
    assert "a number is required" in done.stderr and "27.2" in done.stdout
    done = sweep(tmp_path, SOFTMAX, "--set", f"{SETTING}=27.2,13.6", "--metric", "speed", code=3)
    assert "no such metric" in done.stderr


@pytest.mark.parametrize("words, message, code", [
    (("none.jsonl", "--target", "trn2"), "there is no such file", 3),
    ((SOFTMAX,), "nothing varies", 3),
    ((SOFTMAX, "--set", "dma"), "PATH=VALUE,VALUE,... is required", 2),
    ((SOFTMAX, "--set", "a=1", "--set", "a=2"), "given twice", 2),
    ((SOFTMAX, "--target", "trn2", "--arg", "x=1"), "--arg is for kernels", 3),
])
def test_mistakes(tmp_path, words, message, code):
    assert message in sweep(tmp_path, *words, code=code).stderr


def test_values_where_the_course_depends_on_them(tmp_path):
    done = sweep(tmp_path, ROOT / "traces" / "gather_loop.jsonl", "--target", "trn2", "--json")
    assert points(done)[("trn2",)]["total_time"] > 0


def test_a_kernel_is_recorded_for_each_target(tmp_path):
    (tmp_path / "k.py").write_text(KERNEL)
    words = ("k.py:double", "--arg", "x=f32[128,512]")
    found = points(sweep(tmp_path, *words, "--target", "trn1,trn3", "--json"))
    for (target,), summary in found.items():
        python("-m", "nkisim", "kernel", *words, "--target", target, "--summary-json",
                       "one.json", cwd=tmp_path, env=environment())
        one = json.loads((tmp_path / "one.json").read_text())
        assert summary["total_time"] == next(iter(one.values()), one)["total_time"]


def test_a_bar_on_a_terminal(tmp_path):
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 100, 0, 0))
    run(*command(SOFTMAX, "--set", f"{SETTING}=13.6,27.2"), cwd=tmp_path, env=environment(),
        capture_output=False, stdout=subprocess.DEVNULL, stderr=theirs)
    os.set_blocking(ours, False)
    assert b"2/2" in os.read(ours, 65536)
    os.close(ours)
    os.close(theirs)


def test_dask_gives_the_same(tmp_path):
    distributed = pytest.importorskip("distributed")
    config = tmp_path / "own.json"
    config.write_text(cli("config", "show", "trn2").stdout)
    words = (SOFTMAX, "--set", f"{SETTING}=13.6,27.2,54.4", "--config", f"trn2,{config}", "--json")
    here = sweep(tmp_path, *words, "--journal", "local")
    with distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0",
                                  worker_dashboard_address=":0") as cluster:
        there = sweep(tmp_path, *words, "--journal", "dask", "--scheduler",
                      cluster.scheduler_address)
        failed = sweep(tmp_path, SOFTMAX, "--set", f"{SETTING}=fast", "--journal", "dask2",
                       "--scheduler", cluster.scheduler_address, code=3)
    assert points(there) == points(here) and len(points(here)) == 6
    assert "a number is required" in failed.stderr


def test_no_scheduler(tmp_path):
    pytest.importorskip("distributed")
    done = sweep(tmp_path, SOFTMAX, "--target", "trn2", "--scheduler", "tcp://127.0.0.1:1", code=3)
    assert "no Dask scheduler" in done.stderr and "Traceback" not in done.stderr


def test_a_figure_is_written_as_it_is_named_or_not_at_all(tmp_path):
    pytest.importorskip("matplotlib")
    rows = [{"point": {"a$b": v, "c": "$x_{$"}, "summary": {"total_time": 1e-6}} for v in ("1", "2")]
    output.plot(rows, "total_time", str(tmp_path / "k.svg"))
    assert (tmp_path / "k.svg").read_text().lstrip().startswith("<?xml")
    with pytest.raises(BadSession, match="matplotlib writes no .what"):
        output.plot(rows, "total_time", str(tmp_path / "k.what"))
    assert [p.name for p in tmp_path.iterdir()] == ["k.svg"]
