"""Finds the tests that execute a given line, from data of scripts/mutate --map, and the nearest
tests to a place in the code.

A unit is what runs at a time: a test file of Python without its slow tests, a program of C++
tests, or the random instruction tests. coverage.py reports the Python lines that a unit
executes, tests/support/blocks.cpp the blocks of C++ programs. A map is a folder with a JSON file
for each unit: a hash of the unit, its processor time, and for each source file its hash and the
executed lines. It says nothing of the lines of a file that has changed since.

      scripts/executed.py build/mutate/executed isa/base/alu.cpp 40     # the units that execute a line
"""

import ast
import bisect
import collections
import concurrent.futures
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import packages

_BLOCK = re.compile(rb"\x01")
_PLACE = re.compile(r"^(/?[^\s:()][^:()]*):(\d+)(?: \(discriminator \d+\))?$")
_CODE = re.compile(r"^ +([0-9a-f]+):\t")
_CALL = "<__sanitizer_cov_trace_pc>"
_CPP = ("isa", "models", "compiler", "checks", "src", "python/binding")
_SITE = "import coverage\n\ncoverage.process_startup()\n"
_SETTINGS = """[run]
data_file = ${MUTATE_EXECUTED}/python
parallel = true
include = %s/python/*,%s/clients/*
patch = fork, _exit
core = ctrace
disable_warnings = no-data-collected, module-not-measured, couldnt-parse
"""
#: Tests of what is around the product, or in a browser.
OTHERS = ("tests/python/repo/", "clients/web/tests/")
_NO_TESTS = 5  # pytest's exit code
_LONGEST = 900  # seconds of a unit, of which only what it executed by then counts


def packed(lines):
    """A text of line numbers: runs, with commas between."""
    runs = []
    for n in sorted(lines):
        if runs and runs[-1][1] == n - 1:
            runs[-1][1] = n
        else:
            runs.append([n, n])
    return ",".join(f"{a}-{b}" if b > a else f"{a}" for a, b in runs)


def unpacked(text):
    ends = [[int(n) for n in run.split("-")] for run in text.split(",") if run]
    return {n for run in ends for n in range(run[0], run[-1] + 1)}


def blocks(listing, below):
    """[(address after a block's call, {(file, line)})] of what objdump -dl says, of the files for which below(path) has
    a name."""
    found, place, names = [], None, {}
    for text in listing:
        code = _CODE.match(text)
        if code is None:
            at = _PLACE.match(text)
            if at is not None:
                path = at[1]
                if path not in names:
                    names[path] = below(path)
                place = (names[path], int(at[2])) if names[path] else None
            elif not text.strip() or text.endswith(">:\n"):
                place = None
            continue
        if found and found[-1][0] is None:
            found[-1][0] = int(code[1], 16)
        if text.rstrip().endswith(_CALL):
            found.append([None, {place} - {None}])
        elif found and place is not None:
            found[-1][1].add(place)
    return [(at, places) for at, places in found if at is not None]


def program_blocks(program, root):
    """The blocks of a program or module that was built in a copy of the tree at `root`."""
    names = {}

    def below(path):
        parts = Path(path).parts
        for k in range(len(parts) - 1, -1, -1):
            name = "/".join(parts[k:])
            if name in names:
                return names[name]
        return None
    for folder in _CPP:
        for path in (root / folder).rglob("*.[ch]pp"):
            name = path.relative_to(root).as_posix()
            names[name] = name
    with subprocess.Popen(["objdump", "-dl", "--no-show-raw-insn", str(program)], stdout=subprocess.PIPE,
                          text=True, errors="replace") as dump:
        return blocks(dump.stdout, below)


def executed_blocks(table, ran):
    """{file: {line}} of the blocks of a program whose byte is set in what it left behind."""
    lines, at = collections.defaultdict(set), {m.start() for m in _BLOCK.finditer(ran)}
    for start, places in table:
        if start in at:
            for name, line in places:
                lines[name].add(line)
    return lines


def executed_python(folder, root):
    """{file: {line}} of what coverage.py left behind in a folder, of the files below `root`."""
    from coverage import CoverageData  # noqa: PLC0415
    lines = collections.defaultdict(set)
    for path in folder.glob("python*"):
        data = CoverageData(str(path))
        try:
            data.read()
        except Exception:  # of a process that was killed as it wrote
            continue
        for name in data.measured_files():
            if Path(name).is_relative_to(root):
                lines[Path(name).relative_to(root).as_posix()] |= set(data.lines(name) or ())
    return lines


def units(root):
    """[unit] of a tree: the test files of Python that need only its own build, and what is C++'s."""
    programs = {p.parent.name for p in (root / "tests").glob("*/*_test.cpp")}
    return sorted(f for f in packages.test_files(root) if not f.startswith(OTHERS)) + [
        f"{name}_tests" for name in sorted(programs)] + ["differential"]


def stamp(*paths):
    """A short text that changes with these files."""
    digest = hashlib.sha256()
    for path in sorted(paths):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def sources(root):
    """{file: stamp} of all files that have lines to execute."""
    found = [p for folder in _CPP for p in (root / folder).rglob("*.[ch]pp")]
    return {p.relative_to(root).as_posix(): stamp(p) for p in (*found, *packages.modules(root))}


def unit_stamp(root, unit):
    folder = root / "tests" / unit.removesuffix("_tests")
    return stamp(root / unit) if unit.endswith(".py") else stamp(
        *(folder.glob("*.py") if unit == "differential" else folder.glob("*_test.cpp")))


def target(unit):
    """The build target of a unit of C++'s."""
    return "differential_driver" if unit == "differential" else unit


def command(unit):
    """The command that runs a unit in a built tree, with {python} and {build}."""
    if unit.endswith(".py"):
        return ["{python}", "-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", "not slow", unit]
    if unit == "differential":
        return ["{python}", "tests/differential/run.py", "--driver", "{build}/tests/differential_driver", "--cases",
                "2000", "--seed", "11", "--timed", "--jobs", "1", "--out", "build/failures"]
    return [f"{{build}}/tests/{unit}"]


def measured(tree, unit, python, tables, tools):
    """(seconds, {file: {line}}) of a unit in a tree that was built for it."""
    folder = tree.path / "build" / "executed" / unit.replace("/", "-")
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "blocks").mkdir(parents=True)
    (folder / "sitecustomize.py").write_text(_SITE)
    (folder / "settings").write_text(_SETTINGS % (tree.path, tree.path))
    environment = {**tree.environment, "NKISIM_BLOCKS": str(folder / "blocks")}
    if unit.endswith(".py"):
        environment |= {"MUTATE_EXECUTED": str(folder), "COVERAGE_PROCESS_START": str(folder / "settings"),
                        "PYTHONPATH": f"{folder}:{tree.environment['PYTHONPATH']}:{tools}"}
    with open(folder / "output", "w") as output:
        words = [w.format(python=python, build="build/release") for w in command(unit)]
        process = subprocess.Popen(words, cwd=tree.path, env=environment, stdin=subprocess.DEVNULL,
                                   stdout=output, stderr=output, start_new_session=True)
        begun = time.monotonic()
        while not (ended := os.wait4(process.pid, os.WNOHANG))[0]:
            if time.monotonic() - begun > _LONGEST:
                os.killpg(process.pid, 9)
            time.sleep(0.1)
        process.returncode = os.waitstatus_to_exitcode(ended[1])
    if process.returncode and process.returncode != _NO_TESTS:  # it executes no less for that
        print(f"mutate: {unit} ends with {process.returncode} in the measured build", flush=True)
    lines = executed_python(folder, tree.path)
    for left in (folder / "blocks").iterdir():
        for name, some in executed_blocks(tables.get(left.name, ()), left.read_bytes()).items():
            lines[name] |= some
    shutil.rmtree(folder)
    return ended[2].ru_utime + ended[2].ru_stime, lines if process.returncode != _NO_TESTS else {}


def make(tree, folder, python, tools, only=(), jobs=1):
    """Brings a folder's map up to date with a tree that was built for it: the units of which the tests, or a file that
    they execute, have changed; all that are in `only` and no others, if there are any."""
    sys.path.append(str(tools))
    folder.mkdir(parents=True, exist_ok=True)
    before, now, every = Map(folder), sources(tree.path), units(tree.path)
    wanted = [u for u in only or every if only or before.stale(u, unit_stamp(tree.path, u), now)]
    programs = [tree.build / "nkisim", *tree.build.glob("python/nkisim/_core*"),
                *(tree.build / "tests" / target(u) for u in every if not u.endswith(".py"))]
    tables = {p.name: program_blocks(p, tree.path) for p in programs} if wanted else {}

    def one(unit):
        seconds, lines = measured(tree, unit, python, tables, tools)
        said = {name: [now[name], packed(some)] for name, some in sorted(lines.items()) if name in now}
        (folder / f"{unit.replace('/', '-')}.json").write_text(json.dumps(
            {"unit": unit, "of": unit_stamp(tree.path, unit), "seconds": round(seconds, 1), "lines": said}, indent=0))
        print(f"{seconds:7.1f} s {sum(len(s) for s in lines.values()):7} lines  {unit}", flush=True)
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        list(pool.map(one, wanted))
    for unit in set(before.files) - set(every):
        (folder / f"{unit.replace('/', '-')}.json").unlink()


class Map:
    """The lines that the units of a folder's map execute."""

    def __init__(self, folder):
        self.seconds, self.of, self.files = {}, {}, {}
        for path in sorted(Path(folder).glob("*.json")):
            unit = json.loads(path.read_text())
            name = unit["unit"]
            self.seconds[name], self.of[name], self.files[name] = unit["seconds"], unit["of"], unit["lines"]
        self._size = {name: sum(len(unpacked(text)) for _, text in some.values()) for name, some in self.files.items()}

    def stale(self, unit, of, now):
        """True if a unit is new, or its tests or a file that it executed are other ones."""
        return self.of.get(unit) != of or any(now.get(f) != was for f, (was, _) in self.files[unit].items())

    def lines(self, unit, file, now):
        """The lines of a file that a unit executed, none if the file's stamp is another one now."""
        was, text = self.files[unit].get(file, ("", ""))
        return unpacked(text) if was == now else set()

    def executing(self, file, now, lines):
        """The units that execute one of these lines of a file with the stamp `now`."""
        return [u for u in self.files if not self.lines(u, file, now).isdisjoint(lines)]

    def nearest(self, file, now, line, around, likeness, count, limit):
        """At most `count` of the units that execute a line, that take at most `limit` seconds together (but one at
        least); if none does, of those that execute a line `around` it, or of the file. Alternately the one of the
        most {unit: likeness} and the one that executes least else; of a line that all of them execute who reach the
        file, as they import it, the one that executes most of the file."""
        for lines in ({line}, around, None):
            units = self.executing(file, now, lines) if lines else [u for u in self.files if file in self.files[u]]
            if units:
                break
        reached = {u: len(self.lines(u, file, now)) for u in self.files if file in self.files[u]}
        imported = len(units) == len(reached)
        least = sorted(units, key=lambda u: (-reached[u] if imported else self._size[u], u))
        alike = sorted(units, key=lambda u: (-likeness.get(u, 0), u))
        order = dict.fromkeys(u for pair in zip(alike, least) for u in pair)
        chosen, total = [], 0
        for u in order:
            if len(chosen) < count and (not chosen or total + self.seconds[u] <= limit):
                chosen.append(u)
                total += self.seconds[u]
        return chosen


def lines_around(name, text, line):
    """The lines of the function around a line, by its text; the whole file's, where there is none."""
    count = text.count("\n") + 1
    if name.endswith(".py"):
        around = [n for n in ast.walk(ast.parse(text)) if isinstance(n, (ast.FunctionDef, ast.ClassDef))
                  and n.lineno <= line <= n.end_lineno]
        inner = max(around, key=lambda n: n.lineno, default=None)
        return set(range(inner.lineno, inner.end_lineno + 1)) if inner else set(range(1, count + 1))
    # In C++ a function begins after a line that ends what is before it, at its margin, and ends there.
    ends = [0, *(n for n, t in enumerate(text.split("\n"), 1) if re.match(r"[}]", t)), count + 1]
    after = bisect.bisect_left(ends, line)
    return set(range(ends[after - 1] + 1, ends[after] + 1))


def main():
    """executed.py FOLDER FILE LINE: the units of a map that execute a line."""
    folder, file, line = sys.argv[1:]
    found = Map(folder)
    for unit in found.executing(file, stamp(Path(file)), {int(line)}):
        print(f"{found.seconds[unit]:6.1f} s  {unit}")


if __name__ == "__main__":
    main()
