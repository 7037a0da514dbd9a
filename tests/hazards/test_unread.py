"""What nothing reads: --unread, and what --suppress and --error make of warnings."""

import json
from types import SimpleNamespace

import pytest

from running import cli
from unwritten import _base

pytestmark = pytest.mark.process


def said(trace, tmp_path, *options, command="check", code=0):
    path = tmp_path / "k.jsonl"
    path.write_text(trace.text())
    done = cli(command, path, *options, "--json", code=None, timeout=60)
    assert done.returncode == code, done.stderr
    return json.loads(done.stdout), done.stderr


def rules(trace, tmp_path, *options, **how):
    return [(r["rule"], r["text"]) for r in said(trace, tmp_path, *options, **how)[0]["remarks"]]


def tiles(loaded, stored):
    """`loaded` column tiles of an input go through tiles of their own; `stored` of them are stored."""
    t = _base((128, 512), (128, 512))
    for i in range(4):
        t.chip(f"t{i}", (128, 128))
    for i in range(loaded):
        t.dma(f"t{i}", f"x[:, {128 * i}:{128 * i + 128}]")
    for i in range(4):
        t.dma(f"y[:, {128 * i}:{128 * i + 128}]", f"t{stored[i]}")
    return t


def test_a_tile_that_nothing_reads(tmp_path):
    [(rule, text)] = rules(tiles(4, [0, 1, 2, 2]), tmp_path, "--unread")
    assert rule == "result_unread"
    assert "nothing reads its result" in text and "k.jsonl:" in text
    assert rules(tiles(4, [0, 1, 2, 3]), tmp_path, "--unread") == []


def test_a_part_of_an_input_that_nothing_reads(tmp_path):
    [(rule, text)] = rules(tiles(3, [0, 1, 2, 2]), tmp_path, "--unread")
    assert rule == "input_unread"
    assert "nothing reads 16384 of the 65536 elements of x, the first of them x[0, 384]" in text


def padded(whole):
    """A memset of columns 0 to 63, before or behind the load of the whole tile."""
    t = _base((128, 512), (128, 512), "t")
    if whole:
        t.fill("t[:, 0:64]", value=0.0)
    t.dma("t", "x")
    if not whole:
        t.fill("t[:, 0:64]", value=0.0)
    t.dma("y", "t")
    return t


def test_a_memset_over_a_part_of_what_was_loaded(tmp_path):
    [(rule, text)] = rules(padded(whole=False), tmp_path, "--unread")
    assert rule == "result_partly_lost"
    assert "a part of its result is lost: memset at line" in text
    assert rules(padded(whole=True), tmp_path, "--unread") == []


def test_interleaved_parts_do_not_meet(tmp_path):
    t = _base((128, 512), (128, 512), "t")
    t.dma("t[:, 0:512:2]", "x[:, 0:256]")
    t.dma("t[:, 1:512:2]", "x[:, 256:512]")
    t.dma("y", "t")
    assert rules(t, tmp_path, "--unread") == []


def test_what_a_loop_carries_is_no_finding(tmp_path):
    """The last turn prepares a turn that does not come."""
    t = _base((128, 2048), (128, 1536), "tu")
    for i in range(4):
        t.dma("tu"[i % 2], f"x[:, {512 * i}:{512 * i + 512}]", loc="k.py:7")
        if i:
            t.dma(f"y[:, {512 * i - 512}:{512 * i}]", "tu"[(i + 1) % 2], loc="k.py:8")
    assert rules(t, tmp_path, "--unread") == []


def test_nobody_asked(tmp_path):
    for trace in (tiles(3, [0, 1, 2, 2]), tiles(4, [0, 1, 2, 2]), padded(whole=False)):
        assert rules(trace, tmp_path) == []
        assert rules(trace, tmp_path, "--strict") != []


def twice():
    t = _base((128, 1024), (128, 512), "t")
    t.dma("t", "x[:, 0:512]")
    t.dma("t", "x[:, 512:1024]")
    t.dma("y", "t")
    return t


def test_a_rule_is_suppressed(tmp_path):
    assert [r for r, _ in rules(twice(), tmp_path)] == ["result_lost"]
    assert rules(twice(), tmp_path, "--suppress", "result_lost") == []
    _, err = said(twice(), tmp_path, command="run")
    assert "[result_lost]" in err
    _, err = said(twice(), tmp_path, "--suppress", "bytes_written_twice,result_lost", command="run")
    assert "result_lost" not in err


def test_a_warning_becomes_an_error(tmp_path):
    done, err = said(twice(), tmp_path, "--error", "result_lost", command="run", code=3)
    assert done["error"]["rule"] == "result_lost" and "k.jsonl:" in err
    done, _ = said(twice(), tmp_path, "--error=result_lost", code=3)
    assert [r["error"] for r in done["remarks"]] == [True]
    # One that is off by itself is looked for where it is to be an error.
    done, _ = said(tiles(4, [0, 1, 2, 2]), tmp_path, "--error=result_unread", command="run", code=3)
    assert done["error"]["rule"] == "result_unread"


@pytest.mark.parametrize("option, rule, text", [
    ("--suppress", "lost_result", "a rule that nkisim explain lists is required"),
    ("--error", "lost_result", "a rule that nkisim explain lists is required"),
    ("--suppress", "semaphore_deadlock", "which is an error; a rule that is a warning is required"),
])
@pytest.mark.parametrize("command", ["run", "check"])
def test_rules_that_cannot_be(option, rule, text, command, tmp_path):
    _, err = said(tiles(4, [0, 1, 2, 3]), tmp_path, option, rule, command=command, code=2)
    assert text in err and rule in err


@pytest.mark.parametrize("second, named", [(0, ["result_lost"]), (1, [])])
def test_of_two_cores_the_text_does_not_say_which_writes_first(tmp_path, second, named):
    """Core 0 writes s twice, and only the second time counts; where the other core writes it as well, either may be
    first."""
    shape = {"dtype": "float32", "shape": [128, 64]}
    lines = [{"nisa": 1, "target": "trn2", "cores": 2},
             *({"tensor": {"name": name, "role": "input", **shape}} for name in ("x", "w")),
             {"tensor": {"name": "y", "role": "output", **shape}}, {"tensor": {"name": "s", **shape}},
             {"i": "dma_copy", "dst": "s", "src": "x", "core": 0},
             *({"i": "core_barrier", "data": "x", "cores": [0, 1], "core": c} for c in (0, 1)),
             {"i": "dma_copy", "dst": "s", "src": "w", "core": second},
             {"i": "dma_copy", "dst": "y", "src": "s", "core": second}]
    trace = SimpleNamespace(text=lambda: "\n".join(map(json.dumps, lines)))
    assert [rule for rule, _ in rules(trace, tmp_path, "--unread")] == named
