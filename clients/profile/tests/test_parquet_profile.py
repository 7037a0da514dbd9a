"""Tests diff-profile and import-profile on a folder of Parquet tables."""
import json

import pytest

from running import ROOT, cli

pytest.importorskip("pyarrow")

pytestmark = pytest.mark.process
TRACE = ROOT / "traces/flash_attention.jsonl"


@pytest.fixture(scope="module")
def tables(tmp_path_factory):
    folder = tmp_path_factory.mktemp("parquet")
    cli("run", TRACE, "--timing-only", "--session", folder / "s.npz")
    cli("view", folder / "s.npz", "-f", "parquet", "-o", folder / "tables")
    return folder / "tables"


def test_a_run_equals_its_own_tables(tables):
    done = cli("diff-profile", TRACE, tables, "--json")
    diff = json.loads(done.stdout)
    text = cli("diff-profile", TRACE, tables).stdout
    assert "+0.00 %" in text.splitlines()[0], text
    assert diff["instructions"] > 100


def test_a_slower_run_differs(tables):
    done = cli("diff-profile", TRACE, tables, "--set", "dma.bytes_per_ns=10")
    assert "+0.00 %" not in done.stdout.splitlines()[0]


def test_a_folder_without_tables_is_refused(tmp_path):
    done = cli("diff-profile", TRACE, tmp_path, code=3)
    assert "no Instruction.parquet" in done.stderr
