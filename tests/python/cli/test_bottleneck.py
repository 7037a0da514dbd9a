"""Tests the one bottleneck: it is the cause whose change gains most, and all commands and Python name it alike."""

import json
import re

import numpy as np
import pytest

import nkisim
from nkisim_evaluate import Evaluator, Settings
from running import ROOT, cli, write_trace

pytestmark = pytest.mark.process
HEAD = """import nki
import nki.isa as nisa
import nki.language as nl


def tile(columns, buffer=nl.sbuf, rows=128):
    return nl.ndarray((rows, columns), dtype=nl.float32, buffer=buffer)


@nki.jit
def kernel(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    n = x.shape[1]
"""
BY_SYNC = "dge_mode=nisa.dge_mode.hwdge, engine=nisa.engine.sync"
#: Columns of the argument, body, the cause, and the change of the machine that makes it twice as fast.
KERNELS = {
    "starts": (2048, f"""    for j in range(64):
        t = tile(32)
        nisa.dma_copy(dst=t, src=x[:, nl.ds(j * 32, 32)], {BY_SYNC})
        nisa.dma_copy(dst=out[:, nl.ds(j * 32, 32)], src=t, {BY_SYNC})
    return out
""", "dma_starts", "DMAs were started twice as quickly"),
    "bandwidth": (32768, f"""    for j in range(8):
        t = tile(4096)
        nisa.dma_copy(dst=t, src=x[:, nl.ds(j * 4096, 4096)], {BY_SYNC})
        nisa.dma_copy(dst=out[:, nl.ds(j * 4096, 4096)], src=t, {BY_SYNC})
    return out
""", "dma_moving", "DMA were twice as fast"),
    "tensor": (512, """    t, p = tile(n), tile(n, nl.psum)
    nisa.dma_copy(dst=t, src=x)
    for j in range(64):
        nisa.nc_matmul(dst=p, stationary=t[:, 0:128], moving=t)
    nisa.tensor_copy(dst=t, src=p)
    nisa.dma_copy(dst=out, src=t)
    return out
""", "engine", "Tensor Engine were twice as fast"),
    "vector": (2048, """    t = tile(n)
    nisa.dma_copy(dst=t, src=x)
    for j in range(32):
        nisa.tensor_tensor(dst=t, data1=t, data2=t, op=nl.maximum)
    nisa.dma_copy(dst=out, src=t)
    return out
""", "engine", "Vector Engine were twice as fast"),
    "chain": (64, f"""    t = tile(n)
    for j in range(4):
        nisa.dma_copy(dst=t, src=x if j == 0 else out, {BY_SYNC})
        nisa.tensor_scalar(dst=t, data=t, op0=nl.add, operand0=1.0)
        nisa.dma_copy(dst=out, src=t, {BY_SYNC})
    return out
""", "dma_latency", "DMA latency (first packet, completion) were half"),
}


def record(folder, name):
    columns, body, *_ = KERNELS[name]
    (folder / "k.py").write_text(HEAD + body)
    cli("kernel", folder / "k.py:kernel", "--arg", f"x=f32[128,{columns}]:normal", "-o", folder / "k.nisa")
    return folder / "k.nisa"


@pytest.mark.parametrize("name", KERNELS)
def test_the_named_cause_is_the_one_that_gains_most(name, tmp_path):
    *_, cause, change = KERNELS[name]
    said = json.loads(cli("run", record(tmp_path, name), "--explain", "--json").stdout)
    assert said["bound"]["cause"] == cause, said["verdict"]
    best = next(line for line in said["verdict"] if line.startswith("If "))
    assert best.startswith(f"If {change}: "), said["verdict"]
    gain = float(re.search(r": -([\d.]+) %", best)[1]) / 100
    assert gain <= said["bound"]["gain_at_most"] + 0.005  # what half of it gains is no more than all of it
    assert gain > 0.3 * said["bound"]["gain_at_most"]


def test_two_engines_that_wait_for_each_other_wait_for_semaphores(tmp_path):
    lines = [{"nisa": 1, "target": "trn2", "semaphores": "explicit"}]
    for n in range(64):
        lines += [{"i": "nop", "engine": "vector", "wait": [[1, ">=", n]], "post": [[0, "++"]]},
                  {"i": "nop", "engine": "sync", "wait": [[0, ">=", n + 1]], "post": [[1, "++"]]}]
    said = json.loads(cli("run", write_trace(tmp_path / "k.jsonl", lines), "--explain", "--json").stdout)
    assert said["bound"]["cause"] == "semaphores", said["verdict"]
    assert next(line for line in said["verdict"] if line.startswith("If ")).startswith("If semaphores were")


def test_shares_are_those_of_a_sum_by_hand(tmp_path):
    """Sync starts 64 loads one after the other, each in 0.562 us, and the last one's data come after that."""
    said = json.loads(cli("run", record(tmp_path, "starts"), "--json").stdout)
    bound = said["bound"]
    assert bound["engine"] == "sync" and 64 <= bound["count"] <= 128
    assert bound["time_us"] == pytest.approx(bound["count"] * 0.6, rel=0.1)  # 0.562 to start, 0.048 until the next
    assert bound["of_critical_path"] == pytest.approx(bound["time_us"] / said["latency_us"], rel=0.03)


def first_words(text):
    """The bottleneck's text in what a command prints."""
    return re.search(r"^bottleneck +(.*)$", text, re.M)[1]


TRACES = sorted(p.relative_to(ROOT) for p in (ROOT / "traces").glob("*.jsonl"))


@pytest.mark.parametrize("trace", TRACES, ids=lambda p: p.stem)
def test_every_command_says_the_same_of_a_trace(trace):
    path = ROOT / trace
    run = cli("run", path, "--timing-only", code=None)
    if run.returncode:  # its course depends on values
        run = cli("run", path)
    text = first_words(run.stdout)
    explained = json.loads(cli("run", path, "--explain", "--json").stdout)
    assert explained["bottleneck"] == text
    assert explained["verdict"][0] == f"Bottleneck: {text}."
    assert explained["brief"][:2] == [run.stdout.splitlines()[0], f"bottleneck   {text}"]
    assert text.startswith(explained["bound"]["what"]) and explained["bound"]["do"] in text
    assert first_words(cli("advise", path, "--effort", "1").stdout) == text


@pytest.mark.parametrize("step", ["tiled", "accumulated", "hoisted", "buffered"])
def test_every_command_says_the_same_of_a_kernel(step, tmp_path):
    kernel = f"{ROOT / 'examples/matmul.py'}:{step}"
    arguments = "--arg", "a_t=bf16[512,512]:normal", "--arg", "b=bf16[512,512]:normal"
    text = first_words(cli("kernel", kernel, *arguments, "-o", tmp_path / "k.nisa").stdout)
    assert first_words(cli("run", tmp_path / "k.nisa", "--timing-only").stdout) == text
    assert first_words(cli("advise", kernel, *arguments, "--effort", "1").stdout) == text
    explained = cli("run", tmp_path / "k.nisa", "--explain").stdout
    assert f"  Bottleneck: {text}." in explained and first_words(explained) == text


def test_python_says_the_same(tmp_path):
    record(tmp_path, "vector")
    space = {}
    exec(compile((tmp_path / "k.py").read_text(), str(tmp_path / "k.py"), "exec"), space)
    result = nkisim.run(space["kernel"], np.ones((128, 2048), np.float32), target="trn2")
    text = first_words(cli("run", tmp_path / "k.nisa", "--timing-only").stdout)
    assert result.bottleneck == text and f"bottleneck    {text}" in result.report().splitlines()


def test_all_say_the_same_of_two_cores_and_of_two_ranks(tmp_path):
    """A relay between cores, whose run is longer than either core's part."""
    shape = "x.shape, dtype=x.dtype, buffer=nl.shared_hbm"
    text = HEAD + f"""    half, t = nl.ndarray({shape}), tile(n)
    if nl.program_id(0) == 0:
        nisa.dma_copy(dst=t, src=x)
        nisa.dma_copy(dst=half, src=t)
    nisa.core_barrier(half, (0, 1))
    if nl.program_id(0) == 1:
        nisa.dma_copy(dst=t, src=half)
        nisa.dma_copy(dst=out, src=t)
    return out
"""
    reference = tmp_path / "reference.py"
    reference.write_text("import numpy as np\nSEEDS = (0,)\ndef inputs(seed): return np.ones((128, 512), np.float32),\n"
                         "def reference(x): return x\n")
    path, space, x = tmp_path / "k.py", {}, np.ones((128, 512), np.float32)
    path.write_text(text)
    exec(compile(text, str(path), "exec"), space)
    result = nkisim.run(space["kernel"][2], x, target="trn2", timing=True)
    trace = result.save(tmp_path / "k.nisa")
    with Evaluator(Settings(reference, target="trn2", timeout=60), 1) as judge:
        record = judge.evaluate({"id": "k", "source": text, "kernel": "kernel", "grid": 2})
    said = {"Python": result.bottleneck, "report": first_words(result.report()), **{
        " ".join(map(str, words)): first_words(cli(*words).stdout) for words in (
            ("run", trace), ("run", trace, "--explain"), ("advise", trace, "--effort", "1"))},
        "evaluate and MCP": first_words("\n".join(record["verdict"]))}
    assert len(set(said.values())) == 1, said
    ranks = nkisim.run(space["kernel"][2], x, target="trn2", ranks=2)
    said = {"Python": ranks.bottleneck, "report": first_words(ranks.report()),
            "run": first_words(cli("run", trace, "--ranks", 2).stdout),
            "--json": json.loads(cli("run", trace, "--ranks", 2, "--json").stdout)["bottleneck"]}
    assert len(set(said.values())) == 1, said
