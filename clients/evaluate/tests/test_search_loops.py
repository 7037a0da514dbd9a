"""Tests what kernel searches use of `nkisim evaluate`: shards, a cache that many share, executors,
event loops.
"""

import asyncio
import concurrent.futures
import errno
import itertools
import json
import multiprocessing
import os
import subprocess
import sys
import threading
import time

import pytest

import nkisim
from nkisim_evaluate import BadReference
from nkisim_evaluate.api import sharded
from nkisim_evaluate.cache import Cache
from nkisim_work import Futures
from candidates import GOOD, REFERENCE, kernel_with
from running import PROGRAM, ROOT, cli

pytestmark = [pytest.mark.process, pytest.mark.apart]
SEARCH = ROOT / "examples" / "search"


@pytest.fixture(scope="module")
def reference(tmp_path_factory):
    path = tmp_path_factory.mktemp("reference") / "ref.py"
    path.write_text(REFERENCE)
    return path


def test_shards_are_a_partition():
    for shards in (1, 2, 7, 16):
        parts = [list(sharded(range(50), (k, shards))) for k in range(1, shards + 1)]
        assert sorted(itertools.chain(*parts)) == list(range(50))
        assert max(map(len, parts)) - min(map(len, parts)) <= 1
    assert sharded("ab", None) == "ab"
    for wrong in ((0, 3), (4, 3)):
        with pytest.raises(BadReference, match="is required"):
            sharded([], wrong)


def variant(number):
    """Candidates of which every fourth is wrong and every fifth fails."""
    text = GOOD.replace("op=nl.add", "op=nl.subtract") if number % 4 == 3 else (
        kernel_with("1 / 0") if number % 5 == 4 else GOOD)
    return f"{text}\nNUMBER = {number}\n"


def lasting_facts(record):
    """A record without what differs where two shards judged the same text at once: the drawn seed, and seconds."""
    return {k: v for k, v in record.items() if k not in ("cached", "seeds", "stage_seconds")}


def test_sixteen_shards_share_a_cache(reference, tmp_path):
    """At once, on 40 candidates: no record is lost or doubled."""
    (tmp_path / "kernels").mkdir()
    for number in range(40):
        (tmp_path / "kernels" / f"{number:02}.py").write_text(variant(number))
    words = [PROGRAM, "evaluate", "--reference", reference, "--candidates", tmp_path / "kernels", "--cache",
             tmp_path / "known", "--target", "trn2", "--jobs", "1"]
    running = [subprocess.Popen([*map(str, words), "--shard", f"{k}/16", "--jsonl", str(tmp_path / f"{k}.jsonl")],
                                stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) for k in range(1, 17)]
    for process in running:
        assert process.wait() in (0, 1), process.stderr.read()
        process.stderr.close()
    records = [json.loads(line) for k in range(1, 17) for line in (tmp_path / f"{k}.jsonl").read_text().splitlines()]
    names = sorted(os.path.basename(r["id"]) for r in records)
    assert names == [f"{n:02}.py" for n in range(40)]
    status = {int(os.path.basename(r["id"])[:2]): r["status"] for r in records}
    assert status == {n: "wrong" if n % 4 == 3 else "error" if n % 5 == 4 else "ok" for n in range(40)}
    kept = sorted((tmp_path / "known").rglob("*"))
    assert sum(p.suffix == ".json" for p in kept) == 40
    assert not [p for p in kept if p.suffix == ".part"]
    again = cli("evaluate", *words[2:], "--json", code=1)
    found = [json.loads(line) for line in again.stdout.splitlines()]
    assert len(found) == 40 and all(r["cached"] for r in found)
    assert {r["id"]: lasting_facts(r) for r in found} == {r["id"]: lasting_facts(r) for r in records}


def record_of(number):
    return {"status": "ok", "latency_us": 1.0 + number, "speedup": None, "filler": "x" * 20000}


def write_all(folder, order):
    """A process that writes 50 records and reads each at once: whole, or not there."""
    cache = Cache(folder)
    for number in order:
        cache.put(f"{number:064x}", record_of(number))
        for other in order[:10]:
            found = cache.get(f"{other:064x}")
            assert found is None or found == record_of(other)


def test_writers_at_once_leave_whole_records(tmp_path):
    context = multiprocessing.get_context("fork")
    orders = [[(n * step) % 50 for n in range(50)] for step in (1, 3, 7, 9, 11, 13, 17, 19)]
    writers = [context.Process(target=write_all, args=(tmp_path / "c", order)) for order in orders]
    for process in writers:
        process.start()
    for process in writers:
        process.join()
        assert process.exitcode == 0
    files = [p for p in (tmp_path / "c").rglob("*") if p.is_file()]
    assert len(files) == 50 and all(p.suffix == ".json" for p in files)
    cache = Cache(tmp_path / "c")
    assert [cache.get(f"{n:064x}") for n in range(50)] == [record_of(n) for n in range(50)]


def test_a_file_system_without_links(tmp_path, monkeypatch):
    def refuse(*_):
        raise OSError(errno.EPERM, "no links")

    monkeypatch.setattr(os, "link", refuse)
    cache = Cache(tmp_path / "c")
    cache.put("ab" * 32, record_of(1))
    cache.put("ab" * 32, record_of(2))
    assert cache.get("ab" * 32) == record_of(2)
    assert len([p for p in (tmp_path / "c").rglob("*") if p.is_file()]) == 1


def test_the_first_record_of_a_key_counts(tmp_path):
    cache = Cache(tmp_path / "c")
    cache.put("ab" * 32, record_of(1))
    cache.put("ab" * 32, record_of(2))
    assert cache.get("ab" * 32) == record_of(1)


def test_a_cache_that_is_none(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(BadReference, match="is a file; a folder is required"):
        Cache(tmp_path / "file")
    cache = Cache(tmp_path / "c")
    cache.put("ab" * 32, record_of(1))
    [file] = (tmp_path / "c").rglob("*.json")
    file.write_text("{")
    with pytest.raises(BadReference, match="is damaged"):
        cache.get("ab" * 32)


def test_an_executors_tasks_each_give_one_result():
    with concurrent.futures.ThreadPoolExecutor(3) as executor:
        assert sorted(Futures(executor).results(lambda n: n * n, ((n,) for n in range(100)))) == [
            n * n for n in range(100)]
        taken = itertools.count()
        found = Futures(executor).results(lambda n: n, ((next(taken),) for _ in iter(int, 1)))
        assert {next(found) for _ in range(10)} <= set(range(30))
        found.close()
        assert next(taken) <= 10 + 2 * 3
        with pytest.raises(ZeroDivisionError):
            list(Futures(executor).results(lambda n: 1 // n, [(1,), (0,)]))


@pytest.mark.parametrize("on", ["threads", "processes"])
def test_the_example_of_executors(on, tmp_path):
    (temporary := tmp_path / "temporary").mkdir()
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p), "TMPDIR": str(temporary)}
    done = subprocess.run([sys.executable, SEARCH / "executors.py", on, "--cache", tmp_path / "known", "--most", "9"],
                          capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stderr
    assert list(temporary.iterdir()) == []  # the workers' files went with them
    lines = [line.split() for line in done.stdout.splitlines()]
    assert len(lines) == 9 and {line[0] for line in lines} == {"ok", "wrong", "illegal"}
    assert len(list((tmp_path / "known").rglob("*.json"))) == 9
    sys.path.insert(0, str(SEARCH))
    try:
        from variants import variants
    finally:
        sys.path.remove(str(SEARCH))
    [first] = nkisim.evaluate(SEARCH / "reference.py", itertools.islice(variants(), 1), jobs=1, target="trn2",
                              cache=tmp_path / "known")
    assert first["cached"] and first["id"] in {line[-1] for line in lines}


def test_the_example_of_an_event_loop():
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    done = subprocess.run([sys.executable, SEARCH / "climb.py"], capture_output=True, text=True, env=environment,
                          check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "best: 128 rows" and "256 rows: illegal" in done.stdout


def test_leaving_an_asynchronous_loop_ends_the_workers(reference):
    async def first():
        async for record in nkisim.evaluate_async(reference, ({"source": GOOD} for _ in range(1000)), jobs=1,
                                                  target="trn2"):
            return record

    async def cancelled():
        task = asyncio.ensure_future(first())
        await asyncio.sleep(0.2)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    before = threading.active_count()
    assert asyncio.run(first())["status"] == "ok"
    asyncio.run(cancelled())
    for _ in range(200):  # they end when they next look
        if threading.active_count() <= before:
            return
        time.sleep(0.05)
    raise AssertionError([t.name for t in threading.enumerate()])


def test_a_shard_that_is_none(reference):
    for text in ("3", "0/4", "5/4", "a/b"):
        done = cli("evaluate", "--reference", reference, "--candidates", reference, "--shard", text, code=2)
        assert "K/N with 1 <= K <= N is required" in done.stderr
