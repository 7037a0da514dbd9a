"""Tests the race check on random programs of two cores whose semaphores the simulator derives,
against a reference: reachability between starts and ends of instructions, worked out without
clocks or a memory of accesses.

NKISIM_RACE_PROGRAMS=5000 for more than the few that a run of the tests draws.
"""

import json
import os
import random

import pytest

from running import cli

pytestmark = pytest.mark.process
PROGRAMS = min(int(os.environ.get("NKISIM_RACE_PROGRAMS", "120")), 20_000)
ROWS = 8  # of each tensor in HBM


def draw(rng):
    """Instructions as (core, op, engine, what is read, what is written); places are (name, from, to)."""
    program = []
    barriers = rng.randint(0, 3)
    for core in (0, 1):
        left = barriers
        for _ in range(rng.randint(2, 7) + barriers):
            tile = (f"t{core}{rng.randrange(3)}", 0, 4)
            low = rng.choice([0, 0, 2, 4])
            place = (rng.choice("mn"), low, low + 4)
            kind = rng.random()
            if left and kind < 0.35:
                program.append((core, "barrier", "gpsimd", (), ((rng.choice("mmn"), 0, ROWS),)))
                left -= 1
            elif kind < 0.5:
                value = len(program) + 1
                program.append((core, f"fill {value}", rng.choice(["vector", "gpsimd"]), (), (tile,)))
            elif kind < 0.75:  # of a value of its own: one that is there already would be no race
                program.append((core, f"fill {len(program) + 1}", "vector", (), (tile,)))
                program.append((core, "dma", rng.choice(["sync", "scalar"]), (tile,), (place,)))
            else:
                program.append((core, "dma", rng.choice(["sync", "scalar"]), (place,), (tile,)))
        for _ in range(left):
            program.append((core, "barrier", "gpsimd", (), ((rng.choice("mmn"), 0, ROWS),)))
    return program


def trace(program):
    lines = [{"nisa": 1, "target": "trn2", "name": "k", "cores": 2}]
    for name in "mn":
        lines.append({"tensor": {"name": name, "dtype": "float32", "shape": [ROWS, 16],
                                 "role": "inputoutput", "data": {"generator": "normal", "seed": 1}}})
    for core in (0, 1):
        for i in range(3):
            lines.append({"tensor": {"name": f"t{core}{i}", "space": "sbuf", "dtype": "float32",
                                     "shape": [4, 16], "address": 64 * i, "core": core}})
    # Every tile holds something of its own before anything else.
    first = len(lines)
    for core in (0, 1):
        for i in range(3):
            lines.append({"i": "memset", "dst": f"t{core}{i}", "value": 1000.0 + 3 * core + i,
                          "core": core, "engine": "vector"})
    for core, op, engine, reads, writes in program:
        def text(place):
            name, low, high = place
            return f"{name}[{low}:{high}]"
        line = {"core": core, "engine": engine}
        if op == "barrier":
            line |= {"i": "core_barrier", "data": writes[0][0], "cores": [0, 1]}
        elif op == "dma":
            line |= {"i": "dma_copy", "dst": text(writes[0]), "src": text(reads[0])}
        else:
            line |= {"i": "memset", "dst": text(writes[0]), "value": float(op.split()[1])}
        lines.append(line)
    return "\n".join(map(json.dumps, lines)) + "\n", first + 6 + 1


def conflict(a, b):
    def meet(xs, ys):
        return any(x[0] == y[0] and x[1] < y[2] and y[1] < x[2] for x in xs for y in ys)
    return meet(a[4], b[3]) or meet(a[3], b[4]) or meet(a[4], b[4])


def races(program):
    """Pairs of instructions of two cores on the same bytes that nothing orders."""
    edges = {}

    def edge(a, b):
        edges.setdefault(a, []).append(b)
    for i, a in enumerate(program):
        edge(("start", i), ("end", i))
        for j in range(i + 1, len(program)):
            b = program[j]
            if a[0] != b[0]:
                continue
            if a[2] == b[2]:
                edge(("start", i), ("start", j))
                # Transfers of a queue, and instructions of an engine, end in order.
                edge(("end", i), ("start" if a[1] == "barrier" else "end", j))
            if conflict(a, b):
                edge(("end", i), ("start", j))
    meetings = [[i for i, a in enumerate(program) if a[:2] == (core, "barrier")] for core in (0, 1)]
    for k, pair in enumerate(zip(*meetings)):
        for i in pair:
            edge(("start", i), ("meeting", k))
            edge(("meeting", k), ("end", i))

    def reaches(a, b):
        seen, todo = set(), [a]
        while todo:
            at = todo.pop()
            if at == b:
                return True
            if at not in seen:
                seen.add(at)
                todo += edges.get(at, [])
        return False
    found = set()
    for i, a in enumerate(program):
        for j, b in enumerate(program):
            if a[0] == 0 and b[0] == 1 and "barrier" not in (a[1], b[1]) and conflict(a, b):
                if not reaches(("end", i), ("start", j)) and not reaches(("end", j), ("start", i)):
                    found.add((i, j))
    return found


@pytest.mark.parametrize("part", range(4))
def test_random_programs(part, tmp_path):
    path = tmp_path / "k.jsonl"
    clean = 0
    for number in range(part, PROGRAMS, 4):
        program = draw(random.Random(number))
        wanted = races(program)
        text, first = trace(program)
        path.write_text(text)
        done = cli("check", path, "--races", "--json", code=None, timeout=60)
        found = json.loads(done.stdout)
        assert "error" not in found, (number, found)
        said = {tuple(sorted((r["first"]["line"] - first, r["second"]["line"] - first),
                             key=lambda i: program[i][0])) for r in found["races"]}
        assert said <= wanted and bool(said) == bool(wanted), (number, said, wanted, text)
        clean += not wanted
    assert 0.1 < clean / (PROGRAMS / 4) < 0.9
