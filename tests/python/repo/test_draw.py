"""scripts/draw.py: mutants by a rule are changes of code, each of one place, and the same for the same seed."""

import importlib.util
import sys

import pytest

from running import ROOT



def script(name):
    spec = importlib.util.spec_from_file_location(name, ROOT / "scripts" / f"{name}.py")
    sys.modules[name] = module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


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
def test_what_is_drawn(count):
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
    told = {"t/a/test_x.py": "rare", "t/b/test_y.py": "rare", "t/b/test_store.py": "rare", "t/a/test_z.py": ""}
    assert near.nearest(told, {"rare": 1.0}, 1, ["b"]) == ["t/b/test_store.py"]
    assert near.nearest(told, {"rare": 1.0}, 1, ["a"]) == ["t/a/test_x.py"]
    assert near.nearest(told, {"rare": 1.0}, 1, [], "p/store.py") == ["t/b/test_store.py"]
