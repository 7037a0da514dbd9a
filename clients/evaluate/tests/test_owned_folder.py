"""Tests the temporary folders of evaluations: a killed one's is removed by the next, no other."""

import os
import pathlib
import signal
import subprocess
import sys
import tempfile

import pytest

from nkisim_evaluate import owned_folder
from nkisim_evaluate.owned_folder import OwnedFolder

KILLED = """import os, signal, sys
from nkisim_evaluate.owned_folder import OwnedFolder
kept = OwnedFolder(sys.argv[1])
print(kept.name, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.process
def test_the_folder_of_a_killed_process_is_removed_by_the_next(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    killed = subprocess.run([sys.executable, "-c", KILLED, "nkisim-x-"], stdout=subprocess.PIPE, text=True, check=False)
    assert killed.returncode == -signal.SIGKILL
    left = pathlib.Path(killed.stdout.strip())
    with OwnedFolder("nkisim-x-") as living:
        assert left.exists()  # it might be young, with no lock yet
        for folder in (left, living):
            os.utime(folder, (0, 0))
        with OwnedFolder("nkisim-x-"), OwnedFolder("nkisim-y-"):
            assert not left.exists() and os.path.exists(living)


def test_no_lock_outlives_its_folder(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))

    def locks():
        return sum("/owner" in os.readlink(f"/proc/self/fd/{fd}") for fd in os.listdir("/proc/self/fd")
                   if os.path.lexists(f"/proc/self/fd/{fd}"))

    with OwnedFolder("nkisim-x-"):
        assert locks() == 1
    assert locks() == 0


def test_what_is_no_folder_of_ours_stays(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(owned_folder, "_YOUNG", -1e9)
    others = [tmp_path / "nkisim-x-link", tmp_path / "nkisim-x-file", tmp_path / "nkisim-x-empty"]
    target = tmp_path / "kept"
    target.mkdir()
    (target / "owner").symlink_to(tmp_path / "nkisim-x-file")
    others[0].symlink_to(target)
    others[1].write_text("x")
    others[2].mkdir()
    with OwnedFolder("nkisim-x-"):
        assert all(other.exists() for other in others) and (target / "owner").is_symlink()
