"""Tests that source text travels in traces (files of instructions) and sessions (profile files of one run), and that
no file names a folder of its author.
"""

import base64
import gzip
import json
import re
import shutil
import zipfile

import pytest

from running import cli

pytestmark = [pytest.mark.process, pytest.mark.slow]
KERNEL = """import nki
import nki.isa as nisa
import nki.language as nl


@nki.jit
def kernel(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    t = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=t, src=x)
    nisa.activation(dst=t, op=nl.exp, data=t)  # line of this kernel alone
    nisa.dma_copy(dst=out, src=t)
    return out
"""


def everything(path):
    """The bytes of a file, and those of what is compressed in it."""
    data = path.read_bytes()
    if zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as archive:
            data += b"".join(archive.read(name) for name in archive.namelist())
    data += gzip.decompress(data) if data[:2] == b"\x1f\x8b" else b""
    return data + b"".join(gzip.decompress(base64.b64decode(packed)) for packed in re.findall(rb"H4sI[\w+/]+=*", data))


@pytest.fixture(scope="module")
def received(tmp_path_factory):
    """A folder with what an author has made of a kernel and of a slower one; his own folder is gone."""
    author, here = tmp_path_factory.mktemp("author_of_it"), tmp_path_factory.mktemp("here")
    (author / "deep").mkdir()
    for name, text in (("fast", KERNEL), ("slow", KERNEL.replace("nisa.act", "nisa.memset(dst=t[:, 0:1], value=0.0)\n"
                                                                 "    nisa.act"))):
        (author / "deep" / "k.py").write_text(text)
        cli("kernel", author / "deep" / "k.py:kernel", "--arg", "x=f32[128,512]:normal", "-o", here / f"{name}.nisa",
            "--session", here / f"{name}.session.npz", "--html", here / f"{name}.html",
            "--perfetto", here / f"{name}.pftrace.gz", cwd=author)
        cli("run", here / f"{name}.nisa", "--accounting-json", here / f"{name}.json", "--chrome",
            here / f"{name}.trace.json.gz", "--vcd", here / f"{name}.vcd", "--summary-json", here / f"{name}.sum.json",
            cwd=author)
        cli("convert", here / f"{name}.nisa", "-o", here / f"{name}.jsonl", cwd=author)
    shutil.rmtree(author)
    return author, here


def test_no_file_has_the_authors_folder(received):
    author, here = received
    files = sorted(here.iterdir())
    assert len(files) >= 20
    for path in files:
        assert author.name.encode() not in everything(path), path.name


def test_reports_show_the_source_where_it_is_not(received, tmp_path):
    _, here = received
    cli("run", here / "fast.nisa", "--session", tmp_path / "s.npz", cwd=tmp_path)
    cli("report", here / "fast.session.npz", "-o", tmp_path / "p.html", cwd=tmp_path)
    for path in (here / "fast.session.npz", here / "fast.html", tmp_path / "s.npz", tmp_path / "p.html"):
        assert b"line of this kernel alone" in everything(path), path.name
    said = cli("run", here / "fast.nisa", "--explain", cwd=tmp_path).stdout
    assert "activation #1  k.py:11" in said


def test_compare_matches_lines_that_moved(received, tmp_path):
    _, here = received
    said = json.loads(cli("compare", here / "fast.nisa", here / "slow.nisa", "--json", cwd=tmp_path).stdout)
    lines = {row["what"] for row in said["by_line"]}
    assert any("value=0.0" in line for line in lines)  # the new line; those behind it have moved, no more
    assert all(row["a_count"] and row["b_count"] for row in said["by_line"] if "value=0.0" not in row["what"])


def test_a_trace_with_sources_is_the_same_in_both_forms(received, tmp_path):
    _, here = received
    cli("convert", here / "fast.jsonl", "-o", tmp_path / "again.nisa")
    cli("convert", tmp_path / "again.nisa", "-o", tmp_path / "again.jsonl")
    header, again = ((path / name).read_text().splitlines()[0] for path, name in (
        (here, "fast.jsonl"), (tmp_path, "again.jsonl")))
    assert json.loads(header)["sources"] == {"k.py": KERNEL} and again == header
    bad = json.loads(header) | {"sources": {"k.py": 3}}
    (tmp_path / "bad.jsonl").write_text(json.dumps(bad) + "\n")
    assert "header.sources is 3; an object of file names with their texts is required" in cli(
        "run", tmp_path / "bad.jsonl", code=3).stderr
