"""What the tests of single rules share."""
import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(name="run")
def fixture_run(tmp_path):
    """The summary of a program (validation/programs), timed with its target's config."""
    nkisim = os.environ.get("NKISIM") or shutil.which("nkisim")

    def run(program):
        (tmp_path / "t.jsonl").write_text(program.text(), encoding="utf-8")
        config = ROOT / "configs" / f"{program.target}.json"
        subprocess.run([nkisim, "run", str(tmp_path / "t.jsonl"), "--timing-only", "--quiet",
                        "--allow-over-capacity", "--allow-unwritten", "--config", str(config),
                        "--summary-json", str(tmp_path / "s.json")], check=True)
        return json.loads((tmp_path / "s.json").read_text())["nc_0"]
    return run
