"""diff-profile and import-profile on a folder of Parquet tables."""
import json
import os
import subprocess
from pathlib import Path

import pytest

pytest.importorskip("pyarrow")
ROOT = Path(__file__).resolve().parents[3]
TRACE = ROOT / "traces/flash_attention.jsonl"


def nkisim(*words):
    return subprocess.run([os.environ["NKISIM_PROGRAM"], *map(str, words)], capture_output=True,
                          text=True, check=False)


@pytest.fixture(scope="module")
def tables(tmp_path_factory):
    folder = tmp_path_factory.mktemp("parquet")
    assert nkisim("run", TRACE, "--timing-only", "--session", folder / "s.npz").returncode == 0
    done = nkisim("view", folder / "s.npz", "-f", "parquet", "-o", folder / "tables")
    assert done.returncode == 0, done.stderr
    return folder / "tables"


def test_a_run_equals_its_own_tables(tables):
    done = nkisim("diff-profile", TRACE, tables, "--json")
    assert done.returncode == 0, done.stderr
    diff = json.loads(done.stdout)
    text = nkisim("diff-profile", TRACE, tables).stdout
    assert "+0.00 %" in text.splitlines()[0], text
    assert diff["instructions"] > 100


def test_a_slower_run_differs(tables):
    done = nkisim("diff-profile", TRACE, tables, "--set", "dma.bytes_per_ns=10")
    assert done.returncode == 0, done.stderr
    assert "+0.00 %" not in done.stdout.splitlines()[0]


def test_a_folder_without_tables_is_refused(tmp_path):
    done = nkisim("diff-profile", TRACE, tmp_path)
    assert done.returncode == 3
    assert "no Instruction.parquet" in done.stderr
