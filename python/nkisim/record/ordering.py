"""Implements instruction orders that a kernel asks for itself: schedules by name, and no-reorder
blocks. (depends_on is a method of what the calls return: python/binding/instruction.)
"""


from ..values.errors import Error
from .recorder import current


def pairs_of(edges, place):
    """Edges of a schedule, (later, earlier) or (later, [earlier, ...]), as pairs of names; an Error
    at `place`, the (file, line) that gave them, for any other."""
    try:
        edges = list(edges)
    except TypeError:
        _refuse(f"the schedule is {edges!r}; a list of pairs of names is required", place)
    pairs = []
    for edge in edges:
        later, earlier = edge if isinstance(edge, (tuple, list)) and len(edge) == 2 else (None, None)
        names = list(earlier) if isinstance(earlier, (tuple, list)) else [earlier]
        if not all(isinstance(name, str) for name in (later, *names)):
            _refuse(f"an edge of the schedule is {edge!r}; a pair of names, (later, earlier) or "
                    "(later, [earlier, ...]), is required", place)
        pairs += [(later, name) for name in names]
    return pairs


def schedule(pairs, first, place):
    """Orders the instructions recorded from number `first` on by the current program instance as
    `pairs` say. Each name must be that of one instruction."""
    recorder = current()
    recorder.flush()
    program = recorder.program
    named = program.labelled(recorder.core, first)
    for later, earlier in pairs:
        program.order_after(_only(program, named, later, place), _only(program, named, earlier, place))


def _only(program, named, name, place):
    found = named.get(name, ())
    if len(found) == 1:
        return found[0]
    if not found:
        import difflib

        near = difflib.get_close_matches(name, named, 1)
        hint = f" (did you mean {near[0]!r}?)" if near else ""
        _refuse(f"the schedule names {name!r}, which no instruction of the kernel is called{hint}; the "
                "name= of one instruction is required", place)
    lines = []
    for number in found[:3]:
        file, line = program.instruction_location(number)
        lines.append(f"{file}:{line}")
    more = ", ..." if len(found) > 3 else ""
    _refuse(f"the schedule names {name!r}, as {len(found)} instructions are called "
            f"({', '.join(lines)}{more}); the name= of one instruction is required", place)


def _refuse(message, place):
    raise Error(message, rule="ordering", instruction="with_schedule", kernel_file=place[0],
                kernel_line=place[1])


class no_reorder:
    """`with nl.no_reorder():` runs what is called within it in the program's order: each instruction
    starts when the one before it has completed (documented: a dependency between every pair). Dynamic
    loops may surround it, not be in it."""

    def __init__(self, function=None):
        self.function = function

    def __enter__(self):
        recorder = current()
        recorder.flush()
        kept = recorder.loops.kept
        depth = kept.get(recorder.core, 0)
        kept[recorder.core] = depth + 1
        if depth == 0:
            recorder.program.keep_order(recorder.core, True)
        return self

    def __exit__(self, kind, *_):
        recorder = current()
        if kind is None:
            recorder.flush()
        kept = recorder.loops.kept
        kept[recorder.core] -= 1
        if kept[recorder.core] == 0:
            recorder.program.keep_order(recorder.core, False)
        return False

    def __call__(self, *args, **kwargs):
        with self:
            return self.function(*args, **kwargs)
