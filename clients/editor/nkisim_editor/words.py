"""Writes the texts that the editor shows for kernels (hovers, hints, explanations), as Markdown."""

import ast
import functools
import json
import subprocess

from nkisim_work import program

from .static import aliases, dotted_name

GENERATIONS = ("trn1", "trn2", "trn3")


def time_text(ns):
    """A time as people read it: 1.23 us, 870 ns."""
    return f"{ns:.0f} ns" if ns < 1000 else f"{ns / 1e3:.2f} us" if ns < 1e6 else f"{ns / 1e6:.2f} ms"


@functools.cache
def catalogue():
    """{instruction: its entry of `nkisim isa --json`}."""
    done = subprocess.run([program(), "isa", "--json"], capture_output=True, text=True, check=True)
    return {entry["name"]: entry for entry in json.loads(done.stdout)["instructions"]}


@functools.cache
def explanation(name):
    """The text of `nkisim explain` for a rule, kind or metric as Markdown, or None if it knows none."""
    done = subprocess.run([program(), "explain", "--json", name], capture_output=True, text=True, check=False)
    try:
        said = json.loads(done.stdout)
    except ValueError:
        return None
    if done.returncode != 0 or not said.get("meaning"):
        return None
    lines = [f"# {name}", "", said["meaning"], ""]
    for key, title in (("cause", "Cause"), ("fix", "What to do")):
        if said.get(key):
            lines += [f"**{title}:** {said[key]}", ""]
    if said.get("says"):
        lines += ["It says:", "", "```text", said["says"], "```", ""]
    return "\n".join(lines)


def line_hint(found, latency_us):
    """The inlay hint of a line: its time, and how much of the run waits for it."""
    text = time_text(found["busy_ns"] + found["dma_ns"])
    if found["count"] > 1:
        text += f", {found['count']} times"
    if latency_us and found["share"] >= 0.005:
        text += f", {100 * found['share']:.0f} % of the run"
    return text


def line_details(found):
    """The tooltip of a hint."""
    ops = ", ".join(f"{n} {op}" for op, n in sorted(found["ops"].items()))
    return (f"{ops}\n\n{time_text(found['busy_ns'])} on engines, {time_text(found['dma_ns'])} of transfers, "
            f"{time_text(found['critical_ns'])} of the critical path")


def generations(kernel, line):
    """A table of a line's cost on each generation, from the answers for a kernel: {target: answer}."""
    rows = []
    for target in GENERATIONS:
        answer = kernel["targets"].get(target)
        if answer is None:
            rows.append((target, "not run yet", "", "", ""))
        elif "error" in answer:
            rows.append((target, answer["error"]["message"].splitlines()[0], "", "", ""))
        else:
            found = answer["lines"].get(line)
            if found is None:
                rows.append((target, "no instruction", "", "", ""))
                continue
            per = (found["busy_ns"] + found["dma_ns"]) / max(found["count"], 1)
            rows.append((target, time_text(per), str(found["count"]),
                         time_text(found["busy_ns"] + found["dma_ns"]), f"{100 * found['share']:.1f} %"))
    head = "| | each | executions | together | of the run |\n|---|---|---|---|---|\n"
    return head + "".join("| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |\n" for row in rows)


def instruction(name):
    """An instruction with its rule of cost, from the catalogue, or None."""
    entry = catalogue().get(name)
    if entry is None:
        return None
    engines = ", ".join(e["engine"] if e["since"] == "trn1" else f"{e['engine']} (from {e['since']})"
                        for e in entry.get("engines", ()))
    parts = [f"**nki.isa.{name}** ({entry['opcode']}): {entry['doc']}"]
    parts += [f"engines: {engines}"] if engines else []
    parts += [f"from {entry['since']}"] if entry["since"] != "trn1" else []
    parts += [f"cost: {entry['cost']}"] if entry.get("cost") else []
    return "\n\n".join(parts)


def name_at(text, line, column):
    """(module, name) of the nki name at a place (line from 1, column from 0), or None."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError):
        return None
    names = aliases(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node.lineno <= line <= node.end_lineno and dotted_name(node, names):
            starts = node.col_offset if node.lineno == line else 0
            if starts <= column and (node.end_lineno > line or column <= node.end_col_offset):
                return dotted_name(node, names)
    return None
