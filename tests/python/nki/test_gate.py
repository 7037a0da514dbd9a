"""Tests that --strict names exactly the forms that the compiler of an SDK release refuses."""

import json
import pathlib

import numpy as np
import pytest

import nkisim
from running import ROOT, cli
from strict_findings import findings, findings_and_warnings

nkisim.install()

import neuronxcc.nki as legacy  # noqa: E402
import neuronxcc.nki.language as old  # noqa: E402
import nki.isa as nisa  # noqa: E402
import nki.language as nl  # noqa: E402

SDKS = ["2.28", "2.29", "2.30", "2.31", "2.32", "2.33"]


def sbuf(name, shape, dtype="float32", address=0):
    return {"tensor": {"name": name, "space": "sbuf", "dtype": dtype, "shape": shape,
                       "address": address}}


A, B, C = (sbuf(n, [128, 64], address=a) for n, a in zip("abc", (0, 1024, 2048)))
I32 = sbuf("i", [128, 64], "int32", 4096)
FN = sbuf("f", [128, 64], "float8_e4m3fn", 8192)
PSUM = {"tensor": {"name": "p", "space": "psum", "dtype": "float32", "shape": [64, 64],
                   "address": 0}}


def hbm(name, shape, dtype):
    return {"tensor": {"name": name, "dtype": dtype, "shape": shape, "role": "input",
                       "data": {"generator": "arange"}}}


def reduction(op, dtype, operator="add"):
    rows = 8 if op == "reduce_scatter" else 16
    return ([hbm("s", [16, 4], dtype), hbm("d", [rows, 4], dtype)],
            {"i": op, "srcs": ["s"], "dsts": ["d"], "replica_group": [[0, 1]], "op": operator,
             **({"collective_dim": 0} if op == "reduce_scatter" else {})})


def transpose(columns, mode="hwdge"):
    return ([hbm("s", [16, columns], "bfloat16"), sbuf("t", [columns, 16], "bfloat16")],
            {"i": "dma_transpose", "dst": "t", "src": "s", "dge_mode": mode})


def scatter(dtype):
    rows = {"tensor": "d", "ap": [[4, 16], [1, 4]], "dynamic": [{"vector": "x"}]}
    return ([hbm("d", [64, 4], dtype), sbuf("b", [16, 4], dtype), sbuf("x", [16, 1], "uint32", 4096)],
            {"i": "dma_compute", "dst": rows, "srcs": [rows, "b"], "reduce_op": "add"})


#: Programs of trn3: (tensors, instruction, releases that refuse it)
CASES = {
    "activate2": ([A, B], {"i": "activate2", "dst": "a", "op": "relu", "data": "b", "imm0": 1.0,
                           "imm1": 0.0, "op0": "multiply", "op1": "add"}, SDKS[:2]),
    "exponential": ([A, B], {"i": "exponential", "dst": "a", "src": "b"}, SDKS[:1]),
    "operator": ([A, B], {"i": "tensor_scalar", "dst": "a", "data": "b", "op0": "abs_max",
                          "operand0": 1.0}, SDKS[:2]),
    "known operator": ([A, B], {"i": "tensor_scalar", "dst": "a", "data": "b", "op0": "maximum",
                                "operand0": 1.0}, []),
    "reduction of two cores": ([A, B], {"i": "sendrecv_compute", "src": "a", "dst": "b", "send_to_rank": 1,
                                        "recv_from_rank": 1, "reduce_op": "add"}, SDKS[:5]),
    "scalar": ([sbuf("a", [1, 1], "int32")], {"i": "scalar_load", "dst": "r1", "src": "a"}, SDKS[:5]),
    "scalar of 64 bits": ([], {"i": "scalar_alu", "dst": "r1", "op": "add", "lhs": 1, "rhs": 2}, SDKS[:5]),
    "int64": ([hbm("a", [1, 1], "int64"), hbm("b", [1, 1], "int64")],
              {"i": "dma_copy", "dst": "b", "src": "a"}, SDKS[:5]),
    "e4m3fn product": ([FN, PSUM], {"i": "nc_matmul", "dst": "p", "stationary": "f",
                                    "moving": "f"}, SDKS[:2]),
    "e4m3fn copy": ([FN, A], {"i": "tensor_copy", "dst": "f", "src": "a"}, []),
    "integers over ranks": (*reduction("all_reduce", "int32"), SDKS),
    "floats over ranks": (*reduction("all_reduce", "float32"), []),
    "scattered integers over ranks": (*reduction("reduce_scatter", "uint32"), SDKS),
    "narrow integers over ranks": (*reduction("all_reduce", "int8"), []),
    "largest integers over ranks": (*reduction("all_reduce", "int32", "maximum"), []),
    "scatter that adds integers": (*scatter("int32"), SDKS),
    "scatter that adds floats": (*scatter("float32"), []),
    "sendrecv of one row": ([sbuf("a", [1, 4]), sbuf("b", [1, 4], address=1024)],
                            {"i": "sendrecv", "src": "a", "dst": "b", "send_to_rank": 0,
                             "recv_from_rank": 0, "pipe_id": 0}, []),
    "transpose of 64 columns": (*transpose(64), SDKS[:4]),
    "transpose of 128 columns": (*transpose(128), []),
    "transpose without the generator": (*transpose(64, "none"), []),
    "activation on GpSimd": ([A, B], {"i": "activation", "dst": "a", "op": "relu", "data": "b", "engine": "gpsimd"},
                             SDKS[:5]),
    "activate2 on GpSimd": ([A, B], {"i": "activate2", "dst": "a", "op": "relu", "data": "b", "imm0": 1.0, "imm1": 0.0,
                                     "op0": "multiply", "op1": "add", "engine": "gpsimd"}, SDKS[:5]),
    "activation on the scalar engine": ([A, B], {"i": "activation", "dst": "a", "op": "relu", "data": "b"}, []),
    "fused reduction": ([A, B, sbuf("r", [128, 1], address=16384)],
                        {"i": "scalar_tensor_tensor", "dst": "a", "data": "b", "op0": "add", "operand0": 1.0,
                         "op1": "add", "operand1": "b", "reduce_cmd": "reset_reduce", "reduce_op": "add",
                         "reduce_res": "r"}, SDKS[:5]),
    "partitions by bitwise_xor": ([sbuf("b", [128, 8], "int32"), sbuf("a", [1, 8], "int32", 1024)],
                                  {"i": "tensor_partition_reduce", "dst": "a", "op": "bitwise_xor", "data": "b"},
                                  SDKS[:5]),
    "sorted": ([sbuf("v", [16, 8], "bfloat16"), sbuf("x", [16, 8], "uint32", 1024),
                sbuf("s", [16, 8], "bfloat16", 2048)],
               {"i": "topk", "val_dst": "v", "idx_dst": "x", "src": "s", "n": 100, "sorted": True}, SDKS[:5]),
    "reversed predicate of a tile": ([A, B, sbuf("m", [128, 64], "uint8", 4096)],
                                     {"i": "tensor_copy_predicated", "dst": "a", "src": "b", "predicate": "m",
                                      "reverse_pred": True}, SDKS[5:]),
    "reversed predicate of a number": ([A, sbuf("m", [128, 64], "uint8", 4096)],
                                       {"i": "tensor_copy_predicated", "dst": "a", "src": 1.0, "predicate": "m",
                                        "reverse_pred": True}, []),
    "no result": ([A, B], {"i": "tensor_scalar_reduce", "dst": "a", "data": "b", "op0": "add",
                           "operand0": 1.0, "reduce_op": "add"}, SDKS[:4]),
}


def check(folder, tensors, instruction, sdk, target="trn3"):
    runs = [*({"i": "memset", "dst": t["tensor"]["name"], "value": 0} for t in tensors
              if t["tensor"].get("space") == "sbuf" and "float8" not in t["tensor"]["dtype"]),
            {**instruction, "loc": "k.py:7"}]
    head = {"nisa": 1, "target": target, "name": "k", "ranks": 2 if "op" in instruction and
            "replica_group" in instruction else 1}
    if instruction["i"] == "sendrecv_compute":  # the other core does the same
        head["cores"] = 2
        tensors = tensors + [{"tensor": {**t["tensor"], "name": t["tensor"]["name"] + "1", "core": 1}} for t in tensors]
        runs += [{k: v + "1" if k in ("dst", "src") else 0 if k.endswith("_rank") else v for k, v in run.items()} |
                 {"core": 1} for run in runs]
    lines = [head, *tensors, *runs]
    trace = folder / "k.jsonl"
    trace.write_text("".join(json.dumps(line) + "\n" for line in lines))
    words = ["--strict", "--sdk", sdk] if sdk else []
    return cli("check", trace, *words, code=None)


@pytest.mark.process
@pytest.mark.parametrize("case", CASES)
def test_a_release_refuses_what_its_notes_say(tmp_path, case):
    tensors, instruction, refused = CASES[case]
    plain = check(tmp_path, tensors, instruction, None)
    assert plain.returncode == 0, plain.stderr
    for sdk in SDKS:
        done = check(tmp_path, tensors, instruction, sdk)
        assert done.returncode == (3 if sdk in refused else 0), (sdk, done.stderr)
        if sdk in refused:
            assert f"SDK {sdk} refuses" in done.stderr and "k.py:7" in done.stderr


@pytest.mark.process
def test_a_run_time_column_was_an_instruction_until_2_30(tmp_path):
    instruction = {"i": "tensor_copy_dynamic_src", "dst": "a",
                   "src": {"tensor": "b", "partitions": 128, "ap": [[1, 64]],
                           "dynamic": [{"scalar": "i[0:1, 0:1]"}]}}
    for sdk, code in zip(SDKS, (0, 0, 3, 3, 3, 3)):
        done = check(tmp_path, [A, B, I32], instruction, sdk, "trn2")
        assert done.returncode == code, (sdk, done.stderr)


@pytest.mark.process
@pytest.mark.parametrize("cores, code", [((), 0), ((1,), 3), ((0, 1), 0)])
def test_cores_have_the_same_loops(tmp_path, cores, code):
    loop = [{"i": "loop_begin", "register": "r0", "start": 0, "stop": 2}, {"i": "loop_end"}]
    lines = [{"nisa": 1, "target": "trn2", "name": "k", "cores": 2},
             *({**line, "core": core} for core in cores for line in loop)]
    trace = tmp_path / "k.jsonl"
    trace.write_text("".join(json.dumps(line) + "\n" for line in lines))
    for sdk in SDKS:
        done = cli("check", trace, "--strict", "--sdk", sdk, code=None)
        assert done.returncode == (code if sdk != "2.28" else 0), (sdk, done.stderr)
        assert done.returncode == 0 or "differ between the cores" in done.stderr


@pytest.mark.process
def test_the_release_is_one_that_is_known(tmp_path):
    done = check(tmp_path, [A], {"i": "memset", "dst": "a", "value": 1.0}, "2.9")
    assert done.returncode == 3 and "2.20 to 2.33" in done.stderr


@pytest.mark.process
@pytest.mark.parametrize("sdk", SDKS)
@pytest.mark.parametrize("trace", sorted((ROOT / "traces").glob("*.jsonl")), ids=lambda p: p.stem)
def test_the_repositorys_traces_are_clean(trace, sdk):
    cli("check", trace, "--strict", "--sdk", sdk)


# ---- kernels ---------------------------------------------------------------------------------
def stored(tile):
    out = nl.ndarray(tile.shape, dtype=tile.dtype, buffer=nl.shared_hbm)
    nl.store(out, tile)
    return out


def divided(x):
    return stored(nl.divide(nl.load(x), nl.load(x)))


def remainder(x):
    return stored(nl.fmod(nl.load(x), 2.0))


def power_of_number(x):
    return stored(nl.power(nl.load(x), 2.0))


def broadcast(x):
    tile = nl.load(x)
    return stored(nl.add(tile, nl.load(x[:, 0:1])))


def multiplied(x):
    return stored(from_psum(nl.matmul(nl.load(x), nl.load(x))))


def from_psum(product):
    tile = nl.ndarray(product.shape, nl.float32, buffer=nl.sbuf)
    nisa.tensor_copy(tile, product)
    return tile


def seeded(x):
    nl.random_seed(3)
    return stored(nl.load(x))


def clean(x):
    tile = nl.load(x)
    product = from_psum(nl.matmul(tile, tile, transpose_x=True))
    return stored(nl.multiply(nl.softmax(product, axis=1), nl.reciprocal(nl.add(tile, 1.0))))


def float_for_integers(x):
    tile = nl.ndarray((128, 128), dtype=nl.int32, buffer=nl.sbuf)
    nisa.memset(tile, value=2.0)
    return stored(tile)


def zero_for_integers(x):
    tile = nl.ndarray((128, 128), dtype=nl.int32, buffer=nl.sbuf)
    nisa.memset(tile, value=0.0)
    return stored(tile)


X = np.random.default_rng(1).random((128, 128), np.float32) + 1


@pytest.mark.parametrize("kernel, word", [
    (divided, "divide"), (remainder, "fmod"), (power_of_number, "exponent"),
    (broadcast, "broadcast"), (multiplied, "transpose_x"), (seeded, "random_seed"),
    (float_for_integers, "memset"), (zero_for_integers, None),
    (clean, None)], ids=lambda v: getattr(v, "__name__", ""))
@pytest.mark.parametrize("sdk", ["", "2.28", "2.29", "2.32", "2.33"])
def test_kernels(kernel, word, sdk, monkeypatch):
    monkeypatch.setenv("NKISIM_STRICT", "1")
    monkeypatch.setenv("NKISIM_SDK", sdk)
    found = findings(lambda: nkisim.run(kernel, X))
    said = [text for _, _, text in found]
    if sdk == "2.28":  # which has no nl.load, for one: names are test_releases.py's matter
        said = [s for s in said if "is none of SDK 2.28" not in s]
    if word is None or sdk == "2.28":
        assert not said
    else:
        assert said and all(word in s for s in said)
        assert {pathlib.Path(file).name for file, _, _ in found} == {"test_gate.py"}


def findings_under_strict(monkeypatch, sdk, kernel, *args, **options):
    monkeypatch.setenv("NKISIM_STRICT", "1")
    monkeypatch.setenv("NKISIM_SDK", sdk)
    return [text for _, _, text in findings(lambda: nkisim.run(kernel, *args, **options))]


@pytest.mark.parametrize("sdk", SDKS)
def test_a_transpose_into_fewer_dimensions(sdk, monkeypatch):
    def kernel(x):
        out = nl.ndarray((64, 64), dtype=x.dtype, buffer=nl.shared_hbm)
        tile = nl.ndarray((64, 64), dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_transpose(dst=tile if full else tile.reshape((64, 1, 64)), src=x)
        nisa.dma_copy(dst=out, src=tile)
        return out

    x = np.zeros((64, 64), np.float32)
    for full in (True, False):
        try:
            said = findings_under_strict(monkeypatch, sdk, kernel, x)
        except nkisim.Error:
            continue
        assert bool(said) == (not full and sdk in SDKS[2:]), said


@pytest.mark.process
@pytest.mark.parametrize("sdk", SDKS)
@pytest.mark.parametrize("nested", [False, True])
def test_registers_carried_through_nested_loops(nested, sdk, tmp_path):
    loop = [{"i": "loop_begin", "register": "r0", "start": 0, "stop": 2},
            {"i": "loop_begin", "register": "r2", "start": 0, "stop": 2}][:1 + nested]
    lines = [{"nisa": 1, "target": "trn2"}, {"i": "register_alloc", "dst": "r1", "x": 0}, *loop,
             {"i": "register_alu", "dst": "r1", "op": "add", "lhs": "r1", "rhs": 1},
             *({"i": "loop_end"} for _ in loop)]
    trace = tmp_path / "k.jsonl"
    trace.write_text("".join(json.dumps(line) + "\n" for line in lines))
    done = cli("check", trace, "--strict", "--sdk", sdk, code=None)
    assert ("carried through nested" in done.stderr) == (nested and sdk in SDKS[2:]), done.stderr


def test_a_pair_of_cores_is_of_trn2(monkeypatch):
    def kernel(x):
        out = nl.ndarray((2, 128, 128), dtype=x.dtype, buffer=nl.shared_hbm)
        nl.store(out[nl.program_id(0)], nl.load(x))
        return out

    assert not findings_under_strict(monkeypatch, "2.32", kernel, X, grid=2, target="trn2")
    [said] = findings_under_strict(monkeypatch, "2.32", kernel, X, grid=2, target="trn1")
    assert "NCC_EARG001" in said


@pytest.mark.parametrize("sdk", SDKS)
def test_kernels_of_neuronxcc(sdk, monkeypatch):
    def kernel(x):
        out = old.ndarray(x.shape, dtype=x.dtype, buffer=old.shared_hbm)
        old.store(out, old.load(x))
        return out

    for on in ("1", "0"):  # a note where a release was asked for
        monkeypatch.setattr("nkisim.record.strict._reported", set())  # noted once of each kernel
        monkeypatch.setenv("NKISIM_STRICT", on)
        monkeypatch.setenv("NKISIM_SDK", sdk)
        found, notes = findings_and_warnings(lambda: legacy.jit(kernel)(X))
        reported = [text for _, _, text in found] if on == "1" else notes
        assert len(reported) == (sdk in SDKS[2:]), reported
        assert all("inside a kernel is a compilation error" in text for text in reported)


def test_without_strict_it_is_a_note(monkeypatch):
    monkeypatch.delenv("NKISIM_STRICT", raising=False)
    found, notes = findings_and_warnings(lambda: nkisim.run(divided, X))
    assert not found and len(notes) == 1 and "nl.divide is simulated alone" in notes[0]


def test_an_unknown_release_is_an_error(monkeypatch):
    monkeypatch.setenv("NKISIM_STRICT", "1")
    monkeypatch.setenv("NKISIM_SDK", "3.0")
    with pytest.raises(nkisim.Error, match="NKISIM_SDK"):
        nkisim.run(clean, X)


KERNEL = """
import nki
import nki.isa as nisa
import nki.language as nl


@nki.jit
def kernel(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.load(x)
    nisa.tensor_tensor(tile, tile, tile, nl.max)
    nl.store(out, nl.divide(tile, tile))
    return out
"""


@pytest.mark.process
@pytest.mark.parametrize("words, code", [((), 0), (("--sdk", "2.31"), 0), (("--strict", "--sdk", "2.31"), 3)])
def test_the_command_for_kernels(words, code, tmp_path):
    path = tmp_path / "k.py"
    path.write_text(KERNEL)
    done = cli("kernel", f"{path}:kernel", "--arg", "x=float32[128,8]", *words, code=code)
    for text, line in (("nl.max is no operator of nki.isa", 11), ("nl.divide is simulated alone", 12)):
        assert done.stderr.count(text) == 1 and f"{path}:{line}" in done.stderr, done.stderr
    assert "Traceback" not in done.stderr
