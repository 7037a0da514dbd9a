"""Tests that `nkisim compile` gives the program that the Python front end gives, and that `nkisim
run` compiles a program that was saved uncompiled.
"""

import importlib
import json
import os
import sys

import numpy as np
import pytest

import nkisim
from running import ROOT, cli

nkisim.install()
EXAMPLES = ROOT / "examples"
sys.path.insert(0, str(EXAMPLES))

import common  # noqa: E402
import nki  # noqa: E402
import nki.isa as nisa  # noqa: E402
import nki.language as nl  # noqa: E402

pytestmark = pytest.mark.process
NAMES = sorted(p.stem for p in EXAMPLES.glob("*.py") if p.stem != "common")
CASES = [case for name in NAMES for case in importlib.import_module(name).cases()]


def command(*words, **environment):
    return cli(*words, code=None, env={**os.environ, **environment})


def compiled(folder, ending, *switches, **environment):
    """The bytes that nkisim compile writes."""
    done = command("compile", folder / f"k.{ending}", "-o", folder / "out.nisa", *switches,
                   **environment)
    assert done.returncode == 0, done.stderr
    return (folder / "out.nisa").read_bytes()


def text(trace):
    return command("convert", trace, "-o", "-").stdout


def save(result, folder):
    """The bytes of the placed program; the recorded one in both forms as well."""
    placed = folder / "placed"
    placed.mkdir()
    result.save(placed / "k.nisa")
    for ending in ("nisa", "jsonl"):
        result.save(folder / f"k.{ending}", compiled=False)
    return (placed / "k.nisa").read_bytes()


@pytest.mark.parametrize("target", common.ALL)
@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_the_command_compiles_as_python_does(case, target, tmp_path):
    if target not in case.targets:
        pytest.skip(f"needs {' or '.join(case.targets)}")
    inputs = case.inputs(np.random.default_rng(0))
    result = nkisim.run(case.kernel, *inputs, target=target, grid=case.grid, timing=False)
    expected = save(result, tmp_path)
    assert compiled(tmp_path, "nisa") == expected
    # Binary distinguishes 1 from 1.0 where a parameter is a real number, text does not.
    expected = text(tmp_path / "out.nisa")
    compiled(tmp_path, "jsonl")
    assert text(tmp_path / "out.nisa") == expected


@nki.jit
def two_steps(x):
    """Loads two tiles one after the other into one place, and a row repeated over partitions."""
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray((128, 64), dtype=x.dtype, buffer=nl.sbuf)
    kept = nl.ndarray((128, 64), dtype=x.dtype, buffer=nl.sbuf, address=(0, 4096))
    for i in range(2):
        nisa.dma_copy(dst=tile, src=x[128 * i:128 * (i + 1)])
        nisa.tensor_scalar(dst=kept, data=tile, op0=nl.add, operand0=1.0)
        nisa.dma_copy(dst=out[128 * i:128 * (i + 1)], src=kept)
    return out


X = np.arange(256 * 64, dtype=np.float32).reshape(256, 64)


@pytest.mark.parametrize("switches", [{"schedule": "program"}, {"rename": "none"},
                                      {"dma_queues": "software", "clears": "keep"}])
def test_switches_mean_the_same_everywhere(switches, tmp_path):
    expected = save(nkisim.run(two_steps, X, compiler=switches), tmp_path)
    words = [w for k, v in switches.items() for w in (f"--{k.replace('_', '-')}", v)]
    assert compiled(tmp_path, "nisa", *words) == expected
    named = {f"NKISIM_{k.upper()}": v for k, v in switches.items()}
    assert compiled(tmp_path, "nisa", **named) == expected


def test_a_recorded_trace_runs_as_the_kernel_did(tmp_path):
    result = nkisim.run(two_steps, X)
    save(result, tmp_path)
    done = command("run", tmp_path / "k.nisa", "--expect", tmp_path / "k.expected.npz", "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    assert json.loads(done.stdout)["summary"] == result.summary
    kept = [t for t in (tmp_path / "k.jsonl").read_text().splitlines() if '"kept"' in t]
    assert '"address":4096' in kept[0]


def test_explain_says_what_each_pass_did(tmp_path):
    save(nkisim.run(two_steps, X), tmp_path)
    done = command("compile", tmp_path / "k.nisa", "-o", tmp_path / "out.nisa", "--explain")
    passes = [line.split()[0] for line in done.stdout.splitlines()[:-1]]
    assert passes == ["edges", "clears", "casts", "merge", "rows", "fit", "forward", "reuse", "rename",
                      "share", "transfers", "engines", "queues", "schedule", "place", "switches"]
    assert "rename          1 tiles" in done.stdout
    said = "schedule=list loads=needed dma_queues=software descriptors=dynamic clears=drop reuse=results " \
        "rename=whole share=none engines=default casts=dma merge=none rows=none transfers=none spill=none " \
        "over_capacity=no"
    assert f"\nswitches  {said}\n" in done.stdout
    done = command("compile", tmp_path / "k.nisa", "-o", tmp_path / "out.nisa", "--json")
    assert json.loads(done.stdout)["compiler"] == dict(word.split("=") for word in said.split())


def test_errors_leave_no_file_and_say_where(tmp_path):
    lines = ['{"nisa": 1, "target": "trn2", "addresses": "open"}',
             '{"tensor": {"name": "a", "space": "sbuf", "dtype": "float32", "shape": [128, 90000], '
             '"loc": "k.py:3"}}',
             '{"i": "memset", "dst": "a", "value": 0}']
    trace, out = tmp_path / "k.jsonl", tmp_path / "out.nisa"
    trace.write_text("\n".join(lines))
    done = command("compile", trace, "-o", out)
    assert done.returncode == 3 and "SBUF is full" in done.stderr and "k.py:3" in done.stderr
    assert not out.exists()
    assert command("compile", trace, "-o", out, "--over-capacity").returncode == 0
    assert command("compile", trace, "-o", out, NKISIM_OVER_CAPACITY="1").returncode == 0
    done = command("compile", trace, "-o", out, "--schedule", "fast")
    assert done.returncode == 2 and "one of list, program" in done.stderr


def test_a_placed_trace_keeps_its_bytes(tmp_path):
    result = nkisim.run(two_steps, X)
    result.save(tmp_path / "k.nisa")
    assert compiled(tmp_path, "nisa") == (tmp_path / "k.nisa").read_bytes()


@nki.jit
def wide_rows(x, row):
    """More than SBUF holds in the kernel's own order, and a row repeated over partitions."""
    out = nl.ndarray((128, 8192), dtype=x.dtype, buffer=nl.shared_hbm)
    small = nl.ndarray((128, 256), dtype=x.dtype, buffer=nl.shared_hbm)
    tiles = []
    for i in range(10):
        tile = nl.ndarray((128, 8192), dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=x[i])
        tiles.append(tile)
    bias = nl.ndarray((1, 256), dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=bias, src=row)
    made = nl.add(nl.broadcast_to(bias, (128, 256)), tiles[0][:, 0:256])
    nisa.dma_copy(dst=small, src=made)
    total = nl.ndarray((128, 8192), dtype=x.dtype, buffer=nl.sbuf)
    nisa.memset(dst=total, value=0.0)
    for tile in tiles:
        nisa.tensor_tensor(dst=total, data1=total, data2=tile, op=nl.add)
    nisa.dma_copy(dst=out, src=total)
    return out, small


def test_copies_are_known_in_any_order():
    """The instruction says that a copy may be forwarded, not its number: the order that fits has other numbers."""
    rng = np.random.default_rng(5)
    x = rng.standard_normal((10, 128, 8192)).astype(np.float32)
    row = rng.standard_normal((1, 256)).astype(np.float32)
    result = nkisim.run(wide_rows, x, row, target="trn2", timing=False)
    assert result.compiled.delay is not None and result.compiled.forwarded == 1
    total = np.zeros((128, 8192), np.float32)
    for tile in x:
        total += tile
    assert np.array_equal(result.outputs[0], total)
    assert np.array_equal(result.outputs[1], row + x[0][:, :256])
