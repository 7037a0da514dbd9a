"""Tests `nkisim advise`: a kernel changed as it proposes takes the predicted time and computes the
same bits.
"""
import json
import time

import numpy as np
import pytest
from running import ROOT, cli, write_trace

from nkisim_advise import BadProgram, advise, buffers, search
from nkisim_advise.edit import Edit
from nkisim_advise.program import Program
from nkisim_advise.facts import element_bytes
from nkisim_advise.operand import is_whole, parse

pytestmark = pytest.mark.process

KERNEL = '''
import nki, nki.isa as nisa, nki.language as nl

def tile(shape):
    return nl.ndarray(shape, dtype=nl.float32, buffer=nl.sbuf)

@nki.jit
def again(a, w):
    """Loads w anew for each block of a."""
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    for n in range(16):
        x, y = tile((128, 512)), tile((128, 512))
        nisa.dma_copy(dst=x, src=a[n * 128:(n + 1) * 128, :])
        nisa.dma_copy(dst=y, src=w)
        nisa.tensor_tensor(dst=x, data1=x, data2=y, op=nl.add)
        nisa.dma_copy(dst=out[n * 128:(n + 1) * 128, :], src=x)
    return out

@nki.jit
def once(a, w):
    """Loads it once."""
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    y = tile((128, 512))
    for n in range(16):
        x = tile((128, 512))
        nisa.dma_copy(dst=x, src=a[n * 128:(n + 1) * 128, :])
        if n == 0:
            nisa.dma_copy(dst=y, src=w)
        nisa.tensor_tensor(dst=x, data1=x, data2=y, op=nl.add)
        nisa.dma_copy(dst=out[n * 128:(n + 1) * 128, :], src=x)
    return out

@nki.jit
def one(a, w):
    """One tile for all blocks, filled and then changed in place."""
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    x, y = tile((128, 512)), tile((128, 512))
    nisa.dma_copy(dst=y, src=w)
    for n in range(16):
        nisa.dma_copy(dst=x, src=a[n * 128:(n + 1) * 128, :])
        nisa.tensor_tensor(dst=x, data1=x, data2=y, op=nl.add)
        nisa.dma_copy(dst=out[n * 128:(n + 1) * 128, :], src=x)
    return out

@nki.jit
def often(a, w):
    """Loads the same tile eight times over."""
    out = nl.ndarray(w.shape, dtype=w.dtype, buffer=nl.shared_hbm)
    y = tile((128, 512))
    for n in range(8):
        nisa.dma_copy(dst=y, src=w)
    nisa.dma_copy(dst=out, src=y)
    return out
'''
MANY = """
import nki, nki.isa as nisa, nki.language as nl

@nki.jit
def many(a_t, b, c):
    out = nl.ndarray((256, 2048), dtype=nl.float32, buffer=nl.shared_hbm)
    sums = nl.ndarray((128, 8), dtype=nl.float32, buffer=nl.shared_hbm)
    lhs = nl.ndarray((128, 128), dtype=nl.float32, buffer=nl.sbuf)
    rhs = [[nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.sbuf) for n in range(4)] for k in range(2)]
    for k in range(2):
        for n in range(4):
            nisa.dma_copy(dst=rhs[k][n], src=b[k * 128:(k + 1) * 128, n * 512:(n + 1) * 512])
    for m in range(2):
        left = [nl.ndarray((128, 128), dtype=nl.float32, buffer=nl.sbuf) for k in range(2)]
        for k in range(2):
            nisa.dma_copy(dst=left[k], src=a_t[k * 128:(k + 1) * 128, m * 128:(m + 1) * 128])
        for n in range(4):
            bias = nl.ndarray((128, 1), dtype=nl.float32, buffer=nl.sbuf)
            nisa.dma_copy(dst=bias, src=c)
            total = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.psum)
            for k in range(2):
                nisa.nc_matmul(dst=total, stationary=left[k], moving=rhs[k][n])
            x = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.sbuf)
            y = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.sbuf)
            z = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.sbuf)
            s = nl.ndarray((128, 1), dtype=nl.float32, buffer=nl.sbuf)
            nisa.tensor_copy(dst=x, src=total)
            nisa.tensor_scalar(dst=y, data=x, op0=nl.multiply, operand0=0.37)
            nisa.tensor_scalar(dst=z, data=y, op0=nl.add, operand0=bias)
            w = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.sbuf)
            nisa.activation(dst=w, op=nl.tanh, data=z)
            nisa.tensor_reduce(dst=s, op=nl.add, data=w, axis=1)
            e = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.sbuf)
            nisa.tensor_scalar(dst=e, data=rhs[0][n], op0=nl.subtract, operand0=bias)
            nisa.tensor_tensor(dst=e, data1=x, data2=e, op=nl.subtract)
            nisa.dma_copy(dst=out[m * 128:(m + 1) * 128, n * 512:(n + 1) * 512], src=e)
            nisa.dma_copy(dst=sums[:, m * 4 + n:m * 4 + n + 1], src=s)
    return out, sums
"""
ARGUMENTS = "--arg", "a=f32[2048,512]:normal", "--arg", "w=f32[128,512]:normal"


@pytest.fixture()
def recorded(tmp_path):
    """The trace of a function of KERNEL, as recorded."""
    file = tmp_path / "k.py"
    file.write_text(KERNEL)

    def of(name):
        cli("kernel", f"{file}:{name}", *ARGUMENTS, "--save-recorded", tmp_path / f"{name}.jsonl")
        return tmp_path / f"{name}.jsonl"
    return of


def latency(trace):
    return json.loads(cli("run", trace, "--timing-only", "--json").stdout)["latency_us"]


def test_a_tile_kept_takes_what_the_kernel_that_loads_it_once_takes(recorded):
    found = advise(recorded("again"))
    kept = next(f for f in found.findings if f.edit.kind == "keep")
    assert kept.latency_us == pytest.approx(latency(recorded("once")), rel=1e-6)
    assert kept.gain == pytest.approx(1 - kept.latency_us / found.latency_us)
    assert "16 DMAs load 1 different tile of" in kept.edit.say and kept.edit.line.endswith("k.py:14")
    low, high = kept.interval
    assert low < kept.gain < high
    assert found.combined_us <= min(f.latency_us for f in found.findings)
    worth = [search._worth(f.edit, f.gain) for f in found.findings]
    assert worth == sorted(worth, reverse=True)


def test_a_tile_changed_in_place_is_filled_once_an_iteration(recorded, tmp_path):
    [edit] = buffers.edits(Program.read(recorded("one"), tmp_path))
    assert edit.say.startswith("1 tile in SBUF of 2 KiB per partition is filled 16 times: ")  # not 32


def test_only_chosen_tiles_are_split(recorded, tmp_path):
    program, asked = Program.read(recorded("one"), tmp_path), []
    assert buffers.split(program, lambda name, iterations: asked.append((name, len(iterations)))) is None
    assert [iterations for _, iterations in asked] == [16]  # that which is filled in the loop; the other has one life
    split = buffers.split(program, lambda name, iterations: True)
    assert len(split.tensors) == len(program.tensors) + 15 and program.tensors.keys() <= split.tensors.keys()


def test_a_change_of_values_is_dropped_and_counted(recorded, monkeypatch):
    class Wrong:
        @staticmethod
        def edits(program):
            yield Edit("wrong", next(iter(program.lines()))[0], "dma_copy", "compute something else",
                       lambda p: p.changed([i for i in p.insts if i["i"] != "tensor_tensor"]), "wrong")

    monkeypatch.setattr(search, "KINDS", (Wrong,))
    found = advise(recorded("again"))
    assert (found.tried, found.differ, found.findings, found.combined_us) == (1, 1, [], None)


@pytest.mark.parametrize("top", [1, 2, 3])
def test_the_first_findings_are_those_that_save_most(recorded, monkeypatch, top):
    def without(loads):  # of the eight
        return Edit("fewer", "k.py:1", "dma_copy", f"leave {loads} out", lambda p: p.changed(p.insts[loads:]), loads)

    monkeypatch.setattr(search, "KINDS", (type("Fewer", (), {"edits": lambda p: map(without, (2, 6, 4))}),))
    found = advise(recorded("often"), top=top, budget=1000)
    assert [f.edit.say for f in found.findings] == ["leave 6 out", "leave 4 out", "leave 2 out"][:top]


def test_the_budget_holds(recorded):
    """The program's own run has used up a budget of as much: nothing else is run."""
    found = advise(recorded("again"), budget=1)
    assert found.left > 0 and (found.tried, found.findings, found.combined) == (0, [], [])


def test_a_busy_machine_gives_the_same_advice(recorded, monkeypatch):
    """The budget is processor time: an hour that passes before each variant changes nothing."""
    clock, waited = time.monotonic, []
    quiet = advise(recorded("often"), budget=1000)
    monkeypatch.setattr(time, "monotonic", lambda: clock() + 3600 * len(waited))
    busy = advise(recorded("often"), budget=1000, said=waited.append)
    assert [f.edit.say for f in busy.findings] == [f.edit.say for f in quiet.findings] and busy.left == quiet.left == 0


def test_all_that_is_reported_was_simulated(recorded):
    said = json.loads(cli("advise", recorded("again"), "--json", "--top", "3").stdout)
    assert said["ok"] and 0 < len(said["findings"]) <= 3
    assert all(f["latency_us"] < said["latency_us"] and f["gain_percent"] > 0 for f in said["findings"])
    assert said["variants"]["simulated"] >= len(said["findings"])
    text = cli("advise", recorded("again")).stdout
    assert "k.py:14 dma_copy" in text and "bounds" in text and "times a run" in text


def test_a_kernel_file_and_what_is_no_program(tmp_path):
    (tmp_path / "k.py").write_text(KERNEL)
    assert "k.py:14 dma_copy" in cli("advise", f"{tmp_path / 'k.py'}:again", *ARGUMENTS).stdout
    assert "no such file" in cli("advise", tmp_path / "none.jsonl", code=3).stderr.lower()
    (tmp_path / "bad.jsonl").write_text('{"nisa": 1, "target": "trn2"}\n{"i": "nothing"}\n')
    assert "bad.jsonl:2" in cli("advise", tmp_path / "bad.jsonl", code=3).stderr
    with pytest.raises(BadProgram):
        advise(tmp_path / "bad.jsonl")


def test_a_placed_trace_is_advised_on_engines_alone():
    found = advise(ROOT / "traces" / "softmax.jsonl")
    assert found.tried and {f.edit.kind for f in found.findings} <= {"engine", "queue", "descriptors"}


def _drawn_slice(draw, shape):
    picked = []
    for n in shape:
        low, high = sorted(int(x) for x in draw.integers(0, n + 1, 2))
        if low == high or draw.random() < 0.25:
            picked.append(str(int(draw.integers(-n, n))))
        else:
            picked.append(f"{low}:{high}" + (f":{int(draw.integers(1, 4))}" if draw.random() < 0.3 else ""))
    return ",".join(picked)


def test_operands_mean_the_elements_that_numpy_selects(tmp_path):
    lines, meant = [{"nisa": 1, "target": "trn2"}], []
    for seed in range(40):
        draw = np.random.default_rng(seed)
        shape = tuple(int(n) for n in draw.integers(1, 9, draw.integers(1, 5)))
        text = _drawn_slice(draw, shape)
        x = eval(f"places[{text}]", {"places": np.arange(np.prod(shape)).reshape(shape)})  # NumPy's meaning of it
        meant.append(np.ravel(x))
        lines += [{"tensor": {"name": f"{name}{seed}", "space": "hbm", "dtype": "bfloat16", "shape": size,
                             "role": role}}
                  for name, size, role in (("x", list(shape), "input"), ("y", list(x.shape) or [1], "output"))]
        lines.append({"i": "dma_copy", "dst": f"y{seed}", "src": f"x{seed}[{text}]"})
    program = Program.read(write_trace(tmp_path / "k.jsonl", lines), tmp_path)
    for inst, places in zip(program.insts, meant, strict=True):
        ref = parse(inst["src"], program.tensors)
        got = np.array([ref.offset // element_bytes("bfloat16")])
        for step, count in ref.pattern:
            got = got[..., None] + step * np.arange(count)
        assert (got.ravel() == places).all()


def test_what_is_all_of_a_tile():
    tile = {"name": "t", "space": "sbuf", "dtype": "float32", "shape": [128, 4, 8]}

    def whole(*pattern, **more):
        return is_whole(parse({"tensor": "t", "partitions": 128, "ap": pattern, **more}, {}), tile)

    assert is_whole(parse("t", {"t": tile}), tile)
    assert whole((1, 32)) and whole((8, 4), (1, 8)) and whole((1, 8), (8, 4))  # in another order
    assert not whole((1, 32), partitions=64) and not whole((8, 3), (1, 8)) and not whole((0, 4), (1, 8))
    assert not whole((1, 32), offset=4) and not whole((1, 32), dynamic=[{"register": 1}])


def test_every_edit_of_every_kind_keeps_the_bits(tmp_path):
    (tmp_path / "k.py").write_text(MANY)
    words = ["--arg", "a_t=f32[256,256]:normal", "--arg", "b=f32[256,2048]:normal", "--arg", "c=f32[128,1]:normal"]
    trace = tmp_path / "k.jsonl"
    cli("kernel", f"{tmp_path / 'k.py'}:many", *words, "--save-recorded", trace)
    program = Program.read(trace, tmp_path)
    variant, outputs = tmp_path / "v.jsonl", tmp_path / "o.npz"

    def values(of):
        of.write(variant)
        done = cli("run", variant, "--functional", "--outputs", outputs, code=None)
        return {k: v.tobytes() for k, v in np.load(outputs).items()} if done.returncode == 0 else None

    reference, kinds = values(program), set()
    for edit in search.all_edits(program):
        changed = edit.apply(program)
        assert changed is not None, edit.say
        found = values(changed)
        if found is not None:
            assert found == reference, edit.say
            kinds.add((edit.kind, edit.what))
    assert {("keep", "dma_copy"), ("merge", "dma_copy"), ("weights", "nc_matmul"), ("engine", "tensor_copy"),
            ("fuse", "tensor_scalar"), ("fuse", "tensor_tensor"), ("fuse", "activation"), ("fuse", "tensor_reduce"),
            ("queue", "dma_copy")} <= kinds
    assert ("descriptors", "dma_copy") not in kinds  # software descriptors of inputs and outputs are the default


def test_a_kernel_by_its_time_alone(tmp_path):
    (tmp_path / "k.py").write_text(KERNEL)
    both = [json.loads(cli("kernel", f"{tmp_path / 'k.py'}:again", *ARGUMENTS, "--json", *more).stdout)["summary"]
            for more in ((), ("--timing-only",))]
    assert both[0] == both[1]
    said = cli("kernel", f"{tmp_path / 'k.py'}:again", *ARGUMENTS, "--timing-only", "--expect", "once", code=2).stderr
    assert "--timing-only computes no values" in said


def test_the_report_has_the_advice(recorded, tmp_path):
    trace = recorded("again")
    cli("advise", trace, "--html", tmp_path / "k.html")
    page = (tmp_path / "k.html").read_text()
    assert "<h2>Advice" in page and "load each once, before the loop" in page and "<title>again.jsonl" in page
    cli("run", trace, "--html", tmp_path / "plain.html")
    assert "<h2>Advice" not in (tmp_path / "plain.html").read_text() and "@ADVICE@" not in page
