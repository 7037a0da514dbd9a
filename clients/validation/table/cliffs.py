"""Looks for cliffs with clients/validation/table/reach: kernels of sizes around each threshold that fewer than three
measurements give must take times that change by and by."""
from itertools import pairwise

import nki
import nki.isa as nisa
import nki.language as nl

import nkisim
from nkisim import Shape
from nkisim_validation import sets

STEP = 1.2  # by which a time may change from one size to the next, beyond the ratio of the sizes
ENOUGH = 3
#: Units of sizes, and of shares that sizes decide.
UNITS = ("B", "rows", "elements", "streaming share")


def tile(shape, dtype=nl.float32, buffer=nl.sbuf):
    return nl.ndarray(shape, dtype=dtype, buffer=buffer)


def products(rows, columns=512, dtype="bfloat16", count=160):
    """Products of `rows` rows (K) one behind the other."""
    @nki.jit
    def kernel(w, x):
        out, kept = tile((128, columns), nl.float32, nl.shared_hbm), tile((128, columns))
        weights, moving = tile((rows, 128), w.dtype), tile((rows, columns), x.dtype)
        nisa.dma_copy(dst=weights, src=w)
        nisa.dma_copy(dst=moving, src=x)
        sums = tile((128, columns), nl.float32, nl.psum)
        for i in range(count):
            nisa.nc_matmul(dst=sums, stationary=weights, moving=moving, accumulate=i > 0)
        nisa.tensor_copy(dst=kept, src=sums)
        nisa.dma_copy(dst=out, src=kept)
        return out

    return kernel, [Shape((rows, 128), dtype), Shape((rows, columns), dtype)]


def pieces(width, apart, count=24):
    """Loads at run-time addresses of 16 pieces a partition, `width` 16-bit elements that begin `apart` apart."""
    @nki.jit
    def kernel(x, index):
        out, numbers = tile((1, 4), nl.int32, nl.shared_hbm), tile((1, 4), nl.int32)
        nisa.dma_copy(dst=numbers, src=index)
        tiles = [tile((128, 16, width), nl.bfloat16) for _ in range(4)]
        for i in range(count):
            nisa.dma_copy(dst=tiles[i % 4], src=x.ap(
                pattern=[[16 * apart, 128], [apart, 16], [1, width]], offset=0,
                scalar_offset=numbers[0:1, i % 4:i % 4 + 1], indirect_dim=0))
        nisa.dma_copy(dst=out, src=numbers)
        return out

    return kernel, [Shape((4, 128 * 16 * apart), "bfloat16"), Shape((1, 4), "int32")]


def rows(width, others=0, count=24):
    """Loads of rows of `width` 16-bit elements by hardware, next to those of `others` in another queue."""
    @nki.jit
    def kernel(x, y):
        out = tile((1, 4), nl.bfloat16, nl.shared_hbm)
        tiles, second = [[tile((128, w), nl.bfloat16) for _ in range(4)] for w in (width, max(1, others))]
        for i in range(count):
            nisa.dma_copy(dst=tiles[i % 4], src=x, dge_mode=nisa.dge_mode.hwdge, engine=nisa.engine.sync)
            if others:
                nisa.dma_copy(dst=second[i % 4], src=y, dge_mode=nisa.dge_mode.hwdge, engine=nisa.engine.scalar)
        nisa.dma_copy(dst=out, src=tiles[0][0:1, 0:4])
        return out

    return kernel, [Shape((128, width), "bfloat16"), Shape((128, max(1, others)), "bfloat16")]


def copies(width, count=12):
    """Copies of `width` 16-bit elements within HBM."""
    @nki.jit
    def kernel(x):
        outs = [tile((1, width), nl.bfloat16, nl.shared_hbm) for _ in range(count)]
        for out in outs:
            nisa.dma_copy(dst=out, src=x)
        return outs[0]

    return kernel, [Shape((1, width), "bfloat16")]


def around(value, *more):
    return sorted({value // 2, value - 64, value - 2, value, value + 2, value + 64, 2 * value, *more})


NEW = ("trn2", "trn3")
#: (name, targets, the thresholds that it crosses, kernel of a size, sizes)
LADDERS = (
    ("products by rows", NEW, ("throttle.known_rows", "throttle.rise", "throttle.fall"),
     products, (*range(24, 128, 4), 31, 33, 63, 65, 95, 97, 127, 128)),
    ("FP32 products by columns", NEW, ("throttle.rise",),
     lambda n: products(128, n, "float32"), (*range(64, 160, 4), *range(88, 104))),
    ("BF16 products by columns", NEW, ("throttle.rise",),
     lambda n: products(128, n), (*range(32, 256, 16), 63, 65, 127, 129)),
    ("pieces by length", NEW, ("dma.piece_full_bytes",), lambda n: pieces(n // 2, 16384), around(384, 128, 256, 320)),
    ("pieces by distance", NEW, ("dma.piece_near_bytes", "dma.piece_far_bytes"),
     lambda n: pieces(192, n // 2), around(1536, 3072, 4094, 4096, 4098, 8192, 16384, 24576, 32768, 49152, 65536)),
    ("rows by length", NEW, ("dma.hardware.max_packet_bytes",), lambda n: rows(n // 2), around(4096)),
    ("rows next to long ones", NEW, ("dma.turn_bytes",), lambda n: rows(n // 2, 4096), around(4096, 512)),
    ("copies within HBM", (*NEW, "trn1", "inf2"), ("dma.split_bytes",),
     lambda n: copies(n // 2), (*around(4096), *around(65536))),
)


def thresholds(config):
    """Paths of the sizes at which a rule begins or ends and that few measurements give."""
    return [path for path, number in sets.numbers(config)
            if number.get("unit", "").split(" of ")[0].split(" per ")[0] in UNITS and number["value"]
            and (number["confidence"] == "assumed" or number.get("reach", {}).get("points", ENOUGH) < ENOUGH)
            and not path.startswith((*sets.OF_RANKS, "spread.", "calibrated."))]


def without_ladder(target, config):
    """Lines on thresholds that no ladder crosses; trn1 and inf2 inherit those of trn2."""
    crossed = {path for _, targets, paths, *_ in LADDERS if target in targets for path in paths}
    return [f"{target} {path}: a threshold of few measurements that no ladder of cliffs.py crosses"
            for path in thresholds(config) if target in NEW and path not in crossed]


def times(target, make, sizes):
    """[(size, us)]"""
    found = []
    for size in sorted(set(sizes)):
        kernel, arguments = make(size)
        found.append((size, nkisim.run(kernel, *arguments, target=target, timing="only").latency_us))
    return found


def cliffs(name, target, found):
    """Lines on the steps of a ladder that are too high."""
    return [f"{target} {name}: {t:.2f} us at {a} and {u:.2f} at {b}" for (a, t), (b, u) in pairwise(found)
            if not 1 / STEP <= u / t <= STEP * b / a]


def found(target, config):
    """Lines on missing ladders and cliffs, and how many steps were looked at."""
    wrong, steps = without_ladder(target, config), 0
    for name, targets, _, make, sizes in LADDERS:
        if target in targets:
            ladder = times(target, make, sizes)
            steps += len(ladder) - 1
            wrong += cliffs(name, target, ladder)
    return wrong, steps
