"""The README shows what its first command prints."""
import os
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]


def test_the_first_commands_output(tmp_path):
    shown = (ROOT / "README.md").read_text().split("The first command ends like this:")[1].split("```")[1]
    quickstart = (ROOT / "scripts/quickstart").read_text()
    assert "traces/flash_attention.npz --rtol 2e-2 --atol 2e-3" in quickstart  # as below
    run = subprocess.run(
        [os.environ["NKISIM_PROGRAM"], "run", "traces/flash_attention.jsonl", "--target", "trn2", "--expect",
         "traces/flash_attention.npz", "--rtol", "2e-2", "--atol", "2e-3"],
        cwd=ROOT, capture_output=True, text=True, check=True)
    assert run.stdout.strip() == shown.strip()
