"""scripts/draw.py: mutants by a rule are changes of code, each of one place, and the same for the same seed."""

import importlib.util
import sys

import pytest

from running import ROOT

_spec = importlib.util.spec_from_file_location("draw", ROOT / "scripts" / "draw.py")
draw = importlib.util.module_from_spec(_spec)
sys.modules["draw"] = draw
_spec.loader.exec_module(draw)

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
