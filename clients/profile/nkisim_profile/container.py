"""Reads and writes nkisim's file in place of a NEFF: a line of text that says what it is, then a
zip archive.

    nkisim program, not an AWS NEFF ...
    PK: program.nisa, program.npz (inputs), program.expected.npz (what the run gave), manifest.json

An AWS NEFF holds machine code of the chip; this holds the program as it was simulated. AWS's tools
refuse the file, and its first line says why; nkisim's neuron-profile captures it.
"""

import json
import os
import shutil
import subprocess
import tempfile
import zipfile

from nkisim_work import program
from nkisim_work.files import replacing

from .session import BadSession, reading

FIRST_LINE = (b"nkisim program, not an AWS NEFF: it runs on no device; "
              b"nkisim's neuron-profile captures it (docs/frameworks.md)\n")
VERSION = 1
FILES = ("program.nisa", "program.npz", "program.expected.npz")
WITH_VALUE = ("--config", "--set")
FLAGS = ("--allow-over-capacity", "--allow-unwritten")
MAX_FILE, MAX_MANIFEST = 8 << 30, 1 << 20  # unpacked


def write(path, folder, manifest):
    """Packs the files of a folder. manifest: kernel, target, and `options`, the words that
    `nkisim run` needs to run the program as it was run."""
    with replacing(path) as partial, open(partial, "wb") as out:
        out.write(FIRST_LINE)
        with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("manifest.json", json.dumps({"version": VERSION, **manifest}))
            for name in sorted(os.listdir(folder)):
                archive.write(os.path.join(folder, name), name)


def _open(path):
    with open(path, "rb") as file:
        line = file.readline(len(FIRST_LINE))
    if line != FIRST_LINE:
        raise BadSession(f"{path} is not a program of nkisim; it takes what a simulated run saved "
                         "(NEURON_FRAMEWORK_DEBUG=1, save_neff_name=...). A NEFF of AWS's compiler "
                         "holds machine code, which nkisim does not run")
    try:
        return zipfile.ZipFile(path)
    except zipfile.BadZipFile as problem:
        raise BadSession(f"{path} is damaged: {problem}") from None


def manifest(path):
    """The file's own description."""
    with _open(path) as archive, reading(path):
        if archive.getinfo("manifest.json").file_size > MAX_MANIFEST:
            raise BadSession(f"{path}: its manifest is too large")
        found = json.loads(archive.read("manifest.json"))
        if found["version"] != VERSION:  # before what only this version has
            raise BadSession(f"{path} is of version {found['version']}; {VERSION} is required")
        return {**found, "options": [str(w) for w in found["options"]]}


def _checked(path, options):
    """The words for `nkisim run`, if they are of those that write() is given: a file that others
    made must not choose what is written where."""
    words = list(options)
    while words:
        word = words.pop(0)
        if word in WITH_VALUE and words:
            words.pop(0)
        elif word not in FLAGS:
            raise BadSession(f"{path} asks for {word!r}, which is no option of a saved program")
    return options


def _extract(path, archive, name, folder):
    if archive.getinfo(name).file_size > MAX_FILE:
        raise BadSession(f"{path}: {name} has more than {MAX_FILE >> 30} GiB")
    with archive.open(name) as packed, open(os.path.join(folder, name), "wb") as out:
        shutil.copyfileobj(packed, out)


def capture(path, session):
    """Simulates the program and writes its session."""
    options = _checked(path, manifest(path)["options"])
    with tempfile.TemporaryDirectory() as folder, _open(path) as archive:
        for name in FILES:
            if name in archive.namelist():
                _extract(path, archive, name, folder)
        done = subprocess.run(
            [program(), "run", os.path.join(folder, "program.nisa"), "--quiet", "--session",
             os.path.abspath(session), *options], capture_output=True, text=True, check=False)
    if done.returncode:
        raise BadSession(f"{path}: {done.stderr.strip()}")
