"""Builds programs with a result that is lost before it is read, or overwrites its own source, and
with unset registers.

Each builder takes whether the program is right; a wrong one has a word that its message must have.
"""

from corpus import Trace
from unwritten import _base, _matmul, _product


def stored_twice(right):
    t = _base((128, 1024), (128, 1024) if right else (128, 512), "tu")
    for i, tile in enumerate("tu"):
        part = f"[:, {512 * i}:{512 * i + 512}]"
        t.dma(tile, "x" + part)
        t.dma("y" + part if right else "y", tile)
    return t


def stored_again(right):
    """A program that repeats itself, as one that is measured."""
    t = _base((128, 1024))
    for i in range(4):
        part = 0 if right else 512 * (i % 2)
        t.dma("t", f"x[:, {part}:{part + 512}]")
        t.dma("y", "t")
    return t


def stored_alternately(right):
    """A loop that loads other rows in each iteration and stores them at one place."""
    return _rows_alternately("y" if right else "y[0:128]", right)


def loaded_alternately(right):
    """A loop that loads rows of which only the last are stored, behind it."""
    return _rows_alternately("y" if right else None, right)


def _rows_alternately(y, moving):
    t = _base((512, 512), (512, 512) if moving else (128, 512))
    rows = [{"register": 0, "stride": 128 * 512}]
    t.op("loop_begin", register="r0", start=0, stop=4)
    t.dma("t", {"tensor": "x[0:128]", "dynamic": rows})
    if y:
        t.dma({"tensor": "y[0:128]", "dynamic": rows} if moving else y, "t")
    t.op("loop_end")
    if not y:
        t.dma("y", "t")
    return t


def stored_by_a_counter(right):
    """The same where the program counts on its own, or always begins at 0."""
    t = _base((512, 512))
    t.op("register_alloc", dst="r1", x=0)
    t.op("loop_begin", register="r0", start=0, stop=4)
    t.dma("t", {"tensor": "x[0:128]", "dynamic": [{"register": 1, "stride": 128 * 512}]})
    t.dma("y", "t")
    t.op("register_alu", dst="r1", op="add", lhs=0 if right else "r1", rhs=0 if right else 1)
    t.op("loop_end")
    return t


def overwritten_in_halves(right):
    t = _two_inputs("t")
    t.dma("t", "x")
    for part in ("[0:64]",) if right else ("[0:64]", "[64:128]"):
        t.dma("t" + part, "z" + part)
    t.dma("y", "t")
    return t


def stored_over_in_columns(right):
    t = _two_inputs("tu")
    t.dma("t", "x")
    t.dma("u", "z")
    t.dma("y", "t")
    for i in range(3 if right else 4):
        part = f"[:, {128 * i}:{128 * i + 128}]"
        t.dma("y" + part, "u" + part)
    return t


def _two_inputs(tiles):
    t = _base(tiles=tiles)
    t.hbm("z", role="input")
    return t


def loaded_again(right):
    t = _two_inputs("tu")
    t.dma("t", "x")
    t.dma("u" if right else "t", "z")
    t.op("tensor_tensor", dst="t", data1="t", data2="u" if right else "t", op="add")
    t.dma("y", "t")
    return t


def computed_again(right):
    t = _base(tiles="tu")
    t.dma("t", "x")
    t.op("activation", dst="u", op="exp", data="t")
    t.op("tensor_scalar", dst="u", data="u" if right else "t", op0="multiply", operand0=3.0)
    t.dma("y", "u")
    return t


def scaled_before_it_is_made(right):
    """A wrong one computes in place on what nothing has written."""
    t = _base(tiles="tu")
    t.dma("t", "x")

    def scale():
        t.op("tensor_scalar", dst="u", data="u", op0="multiply", operand0=3.0)

    if not right:
        scale()
    t.op("activation", dst="u", op="exp", data="t")
    if right:
        scale()
    t.dma("y", "u")
    return t


def filled_too_late(right):
    t = _base(tiles="tu")
    t.dma("t", "x")
    for step in ("fill", "add") if right else ("add", "fill"):
        if step == "fill":
            t.fill("u", value=0.0)
        else:
            t.op("tensor_scalar", dst="u", data="t", op0="add", operand0=1.0)
    t.dma("y", "u")
    return t


def begun_anew(right):
    t = _product()
    for i in range(4):
        _matmul(t, "p", "t", right and i > 0)
    t.copy("o", "p")
    t.dma("y", "o")
    return t


def begun_anew_in_a_loop(right):
    t = _product()
    t.chip("a")
    t.fill("a", value=0.0)
    t.op("loop_begin", register="r0", start=0, stop=4)
    _matmul(t, "p", "t", False)
    if right:
        t.op("tensor_tensor", dst="a", data1="a", data2="p", op="add")
    t.op("loop_end")
    t.copy("o", "a" if right else "p")
    t.dma("y", "o")
    return t


def overwritten_by_rows(right):
    """The second half is not lost: only a write of all that was written loses it."""
    t = _two_inputs("t")
    t.dma("t", "x")
    t.dma("t[0:64]" if right else "t", "z[0:64]" if right else "z")
    t.dma("y", "t")
    return t


def cleared_through_a_tile(right):
    """An output that is cleared by a copy of zeros before it is written."""
    t = _two_inputs("tu")
    if right:
        t.op("memset", dst="t", value=0.0)
    else:
        t.dma("t", "z")
    t.copy("u", "t")
    t.dma("y", "u")
    t.dma("t", "x")
    t.dma("y", "t")
    return t


def overwritten_in_a_branch(right):
    t = _two_inputs("tu")
    t.op("register_alloc", dst="r1", x=1)
    t.dma("t", "x")
    t.dma("u", "x")
    if right:
        t.op("if_begin", lhs="r1", compare="gt", rhs=0)
    t.dma("t", "z")
    if right:
        t.op("if_end")
    t.op("tensor_tensor", dst="t", data1="t", data2="u", op="add")
    t.dma("y", "t")
    return t


def only_the_sum_is_wanted(right):
    """The wide result may be overwritten where the row sums are read."""
    t = _base(y=(128, 2), tiles="tu")
    t.chip("s", (128, 1))
    t.dma("t", "x")
    for column, op in enumerate(("exp", "square")):
        if right:
            t.op("activation_reduce", dst="u", op=op, data="t", reduce_op="add", reduce_res="s")
        else:
            t.op("activation", dst="u", op=op, data="t")
        if right or op == "square":
            if not right:
                t.op("tensor_reduce", dst="s", op="add", data="u", axis=[1])
            t.dma(f"y[:, {column}:{column + 1}]", "s")
    if not right:
        t.dma("y[:, 0:1]", "s")
    return t


def computed_the_same_again(right):
    """The same instruction with the same operands loses nothing."""
    t = _base(tiles="tu")
    t.dma("t", "x")
    t.op("activation", dst="u", op="exp", data="t")
    if not right:
        t.fill("t", value=0.0)
    t.op("activation", dst="u", op="exp", data="t")
    t.dma("y", "u")
    return t


def nothing_was_lost(right):
    """A result of unwritten bytes is no loss."""
    t = _base(tiles="tu")
    if not right:
        t.dma("t", "x")
    t.op("tensor_scalar", dst="u", data="t", op0="add", operand0=1.0)
    t.dma("u", "x")
    t.dma("y", "u")
    return t


def _in_place(right, op, dst, src, **more):
    t = _base(tiles="tu")
    t.dma("t", "x")
    t.fill("u", value=0.0)
    aside = {"tensor": "u", **dst} if isinstance(dst, dict) else "u" + dst
    target = aside if right else {"tensor": "t", **dst} if isinstance(dst, dict) else "t" + dst
    t.op(op, dst=target, **{("src" if op == "tensor_copy" else "data"): src}, **more)
    t.dma("y", "u" if right else "t")
    return t


def shifted_right(right):
    return _in_place(right, "tensor_copy", "[:, 1:512]", "t[:, 0:511]")


def shifted_left(right):
    return _in_place(right, "tensor_scalar", "[:, 0:500]", "t[:, 12:512]", op0="add", operand0=1.0)


def reversed_in_place(right):
    return _in_place(right, "tensor_copy", "", "t[:, ::-1]")


def widened_in_place(right):
    narrow = {"tensor": "t", "partitions": 128, "ap": [[1, 512]], "dtype": "bfloat16"}
    return _in_place(right, "tensor_copy", "", narrow)


def onto_one_column(right):
    t = _base(tiles="tu")
    t.dma("t", "x")
    t.fill("u", value=0.0)
    t.copy({"tensor": "u", "partitions": 128, "ap": [[1 if right else 0, 512]]}, "t")
    t.dma("y", "u")
    return t


def other_partitions(right):
    """Rows are moved side by side, so that a copy onto other rows of the tile is in order."""
    return _in_place(right, "tensor_copy", "[:, 8:512]", "t[:, 0:504]") if not right else (
        _moved_rows())


def _moved_rows():
    t = _base()
    t.dma("t", "x")
    t.copy("t[32:64]", "t[0:32]")
    t.op("tensor_scalar", dst="t", data="t", op0="add", operand0="t[:, 0:1]")
    t.dma("y", "t")
    return t


def summed_onto_nothing(right):
    t = _base(y=(128, 1), tiles="tu")
    t.chip("s", (128, 1))
    t.dma("t", "x")
    for command in ("reset_reduce" if right else "reduce", "reduce"):
        t.op("activation", dst="u", op="exp", data="t", reduce_op="add", reduce_res="s",
             reduce_cmd=command)
    t.dma("y", "s")
    return t


def moved_to_a_tile_that_overlaps(right):
    t = _base(tiles="")
    t.chip("a", address=0)
    t.chip("b", address=2048 if right else 1024)
    t.dma("a", "x")
    t.dma("b", "a")
    t.dma("y", "b")
    return t


def copied_to_a_tile_that_overlaps(right):
    t = _base(tiles="")
    t.chip("a", address=0)
    t.chip("b", address=2048 if right else 4)
    t.dma("a", "x")
    t.op("activation", dst="b", op="exp", data="a")
    t.dma("y", "b")
    return t


def shared_hbm(right):
    t = Trace(explicit=False)
    t.hbm("x", role="input", address=1 << 20)
    t.hbm("y", role="output", address=(2 if right else 1) * (1 << 20) + 1024)
    t.chip("t")
    t.dma("t", "x")
    t.dma("y", "t")
    return t


def sent_to_itself(right):
    t = Trace(explicit=False, cores=2)
    t.hbm("x", role="input")
    t.hbm("y", (256, 512), role="output")
    for core in (0, 1):
        t.chip(f"a{core}", core=core)
        t.chip(f"b{core}", core=core)
        t.dma(f"a{core}", "x", core=core)
    for core in (0, 1):
        other = 1 - core if right else core
        t.op("sendrecv", src=f"a{core}", dst=f"b{core}", send_to_rank=other, recv_from_rank=other,
             pipe_id=0, core=core)
        t.dma(f"y[{128 * core}:{128 * core + 128}]", f"b{core}", core=core)
    return t


def carried_anew(right):
    """A carry that each iteration of a loop begins with zeros; the last copy of an iteration is not read."""
    t = _base((128, 512), (128, 512), tiles="tu")
    t.chip("c", (128, 512))
    if not right:
        t.op("memset", dst="c", value=0.0)
    t.op("loop_begin", register="r0", start=0, stop=2)
    if right:
        t.op("memset", dst="c", value=0.0)
    t.dma("t", "x")
    t.op("tensor_tensor", dst="u", data1="t", data2="c", op="add")
    t.op("tensor_copy", dst="c", src="u")
    if not right:
        t.op("memset", dst="c", value=0.0)
    t.op("loop_end")
    t.dma("y", "u")
    return t


LOST, CROSSES = "its result is lost", "that it reads as other elements of"
CASES = {
    stored_twice: LOST, stored_again: LOST, stored_alternately: LOST, loaded_alternately: LOST,
    stored_by_a_counter: LOST, overwritten_in_halves: LOST, stored_over_in_columns: LOST, loaded_again: LOST,
    computed_again: LOST, scaled_before_it_is_made: LOST,
    filled_too_late: LOST, begun_anew: LOST, begun_anew_in_a_loop: LOST, overwritten_by_rows: LOST,
    cleared_through_a_tile: LOST,
    overwritten_in_a_branch: LOST, only_the_sum_is_wanted: LOST,
    computed_the_same_again: LOST, nothing_was_lost: LOST, carried_anew: LOST,
    shifted_right: CROSSES, shifted_left: CROSSES, reversed_in_place: CROSSES,
    widened_in_place: CROSSES, other_partitions: CROSSES,
    moved_to_a_tile_that_overlaps: CROSSES, copied_to_a_tile_that_overlaps: CROSSES,
    onto_one_column: "only the last element stays", summed_onto_nothing: "reset_reduce",
    shared_hbm: "overlaps that of", sent_to_itself: "the core itself",
}
