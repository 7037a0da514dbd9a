"""The compiler's part: engines for what the kernel leaves open, tile names, order, addresses.

`Choices` has the switches; docs/compiler.md says what each does and what its default rests on.
"""

import copy
import os
import warnings

from ..values.errors import Error
from ..values.storage import SBUF
from .placement import place

#: The switches and what they may be; the first is the default (docs/compiler.md).
SWITCHES = {"schedule": ("list", "program"),
            "dma_queues": ("auto", "one", "split", "software"),
            "clears": ("drop", "keep"),
            "broadcasts": ("tensor", "vector"),
            "reuse": ("results", "none"),
            "rename": ("loads", "none")}

#: Shares of SBUF that the scheduler may fill; the next is tried where tiles do not fit as placed.
_SHARES = (0.9, 0.75, 0.6, 0.4)

#: What waits for its first use where the program's order does not fit (models/thrift), in turn.
DELAYS = ("none", "sources", "all", "spread")


class Choices:
    """What the compiler's part does: SWITCHES by name. None means the environment's NKISIM_...
    (NKISIM_SCHEDULE=program), else the default.
    """

    def __init__(self, **given):
        for name in given:
            if name not in SWITCHES:
                raise Error(f"the compiler's part has no switch {name!r}; one of "
                            f"{', '.join(SWITCHES)} is required", code="usage")
        for name, allowed in SWITCHES.items():
            value = given.get(name)
            if value is None:
                value = os.environ.get(f"NKISIM_{name.upper()}") or allowed[0]
            if value not in allowed:
                raise Error(f"{name} is {value!r}; one of {', '.join(allowed)} is required",
                            code="usage")
            setattr(self, name, value)


class Outcome:
    """What the compiler's part did; `moved` instructions overtook earlier ones.

    `delay`: None where the kernel's own order fits SBUF and PSUM, else which of DELAYS made it fit;
    `packed`: whether narrow tensors were put side by side for that.
    """

    def __init__(self):
        self.delay = None
        self.packed = False
        self.reassigned = 0
        self.forwarded = 0
        self.dropped = 0
        self.reused = 0
        self.renamed = 0
        self.moved = 0
        self.peak = {}


def compile_program(recorder, options, legacy):
    """Applies options.compiler to a recorded program and places its memory."""
    choices, out = options.compiler, Outcome()
    program = recorder.program
    placed = [st.id for st in recorder.storages if st.address is not None]
    _fit(recorder, options, legacy, placed, out)
    if not recorder.loop_spans:  # they count instructions
        out.forwarded = program.forward_copies(recorder.broadcasts)
        if choices.clears == "drop":
            out.dropped = program.drop_clears(placed)
        if choices.reuse == "results":
            out.reused = program.reuse_results(placed)
    queues = choices.dma_queues
    if queues == "auto":
        queues = "software" if legacy else "split"
    out.reassigned = program.assign_queues(queues)
    if choices.schedule == "program":
        out.peak = place(recorder, options, packed=placed if out.packed else None)
        return out
    if choices.rename == "loads":
        out.renamed = _rename(recorder, placed)
    _schedule(recorder, options, placed, out)
    return out


def _rename(recorder, placed):
    by_id = {st.id: st for st in recorder.storages if st.on_chip and st.space == SBUF}
    made = recorder.program.rename_tiles(placed)
    for new, old in made:
        twin = copy.copy(by_id[old])
        twin.id, twin.name, twin.array = new, f"{twin.name}~{new}", None
        recorder.storages.append(twin)
    return len(made)


def _fit(recorder, options, legacy, placed, out):
    """Reorders the program if it does not fit as it is written; Error if no order is found.

    Legacy kernels relied on the compiler to spill what does not fit: they run all the same.
    """
    try:
        place(recorder, options)
        return
    except Error as error:
        problem = error
    program = recorder.program
    for out.packed in (False, True):
        for out.delay in DELAYS:
            program.delay(placed, out.delay)
            try:
                place(recorder, options, packed=placed if out.packed else None)
                return
            except Error:
                program.unschedule()
    out.delay, out.packed = None, False
    if not legacy:
        raise problem
    warnings.warn(f"{problem}\nrunning over capacity (the legacy compiler would spill)",
                  stacklevel=4)
    options.over_capacity = True
    place(recorder, options)


def _schedule(recorder, options, placed, out):
    """Lets tiles fill as much of SBUF as can then be placed; the order that fits if nothing can."""
    program = recorder.program
    overrides = [f"{k}={v}" for k, v in options.overrides.items()]
    packed = placed if out.packed else None
    for share in _SHARES:
        out.moved = program.schedule(options.config or options.target, overrides, placed, share,
                                     out.packed)
        try:
            out.peak = place(recorder, options, thorough=False, packed=packed)
            return
        except Error:
            program.unschedule()
    out.moved = 0
    out.peak = place(recorder, options, packed=packed)
