"""Tests `nkisim compare` on the profiles of two simulated runs whose differences are known."""
import json

import pytest

from running import ROOT, cli, python

pytestmark = pytest.mark.process
TRACE = str(ROOT / "traces" / "softmax.jsonl")


def compare(*words, code=0):
    done = python("-m", "nkisim_profile", "compare", *words, code=code)
    return done.stdout if code == 0 else done.stderr


@pytest.fixture()
def sessions(tmp_path):
    a, b = tmp_path / "a.npz", tmp_path / "b.npz"
    cli("run", TRACE, "--quiet", "--session", a)
    cli("run", TRACE, "--quiet", "--session", b, "--set", "dma.bytes_per_ns=6.8")
    return a, b


def test_the_same_run_has_no_changes(sessions):
    result = json.loads(compare(sessions[0], sessions[0], "--json"))
    assert result["by_engine"] == result["by_opcode"] == result["by_line"] == []


def test_slower_dma_changes_dma_only(sessions):
    result = json.loads(compare(*sessions, "--json"))
    assert result["by_opcode"] == []  # engines run the same instructions equally fast
    total = result["summary"][0]
    assert total["metric"] == "total_time" and total["b"] > total["a"]
    assert any("DMA queue" in r["what"] or "busy" in r["what"] for r in result["by_engine"])
    assert "total_time" in compare(*sessions)


def total(*words):
    result = json.loads(cli("run", TRACE, "--timing-only", "--json", *words).stdout)
    return next(iter(result["summary"].values()))


def sides(result, metric="total_time"):
    return next((r["a"], r["b"]) for r in result["summary"] if r["metric"] == metric)


def changed(result, by):
    """The sum of the changes, and of those of rows whose name holds a word."""
    return lambda word="": sum(r["change_ns"] for r in result[by] if word in r["what"])


def test_two_generations_of_a_trace():
    result = json.loads(compare(TRACE, "--targets", "trn1,trn2", "--json"))
    a, b = total("--target", "trn1"), total("--target", "trn2")
    assert sides(result) == (a["total_time"], b["total_time"])
    for engine in ("Vector", "Scalar"):
        key = f"{engine.lower()}_engine_instruction_time"
        assert changed(result, "by_opcode")(engine + " ") == pytest.approx(
            (b[key] - a[key]) * 1e9, abs=1e-3)
    # A line's time is that of its instructions.
    assert changed(result, "by_line")() == pytest.approx(changed(result, "by_opcode")(), abs=1e-3)
    # Every engine accounts for the whole run: its changes add up to the run's.
    whole = [changed(result, "by_engine")(f"{e}: ") for e in ("Tensor", "Vector", "Scalar", "Sync")]
    assert whole[0] < 0 and whole == pytest.approx([whole[0]] * 4, abs=1e-3)


def test_two_configs(tmp_path):
    config = tmp_path / "mine.json"
    text = json.loads(cli("config", "show", "trn2").stdout)
    text["dma"]["bytes_per_ns"]["value"] = 6.8
    config.write_text(json.dumps(text))
    result = json.loads(compare(TRACE, "--configs", f"trn2,{config}", "--json"))
    assert str(config) in result["b"]
    assert sides(result) == (total()["total_time"],
                             total("--set", "dma.bytes_per_ns=6.8")["total_time"])
    same = json.loads(compare(TRACE, "--set", "dma.bytes_per_ns=27.2,6.8", "--json"))
    assert same["by_engine"] == result["by_engine"]


def test_two_traces(sessions):
    other = ROOT / "traces" / "layernorm.jsonl"
    text = compare(TRACE, other)
    assert f"A {TRACE}" in text and f"B {other}" in text and "largest of" in text
    assert "no change" in compare(TRACE, sessions[0])


@pytest.mark.parametrize("words, message, code", [
    ((TRACE,), "either two runs", 2),
    ((TRACE, TRACE, "--targets", "trn1,trn2"), "either two runs", 2),
    ((TRACE, "--targets", "trn1"), "two, separated by a comma", 2),
    ((TRACE, "--set", "dma.engines=1"), "two, separated by a comma", 2),
    ((TRACE, "--targets", "trn1,trn9"), "trn9", 3),
    ((TRACE, "none.npz"), "none.npz", 3),
])
def test_mistakes(words, message, code):
    assert message in compare(*words, code=code)


def test_a_profile_file_cannot_be_varied(sessions):
    assert "a trace is required" in compare(sessions[0], "--targets", "trn1,trn2", code=3)


KERNEL = """
import nki, nki.isa as nisa, nki.language as nl

@nki.jit
def add(a, b):
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    x = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.sbuf)
    y = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=x, src=a)
    nisa.dma_copy(dst=y, src=b)
    nisa.tensor_tensor(dst=x, data1=x, data2=y, op=nl.add)
    nisa.dma_copy(dst=out, src=x)
    return out
"""


def test_lines_are_matched_by_their_text(tmp_path):
    file = tmp_path / "k.py"
    words = "kernel", f"{file}:add", "--arg", "a=f32[128,512]", "--arg", "b=f32[128,512]", "--session"
    file.write_text(KERNEL)
    cli(*words, tmp_path / "a.npz")
    more = "    nisa.tensor_scalar(dst=x, data=x, op0=nl.multiply, operand0=1.0)\n"
    file.write_text(KERNEL.replace("    nisa.tensor_t", "    # one\n    # two\n" + more + "    nisa.tensor_t"))
    cli(*words, tmp_path / "b.npz")
    result = json.loads(compare(tmp_path / "a.npz", tmp_path / "b.npz", "--json"))
    row, = result["by_line"]  # those below have moved by three and are not named
    assert row["what"] == f"k.py: {more.strip()}" and (row["a_line"], row["b_line"]) == (None, 13)
    assert (row["a_count"], row["b_count"]) == (0, 1)
    assert result["cost_most"]["by_line"] == [{k: v for k, v in row.items()}]
    assert result["cost_most"]["by_opcode"][0]["what"] == "Vector TENSOR_SCALAR"
    assert "what cost most in B" in compare(tmp_path / "a.npz", tmp_path / "b.npz")
    said = compare(tmp_path / "a.npz", tmp_path / "b.npz", "--markdown")
    assert "xychart-beta" in said and f"| `k.py:13 {more.strip()}` | 0.000 |" in said
    assert '"Lines that take more, us"' in said and f'["k.py:13 {more.strip()[:33]}..."]' in said
    back = compare(tmp_path / "b.npz", tmp_path / "a.npz", "--markdown")
    assert '"Lines that take less, us"' in back and "bar [-" not in back
