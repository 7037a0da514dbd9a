"""The order that a kernel asks for: with_schedule, depends_on and no_reorder, in time and in traces.

Times are sums over trn2: VectorE takes 152 ns and half a cycle of 0.96 GHz per fp32 column to copy
from SBUF to SBUF, the next instruction of its own starts 84 ns before the end, and what waits for a
result of VectorE starts 12 + 23.5 ns (VectorE) or 12 + 22 ns (ScalarE) after its end.
"""
import inspect
import json
import os
import subprocess

import numpy as np
import pytest

import nki
import nki.collectives as nccl
import nki.isa as nisa
import nki.language as nl
import nkisim
from nkisim_profile.session import Session

NKISIM = os.environ.get("NKISIM") or os.environ.get("NKISIM_PROGRAM") or "nkisim"
X = np.arange(128 * 480, dtype=np.float32).reshape(128, 480)
OVERLAP, TO_VECTOR, TO_SCALAR = 84, 12 + 23.5, 12 + 22


def cost(columns):
    """ns of a VectorE copy."""
    return 152 + columns / 2 / 0.96


def tile(columns=480):
    return nl.ndarray((128, columns), dtype=nl.float32, buffer=nl.sbuf)


def stored(data):
    out = nl.ndarray(data.shape, dtype=nl.float32, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=data)
    return out


def times(kernel, tmp_path, *arguments, **settings):
    """{name: (start, end)} in ns of the named instructions, and the run."""
    result = nkisim.run(kernel, *(arguments or (X,)), **{"target": "trn2", **settings})
    result.write(session=tmp_path / "s.npz")
    session = Session(str(tmp_path / "s.npz"))
    names = session.text(session.insts.label)
    found = {}
    for inst, start, end in zip(session.parts.inst, session.parts.start, session.parts.end):
        if names[inst]:
            found[names[inst]] = (start / 1e6, end / 1e6)
    return found, result


@nki.jit
def two_copies(x):
    a, c, d = tile(), tile(), tile()
    nisa.dma_copy(dst=a, src=x)
    nisa.tensor_copy(dst=c, src=a, engine=nisa.vector_engine, name="first")
    nisa.tensor_copy(dst=d, src=a, engine=nisa.vector_engine, name="second")
    nisa.tensor_tensor(dst=d, data1=c, data2=d, op=nl.add)
    return stored(d)


def test_an_edge_on_one_engine_costs_the_wait_for_completion(tmp_path):
    plain, before = times(two_copies, tmp_path)
    assert plain["second"][0] - plain["first"][0] == pytest.approx(cost(480) - OVERLAP)
    found, after = times(two_copies.with_schedule([("second", "first")]), tmp_path)
    assert found["second"][0] - found["first"][1] == pytest.approx(TO_VECTOR)
    slower = 1000 * (after.latency_us - before.latency_us)
    assert slower == pytest.approx(OVERLAP + TO_VECTOR, abs=0.1)
    np.testing.assert_array_equal(after.outputs, before.outputs)


@nki.jit
def long_then_short(x):
    """VectorE copies 480 columns and then 16, on which ScalarE works long."""
    a, wide, narrow, many = tile(), tile(), tile(16), tile(960)
    nisa.dma_copy(dst=a, src=x)
    nisa.tensor_copy(dst=wide, src=a, engine=nisa.vector_engine, name="long")
    nisa.tensor_copy(dst=narrow, src=a[:, 0:16], engine=nisa.vector_engine, name="short")
    repeated = narrow.ap([[16, 128], [0, 60], [1, 16]])
    nisa.activation(dst=many.reshape((128, 60, 16)), data=repeated, op=nl.copy, name="slow")
    nisa.tensor_tensor(dst=wide, data1=wide, data2=many[:, 0:480], op=nl.add)
    return stored(wide)


def test_an_order_makes_a_kernel_faster(tmp_path):
    """As written: long, short, then slow. Ordered: short, then slow, and long beside slow."""
    plain, before = times(long_then_short, tmp_path)
    assert plain["slow"][0] == pytest.approx(plain["short"][1] + TO_SCALAR)
    found, after = times(long_then_short.with_schedule([("long", "short")]), tmp_path)
    assert found["short"][0] == pytest.approx(plain["long"][0])
    assert found["long"][0] == pytest.approx(found["short"][1] + TO_VECTOR)
    assert found["long"][1] < found["slow"][1]
    faster = 1000 * (before.latency_us - after.latency_us)
    assert faster == pytest.approx(cost(480) - OVERLAP, abs=0.1)
    np.testing.assert_array_equal(after.outputs, before.outputs)


def test_the_same_pair_the_other_way_is_a_wait(tmp_path):
    _, before = times(long_then_short, tmp_path)
    _, after = times(long_then_short.with_schedule([("short", ["long"])]), tmp_path)
    slower = 1000 * (after.latency_us - before.latency_us)
    assert slower == pytest.approx(OVERLAP + TO_VECTOR, abs=0.1)


def two_engines(ordered):
    @nki.jit
    def kernel(x):
        a, c, d = tile(), tile(), tile()
        nisa.dma_copy(dst=a, src=x)
        first = nisa.tensor_copy(dst=c, src=a, engine=nisa.vector_engine, name="first")
        second = nisa.activation(dst=d, data=a, op=nl.exp, name="second")
        if ordered:
            assert second.depends_on(first) is second
        nisa.tensor_tensor(dst=d, data1=c, data2=d, op=nl.add)
        return stored(d)

    return kernel


def test_depends_on_delays_another_engine(tmp_path):
    plain, before = times(two_engines(False), tmp_path)
    assert plain["second"][0] < plain["first"][1]
    found, after = times(two_engines(True), tmp_path)
    assert found["second"][0] == pytest.approx(found["first"][1] + TO_SCALAR)
    np.testing.assert_array_equal(after.outputs, before.outputs)


def test_a_load_waits_for_what_it_depends_on(tmp_path):
    """A second load would run beside the first; it depends on the copy of what the first brought."""
    def loads(ordered):
        @nki.jit
        def kernel(x, y):
            a, b, c = tile(), tile(), tile()
            nisa.dma_copy(dst=a, src=x)
            copied = nisa.tensor_copy(dst=c, src=a, engine=nisa.vector_engine, name="copied")
            load = nisa.dma_copy(dst=b, src=y, name="load")
            if ordered:
                load.depends_on(copied)
            nisa.tensor_tensor(dst=c, data1=b, data2=c, op=nl.add, name="sum")
            return stored(c)

        return kernel

    plain, before = times(loads(False), tmp_path, X, X)
    assert plain["load"][0] < plain["copied"][0]
    found, after = times(loads(True), tmp_path, X, X)
    assert found["load"][0] >= found["copied"][1]
    assert after.compiled.ordered == 1
    np.testing.assert_array_equal(after.outputs, before.outputs)


def in_turn(block, body):
    """Three loads, each copied and added up: with everything in one block nothing overlaps."""
    @nki.jit
    def kernel(x):
        tiles = [tile() for _ in range(3)]
        total = tile()
        nisa.memset(dst=total, value=0.0)

        def step(i):
            nisa.dma_copy(dst=tiles[i], src=x, name=f"load{i}")
            nisa.tensor_tensor(dst=total, data1=total, data2=tiles[i], op=nl.add, name=f"add{i}")

        if block:
            with nl.no_reorder():
                body(step)
        else:
            body(step)
        return stored(total)

    return kernel


def all_steps(step):
    for i in range(3):
        step(i)


def test_a_block_keeps_what_the_scheduler_would_move(tmp_path):
    plain, before = times(in_turn(False, all_steps), tmp_path, compiler={"share": "none"})
    assert plain["load2"][0] < plain["add0"][0] and before.compiled.moved > 0
    found, after = times(in_turn(True, all_steps), tmp_path, compiler={"share": "none"})
    order = [f"{what}{i}" for i in range(3) for what in ("load", "add")]
    for earlier, later in zip(order, order[1:]):
        assert found[earlier][1] <= found[later][0]
    assert after.latency_us > before.latency_us and after.compiled.moved == 0
    np.testing.assert_array_equal(after.outputs, before.outputs)


def test_a_block_is_a_chain_of_waits(tmp_path):
    """Three copies of VectorE, each after the one before: two waits more."""
    def copies(block):
        @nki.jit
        def kernel(x):
            a, results = tile(), [tile() for _ in range(3)]
            nisa.dma_copy(dst=a, src=x)

            def body():
                for i, r in enumerate(results):
                    nisa.tensor_copy(dst=r, src=a[:, 0:480], engine=nisa.vector_engine,
                                     name=f"copy{i}")

            if block:
                with nl.no_reorder(), nl.no_reorder():  # blocks nest
                    body()
            else:
                body()
            nisa.tensor_tensor(dst=a, data1=results[0], data2=results[1], op=nl.add)
            nisa.tensor_tensor(dst=a, data1=results[2], data2=a, op=nl.add)
            return stored(a)

        return kernel

    _, before = times(copies(False), tmp_path, compiler={"reuse": "none"})
    found, after = times(copies(True), tmp_path, compiler={"reuse": "none"})
    assert [found[f"copy{i}"][0] for i in range(3)] == pytest.approx(
        [found["copy0"][0] + i * (cost(480) + TO_VECTOR) for i in range(3)])
    slower = 1000 * (after.latency_us - before.latency_us)
    assert slower == pytest.approx(2 * (OVERLAP + TO_VECTOR), abs=0.1)


def test_what_is_outside_a_block_is_free(tmp_path):
    @nki.jit
    def kernel(x):
        with nl.no_reorder():
            a = nl.load(x)
        b = nl.load(x)
        with nl.no_reorder():
            return stored(nl.add(a, b))

    result = nkisim.run(kernel, X, target="trn2")
    assert result.compiled.ordered == 1  # the sum and its store
    np.testing.assert_array_equal(result.outputs, 2 * X)


def test_waits_in_a_loop_of_the_device(tmp_path):
    """Each turn's instruction waits for that turn's."""
    def turns(ordered):
        @nki.jit
        def kernel(x):
            a, c, d = tile(), tile(), tile()
            nisa.dma_copy(dst=a, src=x)
            for _ in nl.dynamic_range(3):
                first = nisa.tensor_copy(dst=c, src=a, engine=nisa.vector_engine)
                second = nisa.tensor_copy(dst=d, src=a, engine=nisa.vector_engine)
                if ordered:
                    second.depends_on(first)
            nisa.tensor_tensor(dst=d, data1=c, data2=d, op=nl.add)
            return stored(d)

        return kernel

    before, after = (nkisim.run(turns(o), X, target="trn2") for o in (False, True))
    slower = 1000 * (after.latency_us - before.latency_us)
    assert slower == pytest.approx(3 * (OVERLAP + TO_VECTOR), abs=0.1)


def test_both_cores_have_the_order():
    result = nkisim.run(two_copies.with_schedule([("second", "first")]), X, target="trn2", grid=2)
    assert result.compiled.ordered == 2


def test_all_ways_to_run_a_scheduled_kernel(tmp_path):
    scheduled = two_copies.with_schedule([("second", "first")])
    expected = nkisim.run(scheduled, X, target="trn2").latency_us
    assert scheduled.__name__ == "two_copies"
    assert inspect.signature(scheduled) == inspect.signature(two_copies)
    assert scheduled.run(X).latency_us == expected
    assert nki.jit(scheduled).run(X).latency_us == expected
    assert nkisim.run(scheduled[1], X, target="trn2").latency_us == expected
    np.testing.assert_array_equal(scheduled(X), 2 * X)

    @nki.jit
    def around(x):
        return scheduled(x)

    assert around.run(X).latency_us == expected
    again = two_copies.with_schedule([]).with_schedule([("second", "first")])
    assert again.run(X).latency_us == expected
    assert two_copies.run(X).latency_us < expected


def test_a_collective_can_be_named():
    @nki.jit
    def kernel(x):
        a = tile()
        mine, theirs = (nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.hbm) for _ in range(2))
        nisa.dma_copy(dst=mine, src=x)
        nisa.dma_copy(dst=a, src=x)
        nisa.tensor_copy(dst=a, src=a, engine=nisa.vector_engine, name="copy")
        nccl.all_gather(srcs=[mine], dsts=[theirs], replica_group=nccl.ReplicaGroup([[0]]),
                        collective_dim=0, name="gather")
        return stored(a), stored(theirs)

    result = nkisim.run(kernel.with_schedule([("copy", "gather")]), X, target="trn2")
    assert result.compiled.ordered == 1
    np.testing.assert_array_equal(result.outputs[1], X)


def test_an_ordered_instruction_is_not_left_out():
    """The second sum would be the first's; a kernel that orders it has it."""
    @nki.jit
    def kernel(x):
        a, b, c = tile(), tile(), tile()
        nisa.dma_copy(dst=a, src=x)
        nisa.tensor_scalar(dst=b, data=a, op0=nl.add, operand0=1.0, name="one")
        nisa.tensor_scalar(dst=c, data=a, op0=nl.add, operand0=1.0, name="again")
        nisa.tensor_tensor(dst=a, data1=b, data2=c, op=nl.add)
        return stored(a)

    for edges, sums in (([], 1), ([("again", "one")], 2)):
        result = nkisim.run(kernel.with_schedule(edges), X, target="trn2")
        assert result.summary["nc_0"]["vector_engine_instruction_count"] == 1 + sums
        np.testing.assert_array_equal(result.outputs, 2 * (X + 1))


# ---- what is no order -------------------------------------------------------------------------
def refused(kernel, words, *arguments):
    with pytest.raises(nkisim.Error, match=words) as caught:
        nkisim.run(kernel, *(arguments or (X,)), target="trn2")
    assert caught.value.kernel_file == __file__ and caught.value.code == "bad_input"
    return caught.value


def test_names_that_nothing_has():
    problem = refused(two_copies.with_schedule([("secnd", "first")]),
                      "names 'secnd', which no instruction of the kernel is called .did you mean 'second'")
    assert problem.source.startswith("problem = refused(") and problem.instruction == "with_schedule"
    refused(two_copies.with_schedule([("second", ["first", "none"])]), "names 'none'")


def test_names_that_several_have():
    @nki.jit
    def kernel(x):
        a = nl.load(x)
        for _ in range(4):
            nisa.tensor_scalar(dst=a, data=a, op0=nl.add, operand0=1.0, name="step")
        nisa.tensor_scalar(dst=a, data=a, op0=nl.add, operand0=1.0, name="last")
        return stored(a)

    refused(kernel.with_schedule([("last", "step")]),
            r"names 'step', as 4 instructions are called .*:\d+, .*, \.\.\.")


def test_what_is_no_pair():
    for edges in ([("second", 3)], [("second",)], ["ab"], [("a", ["b", None])], 7):
        with pytest.raises(nkisim.Error, match="a .*pair.* of names") as caught:
            two_copies.with_schedule(edges)
        assert caught.value.kernel_file == __file__


def test_circles():
    refused(two_copies.with_schedule([("second", "first"), ("first", "second")]),
            r"circle: \w+ \(.*\) after \w+ \(.*\) after \w+ ")
    refused(two_copies.with_schedule([("second", "second")]), "circle: second .* after second")
    # through memory: slow reads what short writes
    refused(long_then_short.with_schedule([("short", "slow")]), "circle: .*(short|slow).* after ")


def test_into_and_out_of_loops():
    def loops(wire):
        @nki.jit
        def kernel(x):
            a, b = nl.load(x), tile()
            before = nisa.tensor_copy(dst=b, src=a)
            for _ in nl.dynamic_range(2):
                inside = nisa.tensor_scalar(dst=a, data=a, op0=nl.add, operand0=1.0)
                if wire == "in":
                    inside.depends_on(before)
            after = nisa.tensor_copy(dst=b, src=a)
            if wire == "out":
                after.depends_on(inside)
            if wire == "back":
                before.depends_on(after)
            return stored(b)

        return kernel

    np.testing.assert_array_equal(nkisim.run(loops("in"), X, target="trn2").outputs, X + 2)
    refused(loops("out"), "is in a loop or branch of the device that this one is not in")
    refused(loops("back"), "comes later, beyond loop_begin .*which nothing passes")


def test_loops_in_a_block():
    def loop_in_block(x):
        a = nl.load(x)
        with nl.no_reorder():
            for _ in nl.dynamic_range(2):
                nisa.tensor_scalar(dst=a, data=a, op0=nl.add, operand0=1.0)
        return stored(a)

    def fori_in_block(x):
        a = nl.load(x)
        with nl.no_reorder():
            nl.fori_loop(0, 2, lambda i: nisa.tensor_scalar(dst=a, data=a, op0=nl.add, operand0=1.0))
        return stored(a)

    def block_in_loop(x):
        a = nl.load(x)
        for _ in nl.dynamic_range(2):
            with nl.no_reorder():
                nisa.tensor_scalar(dst=a, data=a, op0=nl.add, operand0=1.0)
                nisa.tensor_scalar(dst=a, data=a, op0=nl.add, operand0=1.0)
        return stored(a)

    for kernel in (loop_in_block, fori_in_block):
        refused(nki.jit(kernel), "dynamic loop begins inside a no_reorder block")
    result = nkisim.run(nki.jit(block_in_loop), X, target="trn2")
    np.testing.assert_array_equal(result.outputs, X + 4)
    assert result.compiled.ordered == 1


def test_what_cannot_be_ordered():
    def wrong(wire):
        @nki.jit
        def kernel(x):
            a = nl.load(x)
            made = nisa.tensor_scalar(dst=a, data=a, op0=nl.add, operand0=1.0)
            wire(made)
            return stored(a)

        return kernel

    refused(wrong(lambda made: made.depends_on(3)), "producer is 3; what a call of nki.isa returned")
    refused(wrong(lambda made: made.depends_on(made)), "circle")
    refused(wrong(lambda made: nisa.register_move(nisa.register_alloc(), 1).depends_on(made)),
            "runs on the sequencers")
    kept = []
    nkisim.run(wrong(kept.append), X, target="trn2")
    refused(wrong(lambda made: made.depends_on(kept[0])), "of another recording")
    with pytest.raises(nkisim.Error, match="after the kernel was recorded"):
        kept[0].depends_on(kept[0])


def test_the_other_core_is_no_producer():
    kept = {}

    @nki.jit
    def kernel(x):
        core = nl.program_id(0)
        a, b = nl.load(x), tile()
        kept[core] = nisa.tensor_copy(dst=b, src=a)
        if core == 1:
            kept[1].depends_on(kept[0])
        return stored(b)

    with pytest.raises(nkisim.Error, match="on another core; an instruction of the same core"):
        nkisim.run(kernel, X, target="trn2", grid=2)


# ---- traces -----------------------------------------------------------------------------------
def command(*words):
    return subprocess.run([NKISIM, *map(str, words)], capture_output=True, text=True, check=False)


def test_a_saved_program_has_the_order(tmp_path):
    result = nkisim.run(long_then_short.with_schedule([("long", "short")]), X, target="trn2")
    for compiled in (True, False):
        for name in ("k.nisa", "k.jsonl"):
            path = tmp_path / name
            result.save(path, compiled=compiled)
            done = command("run", path, "--json", "--timing-only")
            assert done.returncode == 0, done.stderr
            summary = json.loads(done.stdout)["summary"]["nc_0"]
            assert summary["total_time"] == result.summary["nc_0"]["total_time"]
    text = (tmp_path / "k.jsonl").read_text()
    assert '"id":1' in text and '"after":[1]' in text
    converted = tmp_path / "again.jsonl"
    assert command("convert", tmp_path / "k.nisa", converted).returncode == 0
    assert converted.read_text() == text
    explained = command("compile", tmp_path / "k.nisa", "-o", tmp_path / "o.nisa", "--explain").stdout
    assert "1 dependences that the kernel adds" in explained
    assert "1 instructions moved behind later ones" in explained


HEADER = '{"nisa": 1, "target": "trn2"%s}'
TILE = '{"tensor": {"name": "%s", "space": "sbuf", "dtype": "float32", "shape": [128, 8], "address": %d}}'


def trace(tmp_path, lines, header=""):
    path = tmp_path / "k.jsonl"
    path.write_text("\n".join([HEADER % header, TILE % ("a", 0), TILE % ("b", 64), *lines]))
    return path


@pytest.mark.parametrize("lines,words", [
    (['{"i": "memset", "dst": "a", "value": 0, "after": [1]}'], "k.jsonl:4: memset: after names id 1"),
    (['{"i": "memset", "dst": "a", "value": 0, "after": [1]}',
      '{"i": "memset", "dst": "b", "value": 0, "id": 1}'], "comes later; an earlier instruction"),
    (['{"i": "memset", "dst": "a", "value": 0, "id": 1, "after": [1]}'], "comes later"),
    (['{"i": "memset", "dst": "a", "value": 0, "id": 1}',
      '{"i": "memset", "dst": "b", "value": 0, "id": 1}'], "id 1 is also that of memset .line 4."),
    (['{"i": "memset", "dst": "a", "value": 0, "id": 0}'], "id is 0; an integer from 1"),
    (['{"i": "memset", "dst": "a", "value": 0, "id": 4294967297}'], "an integer from 1"),
    (['{"i": "memset", "dst": "a", "value": 0, "after": 1}'], "after is 1; a list of ids"),
    (['{"i": "memset", "dst": "a", "value": 0, "after": ["x"]}'], "an integer from 1"),
    (['{"i": "register_move", "dst": "r0", "src": 1, "id": 1}'], "runs on the sequencers"),
])
def test_traces_that_order_wrongly(tmp_path, lines, words):
    import re
    done = command("run", trace(tmp_path, lines))
    assert done.returncode == 3 and re.search(words, done.stderr), done.stderr


def test_no_ids_beside_explicit_semaphores(tmp_path):
    lines = ['{"i": "memset", "dst": "a", "value": 0, "id": 1}']
    done = command("run", trace(tmp_path, lines, ', "semaphores": "explicit"'))
    assert done.returncode == 3 and "wait and post are required there" in done.stderr
