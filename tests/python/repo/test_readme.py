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


def test_every_trial_is_called():
    """packaging/try_readme was dropped from scripts/test --full by a commit about other things, and nobody saw it."""
    callers = "".join(p.read_text(encoding="utf-8") for folder in ("scripts", ".ci") for p in (ROOT / folder).iterdir()
                      if p.is_file() and p.suffix != ".py")
    trials = [p.name for p in (ROOT / "packaging").glob("try_*")]
    assert len(trials) > 3 and [name for name in trials if f"packaging/{name}" not in callers] == []
