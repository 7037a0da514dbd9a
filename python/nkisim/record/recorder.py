"""Collects what a kernel does while Python calls it: allocations, instructions, loops, and values
on demand.
"""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from .. import _core
from ..values import dtypes
from ..values.environment import variable
from ..values.errors import Error, KernelValueError, fail, fail_on, sdk
from ..values.hostcast import cast_checked
from ..values.register import VirtualRegister
from ..values.storage import HBM, Storage, buffer_of, hbm, private_hbm, row_major
from ..values.tensor import NkiTensor
from .dialect import NKI
from .borrowed import view_of_holder
from .loops import Loops
from .naming import assigned_name
from .operations import OPS
from .pending import HeldInstruction
from .reading import Reading, view_of
from .storages import Storages

if TYPE_CHECKING:
    from .instances import Instances

ROLE_INTERNAL, ROLE_INPUT, ROLE_OUTPUT, ROLE_INPUT_OUTPUT, ROLE_CONSTANT = range(5)

#: True while this thread records a kernel: another may call one meanwhile (JAX's callbacks do).
recording = contextvars.ContextVar("nkisim_recording", default=False)


class _State(threading.local):
    """The active recorder of this thread, if any: several threads may each record a kernel."""

    recorder: Recorder | None = None


state = _State()


def activate(recorder: Recorder | None) -> None:
    """Makes a recorder this thread's, to which the functions of nki.isa emit; None: no kernel runs."""
    _core.activate(recorder)
    state.recorder = recorder


def _outside() -> NoReturn:
    fail("outside_kernel",
         "an NKI call outside a kernel; call it from a function run with @nki.jit or nkisim.run")


#: The recorder of the kernel that runs; an error outside of a kernel.
current: Callable[[], Recorder] = _core.current


def _emit(op, args, engine, label, exact):
    """Emits where the extension module cannot by itself: there is no kernel, or instructions are held back."""
    return current().emit(op, args, engine, label, exact)


_core.register_emit(_emit, _outside)


_OPEN = ("__dict__", "__weakref__")  # takes other attributes as well, and references


class Recorder:
    """One program being recorded. `core` is read for every instruction, hence the slot."""

    __slots__ = ("core", *_OPEN)
    core: int

    def __init__(self, target="trn2", options=None, dialect=NKI):
        self.target = target
        machine = (options.config or "", options.set) if options else ("", [])
        self.machine = _core.machine(target, *machine)
        if self.machine is None:
            raise Error(rule="unknown_target", operand="target", found=repr(target),
                        required="trn1, inf2, trn2 or trn3", code="usage")
        self.generation = self.machine["generation"]
        self.program = _core.Program(target, *machine)
        self.program.stochastic_rounding = options and options.stochastic_rounding
        self.program.sdk = sdk()
        self.program.limits_ranks = not dialect.neuronxcc
        self.program.other_operators = dialect.neuronxcc
        self.program.set_rank(options.rank if options else 0, options.ranks if options else 1)
        self.options = options
        self.dialect = dialect
        self.precise = variable("NKI_PRECISE_FP", "1") != "0"
        self.core = 0
        self.ranks = options.ranks if options else 1
        self.looked = False       # at values, which other ranks may have other ones of
        self.memory: Any = None   # where values are read from; None: the program's own
        self.grid: tuple[int, ...] = ()
        self.program_ids: tuple[int, ...] = ()
        self.instance = 0
        self.region = ""          # nkisim.region
        self.storages = Storages()
        self.held = HeldInstruction()
        self.loops = Loops(self)
        self.reading = Reading()
        self.registers = 0
        self.shared = {}          # allocation order -> Storage, matched across instances
        self.shared_count = 0
        self.next_hbm = 0
        self.constants = {}
        self.printed = []
        self.placed = False
        self.instances: Instances | None = None  # of the launch
        self.prepared = {}        # core -> (name, arguments, place) of a collective that waits for its trigger
        self.allocated = False    # whether neuronxcc.nki was given addresses
        self._kept = {}           # class -> what a layer above keeps of this recording

    def of(self, kind):
        """The one object of a class that a package above this one keeps with a recording."""
        found = self._kept.get(kind)
        if found is None:
            found = self._kept[kind] = kind()
        return found

    # ---- instructions ------------------------------------------------------------------------
    def emit(self, op, args, engine=None, label=None, exact=False):
        held = self.held
        if held.pending is not None:
            held.flush(self)
        if held.borrowed.tiles:
            args = held.borrowed.operands(self, op, args)
        return self.program.append(op, args, engine, self.core, label, exact)

    def call(self, op_name, engine=None, label=None, exact=False, **args):
        """Emit by parameter names; names the core's op lacks must be None."""
        entry = OPS.get(op_name)
        if entry is None:
            fail("unsupported_call", f"{op_name} is not supported by this version of nkisim", op_name)
        number, names = entry
        for key, value in args.items():
            if key not in names and value is not None:
                fail("operator_not_taken", f"{key}={value!r} is not supported", op_name)
        return self.emit(number, tuple([args.get(n) for n in names]), engine, label, exact)

    def flush(self):
        """Gives the pending instruction, if any, a tile of its own."""
        if self.held.pending is not None:
            self.held.flush(self)

    # ---- memory ------------------------------------------------------------------------------
    def ndarray(self, shape, dtype, buffer, name="", address=None):
        """A new tensor, or the other instance's when it is shared HBM."""
        if self.held.pending is not None:
            self.held.flush(self)
        buffer = buffer_of(buffer)
        if buffer.space == HBM and buffer is not private_hbm and not self.loops.open:
            key = self.shared_count
            self.shared_count += 1
            twin = self.shared.get(key)
            if twin is not None:
                dtype = dtypes.stored_dtype(dtype, self.precise)
                if twin.shape != shape or twin.dtype is not dtype:
                    fail("instances_differ",
                         f"allocation {key} of shared HBM is {list(shape)} {dtype} here and "
                         f"{list(twin.shape)} {twin.dtype} in another program instance; all "
                         "instances must allocate alike", "ndarray")
                return NkiTensor(twin, 0, 0, shape, row_major(shape), dtype)
            tensor = self.unplaced(shape, dtype, buffer, name or assigned_name())
            self.shared[key] = tensor.st
        else:
            tensor = self.unplaced(shape, dtype, buffer, name or assigned_name())
        if address is not None:
            self._set_address(tensor.st, address)
        self.place(tensor.st)
        return tensor

    def _set_address(self, st, address):
        try:
            given = tuple(int(a) for a in address)
        except (TypeError, ValueError):
            given = ()
        if st.on_chip and len(given) == 2:
            st.partition, st.address = given
        elif st.on_chip or len(given) not in (1, 2):  # (offset,) by SDK 2.33; where it lies in HBM changes nothing here
            fail_on("memory_region", "address", repr(address),
                    "(partition, byte offset)" if st.on_chip else "(byte offset,)", "ndarray", KernelValueError)

    def unplaced(self, shape, dtype, buffer, name):
        """A tensor that the program does not have yet."""
        if not self.precise:
            dtype = dtypes.stored_dtype(dtype, False)
        st = Storage(self, shape, dtype, buffer, name)
        if len(shape) == 2 and shape[0] <= 128:  # most tiles
            return NkiTensor(st, 0, 0, shape, (shape[1], 1), dtype)
        strides = row_major(shape)
        if st.on_chip:
            if not shape:
                fail_on("tensor_shape", "shape", "()", "a partition dimension", "ndarray")
            if shape[0] > 128:
                fail_on("tensor_partitions", f"tensor {name}", f"placed on partitions 0..{shape[0] - 1}",
                        f"a partition range within 0..127 (128 rows at a time, of i in range({-(-shape[0] // 128)}): "
                        "x[i * 128:(i + 1) * 128])", "ndarray")
            if len(shape) == 1:  # partitions alone; their stride is a partition's elements
                shape, strides = shape + (1,), (1, 1)
        return NkiTensor(st, 0, 0, shape, strides, dtype)

    def place(self, st, role=ROLE_INTERNAL):
        """Gives the program a tensor."""
        self.program.place(st, role, self.core, self.next_hbm)
        if not st.on_chip:
            self.next_hbm += -(-st.pitch_bytes // 64) * 64
        storages = self.storages
        storages.append(st)
        if len(storages) >= storages.next_look:
            storages.look(self)

    def set_role(self, st, role):
        """Says what the program does with a tensor in HBM."""
        st.role = role
        self.program.set_role(st.id, role)

    def host_tensor(self, array, name, role=ROLE_INPUT, buffer=None):
        """HBM tensor filled from a NumPy array before the program starts."""
        if self.held.pending is not None:
            self.held.flush(self)
        scalars = role == ROLE_INPUT and not self.dialect.neuronxcc and sdk() >= 33
        dtype = dtypes.dtype_of_input(array) if scalars else dtypes.dtype_of_array(array.dtype)
        dtype = dtypes.stored_dtype(dtype, self.precise)
        wide, array = array.dtype, cast_checked(array, dtype, name)
        shape = tuple(int(s) for s in array.shape) or (1,)
        tensor = self.unplaced(shape, dtype, buffer or hbm, name)
        tensor.st.array, tensor.st.narrowed = array, wide == "int64" and dtype == "int32"
        self.place(tensor.st, role)
        return tensor

    def shape_tensor(self, shape, dtype, name):
        """HBM tensor of an argument known by its shape alone: values asked of it are an error."""
        if self.held.pending is not None:
            self.held.flush(self)
        dtype = dtypes.stored_dtype(dtypes.dtype_of_array(dtype), self.precise)
        tensor = self.unplaced(tuple(int(s) for s in shape) or (1,), dtype, hbm, name)
        self.place(tensor.st, ROLE_INPUT)
        self.reading.valueless.append(tensor.st.name)
        return tensor

    def constant(self, array, name):
        """A host constant, one per content."""
        key = (array.tobytes(), array.dtype.str, array.shape)
        hit = self.constants.get(key)
        if hit is None:
            hit = self.constants[key] = self.host_tensor(array, name, ROLE_CONSTANT)
        return hit

    def register(self):
        """A new register of this program."""
        number = self.registers
        self.registers += 1
        return VirtualRegister(self, number)

    def enter_region(self, name):
        """Says which region the instructions from now on belong to; empty: none."""
        self.region = self.program.region = name

    # ---- program instances and values on demand ----------------------------------------------
    def begin(self, instance):
        """Starts a program instance: it owns all that is recorded from now on."""
        self.instance, self.core = instance.number, instance.core
        self.program_ids, self.shared_count = instance.ids, instance.shared_count
        self.enter_region(instance.region)

    def load_inputs(self):
        """Hands arrays that are not loaded yet to the program."""
        self.reading.load(self)

    def reload_inputs(self):
        """Hands all arrays to the program, whose memory is new."""
        self.reading.loaded.clear()
        self.reading.load(self)

    def values_of(self, view):
        """The values `view` has after what was recorded so far."""
        self.flush()
        view = self.held.borrowed.shown(self, view)
        self.held.shown.add(view_of_holder(view).st.id)
        self.reading.check(self, view)
        if not self.placed:
            self.looked = True
            self.reading.evaluate(self)
        return self.read_view(view)

    def read_view(self, view):
        """The values that a view has in memory."""
        view = view_of_holder(view)
        return view_of(self._read(view.st), view)

    def read_storage(self, st):
        """The values that a whole tensor has in memory."""
        return self._read(st).view(st.dtype.dtype).reshape(st.shape)

    def _read(self, st):
        """The bytes of a whole tensor."""
        held = self.program.copy(st.id) if self.placed and self.memory is None else None
        if held is not None:
            return np.frombuffer(held, np.uint8)
        raw = np.empty(st.pitch_bytes * (st.shape[0] if st.on_chip else 1), np.uint8)
        (self.memory or self.program).read(st.id, raw)
        return raw

    def print(self, line):
        self.printed.append(line)
        print(line)


__all__ = ["Recorder", "activate", "state", "current", "OPS"]
