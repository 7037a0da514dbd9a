"""Makes random tests of searches, gathers and statistics, with results from the pages of nki.isa
and their examples.
"""

import numpy as np

from .case import Case, bits, draws, exact, satisfies, within, as_stored
from .elementwise import UNIT
from .formats import FLOATS, SMALL_INTEGERS, numpy_type, widen


def distinct(d, shape, dtype):
    """Finite values with duplicates now and then."""
    data = d.values(shape, dtype, "finite")
    if d.coin(0.3):
        data = d.rng.integers(0, 6, shape).astype(numpy_type(dtype))
    return np.where(data == 0, np.ones(1, data.dtype), data)


@draws("max8")
def max8(d):
    """nki.isa.max8: the 8 largest, descending, compared as float32, cast to dst. Undocumented: NaN."""
    dtype, shape = d.pick(*FLOATS, *SMALL_INTEGERS), (d.partitions(), d.number(8, 40))
    dst_type = d.pick(dtype, "float32")
    case = Case("max8", d.generation, f"{dtype} to {dst_type}")
    data = distinct(d, shape, dtype)
    dst = case.new("dst", (shape[0], 8), dst_type)
    case.call("max8", dst=dst, src=case.load("src", data, dtype))
    case.result(dst, exact(-np.sort(-widen(data), 1)[:, :8], dst_type))
    return case


def occurrences(data, vals, order, fill):
    """The position that each of 8 values takes: duplicates take successive occurrences, in `order`."""
    index = np.full((len(data), 8), fill, np.int64)
    for row, (line, wanted) in enumerate(zip(data, vals)):
        used = {}
        for slot in order:
            places = np.flatnonzero(line == wanted[slot])
            count = used.get(float(wanted[slot]), 0)
            if count < len(places):
                index[row, slot] = places[count]
            used[float(wanted[slot])] = count + 1
    return index


def wanted(d, data):
    """Eight values a partition, most of them from the data."""
    take = d.rng.integers(0, data.shape[1], (data.shape[0], 8))
    vals = np.take_along_axis(data, take, 1)
    return np.where(d.rng.random(vals.shape) < 0.1, np.full(1, 77, data.dtype), vals)


@draws("nc_find_index8")
def nc_find_index8(d):
    """nki.isa.nc_find_index8: the first position of each value, all ones where absent; duplicates advance in ascending
    order (release notes 0.6.0; nc_match_replace8)."""
    dtype, shape = d.pick("float32", "bfloat16", "float16"), (d.partitions(), d.number(8, 40))
    out = d.pick("uint32", "uint16")
    case = Case("nc_find_index8", d.generation, f"{dtype}, {out}")
    data = distinct(d, shape, dtype)
    vals = wanted(d, data)
    dst = case.new("dst", (shape[0], 8), out)
    case.call("nc_find_index8", dst=dst, data=case.load("data", data, dtype), vals=case.load("vals", vals, dtype))
    case.result(dst, as_stored(occurrences(data, vals, range(8), -1).astype(numpy_type(out))))
    return case


@draws("nc_match_replace8")
def nc_match_replace8(d):
    """nki.isa.nc_match_replace8: the first occurrence of each value becomes imm; values go from 7 down to 0, so a
    duplicate's first position goes to the highest slot. Undocumented: the index of an absent value, the type of dst_idx
    (the examples have uint32)."""
    dtype, shape = d.pick("float32", "bfloat16", "float16"), (d.partitions(), d.number(8, 40))
    case = Case("nc_match_replace8", d.generation, dtype)
    data = distinct(d, shape, dtype)
    vals = wanted(d, data)
    imm = d.pick(0.0, float("-inf"), -1e4)
    index = occurrences(data, vals, range(7, -1, -1), -1)
    result = data.copy()
    for row in range(shape[0]):
        result[row, index[row][index[row] >= 0]] = imm
    dst = case.new("dst", shape, dtype)
    arguments = {}
    if d.coin(0.7):
        out = "uint32"
        arguments["dst_idx"] = case.new("idx", (shape[0], 8), out)
        case.result(arguments["dst_idx"], as_stored(index.astype(numpy_type(out)), index < 0))
    case.call(
        "nc_match_replace8",
        dst=dst,
        data=case.load("data", data, dtype),
        vals=case.load("vals", vals, dtype),
        imm=imm,
        **arguments,
    )
    case.result(dst, as_stored(result))
    return case


@draws("nonzero_with_count", 3)
def nonzero_with_count(d):
    """nki.isa.nonzero_with_count: partitions 0, 16, ... get the positions of nonzero elements plus index_offset, then
    padding_val, then the count; other partitions keep what they had. A NaN is != 0; -0.0 is not."""
    dtype, shape = d.pick("float32", "int32"), (d.pick(1, 16, 17, 32, 64, 128), d.number(1, 30))
    offset, padding = d.pick(0, 16, -5), d.pick(-1, 0, 99)
    case = Case("nonzero_with_count", d.generation, dtype)
    data = np.where(d.rng.random(shape) < 0.5, np.zeros(1, numpy_type(dtype)), d.values(shape, dtype))
    old = d.values((shape[0], shape[1] + 1), "int32")
    result = old.copy()
    for row in range(0, shape[0], 16):
        found = np.flatnonzero(data[row] != 0)
        result[row] = [*(found + offset), *[padding] * (shape[1] - len(found)), len(found)]
    silent = np.zeros(result.shape, bool)
    if dtype == "float32":
        silent |= ((data != 0) & (np.abs(data) < 2.0**-126)).any(1, keepdims=True) | np.isnan(data).any(
            1, keepdims=True
        )
    dst = case.load("dst", old, "int32")
    case.call(
        "nonzero_with_count", dst=dst, src=case.load("src", data, dtype), index_offset=offset, padding_val=padding
    )
    case.result(dst, as_stored(result, silent))
    return case


@draws("sequence_bounds")
def sequence_bounds(d):
    """nki.isa.sequence_bounds and nki/test/test_nki_isa_sequence_bounds.py: for each element the start and the end of
    its run of equal ids, (n, -1) for an id of zero."""
    count, dtype = d.number(1, 40), d.pick("float32", "int32")
    case = Case("sequence_bounds", d.generation, dtype)
    ids = d.rng.integers(0, 5, count) if d.coin() else np.sort(d.rng.integers(0, 8, count))
    start, end = np.full(count, count), np.full(count, -1)
    for i in range(count):
        if ids[i]:
            low, high = i, i
            while low > 0 and ids[low - 1] == ids[i]:
                low -= 1
            while high + 1 < count and ids[high + 1] == ids[i]:
                high += 1
            start[i], end[i] = low, high + 1
    dst = case.new("dst", (1, 2, count), dtype)
    case.call("sequence_bounds", dst=dst, segment_ids=case.load("ids", ids[None].astype(numpy_type(dtype)), dtype))
    case.result(dst, as_stored(np.stack([start, end])[None].astype(numpy_type(dtype))))
    return case


@draws("nc_n_gather")
def nc_n_gather(d):
    """nki.isa.nc_n_gather: within each partition dst[i] = data.flat[indices[i]], same format, uint32 indices."""
    dtype, rows, size, count = d.any_type(), d.partitions(), d.number(1, 40), d.number(1, 40)
    case = Case("nc_n_gather", d.generation, dtype)
    data, index = d.values((rows, size), dtype), d.rng.integers(0, size, (rows, count)).astype(np.uint32)
    dst = case.new("dst", (rows, count), dtype)
    case.call("nc_n_gather", dst=dst, data=case.load("data", data, dtype), indices=case.load("index", index, "uint32"))
    case.result(dst, bits(np.take_along_axis(data, index.astype(np.int64), 1)))
    return case


@draws("local_gather")
def local_gather(d):
    """nki.isa.local_gather and nki/test/test_nki_isa_local_gather.py: each group of 16 partitions flattens its indices,
    partitions first, and takes num_elem_per_idx elements at each; indices count elements times num_elem_per_idx."""
    dtype, groups = d.any_type(), d.pick(1, 2, 4, 8)
    rows, size, count, each = 16 * groups, d.number(1, 16), d.number(1, 3), d.pick(1, 2, 4)
    case = Case("local_gather", d.generation, f"{dtype}, each={each}")
    data = d.values((rows, size, each), dtype)
    index = d.rng.integers(0, size, (rows, count)).astype(np.uint16)
    valid = 16 * count
    result = np.empty((rows, valid, each), data.dtype)
    for group in range(groups):
        part = slice(16 * group, 16 * group + 16)
        result[part] = data[part][:, index[part].flatten(order="F")]
    dst = case.new("dst", (rows, valid * each), dtype)
    case.call(
        "local_gather",
        dst=dst,
        src_buffer=case.load("src", data.reshape(rows, -1), dtype),
        index=case.load("index", index * np.uint16(each), "uint16"),
        num_elem_per_idx=each,
        num_valid_indices=valid,
    )
    case.result(dst, bits(result.reshape(rows, -1)))
    return case


@draws("bn_stats")
def bn_stats(d):
    """nki.isa.bn_stats: count, mean and variance * count of the even elements, then of the odd ones, in float32.
    Tolerances: any order of additions. Undocumented: the mean of no element."""
    dtype, shape = d.pick("float32", "bfloat16", "float16"), (d.partitions(), d.number(2, 40))
    case = Case("bn_stats", d.generation, dtype)
    data = d.values(shape, dtype, "tame")
    dst = case.new("dst", (shape[0], 6), "float32")
    case.call("bn_stats", dst=dst, data=case.load("data", data, dtype))
    x = data.astype(np.float64)
    parts = [[np.full(shape[0], h.shape[1]), h.mean(1), h.var(1) * h.shape[1]] for h in (x[:, ::2], x[:, 1::2])]
    value = np.stack([*parts[0], *parts[1]], 1)
    bound = np.abs(x).max() ** 2 * shape[1] * 8 * UNIT + 1e-6
    case.result(dst, within(value, np.where(np.arange(6) % 3 == 0, 0, bound), "float32"))
    return case


@draws("bn_aggr")
def bn_aggr(d):
    """nki.isa.bn_aggr: the mean and the variance of all elements from tuples (count, mean, variance * count)."""
    groups, rows = d.number(1, 6), d.partitions()
    case = Case("bn_aggr", d.generation, f"{groups} tuples")
    count = d.rng.integers(1, 50, (rows, groups)).astype(np.float32)
    mean = d.rng.uniform(-4, 4, (rows, groups)).astype(np.float32)
    scatter = (d.rng.uniform(0, 4, (rows, groups)) * count).astype(np.float32)
    dst = case.new("dst", (rows, 2), "float32")
    case.call(
        "bn_aggr", dst=dst, data=case.load("data", np.stack([count, mean, scatter], 2).reshape(rows, -1), "float32")
    )
    c, m, s = (v.astype(np.float64) for v in (count, mean, scatter))
    total = (c * m).sum(1) / c.sum(1)
    variance = (s + c * (m - total[:, None]) ** 2).sum(1) / c.sum(1)
    case.result(dst, within(np.stack([total, variance], 1), 1e-4, "float32"))
    return case


@draws("topk")
def topk(d):
    """nki.isa.topk (2.33): each group of 16 partitions is a snake: element i lies at partition i % 16, position i //
    16. Result j lies there too, of the k largest of n; idx_dst has indices into the snake; k is the free size of
    val_dst. Undocumented: the order without `sorted`, which of equals is taken. Of 2.32 the page gave each partition
    all."""
    rows, n, k = d.pick(16, 32, 128), d.number(16, 90), 16
    case = Case("topk", d.generation, f"n={n}")
    data = np.arange(rows * -(-n // 16)).reshape(rows, -1)
    data = d.rng.permutation(min(data.size, 256)).reshape(-1)[data % min(data.size, 256)].astype(numpy_type("bfloat16"))
    old = d.values((rows, k), "bfloat16", "tame")
    val, idx = case.load("val", old, "bfloat16"), case.load("idx", np.zeros((rows, k), np.uint32), "uint32")
    case.call("topk", val_dst=val, idx_dst=idx, src=case.load("src", data, "bfloat16"), n=n)

    def snakes(tile):
        return tile.reshape(rows // 16, 16, -1).transpose(0, 2, 1).reshape(rows // 16, -1)

    most = np.sort(snakes(data.astype(np.float32))[:, :n], 1)[:, -k:]

    def broken(got):
        found = np.sort(got[:, 0].astype(np.float32).reshape(rows // 16, 16), 1)
        return found != most

    case.result(val, satisfies(broken, (rows // 16, k)))

    def strays(got):
        taken = np.take_along_axis(snakes(data.astype(np.float32)), got[:, 0].astype(np.int64).reshape(-1, 16), 1)
        return np.sort(taken, 1) != most

    case.result(idx, satisfies(strays, (rows // 16, k)))
    return case


@draws("dropout")
def dropout(d):
    """nki.isa.dropout: probability 1 gives zeros, 0 keeps every value; between, each element is kept or zero. The page
    scales nothing. prob is float32 for integer data."""
    dtype, shape, prob = d.any_type(), d.shape(), d.pick(0.0, 1.0, 0.5)
    case = Case("dropout", d.generation, f"{dtype}, {prob}")
    data = d.values(shape, dtype, "finite")
    dst = case.new("dst", shape, dtype)
    case.call("dropout", dst=dst, data=case.load("data", data, dtype), prob=prob)
    zero = np.zeros(1, data.dtype)
    if prob == 0.5:
        case.result(dst, satisfies(lambda got: (got != 0) & (got != data), shape))
    else:
        with np.errstate(all="ignore"):
            silent = (widen(data).astype(data.dtype) != data) | ((np.abs(widen(data)) < 2.0**-126) & (data != 0))
        case.result(
            dst, as_stored(data, silent | (data == 0)) if prob == 0 else as_stored(np.broadcast_to(zero, shape), True)
        )
        if prob == 1.0:
            case.expect["dst"] = satisfies(lambda got: got != 0, shape)
    return case


@draws("rng")
def rng(d):
    """nki.isa.rng: 32 random bits an element, the low bits of the type; only the type and the spread are documented."""
    dtype = d.pick("int8", "uint8", "int16", "uint16", "int32", "uint32")
    case = Case("rng", d.generation, dtype)
    dst = case.new("dst", (32, 32), dtype)
    case.call("rng", dst=dst)
    case.result(dst, satisfies(lambda got: np.full(np.shape(got), len(np.unique(got)) < 100), (32, 32)))
    return case


@draws("rand2", 4)
def rand2(d):
    """nki.isa.rand2: uniform values within [min, max], float32 or cast."""
    dtype, low = d.pick("float32", "bfloat16", "float16"), float(d.number(-8, 8))
    high = low + d.number(1, 8)
    case = Case("rand2", d.generation, dtype)
    dst = case.new("dst", (32, 16), dtype)
    case.call("rand2", dst=dst, min=low, max=high)
    case.result(dst, satisfies(lambda got: ~((got.astype(np.float32) >= low) & (got.astype(np.float32) <= high)),
                               (32, 16)))
    return case
