"""Tests scripts/draw.py, which makes random mutants (small mistakes put into code), and nearest.py
and executed.py, which choose the tests to run for a mutant.
"""

import importlib.util
import json
import os
import shutil
import subprocess
import sys

import pytest

from running import ROOT


def script(name):
    spec = importlib.util.spec_from_file_location(name, ROOT / "scripts" / f"{name}.py")
    sys.modules[name] = module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


script("packages")
executed = script("executed")
draw, near = script("draw"), script("nearest")

CPP = '''#include <a> // 1 < 2
// x == 3
const char* kText = "a < b + 1";
int f(int a, std::vector<int>& v) {
  assert(a > 0);
  if (a < 10 && a != 4) {
    v.push_back(a + 1);
    total += 2;
  }
  return a;
}
'''
PYTHON = '''"""Text with 1 < 2."""
# x == 3
def f(a, v):
    if a < 10 and a != 4:
        v.append(a + 1)
        v[0] += 2
    return a
'''


def kinds(name, text):
    return [(text[at:at + len(old)] == old and old, new, kind) for at, old, new, kind in draw.places(name, text)]


def test_places_of_cpp_are_code():
    assert kinds("a.cpp", CPP) == [
        ("<", "<=", "comparison"), ("10", "11", "constant"), ("&&", "||", "condition"), ("!=", "==", "comparison"),
        ("4", "5", "constant"), ("v.push_back(a + 1);", ";", "statement"), ("+", "-", "sign"), ("1", "2", "constant"),
        ("total += 2;", ";", "statement"), ("2", "3", "constant")]


def test_places_of_python_are_code():
    assert kinds("a.py", PYTHON) == [
        ("<", "<=", "comparison"), ("10", "11", "constant"), ("and", "or", "condition"), ("!=", "==", "comparison"),
        ("4", "5", "constant"), ("v.append(a + 1)", "pass", "statement"), ("+", "-", "sign"), ("1", "2", "constant"),
        ("v[0] += 2", "pass", "statement"), ("0", "1", "constant"), ("2", "3", "constant")]


@pytest.mark.parametrize("count", [1, 8, 50])
def test_random_mutants(count):
    files = {"a.cpp": (CPP, "src", ["src"]), "b.py": (PYTHON, "python", ["near"])}
    found = draw.drawn(files, count, 5)
    assert found == draw.drawn(files, count, 5) and (count == 1 or found != draw.drawn(files, count, 6))
    assert len({(m["file"], m["at"]) for m in found}) == len(found) == min(count, 21)
    for m in found:
        text = files[m["file"]][0]
        assert text[m["at"]:m["at"] + len(m["find"])] == m["find"] != m["replace"]


MODULE = """import os
class Store:
    def fill(self, rare):
        return common(rare)
def other():
    return nothing_here
"""
TESTS = {"t/a/test_filled.py": "Store().fill(1)\nrare = common", "t/a/test_far.py": "common = 1",
         "t/b/test_store.py": "import common", "t/b/test_other.py": "nothing_here = other()"}


def test_names_around_a_line():
    assert near.names_at(MODULE, 4, "p/store.py") == {
        "def": 1.0, "self": 1.0, "return": 1.0, "common": 1.0, "rare": 1.0, "fill": 3.0, "Store": 3.0, "store": 3.0}
    assert set(near.names_at(MODULE, 6, "p/store.py")) == {"def", "other", "return", "nothing_here", "store"}
    assert "import" in near.names_at(MODULE, 1, "p/store.py")  # the whole file


def test_the_nearest_tests_share_the_rarest_names():
    weights = near.names_at(MODULE, 4, "p/store.py")
    assert near.nearest(TESTS, weights, 2)[0] == "t/a/test_filled.py"
    assert near.nearest(TESTS, near.names_at(MODULE, 6, "p/store.py"), 1) == ["t/b/test_other.py"]
    assert near.nearest(TESTS, weights, 9) == near.nearest(dict(reversed(TESTS.items())), weights, 9)
    # A name that every file has says nothing; the module's own name in the file's, and its folder, do.
    assert near.nearest({f: "common" for f in TESTS}, {"common": 1.0}, 1) == ["t/a/test_far.py"]
    executed = {"t/a/test_x.py": "rare", "t/b/test_y.py": "rare", "t/b/test_store.py": "rare", "t/a/test_z.py": ""}
    assert near.nearest(executed, {"rare": 1.0}, 1, ["t/b"]) == ["t/b/test_store.py"]
    assert near.nearest(executed, {"rare": 1.0}, 1, ["t/a"]) == ["t/a/test_x.py"]
    assert near.nearest(executed, {"rare": 1.0}, 1, [], "p/store.py") == ["t/b/test_store.py"]


def test_lines_around_a_place():
    assert executed.lines_around("a.py", MODULE, 4) == {3, 4} and executed.lines_around("a.py", MODULE, 2) == {2, 3, 4}
    assert executed.lines_around("a.py", MODULE, 1) == set(range(1, 8))  # in no function: the whole file
    assert executed.lines_around("a.cpp", CPP + "int g() {\n  return 1;\n}\n", 7) == set(range(1, 12))
    assert executed.lines_around("a.cpp", CPP + "int g() {\n  return 1;\n}\n", 13) == {12, 13, 14}


@pytest.mark.parametrize("lines, text", [(set(), ""), ({4}, "4"), ({1, 2, 3, 7, 9, 10}, "1-3,7,9-10")])
def test_lines_are_packed(lines, text):
    assert executed.packed(lines) == text and executed.unpacked(text) == lines


LISTING = """
t:     file format elf64-x86-64
00000000000018f9 <_Z1fi>:
_Z1fi():
/tmp/work/isa/f.cpp:2
    18f9:\tpush   %rbx
/tmp/work/isa/f.cpp:3
    18fc:\tcall   1980 <__sanitizer_cov_trace_pc>
    1901:\tcmp    $0x2,%ebx
/tmp/work/isa/f.cpp:7 (discriminator 3)
    1906:\tcall   1980 <__sanitizer_cov_trace_pc>
    190b:\ttest   %ebx,%ebx
/usr/include/c++/12/vector:50
    190d:\tjle    1944 <_Z1fi+0x4b>
/tmp/work/isa/f.cpp:8
    190f:\tcall   1980 <__sanitizer_cov_trace_pc>
    1914:\tlea    0x6ed(%rip),%rdi        # 2008 <_IO_stdin_used+0x8>
0000000000001930 <_Z1gi>:
    1930:\tret
""".splitlines(keepends=True)


def test_blocks_of_a_program():
    table = executed.blocks(LISTING, lambda path: "isa/f.cpp" if path.endswith("isa/f.cpp") else None)
    assert table == [(0x1901, {("isa/f.cpp", 3)}), (0x190b, {("isa/f.cpp", 7)}), (0x1914, {("isa/f.cpp", 8)})]
    ran = bytearray(0x2000)
    ran[0x1901] = ran[0x1914] = 1
    assert executed.executed_blocks(table, bytes(ran)) == {"isa/f.cpp": {3, 8}}


def a_map(folder, **units):
    folder.mkdir(exist_ok=True)
    for name, (seconds, lines) in units.items():
        (folder / f"{name}.json").write_text(json.dumps(
            {"unit": name, "of": "t", "seconds": seconds, "lines": {"m.py": ["s", lines], "n.py": ["s", "1-9"]}}))
    return executed.Map(folder)


def test_the_nearest_execute_the_line(tmp_path):
    found = a_map(tmp_path, small=(9.0, "4"), large=(9.0, "1-50"), other=(1.0, "5-90"), far=(1.0, "80"))

    def near(line, around=(), alike=(), count=9, limit=60):
        return found.nearest("m.py", "s", line, set(around), dict(alike), count, limit)
    assert near(4) == ["large", "small"] and near(4, count=1) == ["large"]  # by name, then the one of the fewest lines
    assert near(4, alike={"small": 1.0}, count=1) == ["small"]
    assert near(20, alike={"other": 1.0}) == ["other", "large"]
    assert near(20, alike={"other": 1.0}, limit=5) == ["other"] and near(4, limit=5) == ["large"]  # one at least
    assert near(70, range(75, 85)) == ["other"] and near(60, range(55, 65)) == ["other"]
    assert near(200, range(75, 85)) == near(200, {80}) == ["far", "other"]  # the function
    assert set(near(200, {201})) == {"small", "large", "other", "far"}  # the file
    # A line that all execute who import its file: alternately the likeliest, and those that execute most of it.
    deep = a_map(tmp_path / "deep", a=(1.0, "1-3"), b=(1.0, "1-3,10-20"), c=(1.0, "1-3,10"))
    assert deep.nearest("m.py", "s", 2, {2}, {}, 2, 60) == ["a", "b"] and deep.nearest(
        "m.py", "s", 2, {2}, {"c": 1.0}, 2, 60) == ["c", "b"]
    # The map names only the tests that reach a file which has changed since.
    assert found.executing("m.py", "new", {4}) == [] and found.nearest("none.py", "s", 4, {4}, {}, 9, 60) == []
    assert set(found.nearest("m.py", "new", 4, {4}, {}, 9, 60)) == {"small", "large", "other", "far"}


def test_what_is_measured_again(tmp_path):
    found = a_map(tmp_path, small=(9.0, "4"))
    now = {"m.py": "s", "n.py": "s", "untouched.py": "other"}
    assert not found.stale("small", "t", now) and found.stale("small", "changed", now) and found.stale("new", "t", now)
    assert found.stale("small", "t", {**now, "m.py": "changed"}) and found.stale("small", "t", {"m.py": "s"})
    assert not found.stale("small", "t", {**now, "untouched.py": "changed"})


def test_units_of_the_tree():
    units = executed.units(ROOT)
    assert {"isa_tests", "src_tests", "fuzz_tests", "tests/hazards/test_corpus.py",
            "tests/python/nki/test_views.py"} <= set(units)
    assert not any(u.startswith(("tests/python/repo", "clients/web/tests")) for u in units)


BRANCHES = """volatile int big, small;
void f(int a) {
  if (a > 2)
    big = big + 1;
  else
    small = small + 1;
}
int main(int count, char**) { f(count); }
"""


@pytest.mark.process
@pytest.mark.slow
@pytest.mark.skipif(not shutil.which("objdump") or not shutil.which("g++"), reason="needs g++ and objdump")
def test_a_program_says_which_blocks_ran(tmp_path):
    (tmp_path / "isa").mkdir()
    (tmp_path / "isa/f.cpp").write_text(BRANCHES)
    recorder = [str(ROOT / "tests/support/blocks.cpp"), "-std=c++20"]
    subprocess.run(["g++", *recorder, "-c", "-o", tmp_path / "blocks.o"], check=True)
    subprocess.run(["g++", "-O1", "-g1", "-fsanitize-coverage=trace-pc", tmp_path / "isa/f.cpp", tmp_path / "blocks.o",
                    "-o", tmp_path / "f"], check=True)
    table = executed.program_blocks(tmp_path / "f", tmp_path)
    runs = []
    for words in ([], ["1", "2", "3"]):
        folder = tmp_path / str(len(words))
        folder.mkdir()
        subprocess.run([tmp_path / "f", *words], env={**os.environ, "NKISIM_BLOCKS": str(folder)}, check=False)
        runs.append(executed.executed_blocks(table, (folder / "f").read_bytes())["isa/f.cpp"])
    assert {3, 6} <= runs[0] and 4 not in runs[0] and {3, 4} <= runs[1] and 6 not in runs[1]
    subprocess.run([tmp_path / "f"], env={**os.environ, "NKISIM_BLOCKS": ""}, check=False)  # nothing is asked for
    assert sorted(p.name for p in tmp_path.iterdir()) == ["0", "3", "blocks.o", "f", "isa"]
