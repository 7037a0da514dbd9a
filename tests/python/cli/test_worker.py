"""Tests `nkisim worker`, a process that runs one simulation after another: its outcomes are those
of `nkisim run`.
"""

import json
import os
import pathlib
import signal
import threading

import numpy as np
import pytest

from nkisim_work import Ended, Worker, Workers, machine, timed
from running import PROGRAM, ROOT, cli, run

jsonschema = pytest.importorskip("jsonschema")
pytestmark = pytest.mark.process
SCHEMA = json.loads((ROOT / "docs" / "jobs_1.json").read_text())
HEADER = {"nisa": 1, "target": "trn2", "name": "scaled"}


def tensor(name, role, **more):
    return {"tensor": {"name": name, "dtype": "float32", "shape": [128, 64], "role": role, **more}}


LINES = [tensor("x", "input", data={"npz": "data.npz", "key": "arg0"}), tensor("y", "output"),
         {"tensor": {"name": "t", "dtype": "float32", "shape": [128, 64], "space": "sbuf"}},
         {"i": "dma_copy", "dst": "t", "src": "x"},
         {"i": "tensor_scalar", "dst": "t", "data": "t", "op0": "multiply", "operand0": 2.0},
         {"i": "dma_copy", "dst": "y", "src": "t"}]


@pytest.fixture
def trace(written, tmp_path):
    np.savez(tmp_path / "data.npz", arg0=np.ones((128, 64), np.float32))
    return written([{**HEADER, "addresses": "open"}, *LINES], "scaled.jsonl")


@pytest.fixture
def worker():
    with Worker() as warm:
        yield warm


def valid(value, kind):
    jsonschema.validate(value, {"$ref": f"#/$defs/{kind}", "$defs": SCHEMA["$defs"]})
    return value


def sent(*lines):
    """Answers to lines, texts or values."""
    text = "".join((line if isinstance(line, str) else json.dumps(line)) + "\n" for line in lines)
    return [json.loads(line) for line in run(PROGRAM, "worker", input=text).stdout.splitlines()]


def test_an_outcome_is_what_run_prints(trace, worker):
    for words, job in ((["--set", "dma.bytes_per_ns=1"], {"set": ["dma.bytes_per_ns=1"]}),
                       (["--timing-only"], {"want": "time"}), (["--functional"], {"want": "values"}),
                       (["--ranks", "2"], {"ranks": 2}),
                       (["--schedule", "program"], {"switches": {"schedule": "program"}}),
                       (["--budget", "total_time<=1ns"], {"budgets": ["total_time<=1ns"]}),
                       (["--target", "trn1"], {"target": "trn1"}), (["--config", "trn3"], {"config": "trn3"}),
                       (["--max-instructions", "1"], {"max_instructions": "1"})):
        printed = json.loads(cli("run", trace, "--json", *words, code=None).stdout)
        said = worker.run({"trace": str(trace), **job})
        assert said == valid(printed, "outcome"), words


def test_values_come_and_go_as_arrays(trace, worker, tmp_path):
    for seed in range(3):
        x = np.random.default_rng(seed).standard_normal((128, 64), dtype=np.float32)
        np.save(tmp_path / "in.npy", x)
        said = worker.run({"trace": str(trace), "arrays": {"arg0": str(tmp_path / "in.npy"), "unasked": "none"},
                           "output_arrays": str(tmp_path / "out"), "want": "values"})
        assert said["files"] == {"y": str(tmp_path / "out.0.npy")}
        np.testing.assert_array_equal(np.load(tmp_path / "out.0.npy"), 2 * x)
    np.save(tmp_path / "in.npy", np.ones((64, 128), np.float32))
    said = worker.run({"trace": str(trace), "arrays": {"arg0": str(tmp_path / "in.npy")}})
    assert "[64, 128]" in said["error"]["message"] and said["exit_code"] == 3


def test_outputs_are_written_through_no_link(trace, worker, tmp_path):
    (tmp_path / "precious").write_text("precious")
    (tmp_path / "out.0.npy").symlink_to(tmp_path / "precious")
    said = worker.run({"trace": str(trace), "output_arrays": str(tmp_path / "out")})
    assert said["error"]["rule"] == "file_unwritable"
    (tmp_path / "out.0.npy").unlink()
    (tmp_path / "out.0.npy").hardlink_to(tmp_path / "precious")
    said = worker.run({"trace": str(trace), "output_arrays": str(tmp_path / "out")})
    assert said["error"]["rule"] == "file_unwritable"
    assert (tmp_path / "precious").read_text() == "precious"


def test_what_is_no_job_is_answered_and_the_next_one_run(trace):
    good = {"nkisim_job": 1, "id": "good", "trace": str(trace)}
    bad = ["{", "[]", "null", "nkisim", '{"nkisim_job": 1}', {**good, "nkisim_job": 7}, {**good, "trace": 5},
           {**good, "fold": "no"}, {**good, "colour": "red"}, {**good, "set": ["no.such=1"]},
           {**good, "switches": {"schedule": "sideways"}}, {**good, "trace": "/dev/zero"}, {**good, "html": "p.html"},
           {**good, "rtol": float("nan")}, {**good, "max_time": "-1"}, "[" * 100000,
           '"' + "x" * (17 << 20) + '"', "\0\0",
           '{"nkisim_job": 1, "id": ' + "[" * 100000 + "]" * 100000 + "}"]
    answers = sent(*(line for one in bad for line in (one, good)))
    assert len(answers) == 2 * len(bad)
    for wrong, right in zip(answers[::2], answers[1::2], strict=True):
        assert not wrong["ok"] and wrong["exit_code"] in (2, 3) and valid(wrong, "outcome")["error"]["message"]
        assert right["ok"] and right["id"] == "good" and right == answers[1]


def test_the_schema_has_every_field_of_a_job(trace):
    refused = sent({"nkisim_job": 1, "trace": str(trace), "html": "", **{
        name: None for name in SCHEMA["$defs"]["job"]["properties"] if name not in ("nkisim_job", "trace")}})[0]
    assert refused["ok"], refused  # null is as good as nothing
    source = (pathlib.Path(ROOT) / "src" / "job" / "json.cpp").read_text()
    known = {line.split('"')[1] for line in source.splitlines() if line.startswith(("  f.", '  want("'))}
    assert known | {"nkisim_job"} == set(SCHEMA["$defs"]["job"]["properties"])


def test_a_program_is_read_once(trace, worker):
    jobs = [{"trace": str(trace), "want": "time", "set": [f"dma.bytes_per_ns={rate}"]} for rate in (1, 2, 1)]
    before = [worker.run(job) for job in jobs]
    assert before[0] == before[2] != before[1]
    known = trace.stat()
    trace.write_text("{" * known.st_size)  # the same file, as far as its entry says
    os.utime(trace, ns=(known.st_atime_ns, known.st_mtime_ns))
    assert [worker.run(job) for job in jobs] == before
    os.utime(trace)
    assert not worker.run(jobs[0])["ok"]


def test_a_worker_that_ends_is_replaced(trace, worker):
    job = {"trace": str(trace)}
    before = worker.run(job)
    worker._process.send_signal(signal.SIGKILL)
    worker._process.wait()
    assert worker.run(job) == before
    worker.stop()
    with pytest.raises(Ended):
        worker.run(job)


def test_time_that_is_over_and_memory_that_is_used_up(trace):
    big = trace.with_name("big.jsonl")
    lines = trace.read_text().splitlines()
    big.write_text("\n".join([*lines[:-1], *[lines[-2]] * 200000, lines[-1]]) + "\n")
    with Worker(memory_bytes=1 << 30) as worker:
        with pytest.raises(Ended, match="took more than 0.05 s") as ended:
            worker.run({"trace": str(big)}, seconds=0.05)
        assert ended.value.kind == "timeout"
        assert worker.run({"trace": str(trace)}, seconds=60)["ok"]
    huge = trace.with_name("huge.jsonl")
    huge.write_text(trace.read_text().replace("[128, 64]", "[128, 600000]"))
    with Worker(memory_bytes=256 << 20) as worker:
        assert worker.run({"trace": str(trace), "set": ["dma.bytes_per_ns=2"]})["ok"]
        said = worker.run({"trace": str(huge)})
        assert said["error"]["rule"] in ("memory_limit", "host_refuses", "sbuf_capacity") or not said["ok"]


def test_time_alone_where_values_do_not_decide(trace, worker):
    said = timed(worker, {"trace": str(trace)})
    assert said["latency_us"] == worker.run({"trace": str(trace)})["latency_us"]


def test_workers_are_shared_by_threads(trace):
    workers, found = Workers(), []
    threads = [threading.Thread(target=lambda: found.append(workers.run({"trace": str(trace)})["latency_us"]))
               for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(found)) == 1 and len(found) == 6
    workers.close()


def test_a_machine_as_fields_of_a_job():
    assert machine("trn2", "a.json", {"dma.engines": 8}, {"dma-queues": "split"}) == {
        "target": "trn2", "config": "a.json", "set": ["dma.engines=8"], "switches": {"dma_queues": "split"}}
    assert machine() == {}
