"""Tests program files whose collectives have two parts (start and wait, NKI 0.7): values, times,
and misuse.
"""

import json

import numpy as np
import pytest

from running import cli

pytestmark = pytest.mark.process
RANKS, BLOCK = 2, 8
HEADER = {"nisa": 1, "target": "trn2", "name": "split", "ranks": RANKS}
GROUP = {"replica_group": [[0, 1]]}
PREPARE = {"i": "all_to_all_v_prepare", "metadata_tensor": "m", **GROUP}
TRIGGER = {"i": "all_to_all_v_trigger", "srcs": ["s"], "dsts": ["d"], "metadata_tensor": "m", **GROUP}
WHOLE = {**TRIGGER, "i": "all_to_all_v"}
LOAD = [{"i": "dma_copy", "dst": "m", "src": "meta"}, {"i": "dma_copy", "dst": "d", "src": "before"}]
FILL, STORE = {"i": "dma_copy", "dst": "s", "src": "x"}, {"i": "dma_copy", "dst": "y", "src": "d"}


def tensor(name, shape=(RANKS * BLOCK,), dtype="float32", **more):
    return {"tensor": {"name": name, "dtype": dtype, "shape": list(shape), **more}}


TENSORS = [
    tensor("x", role="input"), tensor("before", role="input"), tensor("y", role="output"), tensor("s"), tensor("d"),
    tensor("meta", (3, RANKS), "uint32", role="input"), tensor("m", (3, RANKS), "uint32"),
    tensor("n", (3, RANKS), "uint32"), tensor("t", (128, 512), space="sbuf", address=0),
]


def work(count):
    return [{"i": "memset", "dst": "t", "value": n, "engine": "gpsimd"} for n in range(count)]


def begin(register, stop=2):
    return {"i": "loop_begin", "register": register, "start": 0, "stop": stop}


END = {"i": "loop_end"}


@pytest.fixture
def trace(written):
    return lambda *lines: written([HEADER, *TENSORS, *LOAD, FILL, *lines, STORE], "split.jsonl")


@pytest.fixture
def inputs(tmp_path):
    """Counts of each rank's blocks, and what each rank ends with by NumPy."""
    rng = np.random.default_rng(7)
    counts = rng.integers(1, BLOCK, (RANKS, RANKS))
    x = rng.standard_normal((RANKS, RANKS * BLOCK)).astype(np.float32)
    before = rng.standard_normal((RANKS, RANKS * BLOCK)).astype(np.float32)
    expected = before.copy()
    for to in range(RANKS):
        for source in range(RANKS):
            n = counts[source][to]
            expected[to][source * BLOCK:source * BLOCK + n] = x[source][to * BLOCK:to * BLOCK + n]
    for r in range(RANKS):
        meta = np.array([counts[r], np.arange(RANKS) * BLOCK, [0] * RANKS], np.uint32)
        np.savez(tmp_path / f"in.{r}.npz", x=x[r], before=before[r], meta=meta)
        np.savez(tmp_path / f"out.{r}.npz", y=expected[r])
    return ["--any-world", "--inputs", tmp_path / "in.{rank}.npz", "--expect", tmp_path / "out.{rank}.npz",
            "--rtol", 0, "--atol", 0]


def latency(*words):
    return json.loads(cli("run", *words, "--json").stdout)["latency_us"]


def test_values_and_time_of_the_two_parts(trace, inputs):
    whole = latency(trace(*work(40), WHOLE), *inputs)
    split = latency(trace(PREPARE, *work(40), TRIGGER), *inputs)
    assert split < whole
    for options in (["--functional"], ["--no-fold"]):
        cli("run", trace(PREPARE, *work(40), TRIGGER), *inputs, *options)


def test_the_parts_survive_the_binary_format_and_the_disassembler(trace, inputs, tmp_path):
    text, binary = trace(PREPARE, TRIGGER), tmp_path / "k.nisa"
    cli("convert", text, "-o", binary)
    assert latency(binary, *inputs) == latency(text, *inputs)
    shown = cli("disasm", binary).stdout
    assert shown.count("PSEUDO_TRIGGER_COLLECTIVE_2") == 2


def test_a_loop_prepares_the_next_operation_before_the_one_after_it(trace, inputs):
    cli("run", trace(PREPARE, begin("r1"), TRIGGER, PREPARE, END, TRIGGER), *inputs)
    cli("run", trace(begin("r1"), PREPARE, TRIGGER, END), *inputs)


OTHER = {"i": "dma_copy", "dst": "n", "src": "meta"}
BRANCH = [{"i": "if_begin", "lhs": 1, "compare": "lt", "rhs": 2}, {"i": "if_end"}]
WRONG = {
    "a trigger alone": ([TRIGGER], "comes without a prepare before it"),
    "a prepare alone": ([PREPARE], "has no trigger"),
    "two prepares": ([PREPARE, PREPARE, TRIGGER], "has no trigger before another prepare"),
    "two triggers": ([PREPARE, TRIGGER, TRIGGER], "comes without a prepare before it"),
    "another operation": ([PREPARE, {**TRIGGER, "i": "all_gather_v_trigger"}], "another operation than its prepare"),
    "another group": ([PREPARE, {**TRIGGER, "replica_group": [[1, 0]]}], "another replica_group than its prepare"),
    "other metadata": ([OTHER, PREPARE, {**TRIGGER, "metadata_tensor": "n"}], "another metadata_tensor than"),
    "metadata written": ([PREPARE, LOAD[0], TRIGGER], "is written between all_to_all_v_prepare"),
    "a prepare in a loop": ([begin("r1"), PREPARE, END, TRIGGER], "begins and ends with different"),
    "a trigger in a loop": ([PREPARE, begin("r1"), TRIGGER, END], "begins and ends with different"),
    "a prepare in a branch": ([BRANCH[0], PREPARE, BRANCH[1], TRIGGER], "begins and ends with different"),
    "float metadata": ([{**PREPARE, "metadata_tensor": "s"}, TRIGGER], "metadata_tensor is float32"),
}


@pytest.mark.parametrize("name", WRONG)
@pytest.mark.parametrize("command", ["check", "run"])
def test_parts_that_do_not_belong_together_are_refused(trace, command, name):
    lines, said = WRONG[name]
    done = json.loads(cli(command, trace(*lines), "--json", code=3).stdout)
    assert said in done["error"]["message"]
    assert name == "float metadata" or done["error"]["rule"] == "collective_split"


def test_an_older_release_has_neither_part(trace):
    said = cli("check", trace(PREPARE, TRIGGER), "--strict", "--sdk", "2.32", code=3).stderr
    assert said.count("SDK 2.33 for collectives in two parts") == 2
    cli("check", trace(PREPARE, TRIGGER), "--strict", "--sdk", "2.33")


def test_without_strict_an_older_release_is_reported_where_it_was_asked_for(trace):
    reported = json.loads(cli("check", trace(PREPARE, TRIGGER), "--sdk", "2.32", "--json").stdout)["remarks"]
    assert [r["rule"] for r in reported if not r["error"]].count("sdk_refuses") == 2
    cli("check", trace(PREPARE, TRIGGER), "--sdk", "2.9", code=3)
    for words in ([], ["--sdk", "2.33"]):
        assert "sdk_refuses" not in cli("check", trace(PREPARE, TRIGGER), *words).stderr
