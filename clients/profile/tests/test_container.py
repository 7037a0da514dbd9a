"""Tests nkisim's file in place of a NEFF with untrusted content: it selects neither options nor
output paths.
"""

import zipfile

import pytest

from nkisim_profile import container
from nkisim_profile.columns import BadSession


@pytest.mark.parametrize("words", [
    [], ["--allow-unwritten"], ["--set", "a=1", "--config", "c.json", "--allow-over-capacity"],
    ["--set", "--session"]])  # the value of an option is whatever it is
def test_options_of_a_saved_program(words):
    assert container._checked("x.neff", words) == words


@pytest.mark.parametrize("words, named", [
    (["--session", "/tmp/x"], "--session"), (["--allow-unwritten", "--json"], "--json"), (["/tmp/x"], "/tmp/x"),
    (["--set", "a=1", "--outputs", "/tmp/x"], "--outputs"), (["--set"], "--set"),
    (["--allow-unwritten", "--set"], "--set"),
    (["--session=/tmp/x", "--set", "a=1"], "--session=/tmp/x")])
def test_options_that_no_saved_program_has(tmp_path, words, named):
    path = tmp_path / "x.neff"
    (tmp_path / "empty").mkdir()
    container.write(path, tmp_path / "empty", {"options": words})
    with pytest.raises(BadSession, match=f"asks for {named!r}, which is no option of a saved program"):
        container.capture(path, tmp_path / "x.ntff")
    assert not (tmp_path / "x.ntff").exists()


def test_what_is_unpacked_is_limited(tmp_path, monkeypatch):
    path = tmp_path / "x.neff"
    (tmp_path / "files").mkdir()
    (tmp_path / "files" / "program.nisa").write_bytes(bytes(1000))
    container.write(path, tmp_path / "files", {"options": []})
    size = len(zipfile.ZipFile(path).read("manifest.json"))
    monkeypatch.setattr(container, "MAX_MANIFEST", size)
    assert container.manifest(path)["options"] == []
    monkeypatch.setattr(container, "MAX_FILE", 999)
    with pytest.raises(BadSession, match="program.nisa has more than"):
        container.capture(path, tmp_path / "x.ntff")
    monkeypatch.setattr(container, "MAX_MANIFEST", size - 1)
    with pytest.raises(BadSession, match="its manifest is too large"):
        container.manifest(path)
