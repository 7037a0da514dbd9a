"""Makes random tests of tensor indirection, registers and control flow, seeded generators and
one-core barriers.
"""

import numpy as np

from dtypes import COMPUTE, DTYPES, FLOATS
from generator import ANY, arithmetic, gen, scalar_stage
from machine import Dynamic, Inst

U32, I32, F32 = DTYPES["uint32"], DTYPES["int32"], DTYPES["float32"]


def scattered(d, space, dtype, p, n, start, index_start, write):
    """A view of n columns anywhere in a wider tile, in the order an index tile gives."""
    width = n + d.pick([0, 1, 7, 20])
    view = d.view(space, dtype, p, width, dense=True, rank=1, start=start, write=write)
    view.dims, view.text = [[1, n]], None
    order = d.n.permutation(width)[:n] if write else d.n.integers(0, width, n)
    columns = -(-n // 16)
    table = np.zeros((16, columns), np.uint32)
    i = np.arange(n)
    table[i % 16, i // 16] = order
    index = d.view("sbuf", U32, 16, columns, start=index_start, data=table, dense=True, rank=1)
    view.dynamic = [Dynamic("indirect", index)]
    return view


def maybe_scattered(d, use, space, dtype, p, n, start, index_start, write=False):
    if use:
        return scattered(d, space, dtype, p, n, start, index_start, write)
    return d.view(space, dtype, p, n, start=start, write=write, rank=d.pick([1, 2, 3]))


@gen
def indirect(d):
    """Gather and scatter along the free dimension (trn3) of the instructions that support it."""
    d.require(4)
    p = d.parts()
    n = d.columns(p, 128)
    start = d.start(p)
    gather, scatter = d.pick([(True, False), (False, True), (True, True)])
    op = d.pick(["tensor_copy", "tensor_tensor", "tensor_scalar", "tensor_reduce", "activation",
                 "tensor_scalar_reduce", "tensor_scalar_cumulative", "exponential"])  # fmt: skip
    engine = d.pick(["vector", "scalar"]) if op == "tensor_copy" else None
    on_scalar = engine == "scalar" or op == "activation"
    spaces = [d.space(), d.space()]
    if scatter and on_scalar:
        spaces[1] = "sbuf"
    if spaces[0] == "psum" and not gather and scatter:
        spaces[0] = "sbuf"  # the index of dst lies where the source does
    narrow = [x for x in FLOATS if x.name not in ("tfloat32", "float8_e3m4", "float8_e4m3fn")]
    types = [d.dtype(narrow), d.dtype(narrow)] if op in ("exponential", "tensor_scalar_cumulative") else [
        d.dtype(COMPUTE), d.dtype(COMPUTE)]  # fmt: skip
    if op == "tensor_copy" and d.chance(0.5):
        types = [types[0]] * 2
    src = maybe_scattered(d, gather, spaces[0], types[0], p, n, start, start)
    if op == "tensor_reduce":
        dst = d.view(spaces[1], types[1], p, 1, write=True, rank=1)
        return Inst(op, None, dst=dst, data=src, op="add", axis=[1]) if gather else None
    dst = maybe_scattered(d, scatter, spaces[1], types[1], p, n, d.start(p), start, True)
    if op == "tensor_copy":
        return Inst(op, engine, dst=dst, src=src)
    if op == "tensor_tensor":
        other = d.view("sbuf", d.dtype(COMPUTE), p, n)
        return Inst(op, "vector", dst=dst, data1=src, data2=other, op=arithmetic(d))
    name = arithmetic(d)
    operand, reverse = scalar_stage(d, p, name)
    if op == "tensor_scalar":
        return Inst(op, "vector", dst=dst, data=src, op0=name, operand0=operand, reverse0=reverse)
    if op == "tensor_scalar_reduce":
        res = d.view(d.space(), F32, p, 1, write=True, rank=1)
        return Inst(op, None, dst=dst, data=src, op0=name, operand0=operand, reduce_op="add", reduce_res=res)
    if op == "tensor_scalar_cumulative":
        return Inst(op, None, dst=dst, src=src, op0=name, imm0=operand, op1=d.pick(["add", "maximum"]))
    if op == "activation":
        return Inst(op, None, dst=dst, op=d.pick(["copy", "square", "relu", "abs"]), data=src)
    return Inst(op, None, dst=dst, src=src, max_value=d.scalar(p))


def cell(d, value=None, dtype=None):
    """A one-element tensor."""
    dtype = dtype or d.dtype([I32, U32])
    if value is None:
        value = d.r.randint(0, 2**32 - 1)
    data = np.array([[value & ((1 << 8 * dtype.size) - 1)]], dtype.raw)
    if d.chance(0.5):
        return d.view("sbuf", dtype, 1, 1, rank=1, start=d.pick([0, 32]), data=data)
    return d.hbm(dtype, [1], data=data)


ALU = ["add", "subtract", "multiply", "bitwise_and", "bitwise_or", "bitwise_xor", "left_shift", "right_shift"]


@gen
def registers(d):
    """Registers from memory through arithmetic, a loop and a branch back to memory."""
    out = [Inst("register_load", None, dst="r0", src=cell(d)),
           Inst("register_alloc", None, dst="r1", x=d.r.randint(-(2**31), 2**31 - 1)),
           Inst("register_move", None, dst="r2", src=d.pick(["r0", 0, 7]))]  # fmt: skip
    for _ in range(d.r.randint(1, 5)):
        op = d.pick(ALU)
        right = d.r.randint(0, 31) if "shift" in op else d.pick(["r0", "r1", "r2", d.r.randint(-9, 9)])
        out.append(Inst("register_alu", None, dst=d.pick(["r1", "r2"]), op=op,
                        lhs=d.pick(["r0", "r1", "r2"]), rhs=right))  # fmt: skip
    if d.chance(0.6):
        out += [Inst("loop_begin", None, register="r3", start=d.r.randint(-3, 3), stop=d.r.randint(-3, 9),
                     step=d.pick([None, 1, 2, 3])),
                Inst("register_alu", None, dst="r1", op=d.pick(["add", "multiply", "bitwise_xor"]),
                     lhs="r1", rhs="r3"),
                Inst("loop_end")]  # fmt: skip
    if d.chance(0.6):
        out += [Inst("if_begin", None, lhs=d.pick(["r0", "r1"]), compare=d.pick(["lt", "le", "eq", "ne",
                                                                               "ge", "gt"]),
                     rhs=d.pick(["r2", 0, -1])),
                Inst("register_alu", None, dst="r2", op="add", lhs="r2", rhs=1),
                Inst("else_begin"),
                Inst("register_alu", None, dst="r2", op="subtract", lhs="r1", rhs=5),
                Inst("if_end")]  # fmt: skip
    if d.chance(0.3):
        out += [Inst("register_move", None, dst="r4", src=d.r.randint(0, 4)),
                Inst("while_begin", None, register="r4"),
                Inst("register_alu", None, dst="r1", op="add", lhs="r1", rhs="r4"),
                Inst("register_alu", None, dst="r4", op="subtract", lhs="r4", rhs=1),
                Inst("while_end")]  # fmt: skip
    kinds = [DTYPES[n] for n in ("int32", "uint32", "int16", "uint8")]
    out += [Inst("register_store", None, dst=cell(d, dtype=d.dtype(kinds)), src=r) for r in ("r1", "r2")]
    return out


@gen
def set_rng_seed(d):
    """The same seed gives the same numbers; another seed others."""
    p = d.parts()
    n = d.columns(p, 64, low=8)
    seeds = [d.view(d.space(), d.dtype([U32, I32]), 1, 1, rank=1, data=np.array([[s]], np.uint32))
             for s in (7 + d.r.randint(0, 99), 4711)]  # fmt: skip
    start, out = d.start(p), []
    for seed in (0, 0, 1):
        dst = d.view(d.space(), d.dtype([U32, I32]), p, n, write=True, start=start)
        out += [Inst("set_rng_seed", None, src_seeds=seeds[seed]), Inst("rng", "vector", dst=dst)]
    return out


@gen
def sendrecv(d):
    """On a program of one core, what is sent arrives."""
    d.require(3)
    p = d.parts()
    dims = d.factor(d.columns(p, 64))
    dtype = d.dtype(ANY)
    return Inst("sendrecv", None, src=d.view("sbuf", dtype, p, dims=dims, start=0),
                dst=d.view("sbuf", dtype, p, dims=dims, start=0, write=True), send_to_rank=0,
                recv_from_rank=0, pipe_id=0)  # fmt: skip


@gen
def device_print(d):
    """Prints a tile before and after an instruction that changes it."""
    p = d.parts()
    n = d.columns(p, 64)
    dtype = d.dtype(COMPUTE)
    if d.chance(0.3):
        view = d.hbm(dtype, [p, n])
        other = d.view("sbuf", dtype, p, n)
        change = Inst("dma_copy", None, dst=view, src=other)
    else:
        view = d.view("sbuf", dtype, p, n)
        if any(s == 0 for s, k in view.dims if k > 1):
            return None  # a broadcast cannot be written
        change = Inst("tensor_copy", "vector", dst=view, src=d.view(d.space(), dtype, p, n))
    engine = d.pick([None, "sync", "vector", "scalar", "gpsimd"])
    return [Inst("device_print", engine, print_prefix="before", tensor=view), change,
            Inst("device_print", engine, print_prefix="after it", tensor=view)]


def _on(core, insts):
    for inst in insts:
        inst.core = core
        for _, view in inst.views():
            view.tensor.core = core
    return insts


def _work(d, core, p, n, source):
    """Some arithmetic on one core, starting from `source`; the last result."""
    out = []
    for _ in range(d.r.randint(1, 3)):
        dst = d.view("sbuf", d.dtype(COMPUTE), p, n, write=True)
        out.append(d.pick([
            Inst("tensor_scalar", "vector", dst=dst, data=source, op0=arithmetic(d),
                 operand0=d.constant()),
            Inst("tensor_tensor", "vector", dst=dst, data1=source,
                 data2=d.view("sbuf", d.dtype(COMPUTE), p, n), op=arithmetic(d)),
            Inst("activation", None, dst=dst, op=d.pick(["copy", "abs", "relu"]), data=source)]))
        source = dst
    return _on(core, out), source


def _traffic(d, core):
    """A transfer that has nothing to do with the exchange and is under way during it."""
    if d.chance(0.5):
        return []
    p, dtype = d.parts(), d.dtype(COMPUTE)
    n = d.columns(p, 256)
    mode = d.pick(["unknown", "none", "swdge", "hwdge"])
    engine = "gpsimd" if mode == "swdge" else d.pick(["sync", "scalar"])
    return _on(core, [Inst("dma_copy", engine, dst=d.view("sbuf", dtype, p, n, write=True),
                           src=d.view("sbuf", dtype, p, n), dge_mode=mode)])


@gen
def two_cores(d):
    """Two cores compute, exchange tiles by sendrecv or through HBM and a barrier, and go on."""
    d.require(3)
    p, dtype = d.parts(), d.dtype(COMPUTE)
    n = d.columns(p, 64)
    insts, results = [], []
    for core in (0, 1):
        more, last = _work(d, core, p, n, d.view("sbuf", d.dtype(COMPUTE), p, n))
        tile = d.view("sbuf", dtype, p, n, write=True, rank=1)
        insts += more + _on(core, [Inst("tensor_copy", "vector", dst=tile, src=last)])
        results.append(tile)
    received = [d.view("sbuf", dtype, p, n, write=True, rank=1) for _ in (0, 1)]
    if d.chance(0.5):
        own = n <= 256 and d.chance(0.5)  # GpSimd's DMA
        pipe = d.r.randint(0, 3)
        for c in (0, 1):
            engine = "gpsimd" if own else d.pick([None, "sync", "scalar", "vector", "tensor"])
            insts += _traffic(d, c) + _on(c, [
                Inst("sendrecv", engine, src=results[c], dst=received[c], send_to_rank=1 - c,
                     recv_from_rank=1 - c, pipe_id=pipe,
                     dma_engine="gpsimd_dma" if own else "dma")])
    else:
        shared = [d.hbm(dtype, [p, n]) for _ in (0, 1)]
        for core in (0, 1):
            insts += _on(core, [Inst("dma_copy", None, dst=shared[core], src=results[core])])
            insts += _traffic(d, core)
        engine = d.pick([None, "sync", "vector", "scalar", "gpsimd", "tensor"])
        for core in (0, 1):  # a barrier orders what is done with its data, nothing else
            insts += _on(core, [Inst("core_barrier", engine, data=view, cores=[0, 1])
                                for view in shared])
        for core in (0, 1):
            insts += _on(core, [Inst("dma_copy", None, dst=received[core], src=shared[1 - core])])
        for view in shared:
            view.tensor.core = 0
    for core in (0, 1):
        insts += _work(d, core, p, n, received[core])[0]
    d.cores = 2
    return insts


@gen
def sendrecv_compute(d):
    """Two cores reduce a tile of each."""
    d.require(3)
    p, dtype = d.parts(), d.dtype(COMPUTE)
    n, fold = d.columns(p, 64), d.pick(["add", "maximum", "minimum"])
    in_hbm, insts = d.chance(0.3), []
    for core in (0, 1):
        src, dst = (d.hbm(dtype, [p, n]) if in_hbm else d.view("sbuf", dtype, p, n, write=True, rank=1) for _ in "ab")
        engine = d.pick([None, "sync", "scalar", "vector", "gpsimd", "tensor"])
        insts += _on(core, [Inst("sendrecv_compute", engine, src=src, dst=dst, send_to_rank=1 - core,
                                 recv_from_rank=1 - core, reduce_op=fold)])
        if in_hbm:
            src.tensor.core = dst.tensor.core = 0  # HBM belongs to no core
    d.cores = 2
    return insts


@gen
def core_barrier(d):
    """On a program of one core nothing happens."""
    d.require(3)
    view = d.hbm(d.dtype(ANY), [4])
    other = d.view("sbuf", view.dtype, 1, 4)
    engine = d.pick([None, "sync", "tensor", "vector", "scalar"])
    return [Inst("dma_copy", None, dst=view, src=other),
            Inst("core_barrier", engine, data=view, cores=[0, 1])]


@gen
def oob_skip(d):
    """A gather or scatter by DMA that drops the rows whose index leaves the table."""
    d.require(3)
    p = d.parts()
    n = d.columns(p, 64)
    dtype = d.dtype(ANY)
    table = d.r.randint(p, p + 10)
    rows = d.n.permutation(table + 20)[:p]
    wide = d.hbm(dtype, [table * n])
    wide.dims, wide.offset = [[n, p], [1, n]], 0
    cells = d.raw(dtype, (1, -(-table * n // 4) * 4), None)
    wide.tensor.data, wide.tensor.shape = cells.view(np.uint8), [cells.shape[1]]
    index = d.view("sbuf", U32, p, 1, rank=1, data=rows.astype(np.uint32)[:, None])
    wide.dynamic = [Dynamic("vector", index, n, table)]
    other = d.view("sbuf", dtype, p, n, write=True)
    pair = {"dst": other, "src": wide} if d.chance(0.5) else {"dst": wide, "src": other}
    return Inst("dma_copy", None, **pair, oob_mode="skip")
