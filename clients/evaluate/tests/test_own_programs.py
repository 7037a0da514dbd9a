"""Tests submitted kernels that hand in instructions of their own making, or lie about their
results: none is rated better than the honest kernel with the same instructions. Flags are
allowed here: some can be hidden.
"""

import json

import pytest

from nkisim_evaluate import Evaluator, Settings
from candidates import HEAD

pytestmark = [pytest.mark.process, pytest.mark.apart]

#: Each asks for twice its input, with a tolerance that a rounding to bfloat16 passes.
DOUBLE = """
import numpy as np
SEEDS, REL_L2 = (0, 1), 2e-2
def inputs(seed): return (np.random.default_rng(seed).standard_normal((128, 512)).astype(np.float32),)
def reference(x): return x * 2
"""
POSITIVE = DOUBLE.replace("x * 2", "(x > 0).astype(np.float32)")
COUNTS = DOUBLE.replace("x * 2", "(x > 0).astype(np.int32)").replace("REL_L2, 2e-2", "RTOL")
OF_INTEGERS = DOUBLE.replace("standard_normal((128, 512)).astype(np.float32)", "integers(0, 9, (128, 512), np.int32)"
                             ).replace("x * 2", "x.astype(np.float32) * 2")
KERNEL = HEAD + """
BEFORE
@nki.jit
def kernel(x):
    out = nl.ndarray(x.shape, dtype=DTYPE, buffer=nl.shared_hbm)
    t = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    u = nl.ndarray(x.shape, dtype=DTYPE, buffer=nl.sbuf)
    nisa.dma_copy(dst=t, src=x)
    nisa.tensor_scalar(dst=u, data=t, op0=OP, operand0=NUMBER)
    nisa.dma_copy(dst=out, src=u)
    return out
"""
PROGRAM = """
import json
C = sys.modules["nkisim_evaluate.candidate"]
L = [{"nisa": 1, "target": "trn2", "name": "kernel", "addresses": "open"}]
X = {"role": "input", "data": {"npz": "data.npz", "key": "arg0"}}
def T(name, space="hbm", dtype="float32", shape=(128, 512), **more):
    L.append({"tensor": {"name": name, "space": space, "dtype": dtype, "shape": list(shape), **more}})
def I(op, **more):
    L.append({"i": op, **more})
def doubles(source="x", dst="out", **more):
    I("dma_copy", dst="t", src=source, **more)
    I("tensor_scalar", dst="t", data="t", op0="multiply", operand0=2.0, engine="vector")
    I("dma_copy", dst=dst, src="t", **more)
LINES
old = C._SAVE
def saved(program, path, *more):
    old(program, path, *more)
    with open(path, "w") as file:
        file.write("\\n".join(map(json.dumps, L)) + "\\n")
C._SAVE = saved
C._layout = lambda t: {**{"tensor": "out", "shape": [128, 512], "dtype": "float32", "offset": 0, "strides": [512, 1]},
                       **SAID}
"""
ALL = "T('x', **X); T('out', role='output'); T('t', 'sbuf'); "


def kernel(before="", dtype="nl.float32", op="nl.multiply", number="2.0"):
    return KERNEL.replace("BEFORE", before).replace("DTYPE", dtype).replace("OP", op).replace("NUMBER", number)


def program(lines, said="{}"):
    return kernel(PROGRAM.replace("LINES", lines).replace("SAID", said))


#: name: a program of the same instructions that claims something, and what it comes to: refused, or as slow as honest.
PROGRAMS = {
    "the honest one": ALL + "doubles()",
    "an argument as bfloat16": "T('x', dtype='bfloat16', **X); T('out', role='output'); T('t', 'sbuf', 'bfloat16'); "
                               "T('u', 'sbuf'); I('dma_copy', dst='t', src='x'); I('tensor_scalar', dst='u', data='t', "
                               "op0='multiply', operand0=2.0); I('dma_copy', dst='out', src='u')",
    "an argument as float16": "T('x', dtype='float16', **X); T('out', role='output'); T('t', 'sbuf'); doubles()",
    "an argument as int32": "T('x', dtype='int32', **X); T('out', role='output'); T('t', 'sbuf'); doubles()",
    "an argument of half its size": "T('x', shape=(64, 512), **X); T('out', role='output'); T('t', 'sbuf'); doubles()",
    "an argument in another shape": "T('x', shape=(512, 128), **X); T('out', role='output'); T('t', 'sbuf'); doubles()",
    "an argument in one row": "T('x', shape=(65536,), **X); T('out', role='output'); T('t', 'sbuf'); doubles('x')",
    "an argument on the chip": "T('x', 'sbuf', **X); T('out', role='output'); T('t', 'sbuf'); doubles()",
    "an argument in PSUM": "T('x', 'psum', **X); T('out', role='output'); T('t', 'sbuf'); doubles()",
    "a result on the chip": "T('x', **X); T('out', 'sbuf', role='output'); T('t', 'sbuf'); doubles()",
    "a result of half the bytes": "T('x', **X); T('out', dtype='bfloat16', role='output'); T('t', 'sbuf'); doubles()",
    "a result of half the rows": "T('x', **X); T('out', shape=(64, 512), role='output'); T('t', 'sbuf'); "
                                 "doubles('x', 'out')",
    "a result at its argument's address": "T('x', address=4096, **X); T('out', address=4096, role='output'); "
                                          "T('t', 'sbuf', shape=(1, 1)); I('dma_copy', dst='t', src='x[0:1, 0:1]'); "
                                          "I('dma_copy', dst='out[0:1, 0:1]', src='t')",
    "addresses that overlap": "T('x', address=4096, **X); T('out', address=8192, role='output'); T('t', 'sbuf'); "
                              "doubles()",
    "an address below 0": "T('x', address=-4096, **X); T('out', role='output'); T('t', 'sbuf'); doubles()",
    "its argument as the result": "T('out', **{**X, 'role': 'inputoutput'}); T('t', 'sbuf'); "
                                  "I('dma_copy', dst='t', src='out'); I('dma_copy', dst='out', src='t')",
    "a result with data": ALL.replace("role='output'", "role='output', data={'generator': 'zeros'}") + "doubles()",
    "data on the chip": ALL + "T('c', 'sbuf', role='constant', data={'generator': 'zeros'}); doubles()",
    "the argument of another rank": ALL.replace("**X", "role='input', data={'npz': 'data.npz', 'key': 'arg{rank}'}")
                                    + "doubles()",
    "no argument of that name": ALL.replace("**X", "role='input', data={'npz': 'data.npz', 'key': 'argument'}")
                                + "doubles()",
    "its argument as a constant": ALL.replace("**X", "**{**X, 'role': 'constant'}") + "doubles()",
    "its argument as what it has itself": ALL.replace("**X", "**{**X, 'role': 'internal'}") + "doubles()",
    "an archive of the folder above": ALL.replace("**X", "role='input', data={'npz': '../data.npz', 'key': 'arg0'}")
                                      + "doubles()",
    "numbers of its own": ALL.replace("**X", "role='input', data={'generator': 'normal', 'seed': 0}") + "doubles()",
    "a spill tensor as its argument": ALL.replace("**X", "spill=True, **X") + "doubles()",
    "a spill tensor between": ALL + "T('s', spill=True); doubles(); I('dma_copy', dst='s', src='t')",
    "tiles at one address": ALL.replace("T('t', 'sbuf')", "T('t', 'sbuf', address=0); T('v', 'sbuf', address=0)")
                            + "I('memset', dst='v', value=1.0); doubles()",
    "a tile beyond the chip": ALL.replace("T('t', 'sbuf')", "T('t', 'sbuf', address=1 << 40)") + "doubles()",
    "tiles without end": ALL + "[T(f'v{n}', 'sbuf', shape=(128, 8192)) for n in range(8)]; "
                         "[I('memset', dst=f'v{n}', value=1.0) for n in range(8)]; doubles()",
    "a copy that its readers may pass over": ALL + "doubles(forward=True)",
    "an engine that has no such instruction": ALL + "doubles(); I('tensor_scalar', dst='t', data='t', op0='add', "
                                              "operand0=0.0, engine='tensor')",
    "a loop that has no end": ALL + "I('loop_begin', engine='sync', register='r1', start=0, stop=4, step=1); doubles()",
    "a larger machine": "L[0]['machine'] = {'pe_rows': 256, 'hash': '0'}; " + ALL + "doubles()",
    "four cores": "L[0]['cores'] = 4; " + ALL + "doubles()",
    "a core that it does not declare": ALL + "doubles(core=1)",
    "another release": "L[0]['sdk'] = '2.20'; " + ALL + "doubles()",
    "the other API": "L[0]['api'] = 'neuronxcc'; " + ALL + "doubles()",
    "placed": "L[0]['addresses'] = 'physical'; " + ALL + "doubles()",
    "not to be placed": "L[0]['addresses'] = 'virtual'; " + ALL + "doubles()",
    "as it was executed": "L[0]['stream'] = 'executed'; " + ALL + "doubles()",
    "eight ranks": "L[0]['ranks'] = 8; " + ALL + "doubles()",
    "semaphores of its own": "L[0]['semaphores'] = 'explicit'; " + ALL + "doubles()",
    "a queue of its own": ALL + "doubles(dma={'queue': 'q', 'packets': [[0, 0, 1]]})",
    "two headers": ALL + "doubles(); L.append(dict(L[0], cores=2))",
    "a name of megabytes": "L[0]['name'] = 'x' * (8 << 20); " + ALL + "doubles()",
    "texts of megabytes": "L[0]['about'] = '<script>' * (1 << 20); " + ALL + "doubles(label='y' * 100000)",
    "an instruction that is unknown": ALL + "doubles(); I('isa', engine='sync', opcode='NOTHING')",
    "what waits for itself": ALL + "doubles(id=1, after=[1])",
    "an operation between ranks": "T('x', **X); T('out', role='output'); I('collective_permute_implicit_reduce', "
                                  "srcs0_by_channel=['x'], srcs1_by_channel=['x'], dsts_by_channel=['out'], "
                                  "replica_group=[[0]], op='add')",
    "a barrier with itself": ALL + "doubles(); I('core_barrier', data='out', cores=[0, 1])",
}
ENDLESS = ALL + ("I('loop_begin', engine='sync', register='r1', start=0, stop=2147483647, step=1); "
                 "I('memset', dst='t', value=0.0); I('loop_end', engine='sync'); doubles()")
#: name: (reference, kernel). Results with fewer bytes than the reference's, which a comparison of numbers lets pass.
NARROWER = {
    "zeros and ones as bytes": (POSITIVE, "nl.uint8", "nl.greater", "0.0"),
    "zeros and ones as signed bytes": (POSITIVE, "nl.int8", "nl.greater", "0.0"),
    "zeros and ones of 16 bits": (POSITIVE, "nl.uint16", "nl.greater", "0.0"),
    "zeros and ones as bfloat16": (POSITIVE, "nl.bfloat16", "nl.greater", "0.0"),
    "counts as bytes": (COUNTS, "nl.uint8", "nl.greater", "0.0"),
    "counts as bfloat16": (COUNTS, "nl.bfloat16", "nl.greater", "0.0"),
    "numbers of integers as bfloat16": (OF_INTEGERS, "nl.bfloat16", "nl.multiply", "2.0"),
}
#: name: what the process says of its result.
SAID = {
    "a result of other rows": "{'shape': [64, 1024], 'strides': [1024, 1]}",
    "a result of a wider type": "{'dtype': 'float64'}",
    "a result of another type": "{'dtype': 'int32'}",
    "a result that is none": "{'tensor': 't'}",
    "a result backwards": "{'strides': [-512, 1], 'offset': 127 * 2048}",
    "a result of no dimension": "{'shape': [], 'strides': []}",
    "a result of a dimension more": "{'shape': [1, 128, 512], 'strides': [9, 512, 1]}",
}
#: Candidates as a pipe or an agent would hand them in.
ITEMS = {
    "a grid of many cores": {"grid": [64]}, "a grid of two axes": {"grid": [2, 2]}, "a grid below 0": {"grid": -2},
    "a grid that is no number": {"grid": "2"}, "a target of its own": {"target": "trn3"},
    "its own API": {"apis": ["neuronxcc"]}, "its own text": {"text": "1"}, "its own folder": {"folder": "/"},
    "a kernel's name of another place": {"kernel": "os.system"}, "parameters that it lacks": {"params": {"x": 1}},
}


def honest_of(judge, source):
    record = judge.evaluate({"id": "honest", "source": source})
    assert record["status"] == "ok", record
    return record["latency_us"]


def without_gain(record, honest):
    assert len(json.dumps(record, allow_nan=False)) < 1 << 20
    assert record["status"] != "ok" or record["latency_us"] >= honest, record


@pytest.fixture(scope="module")
def doubled(tmp_path_factory):
    """(a warm judge of DOUBLE, the honest kernel's latency)."""
    path = tmp_path_factory.mktemp("reference") / "reference.py"
    path.write_text(DOUBLE)
    with Evaluator(Settings(path, target="trn2", timeout=60, allow_flags=True), 1) as judge:
        yield judge, honest_of(judge, kernel())


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_of_its_own(name, doubled):
    judge, honest = doubled
    record = judge.evaluate({"id": name, "source": program(PROGRAMS[name])})
    without_gain(record, honest)
    if name == "the honest one":
        assert record["status"] == "ok" and record["latency_us"] == honest, record


@pytest.mark.slow
def test_a_program_that_never_ends(tmp_path):
    (tmp_path / "reference.py").write_text(DOUBLE)
    with Evaluator(Settings(tmp_path / "reference.py", target="trn2", timeout=5, allow_flags=True), 1) as judge:
        assert judge.evaluate({"source": program(ENDLESS)})["status"] == "timeout"


@pytest.mark.parametrize("name", SAID)
def test_a_result_that_is_claimed_to_be_another(name, doubled):
    judge, honest = doubled
    without_gain(judge.evaluate({"id": name, "source": program(PROGRAMS["the honest one"], SAID[name])}), honest)


@pytest.mark.parametrize("name", ITEMS)
def test_a_submitted_kernel_that_asks_for_more(name, doubled):
    judge, honest = doubled
    without_gain(judge.evaluate({"id": name, "source": kernel(), **ITEMS[name]}), honest)


@pytest.mark.parametrize("name", NARROWER)
def test_a_result_of_fewer_bytes(name, tmp_path):
    reference, dtype, op, number = NARROWER[name]
    (tmp_path / "reference.py").write_text(reference)
    with Evaluator(Settings(tmp_path / "reference.py", target="trn2", timeout=30), 1) as judge:
        wide = "nl.int32" if reference is COUNTS else "nl.float32"
        honest_of(judge, kernel(dtype=wide, op=op, number=number))
        record = judge.evaluate({"id": name, "source": kernel(dtype=dtype, op=op, number=number)})
    assert record["status"] == "wrong" and "narrower" in record["error"]["message"], record
