"""Varies a random test: moves its tiles to PSUM or to a later partition, or gives them a second
free dimension.
"""

from .case import Ref

#: Functions whose pages take tiles of any free shape, element by element or flattened.
ANY_SHAPE = set(
    "tensor_copy memset tensor_copy_predicated select_reduce range_select iota affine_select tensor_tensor "
    "tensor_scalar scalar_tensor_tensor tensor_scalar_reduce reciprocal activation activation_reduce activate2 "
    "exponential dropout nc_stream_shuffle nc_n_gather dma_copy".split()
)
#: Functions that look at the number of a partition, or pair tiles of different heights.
FROM_ZERO = set(
    "nonzero_with_count local_gather topk nc_matmul nc_matmul_mx quantize_mx nc_transpose dma_transpose rand_set_state "
    "indirect views".split()
)
#: Functions whose pages allow each of these tiles in PSUM: one of them, and dst with it.
IN_PSUM = {
    "tensor_reduce": "data",
    "activation": "data scale bias res",
    "activation_reduce": "data res",
    "exponential": "src res",
    "activate2": "data res",
    "tensor_scalar_reduce": "res operand0",
    "tensor_copy_predicated": "src predicate",
    "select_reduce": "on_true predicate",
    "nc_stream_shuffle": "src",
    "rng": "dst",
    "rand2": "dst",
}


def to_psum(case, rng):
    """Puts one operand into PSUM, and dst now and then."""
    names = [n for n in IN_PSUM.get(case.function, "").split() if n in case.tiles and case.tiles[n].buffer == "sbuf"]
    if not names:
        return
    chosen = {str(rng.choice(names))} | ({"dst"} & set(case.tiles) if rng.random() < 0.4 else set())
    for name in chosen:
        case.tiles[name].buffer = "psum"
    case.option += f", {' and '.join(sorted(chosen))} in PSUM"


def to_later(case, rng):
    """Lets all tiles start on a later partition that their height allows."""
    rows = {tile.shape[0] for tile in case.tiles.values()}
    if case.function in FROM_ZERO or case.function.startswith("nl.") or len(rows) != 1 or max(rows) > 64:
        return
    case.start = int(rng.choice((32, 64, 96) if max(rows) <= 32 else (64,)))
    case.option += f", from partition {case.start}"


def to_planes(case):
    """Splits the free dimension of the tiles that a call sees whole."""
    free = max(tile.shape[-1] for tile in case.tiles.values())
    plain = all(tile.step == 1 and len(tile.shape) == 2 for tile in case.tiles.values())
    viewed = any(ref.steps for _, k in case.calls for ref in k.values() if isinstance(ref, Ref))
    if case.function in ANY_SHAPE and plain and not viewed and free % 2 == 0 and free > 2:
        case.split = (2, free // 2)
        case.option += f", free {case.split}"


def dress(case, rng):
    """Changes a case now and then; its results stay the same."""
    if rng.random() < 0.3:
        to_psum(case, rng)
    if rng.random() < 0.25:
        to_later(case, rng)
    if rng.random() < 0.3:
        to_planes(case)
