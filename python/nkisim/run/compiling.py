"""Calls the compiler (C++, compiler/) on the program that was collected from a kernel.

`Choices` has the switches; docs/compiler.md says what each does and what its default rests on.
"""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

from .. import _core
from ..lowering import copied_rows
from ..values.environment import variable
from ..values.errors import Error, is_strict
from . import logs

if TYPE_CHECKING:
    from ..record.recorder import Recorder
    from .options import Options

#: The switches and what they may be; the first is the default (compiler/options.def).
SWITCHES = _core.compiler_switches()


class Choices:
    """The compiler's choices: SWITCHES by name. None means the environment's NKISIM_... (NKISIM_SCHEDULE=program), else
    what neuronx-cc's `flags` and those of NEURON_CC_FLAGS ask for (--disable-dge is descriptors=static; others mean
    nothing here), else the default.
    """

    def __init__(self, flags: str = "", /, **given: Any) -> None:
        named = {name: str(value) for name, value in given.items() if value is not None}
        all_flags = f"{flags or ''} {variable('NEURON_CC_FLAGS', '')}".split()
        if "--disable-dge" in all_flags and not variable("NKISIM_DESCRIPTORS"):
            named.setdefault("descriptors", "static")
        vars(self).update(_core.compiler_options(named))


class Outcome:
    """The compiler's result: `moved` instructions overtook earlier ones, the kernel asked for `ordered` dependences
    beyond those of its operands.

    `delay`: None where the kernel's own order fits SBUF and PSUM, else which of the orders of
    compiler/passes/memory_saving_order.hpp does; `packed`: whether narrow tensors were put side by side for
    that; `peak`: the highest byte per partition by (core, "SBUF" or "PSUM"); `steps`: (pass, number
    changed, text) in the order of the passes.
    """

    def __init__(self, found: dict[str, Any]) -> None:
        self.delay, self.packed, self.steps = found["delay"], found["packed"], found["steps"]
        changed = {name: number for name, number, _ in self.steps}
        self.forwarded = changed["forward"]
        self.dropped = changed["clears"]
        self.reused = changed["reuse"]
        self.reassigned = changed["queues"]
        self.renamed = changed["rename"]
        self.moved = changed["schedule"]
        self.ordered = changed["edges"]
        self.peak = {(core, space): peak for core, space, peak in found["peaks"]}


def compile_program(recorder: Recorder, options: Options) -> Outcome:
    """Applies options.compiler to a recorded program and places its memory."""
    logs.follow()
    # AWS's simulator does not look at the capacity of SBUF and PSUM (nki_simulator.rst).
    simulated = options.undefined == "warn" and not is_strict()
    beyond = "yes" if options.over_capacity else "warn" if simulated else "no"
    choices = {**vars(options.compiler), "over_capacity": beyond}
    recorder.program.set_rules(*options.policy())
    found = recorder.program.compile(
        choices, recorder.dialect.neuronxcc, [st.id for st in recorder.storages if st.address is not None],
        copied_rows(recorder), options.config or options.target,
        options.set, options.timing != "only")
    if found["overflow"]:
        message, file, line = found["overflow"]
        problem = Error(message, rule="over_capacity", instruction="ndarray", kernel_file=file,
                        kernel_line=line)
        warnings.warn(f"{problem}\nrunning over capacity ({recorder.dialect.over_capacity})",
                      stacklevel=3)
        options.over_capacity = True
    return Outcome(found)
