"""The README shows what its first command prints."""

import pytest

from running import ROOT, cli

pytestmark = pytest.mark.process


def test_the_first_commands_output(tmp_path):
    shown = (ROOT / "README.md").read_text().split("The first command ends like this:")[1].split("```")[1]
    quickstart = (ROOT / "scripts/quickstart").read_text()
    assert "traces/flash_attention.npz --rtol 2e-2 --atol 2e-3" in quickstart  # as below
    run = cli("run", "traces/flash_attention.jsonl", "--target", "trn2", "--expect",
              "traces/flash_attention.npz", "--rtol", "2e-2", "--atol", "2e-3", cwd=ROOT)
    assert run.stdout.strip() == shown.strip()
