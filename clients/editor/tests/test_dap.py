"""Tests `nkisim debug --dap` as an editor uses it: values at every instant are those of an untimed
run of exactly the instructions that are complete, on one core and on two.
"""

import json
import random
import textwrap

import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest
from dap_client import Client

import nkisim
from running import ROOT, cli, write_trace
from sessions import session_arrays

pytestmark = pytest.mark.process
CONTROL = ("loop_begin", "loop_end", "while_begin", "while_end", "if_begin", "else_begin", "if_end")
TRACES = sorted(p for p in (ROOT / "traces").glob("*.jsonl"))


def completions(folder, trace):
    """The trace lines of all instructions, by the time when they were complete, as the session of a run says."""
    cli("run", trace, "--quiet", "--session", folder / "s.npz", "--allow-unwritten")
    file = session_arrays(folder / "s.npz")
    lines, ends = file["insts.trace_line"], {}
    for i, core, sequence, end in zip(*(file[f"parts.{k}"].tolist() for k in ("inst", "core", "sequence", "end"))):
        ends[core, sequence] = (max(end, ends.get((core, sequence), (0, 0))[0]), int(lines[i]))
    for kind, end in (("transfers", "visible"), ("collectives", "end")):
        for core, sequence, time in zip(*(file[f"{kind}.{k}"].tolist() for k in ("core", "sequence", end))):
            ends[core, sequence] = (time, ends[core, sequence][1])
    texts = trace.read_text().splitlines()
    return sorted((end, line) for end, line in ends.values() if json.loads(texts[line - 1])["i"] not in CONTROL)


def reference(folder, trace, kept, names):
    """The tensors behind the lines `kept` of a trace, executed without time: those in SBUF are stored by a copy."""
    lines, tensors, stores = [], {}, []
    for n, text in enumerate(trace.read_text().splitlines(), 1):
        line = json.loads(text)
        if "i" in line and n not in kept:
            continue
        if "tensor" in line:
            t = tensors[line["tensor"]["name"]] = line["tensor"]
            for kind in {"npy", "npz"} & set(t.get("data", {})):
                t["data"][kind] = str(trace.parent / t["data"][kind])
        lines.append(line)
    outputs = {}
    for name in names:
        t = tensors[name]
        if t["space"] == "hbm":
            outputs[name] = name
            t["role"] = "inputoutput" if t.get("role", "").startswith("input") else "output"
        elif t["space"] == "sbuf":
            outputs[name] = f"shown_{name}"
            copy = {k: t[k] for k in ("shape", "dtype")}
            lines.insert(1, {"tensor": {"name": f"shown_{name}", "space": "hbm", "role": "output", **copy}})
            stores.append({"i": "dma_copy", "dst": f"shown_{name}", "src": name, **(
                {"core": t["core"]} if "core" in t else {})})
    short = write_trace(folder / "short.jsonl", [*lines, *stores])
    cli("run", short, "--functional", "--allow-unwritten", "--quiet", "--allow-races", "--root", trace.parent,
        "--outputs", folder / "o.npz")
    with np.load(folder / "o.npz") as found:
        return {name: found[output] for name, output in outputs.items() if output in found}


def stopped_values(folder, trace, at, names):
    """As `nkisim run --stop-at` has them, from the inputs: no line of a program with loops can be left out."""
    cli("run", trace, "--quiet", "--stop-at", f"{at / 1000}ps", "--dump", ",".join(names), "--dump-to",
        folder / "v.npz", "--allow-unwritten")
    with np.load(folder / "v.npz") as found:
        return dict(found)


def never_written(variable):
    return next((int(part.split()[0]) for part in variable["value"].split(", ") if "never written" in part), 0)


def check(client, folder, trace, done, rng):
    """Everything at this stop; the number of tensors whose values were compared."""
    text = client.frames()
    count = int(client.log_stop.split(": ")[1].split()[0])
    kept = {line for _, line in done[:count]}
    names, compared = {}, 0
    scopes = client.scopes()
    for scope in ("SBUF and PSUM", "HBM"):
        for variable in client.variables(scopes[scope]):
            names[variable["name"]] = variable
    loops = any('"loop_begin"' in line or '"while_begin"' in line for line in trace.read_text().splitlines())
    chosen = rng.sample(sorted(names), min(6, len(names)))
    if loops:
        at = done[count - 1][0] if count else 0
        wanted = stopped_values(folder, trace, at, chosen)
    else:
        wanted = reference(folder, trace, kept, chosen)
    for name in set(chosen) & set(wanted):
        array = wanted[name]
        data = client.memory(names[name]["memoryReference"], array.nbytes)
        found = np.frombuffer(data, array.dtype).reshape(array.shape)
        if never_written(names[name]) == 0:
            assert found.tobytes() == array.tobytes(), (name, count)
            compared += 1
        elif never_written(names[name]) < array.size and found.dtype.kind in "fiu":
            # Elements with a value, one by one: along a row of the table that a client opens.
            at, reference_number = [], names[name]["variablesReference"]
            for _ in range(array.ndim - 1):
                at.append(rng.randrange(array.shape[len(at)]))
                row = client.variables(reference_number, start=at[-1], count=1)[0]
                reference_number = row["variablesReference"]
            for i, one in enumerate(client.variables(reference_number)):
                if one["value"] != "never written":
                    assert found[(*at, i)] == array[(*at, i)], (name, at, i)
                    compared += 1
    if '"loc"' not in trace.read_text():
        assert text[0]["line"] in {line for _, line in done[:count]} | {0}
    return compared


def session(folder, trace, moves, seed, breakpoints=None):
    """Random breakpoints and steps; the number of tensors compared."""
    rng = random.Random(seed)
    done = completions(folder, trace)
    lines = sorted({line for _, line in done})
    points = {trace: rng.sample(lines, min(2, len(lines)))} if breakpoints is None else breakpoints
    compared = 0
    with Client() as client:
        stop, verified = client.launch(trace, points, stopOnEntry=rng.random() < 0.5, stepTime="2us")
        assert all(p["verified"] for p in verified)
        for _ in range(moves):
            client.log_stop = stop["body"]["text"]
            assert stop["event"] == "stopped"
            compared += check(client, folder, trace, done, rng)
            stop = client.move(rng.choice(["stepIn", "stepIn", "next", "stepBack", "stepOut", "continue",
                                           "reverseContinue"]))
            if stop["event"] == "terminated":
                break
        client.request("disconnect")
        assert client.process.wait(20) == 0
    return compared


@pytest.mark.slow
@pytest.mark.parametrize("trace", TRACES, ids=lambda path: path.stem)
def test_random_debug_sessions(tmp_path, trace):
    assert sum(session(tmp_path, trace, 8, seed) for seed in (1, 2)) > 4


def tile(columns=64):
    return nl.ndarray((128, columns), dtype=nl.float32, buffer=nl.sbuf)


def exchange_between_cores(x):
    """Each core exchanges tiles with the other, and through HBM behind a barrier."""
    me = nl.program_id(0)
    o = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    p = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    shared = nl.ndarray(x.shape[1:], dtype=x.dtype, buffer=nl.shared_hbm)
    mine, other, sums, back = tile(), tile(), tile(), tile()
    for _ in range(1 + 2 * me):
        nisa.dma_copy(dst=mine, src=x[me])
    nisa.sendrecv(src=mine, dst=other, send_to_rank=1 - me, recv_from_rank=1 - me, pipe_id=0)
    nisa.tensor_tensor(sums, mine, other, nl.add)
    nisa.dma_copy(dst=o[me], src=sums)
    if me == 0:
        nisa.dma_copy(dst=shared, src=sums)
    nisa.core_barrier(shared, (0, 1))
    nisa.dma_copy(dst=back, src=shared)
    nisa.tensor_tensor(back, back, mine, nl.multiply)
    nisa.dma_copy(dst=p[me], src=back)
    return o, p


def test_two_cores(tmp_path):
    """At every stop, forwards and at random: sums and products with NumPy, and which of them are there."""
    x = np.random.default_rng(1).standard_normal((2, 128, 64)).astype(np.float32)
    nkisim.run(exchange_between_cores, x, grid=2, target="trn2").save(tmp_path / "k.jsonl")
    wanted = {"o": np.stack([x[0] + x[1]] * 2), "p": (x[0] + x[1]) * x, "shared": x[0] + x[1]}
    rng, seen = random.Random(3), set()
    with Client() as client:
        stop, _ = client.launch(tmp_path / "k.jsonl", stopOnEntry=True)
        moves = ["stepIn"] * 24 + [rng.choice(["stepIn", "stepBack", "stepBack", "reverseContinue", "stepOut"])
                                   for _ in range(30)]
        for move in moves:
            scopes = client.scopes()
            engines = client.request("threads")["threads"]
            assert {name["name"].rsplit(" ", 1)[1] for name in engines[1:]} == {"0", "1"}
            for variable in client.variables(scopes["HBM"]):
                if variable["name"] not in wanted:
                    continue
                array = wanted[variable["name"]]
                found = np.frombuffer(client.memory(variable["memoryReference"], array.nbytes), np.float32)
                flags = client.evaluate(f'valid("{variable["name"]}").sum()')
                seen.add((variable["name"], flags))
                parts = list(zip(found.reshape(array.shape), array)) if array.ndim == 3 else [
                    (found.reshape(array.shape), array)]
                has = [np.array_equal(part, whole) for part, whole in parts]
                assert sum(has) * 128 * 64 == int(flags), variable
            stop = client.move(move)
            if stop["event"] == "terminated":
                break
    assert {(n, str(k * 8192)) for n in ("o", "p") for k in (0, 1, 2)} <= seen | {("o", "8192"), ("p", "8192")}
    assert ("shared", "8192") in seen


KERNEL = '''
import nki
import nki.isa as nisa
import nki.language as nl


# nkisim: x=f32[4,128,64]:normal
@nki.jit
def chain(x):
    print("a kernel's own print is no message of the protocol")
    o = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    for i in range(x.shape[0]):
        t = nl.ndarray((128, 64), dtype=nl.float32, buffer=nl.sbuf)
        u = nl.ndarray((128, 64), dtype=nl.float32, buffer=nl.sbuf)
        nisa.dma_copy(dst=t, src=x[i])
        nisa.tensor_scalar(dst=u, data=t, op0=nl.multiply, operand0=2.0)
        nisa.dma_copy(dst=o[i], src=u)
    return o
'''
LOAD, MULTIPLY, STORE = 15, 16, 17


@pytest.fixture(name="kernel")
def _kernel(tmp_path):
    path = tmp_path / "k.py"
    path.write_text(KERNEL)
    return path


def test_a_kernel_in_an_editor(kernel):
    """Breakpoint, step, read a tile, go on, and back."""
    with Client() as client:
        assert client.capabilities["supportsStepBack"] and client.capabilities["supportsReadMemoryRequest"]
        stop, points = client.launch(kernel, {kernel: [MULTIPLY, 1000]})
        assert [p["verified"] for p in points] == [True, False] and points[0]["line"] == MULTIPLY
        for n in range(4):
            assert stop["body"]["reason"] == "breakpoint" and stop["body"]["hitBreakpointIds"] == [points[0]["id"]]
            frame = client.frames()[0]
            assert frame["line"] == MULTIPLY and frame["source"]["path"] == str(kernel)
            name = "u" if n == 0 else f"u.{n}"
            difference = f'np.abs(tile["{name}"] - 2 * x[{n}]).max()'
            assert client.evaluate(f'{difference} if valid("{name}").all() else -1') == "0.0"
            assert client.evaluate('valid("u.3").any()') == str(n == 3)
            stop = client.move("continue")
        assert stop["body"]["reason"] == "pause" and "end" in stop["body"]["description"]
        assert client.evaluate('np.array_equal(o, 2 * x)') == "True"
        assert client.move("continue")["event"] == "terminated"
        stop = client.move("reverseContinue")
        assert client.frames()[0]["line"] == MULTIPLY and client.evaluate('valid("u.3").all()') == "True"
        client.move("stepBack")
        assert client.evaluate('valid("u.3").any()') == "False"
        rows = client.variables(client.scopes()["Engines"])
        assert any("tensor_scalar" in row["value"] for row in rows)
        for thread in client.request("threads")["threads"]:
            assert client.frames(thread["id"])


def test_conditions(kernel):
    with Client() as client:
        client.request("launch", program=str(kernel))
        client.wait("initialized")
        answer = client.request("setBreakpoints", source={"path": str(kernel)}, breakpoints=[
            {"line": MULTIPLY, "hitCondition": "3"}, {"line": STORE, "condition": 'valid("o")[2].all()'},
            {"line": LOAD, "hitCondition": "x"}])["breakpoints"]
        assert [p["verified"] for p in answer] == [True, True, False] and "whole number" in answer[2]["message"]
        client.request("configurationDone")
        stop = client.wait("stopped")
        assert stop["body"]["hitBreakpointIds"] == [answer[0]["id"]]
        assert client.evaluate('[valid("u.2").all(), valid("u.3").any()]').count("True") == 1
        seen = set()
        while "hitBreakpointIds" in stop["body"]:
            seen |= set(stop["body"]["hitBreakpointIds"])
            if answer[1]["id"] in stop["body"]["hitBreakpointIds"]:
                assert client.evaluate('valid("o")[2].all()') == "True"
            stop = client.move("continue")
        assert seen == {answer[0]["id"], answer[1]["id"]}


def test_marked_elements(tmp_path):
    """NaN, infinities and what was never written, in a variable, its rows and a picture."""
    x = np.ones((128, 8), np.float32)
    x[1, 2], x[3, 4], x[5, 6] = np.nan, np.inf, -np.inf
    np.savez(tmp_path / "k.npz", x=x)
    trace = write_trace(tmp_path / "k.jsonl", [
        {"nisa": 1, "target": "trn2"},
        {"tensor": {"name": "x", "space": "hbm", "shape": [128, 8], "dtype": "float32", "role": "input",
                    "data": {"npz": "k.npz", "key": "x"}}},
        {"tensor": {"name": "o", "space": "hbm", "shape": [128, 8], "dtype": "float32", "role": "output"}},
        {"tensor": {"name": "a", "space": "sbuf", "shape": [128, 16], "dtype": "float32", "address": 0}},
        {"i": "dma_copy", "dst": "a[:, 0:8]", "src": "x"},
        {"i": "dma_copy", "dst": "o", "src": "a[:, 0:8]"}])
    with Client() as client:
        client.launch(trace, {trace: [5]})
        a = client.variables(client.scopes()["SBUF and PSUM"])[0]
        assert "1024 never written, 1 NaN, 2 infinite" in a["value"] and a["indexedVariables"] == 128
        rows = client.variables(a["variablesReference"], filter="indexed", start=1, count=5)
        assert [row["name"] for row in rows] == ["[1]", "[2]", "[3]", "[4]", "[5]"]
        values = [[e["value"] for e in client.variables(row["variablesReference"])] for row in rows]
        assert values[0][2] == "NaN" and values[2][4] == "inf" and values[4][6] == "-inf" and values[1][0] == "1"
        assert all(row[8:] == ["never written"] * 8 for row in values)
        said, *picture = client.evaluate("picture a", "repl").splitlines()
        assert said == a["value"]
        assert len(picture) == 16 and picture[0][2] == "!" and picture[0][4] == picture[0][6] == "^"
        assert all(line[8:] == "?" * 8 for line in picture)
        assert "?" in client.evaluate("table a", "repl")


@pytest.mark.parametrize(("expression", "text"), [
    ("__import__('os').system('id')", "called"), ("np.load", "not allowed"), ("np.fromfile('x')", "not allowed"),
    ("t.__class__", "not allowed"), ("t.tofile('x')", "not allowed"), ("().__class__", "not allowed"),
    ("9 ** 9 ** 9", "too large"), ("open('x')", "called"), ("[t for t in t]", "not allowed"), ("u + 1", "u is"),
    ("t[:, :, None, None] * t[None, None]", "elements"), ("lambda: 1", "not allowed"), ("1 +", "not an expression"),
    ("np.lib.format", "not allowed"), ("np.add.outer(t, t)", "not allowed"), ("t.astype('S99999999')", "not allowed")])
def test_watches_are_safe(kernel, expression, text):
    from nkisim_debug.watch import BadExpression, evaluate  # the server's own, without a process for each
    from nkisim_debug.tile import Tile
    shape = np.zeros((4096, 64), np.float32)
    with pytest.raises(BadExpression, match=text):
        evaluate(expression, ["t"], lambda name: Tile(name, "sbuf", 0, "float32", shape, shape == 0, []))


@pytest.mark.parametrize(("words", "text"), [
    ({}, "program is missing"), ({"program": "nothing.jsonl"}, "is not a file"),
    ({"program": "nothing.py:f"}, "nothing.py"), ({"program": "k.py:other"}, "chain"),
    ({"program": "k.py", "stepTime": "soon"}, "a time such as 1us")])
def test_refused(kernel, words, text):
    with Client(cwd=kernel.parent) as client:
        answer = client.ask("launch", **words)
        assert not answer["success"] and text in answer["message"] and "Traceback" not in answer["message"]
        assert not client.ask("stackTrace", threadId=1)["success"]
        assert not client.ask("gotoTargets", source={}, line=1)["success"]


def test_only_requests_of_the_user_open_a_window(kernel):
    """VS Code opens one for each refusal with showUser, and evaluates whatever the mouse rests on."""
    with Client(cwd=kernel.parent) as client:
        assert client.ask("launch")["body"]["error"]["showUser"]
        assert client.ask("launch", program="k.py")["success"]
        for expression, context in (("", "hover"), ("nl", "watch"), ("1 +", "repl")):
            answer = client.ask("evaluate", expression=expression, context=context)
            assert answer["message"] and not answer["body"]["error"]["showUser"]


def test_a_run_that_fails(tmp_path):
    """A deadlock: what was complete before it is there, and the server says what ended the run."""
    trace = write_trace(tmp_path / "k.jsonl", [
        {"nisa": 1, "target": "trn2", "semaphores": "explicit"},
        {"tensor": {"name": "o", "space": "hbm", "shape": [128, 4], "dtype": "float32", "role": "output"}},
        {"tensor": {"name": "a", "space": "sbuf", "shape": [128, 4], "dtype": "float32", "address": 0}},
        {"i": "memset", "dst": "a", "value": 1.0, "engine": "vector", "post": [[2, "++"]]},
        {"i": "dma_copy", "dst": "o", "src": "a", "wait": [[3, ">=", 1]]}])
    with Client() as client:
        stop, _ = client.launch(trace)
        assert stop["body"]["reason"] == "exception" and "S[3]" in stop["body"]["description"]
        assert client.evaluate("a.sum()") == "512.0" and client.evaluate('valid("o").any()') == "False"
        assert client.variables(client.scopes()["Semaphores"]) == [
            {"name": "S[2] of core 0", "value": "1", "variablesReference": 0}]
        waits = [row["value"] for row in client.variables(client.scopes()["Engines"])]
        assert waits


def test_the_prompt(kernel, tmp_path):
    script = textwrap.dedent(f"""\
        break {MULTIPLY}
        continue
        watch np.abs(t).max()
        tiles t u
        engines
        step 1us
        back
        reverse
        goto 1s
        table o
        print (o == 2 * x).all()
        """)
    said = cli("debug", kernel, input=script).stdout
    assert f"breakpoint 1: {kernel}:{MULTIPLY}" in said and "12 of 12 complete" in said
    assert said.rstrip().endswith("True") and "np.abs(t).max() = " in said and "waits for" in said
    wrong = cli("debug", kernel, input="fly\nprint nothing\n", code=3).stdout
    assert "'fly' is no command" in wrong and "nothing is not a tensor" in wrong
    # The rule of the recording, once.
    assert cli("debug", kernel, "--arg", "x=f32[4", code=2).stderr.count("[option_value]") == 1


def test_a_notebook():
    x = np.ones((2, 128, 64), np.float32)
    result = nkisim.run(exchange_between_cores, x, grid=2, target="trn2")
    from nkisim_debug import Debugger
    d = Debugger(result)
    d.go(d.end)
    np.testing.assert_array_equal(d.tile("o").values, result.outputs[0])
    assert "complete" in d._repr_html_() and "<svg" in d.tile("o")._repr_html_()


def test_a_step_executes_little(tmp_path):
    """In a long program, a step executes what is new, and a step back at most what lies behind the last copy."""
    from nkisim_debug import Debugger
    names = [f"t{n}" for n in range(8)]
    rng = random.Random(1)
    steps = [rng.sample(names, 2) for _ in range(20000)]
    trace = write_trace(tmp_path / "k.jsonl", [
        {"nisa": 1, "target": "trn2"},
        {"tensor": {"name": "o", "space": "hbm", "shape": [128, 4], "dtype": "float32", "role": "output"}},
        *({"tensor": {"name": name, "space": "sbuf", "shape": [128, 4], "dtype": "float32", "address": 16 * n}}
          for n, name in enumerate(names)),
        *({"i": "memset", "dst": name, "value": float(n), "engine": "vector"} for n, name in enumerate(names)),
        *({"i": "tensor_scalar", "dst": a, "data": b, "op0": "add", "operand0": 1.0, "engine": "vector"}
          for a, b in steps),
        {"i": "dma_copy", "dst": "o", "src": "t0"}])
    values, d = [dict(zip(names, range(8)))], Debugger(trace)
    for a, b in steps:
        values.append({**values[-1], a: values[-1][b] + 1})
    for move in (lambda: d.go(d.end * 9 // 10), d.step, lambda: d.step(-1), lambda: d.go(d.end // 3), d.step,
                 lambda: d.step(-5), lambda: d.go(d.end)):
        move()
        before = d.run.executed
        n = min(max(d.complete - len(names), 0), len(steps))
        assert {name: t.values[0, 0] for name, t in d.tiles(names).items()} == values[n]
        executed = d.run.executed - before
    far = d.run.executed
    for _ in range(30):
        d.step(-1)
        d.tile("t1")
    assert d.run.executed - far <= 30 * 1024 and executed <= 20100
    there = d.run.executed
    for _ in range(30):
        d.step()
        d.tile("t1")
    assert d.run.executed - there <= 30 * 4 + 1024
