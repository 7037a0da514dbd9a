"""Provides the fixture that simulates a program for tests of single timing rules."""
import json

import pytest

from running import ROOT, cli


@pytest.fixture(name="run")
def fixture_run(tmp_path):
    """The summary of a program (clients/validation/table/programs), timed with its target's config."""
    def run(program):
        (tmp_path / "t.jsonl").write_text(program.text(), encoding="utf-8")
        config = ROOT / "configs" / f"{program.target}.json"
        cli("run", tmp_path / "t.jsonl", "--timing-only", "--quiet", "--allow-over-capacity",
            "--allow-unwritten", "--config", config, "--summary-json", tmp_path / "s.json")
        return json.loads((tmp_path / "s.json").read_text())["nc_0"]
    return run
