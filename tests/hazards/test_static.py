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


def sbuf(name, shape=(2, 3)):
    return {"tensor": {"name": name, "space": "sbuf", "dtype": "float32", "shape": list(shape)}}


AGAIN = {"tensor": "s", "ap": [[0, 4], [1, 8]]}  # comes to each element of s four times
#: (lines of a trace, rule, a part of the message): what the program shows, whoever asks.
REFUSED = [
    ([sbuf("a"), sbuf("b"), {"i": "memset", "dst": "a", "value": 1.0},
      {"i": "sendrecv_compute", "src": "a", "dst": "b", "send_to_rank": 1, "recv_from_rank": 1, "reduce_op": "add"}],
     "core_deadlock", "in a program of one core; two cores (LNC 2) is required"),
    ([*({"tensor": {"name": n, "dtype": "float32", "shape": [4, 8], "role": "input",
                    "data": {"generator": "normal", "seed": 1}}} for n in "sx"),
      {"i": "dma_compute", "dst": AGAIN, "srcs": [AGAIN, "x"], "reduce_op": "add"}],
     "scatter_repeats_element", "a pattern that comes to an element"),
]


@pytest.mark.parametrize("lines, rule, text", REFUSED, ids=[rule for _, rule, _ in REFUSED])
@pytest.mark.parametrize("command", [("check",), ("run", "--timing-only"), ("run", "--functional"), ("run",)])
def test_a_mistake_of_the_program_is_one_with_and_without_values(command, lines, rule, text, tmp_path):
    path = tmp_path / "k.jsonl"
    path.write_text("\n".join(map(json.dumps, [{"nisa": 1, "target": "trn2", "addresses": "open"}, *lines])))
    done = cli(*command, path, "--json", code=3)
    assert json.loads(done.stdout)["error"]["rule"] == rule
    assert text in done.stderr and f"k.jsonl:{len(lines) + 1}" in done.stderr
