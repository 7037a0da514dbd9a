"""Comparison of sessions, with changes known in advance."""
import json
import os
import pathlib
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = os.environ.get("NKISIM_PROGRAM", str(ROOT / "build" / "release" / "nkisim"))
TRACE = str(ROOT / "traces" / "softmax.jsonl")


def nkisim(*words):
    return subprocess.run([PROGRAM, *map(str, words)], check=True, text=True,
                          stdout=subprocess.PIPE).stdout


@pytest.fixture()
def sessions(tmp_path):
    a, b = tmp_path / "a.npz", tmp_path / "b.npz"
    nkisim("run", TRACE, "--quiet", "--session", a)
    nkisim("run", TRACE, "--quiet", "--session", b, "--set", "dma.bytes_per_ns=6.8")
    return a, b


def test_the_same_run_has_no_changes(sessions):
    result = json.loads(nkisim("compare", sessions[0], sessions[0], "--json"))
    assert result["by_engine"] == result["by_opcode"] == result["by_line"] == []


def test_slower_dma_changes_dma_only(sessions):
    result = json.loads(nkisim("compare", *sessions, "--json"))
    assert result["by_opcode"] == []  # engines run the same instructions equally fast
    total = result["summary"][0]
    assert total["metric"] == "total_time" and total["b"] > total["a"]
    assert any("DMA queue" in r["what"] or "busy" in r["what"] for r in result["by_engine"])
    assert "total_time" in nkisim("compare", *sessions)
