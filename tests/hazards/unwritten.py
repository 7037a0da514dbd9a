"""Builds programs that read never-written bytes or leave outputs unwritten, DMAs that write twice,
and wrong PSUM groups.

Each builder takes whether the program is right; a wrong one has a word that its message must have.
"""

from corpus import Trace

ROWS = {"ap": [[512, 4], [1, 512]], "dynamic": [{"vector": "w"}]}


def _base(x=(128, 512), y=(128, 512), tiles="t"):
    t = Trace(explicit=False)
    t.hbm("x", x, role="input")
    t.lines[-1]["tensor"]["data"] = {"generator": "normal", "seed": 3}
    t.hbm("y", y, role="output")
    for name in tiles:
        t.chip(name)
    return t


def _part(right, *, whole="", part):
    return whole if right else part


def rows_loaded(right):
    t = _base()
    part = _part(right, part="[0:96]")
    t.dma("t" + part, "x" + part)
    t.dma("y", "t")
    return t


def columns_loaded(right):
    t = _base()
    part = _part(right, part="[:, 0:511]")
    t.dma("t" + part, "x" + part)
    t.op("activation", dst="t", op="exp", data="t")
    t.dma("y", "t")
    return t


def rows_stored(right):
    t = _base()
    t.dma("t", "x")
    t.dma("y[0:64]", "t[0:64]")
    if right:
        t.dma("y[64:128]", "t[64:128]")
    return t


def columns_stored(right):
    t = _base()
    part = _part(right, part="[:, 1:512]")
    t.dma("t", "x")
    t.dma("y" + part, "t" + part)
    return t


def _product(tiles="tow"):
    t = _base(tiles="to")
    t.chip("w", (128, 128))
    t.chip("p", space="psum", address=0)
    t.dma("t", "x")
    t.fill("w")
    return t


def _matmul(t, dst, moving="t", accumulate=False):
    t.op("nc_matmul", dst=dst, stationary="w", moving=moving, accumulate=accumulate)


def columns_of_a_product(right):
    t = _product()
    part = _part(right, part="[:, 0:256]")
    _matmul(t, "p" + part, "t" + part)
    t.copy("o", "p", "scalar")
    t.dma("y", "o")
    return t


def product_onto_nothing(right):
    t = _product()
    _matmul(t, "p", accumulate=not right)
    t.copy("o", "p", "scalar")
    t.dma("y", "o")
    return t


def bias(right):
    t = _base()
    t.chip("b", (128, 1))
    t.dma("t", "x")
    t.fill("b" + _part(right, part="[0:64]"))
    t.op("activation", dst="t", op="exp", data="t", bias="b")
    t.dma("y", "t")
    return t


def scalar_operand(right):
    t = _base()
    t.chip("b", (128, 1))
    t.dma("t", "x")
    if right:
        t.fill("b")
    t.op("tensor_scalar", dst="t", data="t", op0="multiply", operand0="b", engine="vector")
    t.dma("y", "t")
    return t


def sum_of_a_row(right):
    t = _base(y=(128, 1))
    t.chip("r", (128, 1))
    part = _part(right, part="[:, 0:500]")
    t.dma("t" + part, "x" + part)
    t.op("tensor_reduce", dst="r", op="add", data="t", axis=[1])
    t.dma("y", "r")
    return t


def spilled_rows(right):
    t = _base(tiles="tv")
    t.hbm("s")
    part = _part(right, part="[0:127]")
    t.dma("t", "x")
    t.dma("s" + part, "t" + part)
    t.dma("v", "s")
    t.dma("y", "v")
    return t


def shared_address(right):
    t = _base(tiles="")
    t.chip("a", address=0)
    t.chip("b", (128, 16), address=2048 if right else 2044)
    t.dma("a", "x")
    t.fill("b")
    t.op("tensor_scalar", dst="a", data="a", op0="add", operand0="b[:, 0:1]", engine="vector")
    t.dma("y", "a")
    return t


def _raw(partitions=128, first=0):
    return {"space": "sbuf", "address": 0, "partition": first, "partitions": partitions, "ap": [[1, 512]],
            "dtype": "float32"}


def raw_memory_read(right):
    t = _base()
    t.dma("t" + _part(right, part="[0:64]"), "x" + _part(right, part="[0:64]"))
    t.dma("y", _raw())
    return t


def raw_memory_written(right):
    t = _base()
    t.dma(_raw(128 if right else 96), "x" + _part(right, part="[0:96]"))
    t.dma("y", "t")
    return t


def undefined_by_raw_memory(right):
    t = _base(tiles="tw")
    t.fill("t")
    if right:
        t.fill("w")
    t.copy(_raw(), "w")  # over t, with what w has
    t.dma("y", "t")
    return t


def undefined_in_raw_memory(right):
    t = _base(tiles="tw")
    if right:
        t.fill("w")
    t.copy("t", "w")
    t.dma("y", _raw())
    return t


def shared_bank(right):
    t = _product()
    t.chip("q", space="psum", address=2048 if right else 0)
    _matmul(t, "p")
    _matmul(t, "q")
    t.copy("o", "p")
    t.op("tensor_tensor", dst="o", data1="o", data2="q", op="add", engine="vector")
    t.dma("y", "o")
    return t


def predicate(right):
    t = _base(tiles="td")
    t.lines.append({"tensor": {"name": "m", "space": "sbuf", "shape": [128, 512], "dtype": "uint32",
                               "address": 65536}})
    t.dma("t", "x")
    t.fill("m" + _part(right, part="[0:64]"), value=1)
    t.fill("d")
    t.op("tensor_copy_predicated", dst="d", src="t", predicate="m")
    t.dma("y", "d")
    return t


def _indexed(rows, x=(64, 512), y=(4, 512), role="output", load="w", source="i"):
    t = Trace(explicit=False)
    t.hbm("x", x, role="input")
    t.lines[-1]["tensor"]["data"] = {"generator": "normal", "seed": 3}
    t.hbm("i", (4, 1), role="input", dtype="int32")
    t.lines[-1]["tensor"]["data"] = {"values": rows}
    t.hbm("y", y, role=role)
    t.chip("w", (4, 1), dtype="int32")
    t.chip("t", (4, 512))
    t.dma(load, source)
    return t


def indices(right):
    part = _part(right, part="[0:3]")
    t = _indexed([1, 2, 3, 4], load="w" + part, source="i" + part)
    t.dma("t", {"tensor": "x", **ROWS}, "gpsimd")
    t.dma("y", "t")
    return t


def index_out_of_bounds(right):
    t = _indexed([5, 1, 2 if right else 64, 3])
    t.dma("t", {"tensor": "x", **ROWS}, "gpsimd")
    t.dma("y", "t")
    return t


def _scatter(rows, **more):
    t = _indexed(rows, (4, 512), (64, 512), "inputoutput")
    t.dma("t", "x")
    t.dma({"tensor": "y", **ROWS}, "t", "gpsimd", **more)
    return t


def index_twice(right):
    return _scatter([5, 1, 2 if right else 5, 3])


def negative_index(right):
    return _scatter([5, 1, 2 if right else -1, 3])


def added_twice(right):
    t = _indexed([5, 1, 2 if right else 5, 3], (4, 512), (64, 512), "inputoutput")
    t.dma("t", "x")
    there = {"tensor": "y", **ROWS}
    t.op("dma_compute", dst=there, srcs=[there, "t"], reduce_op="add", unique_indices=True)
    return t


def skipped_rows(right):
    t = _indexed([0, 1, 2, 3 if right else 9], (4, 512))
    t.dma("t", "x")
    t.dma({"tensor": "y", "ap": ROWS["ap"], "dynamic": [{"vector": "w", "limit": 4}]}, "t", "gpsimd",
          oob_mode="skip")
    return t


def _strided(right, step):
    t = Trace(explicit=False)
    t.hbm("x", (4, 512), role="input")
    t.lines[-1]["tensor"]["data"] = {"generator": "normal", "seed": 3}
    t.hbm("y", (64, 512), role="inputoutput")
    t.dma({"tensor": "y", "ap": [[512 if right else step, 4], [1, 512]]}, "x")
    return t


def rows_onto_one(right):
    return _strided(right, 0)


def rows_that_overlap(right):
    return _strided(right, 256)


def moved_onto_itself(right):
    t = Trace(explicit=False)
    t.hbm("y", (256, 512), role="inputoutput")
    t.lines[-1]["tensor"]["data"] = {"generator": "normal", "seed": 3}
    t.dma("y[128:256]" if right else "y[64:192]", "y[0:128]")
    return t


def rows_nearer_than_they_are_long(right):
    """Indices all differ, but a row begins within the one before."""
    t = _indexed([0, 2 if right else 1, 4, 6], (4, 512), (64, 512), "inputoutput")
    t.dma("t", "x")
    t.dma({"tensor": "y", "ap": ROWS["ap"], "dynamic": [{"vector": "w", "stride": 256}]}, "t", "gpsimd")
    return t


def summed_onto_itself(right):
    """A DMA that adds, shifted against one of its sources."""
    t = Trace(explicit=False)
    t.hbm("x", role="input")
    t.hbm("y", (256, 512), role="inputoutput")
    t.lines[-1]["tensor"]["data"] = {"generator": "normal", "seed": 3}
    t.op("dma_compute", dst="y[0:128]" if right else "y[64:192]", srcs=["x", "y[0:128]"],
         reduce_op="add")
    return t


def added_to_one_row(right):
    """A pattern that adds four rows to one, of ones: each sum would read what was there before."""
    t = Trace(explicit=False)
    t.hbm("x", (4, 512), role="input")
    t.hbm("y", (4, 512), role="inputoutput")
    there = {"tensor": "y", "ap": [[512 if right else 0, 4], [1, 512]]}
    t.op("dma_compute", dst=there, srcs=[there, "x"], reduce_op="add")
    return t


def transposed_in_place(right):
    t = Trace(explicit=False)
    t.hbm("x", (128, 128), role="input", dtype="bfloat16")
    t.lines[-1]["tensor"]["data"] = {"generator": "normal", "seed": 3}
    t.hbm("y", (128, 128), role="output", dtype="bfloat16")
    t.chip("t", (128, 256), dtype="bfloat16")
    to = "t[:, 128:256]" if right else "t[:, 0:128]"
    t.dma("t[:, 0:128]", "x")
    t.op("dma_transpose", dst=to, src="t[:, 0:128]", engine="sync")
    t.dma("y", to)
    return t


def bound_from_memory(right):
    t = _base()
    t.chip("n", (1, 1), dtype="int32")
    t.dma("t", "x")
    t.op("register_alloc", dst="r1")
    if right:
        t.fill("n", value=2)
    t.op("register_load", dst="r1", src="n", engine="scalar")
    return _counted(t)


def bound_never_set(right):
    t = _base()
    t.dma("t", "x")
    t.op("register_alloc", dst="r1")
    if right:
        t.op("register_move", dst="r1", src=2)
    return _counted(t)


def _counted(t):
    t.op("loop_begin", register="r0", start=0, stop="r1")
    t.op("tensor_scalar", dst="t", data="t", op0="add", operand0=1.0, engine="vector")
    t.op("loop_end")
    t.dma("y", "t")
    return t


def too_few_iterations(right):
    t = _base((512, 512), (512, 512))
    rows = [{"register": 0, "stride": 128 * 512}]
    t.op("loop_begin", register="r0", start=0, stop=4 if right else 3)
    t.dma("t", {"tensor": "x[0:128]", "dynamic": rows})
    t.dma({"tensor": "y[0:128]", "dynamic": rows}, "t")
    t.op("loop_end")
    return t


def branch_not_taken(right):
    t = _base()
    t.dma("t", "x")
    t.op("register_alloc", dst="r1")
    t.op("register_move", dst="r1", src=int(right))
    t.op("if_begin", lhs="r1", compare="gt", rhs=0)
    t.dma("y", "t")
    t.op("if_end")
    return t


def _groups(order, apart):
    """Products onto two halves of a bank, or (apart) two banks; "r" reads the first half."""
    t = _product()
    t.chip("a", (128, 256), space="psum", address=4096)
    t.chip("b", (128, 256), space="psum", address=6144 if apart else 5120)
    begun = set()
    for name in order:
        if name == "r":
            t.copy("o[:, 0:256]", "a")
        else:
            _matmul(t, name, "t[:, 0:256]", name in begun)
            begun.add(name)
    t.copy("o[:, 0:256]", "a")
    t.copy("o[:, 256:512]", "b")
    t.dma("y", "o")
    return t


def two_open_groups(right):
    return _groups("abab", right)


def groups_onto_zeros(right):
    """A memset of the whole bank, or of the half of one group."""
    t = _product()
    t.chip("p2", (128, 512), space="psum", address=4096)
    t.fill("p2" if right else "p2[:, 0:256]", value=0.0)
    for i in range(4):
        _matmul(t, f"p2[:, {256 * (i % 2)}:{256 * (i % 2) + 256}]", "t[:, 0:256]", i > 1)
    t.copy("o", "p2")
    t.dma("y", "o")
    return t


def sums_in_slices(right):
    """Sums of two products in the halves of one tile; the first half is read before the second sum, or after it."""
    t = _product()
    for half in ("[:, 0:256]", "[:, 256:512]"):
        for adds in (False, True):
            _matmul(t, "p" + half, "t[:, 0:256]", adds)
        if right:
            t.copy("o" + half, "p" + half)
    if not right:
        t.copy("o", "p")
    t.dma("y", "o")
    return t


def products_in_slices(right):
    """Four products, one a quarter of the tile; or two sums of two."""
    t = _product()
    for i in range(4):
        quarter = i if right else i // 2
        part = f"[:, {128 * quarter}:{128 * quarter + 128}]"
        _matmul(t, "p" + part, "t[:, 0:128]", not right and i % 2 == 1)
    t.copy("o" if right else "o[:, 0:256]", "p" if right else "p[:, 0:256]")
    t.dma("y" if right else "y[:, 0:256]", "o" if right else "o[:, 0:256]")
    if not right:
        t.dma("y[:, 256:512]", "x[:, 256:512]")
    return t


def group_within_a_group(right):
    return _groups("abba", right)


def read_within_an_alternating_group(right):
    t = _product()
    _matmul(t, "p")
    t.op("loop_begin", register="r0", start=0, stop=4)
    _matmul(t, "p", accumulate=True)
    if not right:
        t.copy("o", "p")
        t.dma("y", "o")
    t.op("loop_end")
    t.copy("o", "p")
    t.dma("y", "o")
    return t


def read_within_a_group(right):
    return _groups("aarb" if right else "arab", False)


NEVER, TWICE = "never written", "wrote twice with different values"
CASES = {
    rows_loaded: NEVER, columns_loaded: NEVER, rows_stored: NEVER, columns_stored: NEVER,
    columns_of_a_product: NEVER, product_onto_nothing: NEVER, bias: NEVER, scalar_operand: NEVER,
    sum_of_a_row: NEVER, spilled_rows: NEVER, shared_address: "at the same address overwrote",
    raw_memory_read: NEVER, raw_memory_written: NEVER, undefined_by_raw_memory: NEVER, undefined_in_raw_memory: NEVER,
    shared_bank: "at the same address overwrote", predicate: NEVER, indices: NEVER,
    index_out_of_bounds: "an address within its", index_twice: TWICE,
    negative_index: "an index of 0 or more", added_twice: "unique", skipped_rows: NEVER,
    rows_onto_one: TWICE, rows_that_overlap: TWICE,
    moved_onto_itself: "whose source the same instruction overwrote", bound_from_memory: NEVER,
    bound_never_set: "never set", too_few_iterations: NEVER, branch_not_taken: NEVER,
    groups_onto_zeros: "another accumulation group is open in its PSUM bank",
    two_open_groups: "another accumulation group is open in its PSUM bank",
    sums_in_slices: "devices may keep that one's last product alone",
    products_in_slices: "devices may keep that one's last product alone",
    group_within_a_group: "another accumulation group is open in its PSUM bank",
    rows_nearer_than_they_are_long: TWICE, added_to_one_row: "each element once",
    summed_onto_itself: "whose source the same instruction overwrote",
    transposed_in_place: "whose source the same instruction overwrote",
    read_within_an_alternating_group: "in the middle of an accumulation group",
    read_within_a_group: "in the middle of an accumulation group",
}
