"""Tests `nkisim check` without --races: mistakes that are visible in a program without running it."""

import json

import pytest
from running import cli
from corpus import Trace, ge, up

pytestmark = pytest.mark.process


def check(trace, tmp_path):
    path = tmp_path / "k.jsonl"
    path.write_text(trace.text())
    done = cli("check", path, "--json", code=None, timeout=60)
    found = json.loads(done.stdout)
    assert done.returncode == (0 if found["ok"] else 3)
    return found["ok"], [r["text"] for r in found["remarks"]]


def waiting(wait, posts=(), loop=None):
    t = Trace()
    t.chip("t")
    if loop:
        t.op("loop_begin", register="r0", start=0, stop=loop)
    for p in posts:
        t.fill("t", "gpsimd", post=[p])
    if loop:
        t.op("loop_end")
    t.fill("t", "vector", wait=[wait])
    return t


@pytest.mark.parametrize("wait, posts, loop, text", [
    (ge("a", 1), [], None, "waits for S[0] (a) >= 1, and nothing posts to that semaphore"),
    (ge("a", 3), [up("a"), up("a")], None, "which is never reached: all posts together give 2"),
    (ge("a", 9), [up("a", 2)], 4, "all posts together give 8"),
    (("a", "==", 5), [up("a"), ("a", "=", 3)], None, "all posts together give 4"),
    (("a", "<", 0), [up("a")], None, "which is never reached: all posts together give 0"),
])
def test_waits_that_never_hold(wait, posts, loop, text, tmp_path):
    ok, [said] = check(waiting(wait, posts, loop), tmp_path)
    assert not ok
    assert text in said
    assert "k.jsonl:" in said and "memset" in said


@pytest.mark.parametrize("wait, posts, loop", [
    (ge("a", 0), [], None), (("a", "==", 0), [], None), (("a", "<=", 3), [], None),
    (ge("a", 8), [up("a", 2)], 4), (("a", "==", 4), [up("a"), ("a", "=", 3)], None),
    (("a", "<", 0), [("a", "--")], None), (ge("a", 1), [("a", "-=", -1)], None),
])
def test_waits_that_may_hold(wait, posts, loop, tmp_path):
    assert check(waiting(wait, posts, loop), tmp_path) == (True, [])


def reading(*lines):
    t = Trace(explicit=False)
    t.hbm("y", role="output")
    t.chip("t", address=0)
    t.chip("alias", (64, 256), address=1024)
    t.chip("u", address=8192)
    for line in lines:
        line(t)
    return t


def fill(name):
    return lambda t: t.fill(name)


def copy(dst, src):
    return lambda t: t.copy(dst, src)


def begin(t):
    t.op("loop_begin", register="r0", start=0, stop=2)


def end(t):
    t.op("loop_end")


@pytest.mark.parametrize("lines, reads", [
    ([copy("u", "t")], ["t"]),
    ([copy("u", "t"), fill("t")], ["t"]),
    ([copy("u", "t"), copy("u", "t")], ["t"]),
    ([fill("t"), copy("u", "t")], []),
    ([fill("alias"), copy("u", "t")], []),
    ([fill("u"), copy("u[0:64, 0:256]", "alias")], ["alias"]),
    ([begin, copy("u", "t"), fill("t"), end], []),
    ([begin, end, copy("u", "t"), fill("t")], ["t"]),
    ([copy("u", "t"), begin, fill("t"), end], ["t"]),
])
def test_reads_of_what_nothing_has_written(lines, reads, tmp_path):
    ok, said = check(reading(*lines), tmp_path)
    assert ok  # the bytes may be thrown away
    assert [text.split(" reads ")[1].split(",")[0] for text in said] == reads


def test_tiles_that_do_not_fit_together(tmp_path):
    def trace(live):
        t = Trace(explicit=False)
        t.hbm("y", (128, 24000), role="output")
        for name in "abc":
            t.lines.append({"tensor": {"name": name, "space": "sbuf", "shape": [128, 24000],
                                       "dtype": "float32"}})
        t.fill("a", value=1)
        t.fill("b", value=2)
        t.op("tensor_tensor", dst="c" if live else "a", data1="a", data2="b", op="add")
        t.op("dma_copy", dst="y", src="c" if live else "a")
        path = tmp_path / "k.jsonl"
        path.write_text(t.text().replace('"name": "k"', '"name": "k", "addresses": "open"', 1))
        return cli("check", path, code=None, timeout=60)
    assert trace(live=False).returncode == 0
    done = trace(live=True)
    assert done.returncode == 3
    assert "SBUF is full" in done.stderr


def sbuf(name, shape=(2, 3), dtype="float32"):
    return {"tensor": {"name": name, "space": "sbuf", "dtype": dtype, "shape": list(shape)}}


def hbm(name, shape=(4, 8), **more):
    return {"tensor": {"name": name, "dtype": "float32", "shape": list(shape), "role": "input",
                       "data": {"generator": "normal", "seed": 1}, **more}}


AGAIN = {"tensor": "s", "ap": [[0, 4], [1, 8]]}  # comes to each element of s four times
ONES = [sbuf("a"), sbuf("b"), {"i": "memset", "dst": "a", "value": 1.0}]
SUM = {"i": "activation", "dst": "b", "data": "a", "op": "copy", "reduce_op": "add", "reduce_cmd": "reduce"}
GATHERED = {"tensor": "a", "partitions": 16, "ap": [[1, 20]], "dynamic": [{"indirect": "ix"}]}  # takes 16 x 2 indices
AT_R3 = {"i": "dma_copy", "dst": "t", "src": {"tensor": "x[0:1,:]", "dynamic": [{"register": 3, "stride": 8}]}}
#: (lines of a trace, target, rule, a part of the message): what the program shows, whoever asks.
REFUSED = [
    ([*ONES, {"i": "sendrecv_compute", "src": "a", "dst": "b", "send_to_rank": 1, "recv_from_rank": 1,
              "reduce_op": "add"}],
     "trn2", "core_deadlock", "in a program of one core; two cores (LNC 2) is required"),
    ([hbm("s"), hbm("x"), {"i": "dma_compute", "dst": AGAIN, "srcs": [AGAIN, "x"], "reduce_op": "add"}],
     "trn2", "scatter_repeats_element", "a pattern that comes to an element"),
    ([*ONES, SUM], "trn2", "reduce_register_not_begun", "its reduce registers were never set"),
    ([*ONES, {"i": "loop_begin", "register": "r1", "start": 0, "stop": 4}, SUM],
     "trn2", "reduce_register_not_begun", "its reduce registers were never set"),
    ([hbm("x"), sbuf("t", (1, 8)), AT_R3], "trn2", "register_never_set", "register 3 is used but was never set"),
    ([sbuf("a", (16, 32)), sbuf("c", (16, 20)), sbuf("ix", (16, 1), "int32"), {"i": "memset", "dst": "a", "value": 1.0},
      {"i": "memset", "dst": "ix", "value": 0}, {"i": "tensor_copy", "dst": "c", "src": GATHERED}],
     "trn3", "index_count", "at least 16 partitions of 2 indices"),
]
MOVED = {"i": "register_move", "dst": "r3", "src": 4}
IF_R3_IS_0 = {"i": "if_begin", "lhs": "r3", "compare": "eq", "rhs": 0}
#: The same of what registers hold, which only a run knows.
REFUSED_RUNNING = [
    ([hbm("x"), sbuf("t", (1, 8)), MOVED, AT_R3], "trn2", "access_out_of_bounds", "at bytes 128..160"),
    ([hbm("x"), sbuf("t", (1, 8)), MOVED, {**AT_R3, "src": {"tensor": "x[0:1,:]", "dynamic": [
        {"register": 3, "stride": 8, "limit": 3}]}}],
     "trn2", "offset_out_of_bounds", "an index in 0..2 is required"),
    ([*ONES, {"i": "register_move", "dst": "r3", "src": 0}, IF_R3_IS_0, SUM],
     "trn2", "reduce_register_not_begun", "its reduce registers were never set"),
]
RUNS = [("run", "--timing-only"), ("run", "--functional"), ("run",)]
CLOSED = {"loop_begin": "loop_end", "if_begin": "if_end"}


def ask(command, lines, target, tmp_path):
    """The outcome of a command for a program; blocks that `lines` opens are closed."""
    path = tmp_path / "k.jsonl"
    ends = [{"i": CLOSED[line["i"]]} for line in lines if line.get("i") in CLOSED]
    path.write_text("\n".join(map(json.dumps, [{"nisa": 1, "target": target, "addresses": "open"}, *lines, *ends])))
    return cli(*command, path, "--json", code=None)


@pytest.mark.parametrize("command, case", [
    *((command, case) for command in [("check",), *RUNS] for case in REFUSED),
    *((command, case) for command in RUNS for case in REFUSED_RUNNING)],
    ids=lambda part: part[2] if len(part) == 4 else " ".join(part))
def test_a_mistake_of_the_program_is_one_with_and_without_values(command, case, tmp_path):
    lines, target, rule, text = case
    done = ask(command, lines, target, tmp_path)
    assert done.returncode == 3, done.stdout
    assert json.loads(done.stdout)["error"]["rule"] == rule
    assert text in done.stderr and f"k.jsonl:{len(lines) + 1}" in done.stderr


@pytest.mark.parametrize("lines", [
    [*ONES, {**SUM, "reduce_cmd": "reset_reduce"}, SUM],
    [*ONES, {"i": "loop_begin", "register": "r1", "start": 0, "stop": 4}, {**SUM, "reduce_cmd": "reset_reduce"}, SUM],
    [*ONES, {"i": "register_move", "dst": "r3", "src": 1}, IF_R3_IS_0, SUM],
    [hbm("x"), sbuf("t", (1, 8)), {**MOVED, "src": 3}, AT_R3],
    [hbm("x"), sbuf("t", (1, 8)), MOVED, {**AT_R3, "oob_mode": "skip"}],
], ids=["begun", "begun in a loop", "in a branch that is not taken", "the last row", "skipped"])
@pytest.mark.parametrize("command", [("check",), *RUNS], ids=" ".join)
def test_a_program_without_a_mistake_is_refused_by_none(command, lines, tmp_path):
    done = ask(command, lines, "trn2", tmp_path)
    assert done.returncode == 0, done.stdout


def test_rules_that_depend_on_values_say_so():
    """A run of time alone, and `check`, may not know what these find. All others are the same for all."""
    rules = json.loads(cli("explain", "--json").stdout)["rules"]
    assert {r["rule"] for r in rules if r["values"]} == {
        "identity_required", "index_out_of_bounds", "row_cut_off", "gather_transpose_groups", "offset_out_of_bounds",
        "access_out_of_bounds", "scatter_repeats_element", "undefined_value", "output_partly_written",
        "undefined_times_zero", "psum_written_by_two_engines", "undefined_order", "cast_overflow", "fractions_lost",
        "integer_rounded"}
    assert "depends on values" in cli("explain", "cast_overflow").stdout
