"""Fills the profile tables that link instructions to the kernel's source: functions and their
lines.

A run knows one file and line per instruction. The function around that line, and the functions
around that one, are found in the source text; a caller in another function is not known, so the
outermost frame of a stack is the outermost function, not the program.
"""

import ast
import functools

MODULE = "<module>"


@functools.lru_cache(maxsize=64)
def functions(text):
    """(first line, last line, dotted name, line) of every function of a source text."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError):  # not Python, or cut short: lines without functions
        return ()
    found = []

    def visit(node, prefix):
        for child in ast.iter_child_nodes(node):
            name = getattr(child, "name", None)
            inner = prefix
            if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                inner = f"{prefix}.{name}" if prefix else name
                if not isinstance(child, ast.ClassDef):
                    found.append((child.lineno, child.end_lineno, inner))
            visit(child, inner)

    visit(tree, "")
    return tuple(found)


class Frames:
    """Functions as stack frames, numbered from 1; parents have smaller numbers than children."""

    def __init__(self, session):
        self.rows, self._ids = [], {}  # rows: (file, function, line of def, parent or None)
        self._texts = session.sources
        self.of_inst = [self._innermost(session.texts[f], int(line))
                        for f, line in zip(session.insts.file, session.insts.line)]

    def _innermost(self, file, line):
        """(frame number, depth) of the function around a line; (None, 0) without a source line."""
        if not file:
            return None, 0
        around = [f for f in functions(self._texts.get(file, "")) if f[0] <= line <= f[1]]
        parent = None
        for start, _, name in around or [(1, 1, MODULE)]:
            parent = self._number(file, name, start, parent)
        return parent, max(1, len(around))

    def _number(self, file, name, line, parent):
        key = (file, name, line)
        if key not in self._ids:
            self.rows.append((file, name, line, parent))
            self._ids[key] = len(self.rows)
        return self._ids[key]


def kernel_instructions(s):
    i, frames = s.insts, s.frames
    known = [k for k, (frame, _) in enumerate(frames.of_inst) if frame is not None]
    names, ops = s.text(i.label), s.text(i.op)
    return {"kernel_instruction_name": [names[k] or ops[k] for k in known],
            "stack_frame_id": [frames.of_inst[k][0] for k in known],
            "stack_frame_depth": [frames.of_inst[k][1] for k in known],
            "pcore_idx": [int(i.core[k]) for k in known],
            "file_path": [s.texts[i.file[k]] for k in known],
            "line_number": [int(i.line[k]) for k in known]}


def kernel_stack_frames(s):
    rows = s.frames.rows
    return {"stack_frame_id": list(range(1, len(rows) + 1)),
            "fully_qualified_function_name": [r[1] for r in rows],
            "parent_stack_frame_id": [r[3] for r in rows],
            "file_path": [r[0] for r in rows], "line_number": [r[2] for r in rows]}


def _distinct(values):
    """The values without repetitions, in order, and the one-based number of each."""
    numbers = {}
    for value in values:
        numbers.setdefault(value, len(numbers) + 1)
    return list(numbers), numbers


def stack_frame(s):
    rows = s.frames.rows
    return {"id": [str(n + 1) for n in range(len(rows))],
            "file_location_id": list(range(1, len(rows) + 1)),
            "parent_frame_id": [str(r[3] or 0) for r in rows]}


def stack_frame_file_location(s):
    rows = s.frames.rows
    _, files = _distinct(r[0] for r in rows)
    _, names = _distinct(r[1] for r in rows)
    return {"id": [str(n + 1) for n in range(len(rows))],
            "file_name_id": [files[r[0]] for r in rows],
            "function_name_id": [names[r[1]] for r in rows],
            "line_number": [r[2] for r in rows]}


def _names(s, column):
    names, _ = _distinct(r[column] for r in s.frames.rows)
    return {"id": [str(n + 1) for n in range(len(names))], "name": names}


def stack_frame_file_name(s):
    return _names(s, 0)


def stack_frame_function_name(s):
    return _names(s, 1)
