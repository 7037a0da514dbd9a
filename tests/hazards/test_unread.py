"""Tests the option --unread, which reports results that nothing reads, and --suppress and --error,
which change warnings.
"""

import json
from types import SimpleNamespace

import pytest

from running import cli
from unwritten import _base

pytestmark = pytest.mark.process


def reported(trace, tmp_path, *options, command="check", code=0):
    path = tmp_path / "k.jsonl"
    path.write_text(trace.text())
    done = cli(command, path, *options, "--json", code=None, timeout=60)
    assert done.returncode == code, done.stderr
    return json.loads(done.stdout), done.stderr


def rules(trace, tmp_path, *options, **how):
    return [(r["rule"], r["text"]) for r in reported(trace, tmp_path, *options, **how)[0]["remarks"]]


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


def columns(*read):
    """A tile of 512 columns is loaded, and parts of it are stored."""
    t = _base((128, 512), (128, 512), "t")
    t.dma("t", "x")
    for first, last in read:
        t.dma(f"y[:, {first}:{last}]", f"t[:, {first}:{last}]")
    return t


@pytest.mark.parametrize("read, unread, first", [
    ([(0, 512)], 0, None), ([(0, 128), (128, 512)], 0, None), ([(256, 512), (0, 256)], 0, None),
    ([(0, 511)], 128, "t[0, 511]"), ([(1, 512)], 128, "t[0, 0]"), ([(0, 100), (200, 512)], 12800, "t[0, 100]")])
def test_a_part_of_a_loaded_tile_that_nothing_reads(read, unread, first, tmp_path):
    found = [(rule, text) for rule, text in rules(columns(*read), tmp_path, "--unread")]
    assert [rule for rule, _ in found] == ["load_unread"] * bool(unread)
    if unread:
        assert f"nothing reads {unread} of the 65536 elements that it loads into t, the first of them {first}" \
            in found[0][1]
    assert rules(columns(*read), tmp_path) == []


def test_rows_and_strides_of_a_loaded_tile_count(tmp_path):
    t = _base((128, 512), (64, 512), "t")
    t.dma("t", "x")
    t.dma("y[:, 0:256]", "t[0:64, 0:512:2]")
    t.dma("y[:, 256:512]", "t[0:64, 1:512:2]")
    [(rule, text)] = rules(t, tmp_path, "--unread")
    assert rule == "load_unread" and "32768 of the 65536" in text and "t[64, 0]" in text


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
    """The last iteration prepares one that does not come."""
    t = _base((128, 2048), (128, 1536), "tu")
    for i in range(4):
        t.dma("tu"[i % 2], f"x[:, {512 * i}:{512 * i + 512}]", loc="k.py:7")
        if i:
            t.dma(f"y[:, {512 * i - 512}:{512 * i}]", "tu"[(i + 1) % 2], loc="k.py:8")
    assert rules(t, tmp_path, "--unread") == []


def test_no_one_asked(tmp_path):
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
    _, err = reported(twice(), tmp_path, command="run")
    assert "[result_lost]" in err
    _, err = reported(twice(), tmp_path, "--suppress", "bytes_written_twice,result_lost", command="run")
    assert "result_lost" not in err


def test_a_warning_becomes_an_error(tmp_path):
    done, err = reported(twice(), tmp_path, "--error", "result_lost", command="run", code=3)
    assert done["error"]["rule"] == "result_lost" and "k.jsonl:" in err
    done, _ = reported(twice(), tmp_path, "--error=result_lost", code=3)
    assert [r["error"] for r in done["remarks"]] == [True]
    # One that is off by itself is looked for where it is to be an error.
    done, _ = reported(tiles(4, [0, 1, 2, 2]), tmp_path, "--error=result_unread", command="run", code=3)
    assert done["error"]["rule"] == "result_unread"


@pytest.mark.parametrize("option, rule, text", [
    ("--suppress", "lost_result", "a rule that nkisim explain lists is required"),
    ("--error", "lost_result", "a rule that nkisim explain lists is required"),
    ("--suppress", "semaphore_deadlock", "which is an error; a rule that is a warning is required"),
])
@pytest.mark.parametrize("command", ["run", "check"])
def test_rules_that_cannot_be(option, rule, text, command, tmp_path):
    _, err = reported(tiles(4, [0, 1, 2, 3]), tmp_path, option, rule, command=command, code=2)
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


def ranks(*instructions):
    """Two ranks, each of which sends 5 and 7 elements of x by an operation of variable lengths to a block of d."""
    lines = [{"nisa": 1, "target": "trn2", "ranks": 2},
             {"tensor": {"name": "meta", "dtype": "uint32", "shape": [3, 2], "role": "input",
                         "data": {"values": [5, 7, 0, 8, 0, 0]}}},
             *({"tensor": {"name": name, "dtype": "float32", "shape": [16], "role": role,
                           **({"data": {"generator": "normal", "seed": 3}} if role == "input" else {})}}
               for name, role in (("x", "input"), ("before", "input"), ("y", "output"), ("s", "internal"),
                                  ("d", "internal"))),
             {"tensor": {"name": "m", "dtype": "uint32", "shape": [3, 2]}},
             {"i": "dma_copy", "dst": "m", "src": "meta"}, {"i": "dma_copy", "dst": "s", "src": "x"}, *instructions]
    return SimpleNamespace(text=lambda: "\n".join(map(json.dumps, lines)))


SENT = {"i": "all_to_all_v", "srcs": ["s"], "dsts": ["d"], "metadata_tensor": "m", "replica_group": [[0, 1]]}
BEFORE = {"i": "dma_copy", "dst": "d", "src": "before"}
STORED = {"i": "dma_copy", "dst": "y", "src": "d"}


@pytest.mark.parametrize("options", [(), ("--unread",)])
def test_a_collective_that_overwrites_a_part_loses_nothing(tmp_path, options):
    """Elements between the blocks stay as they were, so what was there before is stored."""
    assert rules(ranks(BEFORE, SENT, STORED), tmp_path, *options) == []


def test_a_collective_whose_result_nothing_reads(tmp_path):
    late = ranks(BEFORE, STORED, SENT)
    [(rule, text)] = rules(late, tmp_path, "--unread")
    assert rule == "result_unread" and "all_to_all_v: nothing reads its result" in text
    assert rules(late, tmp_path) == []


def quantized(*between, scales="sb"):
    """A product of two MX tiles, with instructions between the quantization of the second and the product."""
    def hbm(name, width, dtype="bfloat16", role="input"):
        data = {"data": {"generator": "normal", "seed": 3}} if role == "input" else {}
        return {"tensor": {"name": name, "dtype": dtype, "shape": [128, width], "role": role, **data}}

    def chip(name, width, dtype, space="sbuf"):
        return {"tensor": {"name": name, "space": space, "dtype": dtype, "shape": [128, width]}}

    lines = [{"nisa": 1, "target": "trn3", "addresses": "open"}, hbm("a", 512), hbm("b", 1024),
             hbm("y", 256, "float32", "output"), chip("A", 512, "bfloat16"), chip("B", 1024, "bfloat16"),
             chip("qa", 128, "float8_e4m3fn_x4"), chip("qb", 256, "float8_e4m3fn_x4"), chip("sa", 128, "uint8"),
             chip("sb", 256, "uint8"), chip("sc", 256, "uint8"), chip("P", 256, "float32", "psum"),
             chip("E", 256, "float32"),
             {"i": "dma_copy", "dst": "A", "src": "a"}, {"i": "dma_copy", "dst": "B", "src": "b"},
             {"i": "quantize_mx", "dst": "qa", "src": "A", "dst_scale": "sa"},
             {"i": "quantize_mx", "dst": "qb", "src": "B", "dst_scale": "sb"}, *between,
             {"i": "nc_matmul_mx", "dst": "P", "stationary": "qa", "moving": "qb", "stationary_scale": "sa",
              "moving_scale": scales, "accumulate": False},
             {"i": "tensor_copy", "dst": "E", "src": "P"}, {"i": "dma_copy", "dst": "y", "src": "E"}]
    return SimpleNamespace(text=lambda: "\n".join(map(json.dumps, lines)))


def test_each_output_of_a_quantization_counts(tmp_path):
    """Scales without their data mean nothing, nor data without theirs: one of two outputs is no by-product."""
    assert rules(quantized(), tmp_path, "--unread") == []
    filled = quantized({"i": "memset", "dst": "sb", "value": 127})
    [(rule, text)] = rules(filled, tmp_path)
    assert rule == "result_lost" and "quantize_mx: its result dst_scale is lost: memset at line" in text
    other = quantized({"i": "memset", "dst": "sc", "value": 127}, scales="sc")
    [(rule, text)] = rules(other, tmp_path, "--unread")
    assert rule == "result_unread" and "quantize_mx: nothing reads its result dst_scale" in text


def test_a_product_of_zeros_that_begins_psum_is_no_result(tmp_path):
    """The front end puts it before a loop, as PSUM is zeroed; the loop's own product begins anew."""
    t = _base((128, 512), (128, 512), "tz")
    t.chip("p", (128, 512), space="psum", address=0)
    t.dma("t", "x")
    t.fill("z", value=0.0)
    for moving in ("z", "t"):
        t.op("nc_matmul", dst="p", stationary=f"{moving}[:, 0:128]", moving=moving, accumulate=False)
    t.copy("z", "p")
    t.dma("y", "z")
    assert rules(t, tmp_path, "--unread") == []


def in_steps(count, read, stored):
    """One line of the kernel loads `read` of the `count` parts of x, each to a tile of its own; `stored` are stored."""
    t = _base((128, 128 * count), (128, 128 * len(stored)))
    for i in range(max(len(read), 1)):
        t.chip(f"t{i}", (128, 128))
    for i, part in enumerate(read):
        t.dma(f"t{i}", f"x[:, {128 * part}:{128 * part + 128}]", loc="k.py:7")
    for i, tile in enumerate(stored):
        t.dma(f"y[:, {128 * i}:{128 * i + 128}]", f"t{tile}", loc="k.py:9")
    return t


@pytest.mark.parametrize("trace, named, text", [
    (in_steps(4, [0, 1, 2], [0, 1, 2]), "input_unread", "nothing reads 16384 of the 65536 elements of x, the first of "
     "them x[0, 384]: dma_copy at k.py:7 stops one step short"),
    (in_steps(4, [1, 2, 3], [0, 1, 2]), "input_unread", "the first of them x[0, 0]: dma_copy at k.py:7 stops one step"),
    (in_steps(4, [0, 0, 0, 0], [0, 1, 2, 3]), "input_unread", "dma_copy at k.py:7 reads the same part each time"),
    (in_steps(4, [0, 1, 2, 3], [0, 1, 2]), None, ""),  # a section is loaded whole, and a mask leaves out a block
    (in_steps(4, [0, 1, 2, 3], [0, 1, 2, 3]), None, ""), (in_steps(4, [0, 1], [0, 1]), None, ""),
    (in_steps(5, [0, 1, 2], [0, 1, 2]), None, ""), (in_steps(2, [0, 0], [0, 1]), None, "")])
def test_a_step_too_few_needs_no_option(trace, named, text, tmp_path):
    """A kernel may read a half of an input, the first three of five parts, or some of what it loads; not all steps
    but one."""
    found = rules(trace, tmp_path)
    assert [rule for rule, _ in found] == ([named] if named else [])
    assert text in "".join(text for _, text in found)
    assert found == [] or named in [rule for rule, _ in rules(trace, tmp_path, "--unread")]


@pytest.mark.parametrize("read, named", [([0, 1, 2], True), ([0, 1, 2, 3], False), ([0, 1], False), ([0] * 4, True)])
def test_a_loaded_tile_that_is_read_one_step_short(read, named, tmp_path):
    t = _base((128, 512), (128, 128 * len(read)), "t")
    t.dma("t", "x", loc="k.py:5")
    for i, part in enumerate(read):
        t.dma(f"y[:, {128 * i}:{128 * i + 128}]", f"t[:, {128 * part}:{128 * part + 128}]", loc="k.py:7")
    assert [rule for rule, _ in rules(t, tmp_path)] == ["load_unread"] * named


def changed(*lines):
    """Loads t and u, runs `lines` of (instruction, operands), and stores t."""
    t = _base((128, 512), (128, 512), "tu")
    t.hbm("w", (128, 512), role="input")
    t.dma("t", "x")
    t.dma("u", "w")
    for name, operands in lines:
        t.op(name, **operands)
    return t


ADD = ("tensor_tensor", {"dst": "t", "data1": "t", "data2": "u", "op": "add"})
OUT = ("dma_copy", {"dst": "y", "src": "t"})


@pytest.mark.parametrize("lines, named", [
    ([ADD, OUT], []), ([OUT], ["nothing reads its result"]),      # w has no effect
    ([ADD, OUT, ADD], ["nothing reads its result"]),              # t changes after its last reader
    ([ADD, OUT, ("tensor_copy", {"dst": "u", "src": "t"})], [])])  # a copy is no change
def test_what_has_no_effect_needs_no_option(lines, named, tmp_path):
    found = [(rule, text) for rule, text in rules(changed(*lines), tmp_path) if rule != "result_lost"]
    assert [rule for rule, _ in found] == ["result_unread"] * len(named)
    assert all(text.endswith(said) or said in text for (_, text), said in zip(found, named))


def carried(groups, anew):
    """Each group makes a sum of three; with `anew` each sum begins in a tile of its own, so two of three are lost."""
    t = _base((128, 512 * 3 * groups), (128, 512 * groups), "")
    for g in range(groups):
        for i in range(3):
            t.chip(f"t{g}{i}")
            t.dma(f"t{g}{i}", f"x[:, {512 * (3 * g + i)}:{512 * (3 * g + i + 1)}]", loc="k.py:5")
            if anew or i == 0:
                t.chip(f"s{g}{i}")
                t.fill(f"s{g}{i}", value=0.0, loc="k.py:6")
            total = f"s{g}{i if anew else 0}"
            t.op("tensor_tensor", dst=total, data1=total, data2=f"t{g}{i}", op="add", loc="k.py:7")
        t.dma(f"y[:, {512 * g}:{512 * g + 512}]", f"s{g}{2 if anew else 0}", loc="k.py:8")
    return t


@pytest.mark.parametrize("groups", [1, 2])
def test_a_sum_that_begins_anew_needs_no_option(groups, tmp_path):
    [(rule, text)] = rules(carried(groups, True), tmp_path)
    assert rule == "result_unread" and f"in {2 * groups} of the {3 * groups} times" in text
    assert rules(carried(groups, False), tmp_path) == []
