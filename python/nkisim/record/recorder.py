"""Records one run of a kernel: allocations, instructions, loops, and values on demand."""

import contextvars
import os
import sys
import threading
import weakref

import numpy as np

from .. import _core
from ..values import dtypes
from ..values.errors import Error, KernelTypeError, KernelValueError, fail, fail_on, kernel_frame, sdk
from ..values.register import VirtualRegister
from ..values.storage import (HBM, PSUM, SBUF, Storage, buffer_of, hbm, private_hbm, psum,
                              row_major, sbuf)
from ..values.tensor import NkiTensor
from .misuse import as_error
from .naming import assigned_name

ROLE_INTERNAL, ROLE_INPUT, ROLE_OUTPUT, ROLE_INPUT_OUTPUT, ROLE_CONSTANT = range(5)

OPS = {}         # nki.isa name -> (op number, parameter names)
PARAM_KINDS = {}
KINDS = {}       # op number -> kinds of its parameters
_WRITTEN = (1, 2)  # of those kinds: out, inout
for _name, _id, _params, _engines, _doc in _core.ops():
    OPS[_name] = (_id, tuple(p[0] for p in _params))
    PARAM_KINDS[_name] = {p[0]: p[1] for p in _params}
    KINDS[_id] = tuple(p[1] for p in _params)


#: Whether this thread records a kernel: another may call one meanwhile (JAX's callbacks do).
recording = contextvars.ContextVar("nkisim_recording", default=False)


def _no_kernel(*_):
    fail("outside_kernel",
         "an NKI call outside a kernel; call it from a function run with @nki.jit or nkisim.run")


class _State(threading.local):
    """The active recorder of this thread, if any: several threads may each record a kernel."""

    recorder = None
    emit = staticmethod(_no_kernel)


state = _State()


def current():
    """The recorder of the kernel that runs; an error outside of a kernel."""
    if state.recorder is None:
        _no_kernel()
    return state.recorder


class Pending:
    """An instruction whose result tile has no place yet: an assignment may give it one.

    Once one has (`target`, at `stored`), `tensor` is only a weak reference: the instruction writes
    the target itself unless the kernel still has the tile under a name.
    """

    __slots__ = ("tensor", "emit", "location", "spaces", "kind", "target", "stored")

    def __init__(self, tensor, emit, location, spaces, kind):
        self.tensor, self.emit, self.location = tensor, emit, location
        self.spaces, self.kind = spaces, kind
        self.target, self.stored = None, None


class Recorder:
    """One program being recorded."""

    def __init__(self, target="trn2", options=None):
        self.target = target
        self.machine = _core.machine(target)
        if self.machine is None:
            raise Error(rule="unknown_target", operand="target", found=repr(target),
                        required="trn1, inf2, trn2 or trn3", code="usage")
        self.generation = self.machine["generation"]
        self.program = _core.Program(target)
        self.program.stochastic_rounding = options and options.stochastic_rounding
        self.program.sdk = sdk()
        self.program.set_rank(options.rank if options else 0, options.ranks if options else 1)
        self._append = self.program.append
        self.options = options
        self.legacy = False       # neuronxcc.nki: masks, index tiles
        self.precise = os.environ.get("NKI_PRECISE_FP", "1") != "0"
        self.core = 0
        self.ranks = options.ranks if options else 1
        self.looked = False       # at values, which other ranks may have other ones of
        self.memory = None        # where values are read from; None: the program's own
        self.grid = ()
        self.program_ids = ()
        self.instance = 0
        self.storages = []
        self.pending = None
        self.adding = False       # the pending instruction adds to its place in PSUM
        self.shared_places = []   # (weak reference to a tile, the storage it shares): legacy
        self.loops = []           # open dynamic loops: (kind, register, site)
        self.kept = {}            # core -> open no-reorder blocks
        self.left_traced = False  # a return or break inside a loop that the legacy compiler traced
        self.left_loop = None     # (file, line) of a break or return inside a dynamic loop
        self.registers = 0
        self.shared = {}          # allocation order -> Storage, matched across instances
        self.shared_count = 0
        self.next_hbm = 0
        self.loaded = set()
        self.valueless = []       # arguments known by their shapes alone
        self.constants = {}
        self.reductions = {}      # (site, shape) or (storage, place) -> nl.loop_reduce's last result
        self.began = {}           # storage -> whether it was written before the first of them
        self.identities = {}      # (core, rows, dtype) -> tile with ones on its diagonal
        self.printed = []
        self.tiles = []           # on chip, perhaps held by the kernel; of the first storages_seen
        self.storages_seen = 0
        self.ones = {}            # tiles of ones, by (core, instance, rows, dtype)
        self.broadcasts = []      # copies of a row repeated in PSUM to SBUF, by instruction
        self.placed = False
        self.instances = None     # of the launch

    # ---- instructions ------------------------------------------------------------------------
    def emit(self, op, args, engine=None, label=None, exact=False):
        if self.pending is not None:
            self.flush()
        if self.shared_places:
            self._part_places(op, args)
        return self._append(op, args, engine, self.core, label, exact)

    def call(self, op_name, engine=None, label=None, exact=False, **args):
        """Emit by parameter names; names the core's op lacks must be None."""
        entry = OPS.get(op_name)
        if entry is None:
            fail("unsupported_call", f"{op_name} is not supported by this version of nkisim", op_name)
        number, names = entry
        for key, value in args.items():
            if key not in names and value is not None:
                fail("operator_not_taken", f"{key}={value!r} is not supported", op_name)
        return self.emit(number, tuple(args.get(n) for n in names), engine, label, exact)

    def result(self, shape, dtype, emit, space=SBUF, spaces=(SBUF, PSUM), kind=""):
        """A tile that the instruction made by emit(dst) will fill; see Pending."""
        if self.pending is not None:
            self.flush()
        tensor = self._tensor(tuple(shape), dtype, psum if space == PSUM else sbuf, assigned_name())
        tensor.st.compared = kind == "compare"
        self.pending = Pending(tensor, emit, self.program.location(), spaces, kind)
        return tensor

    def flush(self):
        """Gives the pending instruction a tile of its own."""
        pending = self.pending
        if pending is None:
            return
        self.pending = None
        tensor, target = pending.tensor, pending.target
        if target is None:
            self._place_at(pending, tensor, True)
            return
        tensor = tensor()
        if tensor is None:
            self._place_at(pending, target, False)
        elif self.legacy and tensor.dtype is target.dtype:
            # Its compiler had no copy here: the tile is where it was stored, until that changes.
            self._place_at(pending, target, False)
            tensor.become(target)
            self.shared_places.append((weakref.ref(tensor), target.st))
        else:
            self._place_at(pending, tensor, True)
            self._copy(target, tensor, pending.stored)

    def retarget(self, dst, adds=False):
        """Lets the pending instruction write `dst` instead, or add to it."""
        pending = self.pending
        if not adds:
            pending.target, pending.stored = dst, self.program.location()
            pending.tensor = weakref.ref(pending.tensor)
            return
        self.pending, self.adding = None, True
        try:
            self._place_at(pending, dst, False)
        finally:
            self.adding = False

    def _copy(self, dst, src, location):
        self.program.set_location(*location)
        self.call("tensor_copy", dst=dst, src=src)
        self.program.set_location("", 0)

    def _part_places(self, op, args):
        """Gives tiles a place of their own before what they share with a target is written."""
        written = [a.st for a, kind in zip(args, KINDS[op])
                   if kind in _WRITTEN and isinstance(a, NkiTensor)]
        kept, self.shared_places = self.shared_places, []
        for reference, st in kept:
            tensor = reference()
            if tensor is None or tensor.st is not st:
                continue
            if st not in written:
                self.shared_places.append((reference, st))
                continue
            own = self.ndarray(tensor.shape, tensor.dtype, sbuf)
            self.call("tensor_copy", dst=own, src=tensor)
            tensor.become(own)

    def _place_at(self, pending, dst, allocate):
        self.program.set_location(*pending.location)
        try:
            if allocate:
                self._register(dst.st)
            pending.emit(dst)
            if self.pending is not None:
                self.flush()
        except Error as problem:  # at the line of the call that was held back
            problem.at(*pending.location)
            raise
        except Exception as problem:
            raise (as_error(problem, pending.location) or problem) from None
        finally:
            self.program.set_location("", 0)

    # ---- memory ------------------------------------------------------------------------------
    def ndarray(self, shape, dtype, buffer, name="", address=None):
        """A new tensor, or the other instance's when it is shared HBM."""
        if self.pending is not None:
            self.flush()
        buffer = buffer_of(buffer)
        if buffer.space == HBM and buffer is not private_hbm and not self.loops:
            key = self.shared_count
            self.shared_count += 1
            twin = self.shared.get(key)
            if twin is not None:
                dtype = dtypes.stored(dtype, self.precise)
                if twin.shape != shape or twin.dtype is not dtype:
                    fail("instances_differ",
                         f"allocation {key} of shared HBM is {list(shape)} {dtype} here and "
                         f"{list(twin.shape)} {twin.dtype} in another program instance; all "
                         "instances must allocate alike", "ndarray")
                return NkiTensor(twin, 0, 0, shape, row_major(shape), dtype)
            tensor = self._tensor(shape, dtype, buffer, name or assigned_name())
            self.shared[key] = tensor.st
        else:
            tensor = self._tensor(shape, dtype, buffer, name or assigned_name())
        if address is not None:
            self._set_address(tensor.st, address)
        self._register(tensor.st)
        return tensor

    def _set_address(self, st, address):
        if st.on_chip:
            try:
                partition, offset = (int(a) for a in address)
            except (TypeError, ValueError):
                fail_on("memory_region", "address", repr(address), "(partition, byte offset)",
                        "ndarray", KernelValueError)
            st.partition, st.address = partition, offset

    def _tensor(self, shape, dtype, buffer, name):
        dtype = dtypes.stored(dtype, self.precise)
        st = Storage(self, shape, dtype, buffer, name)
        strides = row_major(shape)
        if st.on_chip:
            if not shape:
                fail_on("tensor_shape", "shape", "()", "a partition dimension", "ndarray")
            if len(shape) == 1:  # partitions alone; their stride is a partition's elements
                shape, strides = shape + (1,), (1, 1)
        return NkiTensor(st, 0, 0, shape, strides, dtype)

    def _register(self, st, role=ROLE_INTERNAL):
        st.core = self.core
        st.role = role
        st.born = len(self.program)
        if st.on_chip:
            core, address = self.core, st.address or 0
        else:
            core, address = 0, self.next_hbm
            self.next_hbm += -(-st.pitch_bytes // 64) * 64
        st.id, st.name = self.program.add_tensor(st.name, st.space, st.dtype.code, st.shape, role,
                                                 core, st.partition, address)
        self.storages.append(st)

    def set_role(self, st, role):
        """Says what the program does with a tensor in HBM."""
        st.role = role
        self.program.set_role(st.id, role)

    def host_tensor(self, array, name, role=ROLE_INPUT, buffer=None):
        """HBM tensor filled from a NumPy array before the program starts."""
        if self.pending is not None:
            self.flush()
        dtype = dtypes.stored(dtypes.of_array(array.dtype), self.precise)
        array = np.ascontiguousarray(array, dtype.dtype)
        shape = tuple(int(s) for s in array.shape) or (1,)
        tensor = self._tensor(shape, dtype, buffer or hbm, name)
        tensor.st.array = array
        self._register(tensor.st, role)
        return tensor

    def shape_tensor(self, shape, dtype, name):
        """HBM tensor of an argument known by its shape alone: values asked of it are an error."""
        if self.pending is not None:
            self.flush()
        dtype = dtypes.stored(dtypes.of_array(dtype), self.precise)
        tensor = self._tensor(tuple(int(s) for s in shape) or (1,), dtype, hbm, name)
        self._register(tensor.st, ROLE_INPUT)
        self.valueless.append(tensor.st.name)
        return tensor

    def constant(self, array, name):
        """A host constant, one per content."""
        key = (array.tobytes(), array.dtype.str, array.shape)
        hit = self.constants.get(key)
        if hit is None:
            hit = self.constants[key] = self.host_tensor(array, name, ROLE_CONSTANT)
        return hit

    def initialised(self, st):
        """Whether the kernel had written `st` when a reduction into it began."""
        known = self.began.get(st.id)
        if known is None:
            known = self.began[st.id] = self.program.lifetimes()[st.id][2]
        return known

    # ---- registers and loops -----------------------------------------------------------------
    def register(self):
        number = self.registers
        self.registers += 1
        return VirtualRegister(self, number)

    def loop(self, start, stop, step):
        """Generator behind nl.dynamic_range: the body is recorded once."""
        register = self.register()
        self.enter_loop("dynamic_range")
        self.call("loop_begin", register=register, start=start, stop=stop, step=step)
        self.loops.append(("for", register, len(self.program) - 1))
        yield register
        self.close_loop("for", register)

    def enter_loop(self, what):
        """Before a dynamic loop: none may be in a no-reorder block (documented since NKI 0.3)."""
        if self.kept.get(self.core, 0):
            fail("dynamic_loop",
                 "a dynamic loop begins inside a no_reorder block; the block inside the loop's body "
                 "is required", what)
        self._clear_psum()

    def _clear_psum(self):
        """Zeroes this core's PSUM tiles without values before a dynamic loop.

        The loop's body is recorded once: a matmul that overwrites in the first iteration and adds
        in the later ones must always add, and needs something to add to, written by a matmul.
        """
        self.flush()
        tiles = [st for st in self.storages if st.space == PSUM and st.core == self.core and
                 st.dtype is dtypes.float32]
        spans = self.program.lifetimes() if tiles else ()
        for st in tiles:
            if spans[st.id][1] in (-1, st.zeroed_at):  # unused, or only memset since
                self._zero_by_matmul(st)

    def _zero_by_matmul(self, st):
        columns = st.pitch_bytes // 4
        weights = self.ndarray((1, st.shape[0]), dtypes.bfloat16, sbuf)
        moving = self.ndarray((1, min(columns, 512)), dtypes.bfloat16, sbuf)
        for tile in (weights, moving):
            self.call("memset", dst=tile, value=0)
        flat = NkiTensor(st, 0, 0, (st.shape[0], columns), (columns, 1), st.dtype)
        for begin in range(0, columns, 512):
            end = min(begin + 512, columns)
            self.call("nc_matmul", dst=flat[:, begin:end], stationary=weights,
                      moving=moving[:, :end - begin], is_stationary_onezero=False,
                      is_moving_onezero=False, is_transpose=False, accumulate=False)

    def adds_in_loop(self, dst):
        """True for a matmul in a dynamic loop into a tile from before it, else None (inferred)."""
        first = self.loops[-1][2]
        before = isinstance(dst, NkiTensor) and dst.st.born <= first
        return True if before and (dst.st.zeroed_at or 0) <= first else None

    def close_loop(self, kind, register):
        if not self.loops or self.loops[-1][1] is not register:
            fail("dynamic_loop",
                 "a dynamic loop ends while an inner one is open (break or return inside?)")
        self.loops.pop()
        self.call("loop_end" if kind == "for" else "while_end")
        self.instances.pause()

    def while_test(self, register):
        """`while register:` asks twice at one place: before the body and after it."""
        frame = kernel_frame()
        if frame is not sys._getframe(2):
            fail("values_while_recording",
                 "a register is used as a truth value; its value exists only on the device",
                 kind=KernelTypeError)
        site = (frame.f_code, frame.f_lineno)
        if self.loops and self.loops[-1][0] == site and self.loops[-1][1] is register:
            self.loops.pop()
            self.call("while_end")
            self.instances.pause()
            return False
        self.enter_loop("while")
        self.call("while_begin", register=register)
        self.loops.append((site, register, len(self.program) - 1))
        return True

    # ---- program instances and values on demand ----------------------------------------------
    def begin(self, instance):
        """What is recorded from now on belongs to this program instance."""
        self.instance, self.core = instance.number, instance.core
        self.program_ids, self.shared_count = instance.ids, instance.shared_count

    def load_inputs(self):
        for st in self.storages:
            if st.array is not None and st.id not in self.loaded:
                self.loaded.add(st.id)
                self.program.load(st.id, as_bytes(st.array))

    def values_of(self, view):
        """The values `view` has after what was recorded so far."""
        self.flush()
        if self.valueless:
            fail("recorded_on_shapes",
                 "the kernel looks at a tile's values, but it is recorded on shapes alone (argument "
                 f"{self.valueless[0]} has none)")
        if self.loops:
            raise Error("values inside a dynamic loop exist only on the device",
                        rule="values_while_recording")
        if view.dyn is not None:
            raise Error("an indirect view has no values of its own; copy it first",
                        rule="values_while_recording")
        if not self.placed:
            self.looked = True
            self._evaluate()
        return self.read_view(view)

    def _evaluate(self):
        """Runs what was recorded so far; what this core got from another takes its program too."""
        if self.instances is None:
            raise Error("a tensor is used outside a kernel, which failed; it has no values",
                        rule="outside_kernel")
        self.load_inputs()
        while not self.program.evaluate(self.core, self.instances.cores,
                                        self.instances.complete(), self._unreachable()):
            self.instances.further()
            self.load_inputs()

    def _unreachable(self):
        """Tiles that the kernel holds no more, so that only what is recorded can read them. (Other
        cores may read any: with several, all are kept.)"""
        self.tiles += [st for st in self.storages[self.storages_seen:] if st.on_chip]
        self.storages_seen = len(self.storages)
        if self.instances.cores > 1:
            return []
        kept, dead = [], []
        for st in self.tiles:  # references: the two lists', the loop's and the call's
            (dead if sys.getrefcount(st) <= 4 else kept).append(st)
        self.tiles = kept
        return [st.id for st in dead]

    def read_view(self, view):
        st = view.st
        raw = self._read(st)
        if view.is_identity():
            return raw.view(view.dtype.dtype).reshape(view.shape)
        n = view.dtype.itemsize
        offset = view.off + view.part * (st.pitch_bytes if st.on_chip else 0)
        words = raw[offset % n:raw.size - (raw.size - offset % n) % n].view(f"u{n}")[offset // n:]
        flat = np.lib.stride_tricks.as_strided(words, view.shape, [s * n for s in view.strides],
                                               writeable=False)
        return flat.copy().view(view.dtype.dtype)  # as_strided knows no fp8

    def _read(self, st):
        """The bytes of a whole tensor."""
        raw = np.empty(st.pitch_bytes * (st.shape[0] if st.on_chip else 1), np.uint8)
        (self.memory or self.program).read(st.id, raw)
        return raw

    def read_storage(self, st):
        return self._read(st).view(st.dtype.dtype).reshape(st.shape)

    def print(self, line):
        self.printed.append(line)
        print(line)


def as_bytes(array):
    """A contiguous array's bytes."""
    return array.view(np.uint8) if array.dtype.kind == "V" else array.reshape(-1).view(np.uint8)


__all__ = ["Recorder", "state", "current", "OPS"]
