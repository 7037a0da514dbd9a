"""Tests hostile programs, machine descriptions, arrays and profile files: no private file enters a
report, no other program runs, no file is lost, and too large an input ends in an error within
bounded time and memory.
"""

import json
import os
import resource
import stat
import subprocess
import zipfile

import numpy as np
import pytest

from running import PROGRAM, cli, write_trace

pytestmark = [pytest.mark.process, pytest.mark.apart]
HEAD = {"nisa": 1, "target": "trn2", "name": "k"}


def hbm(name, shape, role, **more):
    return {"tensor": {"name": name, "space": "hbm", "dtype": "float32", "shape": shape,
                       "role": role, **more}}


TILE = {"tensor": {"name": "t", "space": "sbuf", "dtype": "float32", "shape": [128, 64],
                   "address": 0}}


def program(*instructions, loc=None, tensors=()):
    """A trace that fills a tile and stores it."""
    fill = {"i": "memset", "dst": "t", "value": 1.0, **({"loc": loc} if loc else {})}
    return [HEAD, hbm("y", [128, 64], "output"), *tensors, TILE, fill, *instructions,
            {"i": "dma_copy", "dst": "y", "src": "t"}]


def run_bounded(*words, memory=None, timeout=60, env=None, **options):
    """Runs nkisim in bounded time and, if asked, in bounded memory; any exit code is allowed."""
    def limit():
        if memory:
            resource.setrlimit(resource.RLIMIT_AS, (memory, memory))

    return cli(*words, code=None, timeout=timeout, preexec_fn=limit, env={**os.environ, **(env or {})}, **options)


def assert_refused(done, text=""):
    assert done.returncode == 3, (done.returncode, done.stderr)
    assert text in done.stderr and "Traceback" not in done.stderr, done.stderr


@pytest.fixture(name="folder")
def _folder(tmp_path):
    (tmp_path / "secret.py").write_text("TOP SECRET")
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "k.py").write_text("def kernel(): pass  # SHOWN")
    (tmp_path / "in" / ".env.py").write_text("TOP SECRET")
    (tmp_path / "in" / "link.py").symlink_to(tmp_path / "secret.py")
    return tmp_path


def session_of(folder, trace, *words):
    file = folder / "s.npz"
    done = run_bounded("run", trace, "-q", "--session", file, *words)
    assert done.returncode == 0, done.stderr
    return file


def sources(file):
    return json.loads(np.load(file)["facts"].tobytes())["sources"]


# ---- what a trace's `loc` names --------------------------------------------------------------
@pytest.mark.parametrize("name", ["{folder}/secret.py", "../secret.py", "link.py", ".env.py", "..",
                                  "/etc/passwd", "/proc/self/environ", "."])
def test_a_loc_pulls_nothing_into_a_profile_file(folder, name):
    trace = write_trace(folder / "in" / "k.jsonl", program(loc=f"{name.format(folder=folder)}:1"))
    assert sources(session_of(folder, trace)) == {}


def test_a_loc_below_the_traces_folder_or_a_root_is_shown(folder):
    trace = write_trace(folder / "in" / "k.jsonl", program(loc="k.py:1"))
    assert "SHOWN" in sources(session_of(folder, trace))["k.py"]
    trace = write_trace(folder / "in" / "k.jsonl", program(loc="secret.py:1"))
    assert sources(session_of(folder, trace)) == {}
    assert sources(session_of(folder, trace, "--root", folder)) == {"secret.py": "TOP SECRET"}


def test_data_files_are_below_the_traces_folder_or_a_root(folder):
    np.save(folder / "x.npy", np.ones((128, 64), np.float32))
    read = {"i": "dma_copy", "dst": "t", "src": "x"}
    for name in ("../x.npy", str(folder / "x.npy")):
        trace = write_trace(folder / "in" / "k.jsonl", program(
            read, tensors=[hbm("x", [128, 64], "input", data={"npy": name})]))
        assert_refused(run_bounded("run", trace, "-q", cwd=folder / "in"), "below the trace's folder")
        assert run_bounded("run", trace, "-q", "--root", folder, cwd=folder / "in").returncode == 0
        assert run_bounded("run", trace, "-q", cwd=folder).returncode == 0
    trace = write_trace(folder / "in" / "k.jsonl", program(
        read, tensors=[hbm("x", [128, 64], "input", data={"npy": "../none.npy"})]))
    assert_refused(run_bounded("run", trace, "-q"), "cannot be opened")


def test_a_config_inherits_from_its_own_folder_or_a_shipped_one(folder):
    (folder / "in" / "c.json").write_text('{"inherits": "../secret.py", "name": "c"}')
    done = run_bounded("config", "validate", folder / "in" / "c.json", cwd=folder / "in")
    assert_refused(done, "inherits")
    assert "SECRET" not in done.stderr


# ---- programs of the working folder ----------------------------------------------------------
@pytest.mark.parametrize("path", [None, "", ":/tmp"])
def test_modules_of_the_working_folder_are_not_run(folder, path):
    session = session_of(folder, write_trace(folder / "k.jsonl", program()))
    here = folder / "here"
    here.mkdir()
    for module in ("numpy", "json", "argparse", "runpy", "csv", "nkisim_profile"):
        (here / f"{module}.py").write_text("print('RAN'); raise SystemExit(7)")
    old = os.environ.get("PYTHONPATH", "")
    env = {} if path is None else {"PYTHONPATH": old + path}
    for words in (("view", session), ("report", session, "-o", "r.html"),
                  ("run", folder / "k.jsonl", "-q", "--html", "h.html"),
                  ("compare", session, session)):
        done = run_bounded(*words, cwd=here, env=env)
        assert done.returncode == 0 and "RAN" not in done.stdout, (words, done)


# ---- files that are written ------------------------------------------------------------------
WRITERS = ["html", "session", "chrome", "perfetto", "vcd", "accounting-json", "summary-json"]


@pytest.mark.parametrize("option", WRITERS)
def test_a_pipe_stays_a_pipe(folder, option):
    trace, pipe = write_trace(folder / "k.jsonl", program()), folder / "pipe"
    os.mkfifo(pipe)
    with open(folder / "in" / "read", "wb") as out, subprocess.Popen(
            ["cat", str(pipe)], stdout=out) as reader:
        assert run_bounded("run", trace, "-q", f"--{option}", pipe).returncode == 0
        assert reader.wait(30) == 0
    assert (folder / "in" / "read").stat().st_size > 0
    assert stat.S_ISFIFO(pipe.stat().st_mode)
    assert sorted(p.name for p in folder.iterdir()) == ["in", "k.jsonl", "pipe", "secret.py"]


@pytest.mark.parametrize("words", [("view", "{s}", "-f", "chrome", "-o", "{out}"),
                                   ("view", "{s}", "-f", "summary-json", "-o", "{out}"),
                                   ("report", "{s}", "-o", "{out}")])
def test_python_writers_treat_devices_and_links_alike(folder, words):
    session = session_of(folder, write_trace(folder / "k.jsonl", program()))
    (folder / "null").symlink_to("/dev/null")
    out = folder / "in" / "link.py"
    for target in (folder / "null", out):
        assert run_bounded(*(w.format(s=session, out=target) for w in words)).returncode == 0
    assert (folder / "null").is_symlink() and stat.S_ISCHR(os.stat("/dev/null").st_mode)
    assert not out.is_symlink() and (folder / "secret.py").read_text() == "TOP SECRET"
    assert_refused(run_bounded(*(w.format(s=session, out=folder) for w in words)), "directory")


def test_writers_of_one_file_do_not_disturb_each_other(folder):
    trace = write_trace(folder / "k.jsonl", program())
    words = [PROGRAM, "run", str(trace), "-q", "--html", str(folder / "w.html")]
    running = [subprocess.Popen(words, stderr=subprocess.PIPE) for _ in range(4)]
    assert [p.wait(120) for p in running] == [0] * 4
    for p in running:
        p.stderr.close()
    assert (folder / "w.html").read_text().rstrip().endswith("</html>")
    assert sorted(p.name for p in folder.iterdir()) == ["in", "k.jsonl", "secret.py", "w.html"]


# ---- what is too large -----------------------------------------------------------------------
GIB = 1 << 30


@pytest.mark.parametrize("lines, text", [
    (program(tensors=[hbm("x", [1 << 20, 1 << 20], "input", data={"generator": "ones"})]), "2^36"),
    (program(tensors=[hbm("x", [1 << 18, 1 << 18], "input", data={"generator": "ones"})]),
     "--max-memory"),
    (program({"i": "loop_begin", "register": "r1", "start": 0, "stop": 1 << 40},
             {"i": "loop_end"}), "stop is 1099511627776; an integer of 32 bits"),
    (program({"i": "loop_begin", "register": "r1", "start": 0, "stop": 1, "step": 1 << 40},
             {"i": "loop_end"}), "step is"),
    (program({"i": "register_move", "dst": "r1", "src": 1 << 40}), "32 bits"),
    (program({"i": "dma_copy", "dst": {"tensor": "y", "ap": [[0, 1 << 40]]},
              "src": {"tensor": "y", "ap": [[0, 1 << 40]]}}), "2^36"),
    (program({"i": "dma_copy", "dst": {"tensor": "y", "ap": [[0, 1 << 35]]},
              "src": {"tensor": "x", "ap": [[0, 1 << 35]]}},
             tensors=[hbm("x", [128, 64], "input", data={"generator": "ones"})]), "operand"),
])
def test_sizes_are_looked_at_before_memory_is_taken(folder, lines, text):
    for memory in (None, 8 * GIB):
        assert_refused(run_bounded("run", write_trace(folder / "k.jsonl", lines), "-q", memory=memory), text)


def test_deep_configs_are_an_error(folder):
    deep = folder / "deep.json"
    for text in ('{"name":' + '{"a":' * 100_000 + "1" + "}" * 100_001, "[" * 100_000,
                 '{"a":' * 40 + "1" + "}" * 40):
        deep.write_text(text)
        assert_refused(run_bounded("config", "validate", deep), "deep")
    assert_refused(run_bounded("config", "validate", "trn2", "--set", "a=" + "[" * 100_000))
    deep.write_text('{"name": 1e999}')
    assert_refused(run_bounded("config", "show", deep), "1e999")


def test_members_that_no_tensor_wants_are_not_unpacked(folder):
    bomb = folder / "bomb.npz"
    with zipfile.ZipFile(bomb, "w", zipfile.ZIP_DEFLATED) as z:
        with z.open("unused.npy", "w", force_zip64=True) as f:
            np.lib.format.write_array_header_1_0(
                f, {"descr": "<f4", "fortran_order": False, "shape": (1 << 27,)})
            for _ in range(32):
                f.write(bytes(1 << 24))
    trace = write_trace(folder / "k.jsonl", program(
        {"i": "dma_copy", "dst": "t", "src": "x"}, tensors=[hbm("x", [128, 64], "input")]))
    assert_refused(run_bounded("run", trace, "-q", "--inputs", bomb, memory=GIB // 2), "input unused")
    trace = write_trace(folder / "k.jsonl", program())
    assert_refused(run_bounded("run", trace, "-q", "--expect", bomb, memory=GIB // 2), "unused names no")
    with zipfile.ZipFile(folder / "y.npz", "w") as out, zipfile.ZipFile(bomb) as z:
        with out.open("y.npy", "w", force_zip64=True) as f, z.open("unused.npy") as g:
            while block := g.read(1 << 24):
                f.write(block)
    assert_refused(run_bounded("run", trace, "-q", "--expect", folder / "y.npz", memory=GIB // 2), "at most")


# ---- limits ----------------------------------------------------------------------------------
LONG = program({"i": "loop_begin", "register": "r1", "start": 0, "stop": 2 ** 31 - 1},
               {"i": "memset", "dst": "t[:,0:1]", "value": 1.0}, {"i": "loop_end"})


@pytest.mark.parametrize("words", [(), ("--functional",), ("--timing-only",)])
@pytest.mark.parametrize("limit", [("--max-instructions", "3000"), ("--max-time", "0.5")])
def test_a_limit_ends_a_run_with_a_partial_report(folder, limit, words):
    trace = write_trace(folder / "k.jsonl", LONG)
    done = run_bounded("run", trace, "--json", *limit, *words)
    assert_refused(done, f"stopped by {' '.join(limit)}")
    reported = json.loads(done.stdout)
    assert reported["partial"] and reported["stopped_by"] == " ".join(limit) and not reported["ok"]
    if limit[0] == "--max-instructions":
        assert 3000 <= reported["instructions"] < 3000 + 256


def test_memory_limits(folder):
    trace = write_trace(folder / "k.jsonl", LONG)
    done = run_bounded("run", trace, "-q", "--max-memory", "100M", "--session", folder / "s.npz")
    assert_refused(done, "stopped by --max-memory 100M")
    view = run_bounded("view", folder / "s.npz", "--json")
    facts = json.loads(np.load(folder / "s.npz")["facts"].tobytes())
    assert view.returncode == 0 and facts["partial"]
    large = program(tensors=[hbm("x", [1 << 14, 1 << 14], "input", data={"generator": "ones"})])
    assert_refused(run_bounded("run", write_trace(folder / "k.jsonl", large), "-q", "--max-memory", "500M"),
            "tensor x")


@pytest.mark.parametrize("limit, code", [("1G", 0), ("1024M", 0), ("64M", 3), ("65536K", 3)])
def test_a_limit_on_memory_has_its_unit(folder, limit, code):
    words = program(tensors=[hbm("x", [1 << 12, 1 << 12], "input", data={"generator": "ones"})])  # 64 MiB
    assert run_bounded("run", write_trace(folder / "k.jsonl", words), "-q", "--max-memory", limit).returncode == code


#: A program of 2^31 iterations whose instructions nothing orders: what is looked for while it is executed.
RACY = [
    {"nisa": 1, "target": "trn2", "name": "k", "semaphores": "explicit"},
    {"tensor": {"name": "t", "space": "sbuf", "dtype": "float32", "shape": [1, 1], "address": 0}},
    {"i": "loop_begin", "register": "r1", "start": 0, "stop": 2147483647, "step": 1},
    {"i": "memset", "dst": "t", "value": 1.0, "engine": "vector", "post": [[0, "++"]]},
    {"i": "memset", "dst": "t", "value": 1.0, "engine": "gpsimd", "wait": [[0, ">=", 1]], "post": [[1, "++"]]},
    {"i": "loop_end"}]


@pytest.mark.parametrize("limit", [("--max-instructions", "1000"), ("--max-time", "1"), ("--max-memory", "150M")])
@pytest.mark.parametrize("words", [("run", "-q"), ("check", "--races")])
def test_races_are_looked_for_within_limits(folder, words, limit):
    done = run_bounded(words[0], write_trace(folder / "k.jsonl", RACY), *words[1:], *limit)
    assert done.returncode == 3 and " ".join(limit) in done.stderr, done.stderr
    assert "RAW" not in done.stderr  # nothing is said of what was not looked at to its end


def test_a_check_reads_within_limits(folder):
    many = program(*[{"i": "memset", "dst": "t", "value": 1.0}] * 200_000)
    done = run_bounded("check", write_trace(folder / "k.jsonl", many), "--max-time", "0.001")
    assert done.returncode == 3 and "--max-time 0.001" in done.stderr


# ---- programs that somebody else recorded ----------------------------------------------------
def recorded(**more):
    return [{"nisa": 1, "target": "trn2", "name": "k", "addresses": "open", **more},
            {"tensor": {"name": "x", "space": "hbm", "dtype": "float32", "shape": [128, 64], "role": "inputoutput",
                        "data": {"npz": "data.npz", "key": "arg0"}}},
            {"tensor": {"name": "c", "space": "hbm", "dtype": "float32", "shape": [128, 64], "role": "constant",
                        "data": {"npz": "data.npz", "key": "const1"}}},
            {"tensor": {"name": "t", "space": "sbuf", "dtype": "float32", "shape": [128, 64]}},
            {"i": "dma_copy", "dst": "t", "src": "c"}, {"i": "dma_copy", "dst": "x", "src": "t"}]


def test_a_recorded_program_says_what_it_is(folder):
    np.savez(folder / "data.npz", arg0=np.ones((128, 64), np.float32), const1=np.ones((128, 64), np.float32))
    done = run_bounded("run", write_trace(folder / "k.jsonl", recorded()), "--json", "--recorded", "data.npz")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["recorded"] == {
        "api": "nki", "instructions": 2, "constant_bytes": 128 * 64 * 4, "cores": 1, "sdk": "2.33",
        "inputs": [{"key": "arg0", "tensor": "x", "written": True, "dtype": "float32", "shape": [128, 64]}]}


@pytest.mark.parametrize("at, change, text", [
    (0, {"addresses": "virtual"}, "addresses"), (0, {"ranks": 2}, "ranks"), (0, {"timing_only": True}, "time only"),
    (0, {"stream": "executed"}, "executed"), (2, {"data": {"npz": "mine.npz", "key": "T"}}, "mine.npz"),
    (2, {"data": {"npy": "mine.npy"}}, "mine.npy"),
    (2, {"role": "inputoutput"}, "one that it computes"),
    (4, {"dma": {"queue": "q", "packets": [[0, 0, 1]]}}, "packets")])
def test_more_than_a_recording_is_refused(folder, at, change, text):
    lines = json.loads(json.dumps(recorded()))
    (lines[at].get("tensor") or lines[at]).update(change)
    done = run_bounded("run", write_trace(folder / "k.jsonl", lines), "--json", "--recorded", "data.npz")
    assert done.returncode == 3 and text in done.stderr, done.stderr
    assert json.loads(done.stdout)["error"]["rule"] in ("trace_not_recorded", "trace_header")


@pytest.mark.parametrize("name, words", [
    ("all_gather", {"srcs": ["c"], "dsts": ["x"], "replica_group": [[0]], "collective_dim": 0}),
    ("all_reduce", {"srcs": ["c"], "dsts": ["x"], "replica_group": [[0]], "op": "add"}),
    ("all_to_all", {"srcs": ["c"], "dsts": ["x"], "replica_group": [[0]], "collective_dim": 0}),
    ("collective_permute", {"srcs": ["c"], "dsts": ["x"], "source_target_pairs": [[0, 0]]}),
    ("collective_permute_implicit", {"srcs_by_channel": ["c"], "dsts_by_channel": ["x"], "replica_group": [[0]]})])
def test_a_recorded_program_has_no_operation_between_ranks(folder, name, words):
    """Recording makes copies of those of one rank, which take time."""
    np.savez(folder / "data.npz", arg0=np.ones((128, 64), np.float32), const1=np.ones((128, 64), np.float32))
    lines = [*recorded()[:-2], {"i": name, **words}]
    done = run_bounded("run", write_trace(folder / "k.jsonl", lines), "--json", "--recorded", "data.npz")
    assert done.returncode == 3 and f"with {name}" in done.stderr, done.stderr
    assert json.loads(done.stdout)["error"]["rule"] == "trace_not_recorded"


def test_a_recorded_program_brings_no_machine_along(folder):
    """Sizes of its own, as `nkisim kernel --set` writes them: they are the caller's to give."""
    np.savez(folder / "data.npz", arg0=np.ones((128, 64), np.float32), const1=np.ones((128, 64), np.float32))
    larger = ("--set", "sbuf_partition_bytes=1048576")
    (folder / "k.py").write_text("import nki, nki.isa as nisa, nki.language as nl\n@nki.jit\ndef f(x):\n"
                                 "    o = nl.ndarray(x.shape, x.dtype, nl.shared_hbm)\n"
                                 "    nisa.dma_copy(dst=o, src=nl.load(x))\n    return o\n")
    made = cli("kernel", f"{folder / 'k.py'}:f", "--arg", "x=f32[128,64]", "--save-recorded", folder / "own.jsonl",
               *larger, code=0)
    header = json.loads((folder / "own.jsonl").read_text().splitlines()[0])
    assert header["machine"]["sbuf_partition_bytes"] == 1048576, made.stdout
    lines = recorded(machine=header["machine"])
    done = run_bounded("run", write_trace(folder / "k.jsonl", lines), "--json", "--recorded", "data.npz")
    assert done.returncode == 3 and "the trace's machine" in done.stderr, done.stderr
    assert run_bounded("run", folder / "k.jsonl", "--recorded", "data.npz", *larger).returncode == 0


@pytest.mark.parametrize("words", [("--max-time", "0"), ("--max-time", "-1"), ("--max-time", "inf"),
                                   ("--max-instructions", "many"), ("--max-memory", "1X"),
                                   ("--rtol", "inf"), ("--rtol", "nan"), ("--atol", "-1")])
def test_limits_and_tolerances_are_numbers_that_limit(folder, words):
    done = run_bounded("run", write_trace(folder / "k.jsonl", program()), *words)
    assert done.returncode == 2 and words[0] in done.stderr


# ---- comparing -------------------------------------------------------------------------------
def test_expect_compares_every_output_and_its_shape(folder):
    trace = write_trace(folder / "k.jsonl", [*program(tensors=[hbm("z", [128, 64], "output")]),
                                       {"i": "dma_copy", "dst": "z", "src": "t"}])
    ones = np.ones((128, 64), np.float32)

    def run(*words, **arrays):
        np.savez(folder / "e.npz", **arrays)
        return run_bounded("run", trace, "-q", "--expect", folder / "e.npz", *words)

    assert run(y=ones, z=ones).returncode == 0
    assert run(y=ones, z=2 * ones).returncode == 1
    left = run(y=ones)
    assert left.returncode == 1 and "output z: not compared" in left.stderr
    subset = run("--expect-subset", y=ones)
    assert subset.returncode == 0 and "output z: not compared" in subset.stderr
    assert_refused(run("--expect-subset"), "no array")
    assert_refused(run(y=ones.T, z=ones), "of shape [64, 128]; [128, 64] is required")
    assert_refused(run(y=ones, z=ones, w=ones), "w names no HBM tensor")
    reported = json.loads(run("--json", y=ones).stdout)
    assert reported["not_compared"] == ["z"] and not reported["ok"]


# ---- sessions --------------------------------------------------------------------------------
VIEWS = [("view", "{s}", "-f", f) for f in ("summary-text", "summary-json", "json")] + [
    ("view", "{s}", "-f", "csv", "-o", "{o}"), ("view", "{s}", "-f", "chrome", "-o", "{o}.json"),
    ("report", "{s}", "-o", "{o}.html"), ("compare", "{s}", "{s}")]


def damaged(path, out, change):
    """A copy of a session whose arrays were changed."""
    with np.load(path) as arrays:
        data = {k: arrays[k] for k in arrays.files}
    change(data)
    np.savez(out, **data)
    return out


def _without(key):
    return lambda data: data.pop(key)


def _with(key, value):
    return lambda data: data.update({key: value})


def _facts(**changes):
    def change(data):
        facts = json.loads(data["facts"].tobytes())
        for key, value in changes.items():
            facts[key] = value
        data["facts"] = np.frombuffer(json.dumps(facts).encode(), "u1")
    return change


@pytest.mark.parametrize("change", [
    _without("transfers.trigger_start.steps"), _without("facts"), _without("texts.ends"),
    _with("parts.inst", np.array([10 ** 9])), _with("parts.opcode", np.zeros(2)),
    _with("insts.op", np.zeros(0, np.int64)), _with("texts.ends", np.array([-5, 3])),
    _with("uses.tensor", np.array([1 << 40])), _with("facts", np.frombuffer(b"{" * 9999, "u1")),
    _with("facts", np.frombuffer(b"[" * 99999 + b"]" * 99999, "u1")),
    _facts(machine={}), _facts(summary={}), _facts(accounting={"end_fs": 1 << 80}),
    _facts(accounting=[]), _facts(summary=None), _facts(session_version=3),
    _without("parts.end.minus.start"), _with("parts.end.minus.start", np.zeros(1, np.int8)),
    _with("path.from.steps", np.zeros(3)),
], ids=range(19))
def test_damaged_profile_files_are_an_error(folder, change):
    session = session_of(folder, write_trace(folder / "k.jsonl", program()))
    bad = damaged(session, folder / "bad.npz", change)
    codes = set()
    for n, words in enumerate(VIEWS):
        done = run_bounded(*(w.format(s=bad, o=folder / f"o{n}") for w in words))
        assert "Traceback" not in done.stderr, done.stderr
        codes.add(done.returncode)
    assert 3 in codes and codes <= {0, 3}


def test_a_profile_file_of_huge_arrays_is_an_error(folder):
    bad = folder / "bad.npz"
    with zipfile.ZipFile(bad, "w", zipfile.ZIP_DEFLATED) as z:
        with z.open("facts.npy", "w", force_zip64=True) as f:
            np.lib.format.write_array_header_1_0(
                f, {"descr": "|u1", "fortran_order": False, "shape": (1 << 40,)})
            f.write(bytes(1 << 20))
    assert_refused(run_bounded("view", bad, memory=4 * GIB), "facts")


# ---- names of others in what is written and shown --------------------------------------------
def test_a_name_like_a_placeholder_stays_a_name(folder):
    for name in ("@SCRIPT@", "@DATA@", "@ADVICE@", "@TITLE@"):
        trace = write_trace(folder / f"{name}.jsonl", program())
        assert run_bounded("run", trace, "-q", "--html", folder / "a.html").returncode == 0
        page = (folder / "a.html").read_text()
        assert f"<title>{name}.jsonl · nkisim</title>" in page
        assert page.count("<script id=\"data\"") == 1


@pytest.mark.parametrize("label", ["=1+1", "+1", "-2+3", "@SUM(A1)", "\t=1", "\r=1"])
def test_no_cell_begins_a_formula(folder, label):
    lines = program()
    lines[3] = {**lines[3], "label": label}
    session = session_of(folder, write_trace(folder / "k.jsonl", lines))
    assert run_bounded("view", session, "-f", "csv", "-o", folder / "t").returncode == 0
    import csv
    cells = [c for f in (folder / "t").glob("*.csv") for row in csv.reader(open(f, newline=""))
             for c in row]
    assert f"'{label}" in cells or label.lstrip("+").isdigit()
    assert not [c for c in cells if c[:1] in "=@\t\r" and c]


EVIL = "\x1b]0;title\x07\x1b[2J\u009b31m\u202e"


def test_names_are_no_commands_to_a_terminal(folder):
    lines = program(loc=f"{EVIL}.py:1")
    lines[-1] = {**lines[-1], "label": EVIL, "dst": "nothing"}
    trace = write_trace(folder / "k.jsonl", lines)
    wrong = run_bounded("run", trace)
    assert_refused(wrong)
    named = [*program(), {"i": "dma_copy", "dst": EVIL, "src": "t"}]
    done = run_bounded("run", write_trace(folder / "k.jsonl", named))
    assert_refused(done)
    good = program(loc=f"{EVIL}.py:1")
    good[3] = {**good[3], "label": EVIL}
    said = [wrong, done, run_bounded("disasm", write_trace(folder / "k.jsonl", good)),
            run_bounded("run", folder / "k.jsonl", "--explain")]
    session = session_of(folder, folder / "k.jsonl")
    said += [run_bounded("view", session), run_bounded("compare", session, session),
             run_bounded("view", folder / f"{EVIL}.npz")]
    for s in said:
        for stream in (s.stdout, s.stderr):
            assert not set(stream) & set("\x1b\x07\x9b\u202e"), stream


