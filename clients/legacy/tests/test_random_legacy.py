"""Tests on random neuronxcc.nki kernels that no compiler pass changes a bit of their results."""

import os

import numpy as np
import pytest

import nkisim
from nkisim.run.compiling import SWITCHES

nkisim.install()

import neuronxcc.nki as nki  # noqa: E402
import neuronxcc.nki.isa as nisa  # noqa: E402
import neuronxcc.nki.language as nl  # noqa: E402

#: Kernels per target; NKISIM_FUZZ_PROGRAMS for a long run, NKISIM_FUZZ_SEED for its start.
PROGRAMS = int(os.environ.get("NKISIM_FUZZ_PROGRAMS", "12"))
SEED = int(os.environ.get("NKISIM_FUZZ_SEED", "1"))
OFF = {"schedule": "program", "loads": "program", "dma_queues": "one", "clears": "keep", "broadcasts": "vector",
       "engines": "default", "casts": "dma", "descriptors": "dynamic"}
OFF = {name: OFF.get(name, "none") for name in SWITCHES}
BLOCKS, P, F = 4, 128, 128


class Maker:
    """One random kernel: a few tiles that are loaded, computed with, partly overwritten, stored to
    memory that is read again, inside loops whose loads repeat."""

    def __init__(self, seed, x, w, out, scratch):
        self.rng = np.random.default_rng(seed)
        self.x, self.w, self.out, self.scratch = x, w, out, scratch
        self.tiles, self.stored = [], 0

    def pick(self, *choices):
        return choices[int(self.rng.integers(len(choices)))]

    def tile(self):
        return self.tiles[int(self.rng.integers(len(self.tiles)))]

    def keep(self, tile):
        self.tiles.append(tile)
        if len(self.tiles) > 6:
            self.tiles.pop(int(self.rng.integers(3)))

    def load(self):
        source = self.pick(self.x, self.x, self.w, self.scratch)
        block = int(self.rng.integers(2))
        self.keep(nl.load(source[block]))

    def load_part(self):
        """A tile filled by two loads, in either order, perhaps one over the other."""
        tile = nl.ndarray((P, F), dtype=nl.float32, buffer=nl.sbuf)
        block, half = int(self.rng.integers(2)), self.pick(32, 64)
        tile[:, half:F] = nl.load(self.x[block, :, half:F])
        tile[:, 0:half] = nl.load(self.x[block, :, 0:half])
        if self.pick(True, False):
            tile[:, half - 16:half + 16] = nl.load(self.w[block, :, 0:32])
        self.keep(tile)

    def load_masked(self):
        tile = nl.zeros((P, F), dtype=nl.float32, buffer=nl.sbuf)
        i_p, i_f = nl.mgrid[0:P, 0:F]
        rows = int(self.pick(40, 128))
        tile[i_p, i_f] = nl.load(self.x[0, i_p, i_f], mask=(i_p < rows))
        self.keep(tile)

    def overwrite(self):
        """Part of a tile changes after it was loaded."""
        tile = self.tile()
        half = self.pick(32, 64, 96)
        tile[0:P, 0:half] = nl.copy(self.tile()[0:P, 0:half])

    def product(self):
        a, b = self.tile(), self.tile()
        total = nl.zeros((P, F), dtype=nl.float32, buffer=nl.psum)
        for _ in range(self.pick(1, 2)):
            total += nl.matmul(a, b, transpose_x=self.pick(True, False))
        self.keep(nl.copy(total))

    def turned(self):
        data = self.tile()
        if self.pick(True, False):
            self.keep(nl.copy(nisa.nc_transpose(data)))
        else:
            eye = nl.load(self.w[0])
            self.keep(nl.copy(nisa.nc_matmul(data, eye)))

    def turned_parts(self):
        """Products side by side in one tile; sometimes one of them is read in between."""
        data, wide = self.tile(), nl.ndarray((P, 4, F), dtype=nl.float32, buffer=nl.sbuf)
        early = self.pick(None, None, 1, 2)
        for part in range(4):
            wide[:, part, :] = nl.copy(nisa.nc_transpose(data) if part % 2 else
                                       nl.matmul(data, self.tile(), transpose_x=True))
            if part == early:
                self.keep(nl.copy(wide[:, self.pick(0, part), :]))
        self.keep(nl.add(wide[:, 0, :], wide[:, 3, :]))

    def statistics(self):
        """The rows' maxima and sums of several tiles, which may depend on each other."""
        linked, before = self.pick(False, False, True), None
        for number in range(self.pick(2, 3, 9)):
            data = nl.add(self.tile(), 0.25 * (number + 1))
            parts = nl.ndarray((P, 2), dtype=nl.float32, buffer=nl.sbuf)
            for half in range(2):
                parts[:, half] = nisa.tensor_reduce(
                    op=nl.max, data=data[:, half * F // 2:(half + 1) * F // 2], axis=1)
            if linked and before is not None:
                parts[:, 0] = nl.copy(before)
            most = nisa.tensor_reduce(op=nl.max, data=parts, axis=1, negate=True)
            made = nisa.activation(op=nl.exp, data=data, bias=most)
            total = nisa.tensor_reduce(op=nl.add, data=made, axis=1)
            inverse = nisa.reciprocal(total)
            before = self.pick(most, inverse)
            self.keep(nisa.tensor_scalar(made, op0=nl.multiply, operand0=inverse))

    def arithmetic(self):
        a, b = self.tile(), self.tile()
        kind = self.pick("add", "scalar", "column", "exp", "scale", "reduce", "chain", "silu")
        if kind == "add":
            made = nl.add(a, b)
        elif kind == "scalar":
            made = nisa.tensor_scalar(a, op0=np.multiply, operand0=self.pick(0.5, -2.0),
                                      op1=np.add, operand1=1.0)
        elif kind == "column":
            made = nisa.tensor_scalar(a, op0=self.pick(np.add, np.multiply, np.subtract),
                                      operand0=self.pick(1.5, nl.max(b, axis=[1])),
                                      reverse0=self.pick(True, False))
        elif kind == "exp":
            made = nl.exp(nl.multiply(a, 0.01))
        elif kind == "scale":
            made = nl.multiply(a, nl.max(b, axis=[1]))
        elif kind == "reduce":
            made = nl.add(b, nl.sum(a, axis=[1]))
        elif kind == "chain":
            made = nl.add(nl.multiply(a, self.pick(2.0, 3.0)), b)
        else:
            made = nl.multiply(a, nl.reciprocal(nl.add(nl.exp(nl.minimum(a, 1.0)), 1.0)))
        self.keep(made)

    def narrow(self):
        self.keep(nl.copy(nl.copy(self.tile(), dtype=nl.bfloat16), dtype=nl.float32))

    def store(self):
        nl.store(self.out[self.stored % BLOCKS], self.tile())
        self.stored += 1

    def store_narrow(self):
        nl.store(self.narrow_out[self.stored % BLOCKS], self.tile())

    def spill(self):
        """To memory that later loads read again."""
        nl.store(self.scratch[int(self.rng.integers(2))], self.tile())

    def run(self):
        steps = (self.load, self.load, self.load, self.load_part, self.load_masked, self.overwrite,
                 self.product, self.turned, self.turned_parts, self.statistics, self.arithmetic, self.arithmetic,
                 self.narrow,
                 self.store, self.store_narrow, self.spill)
        for block in range(2):
            nl.store(self.scratch[block], nl.load(self.x[block]))
        self.load()
        body = [self.pick(*steps) for _ in range(int(self.rng.integers(4, 14)))]
        for _ in range(self.pick(1, 2, 3)):  # as a loop would repeat it
            state = self.rng.bit_generator.state
            for step in body:
                step()
            if self.pick(True, False):
                self.rng.bit_generator.state = state
        for block in range(BLOCKS):
            nl.store(self.out[block], self.tile())


def random_kernel(seed):
    @nki.jit
    def kernel(x, w):
        out = nl.ndarray((BLOCKS, P, F), dtype=nl.float32, buffer=nl.shared_hbm)
        narrow = nl.ndarray((BLOCKS, P, F), dtype=nl.bfloat16, buffer=nl.shared_hbm)
        scratch = nl.ndarray((2, P, F), dtype=nl.float32, buffer=nl.hbm)
        for block in range(BLOCKS):
            nl.store(narrow[block], nl.load(x[block % 2]))
        maker = Maker(seed, x, w, out, scratch)
        maker.narrow_out = narrow
        maker.run()
        return out, narrow
    return kernel


def outputs(seed, target, **switches):
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((BLOCKS, P, F)).astype(np.float32)
    w = rng.standard_normal((2, P, F)).astype(np.float32)
    result = nkisim.run(random_kernel(seed), x, w, target=target, compiler={**OFF, **switches})
    return [out.tobytes() for out in result.outputs], result


def every():
    """The defaults; all at their first choice that does something; each choice alone."""
    first = {name: [c for c in choices if c != "auto"][0] for name, choices in SWITCHES.items()}
    return [dict.fromkeys(OFF), first] + [{name: choice} for name, choices in SWITCHES.items()
                                          for choice in choices if choice not in ("auto", OFF[name])]


#: B/ns of all DMA engines, which nothing exceeds: 16 times the rate of a packet (configs/).
DMA_LIMIT = {"trn1": 16 * 18.5, "trn2": 16 * 27.2}


def check_bounds(result, target):
    """A kernel takes no less than its busiest engine, and than its bytes through all DMA engines; no
    more than if at any time one thing happened, each DMA with 4 us from trigger to semaphore."""
    (summary,) = result.summary.values()
    engines = [summary[f"{e}_engine_active_time"] for e in ("tensor", "vector", "scalar", "gpsimd")]
    seconds = summary["total_time"]
    moved = summary["hbm_read_bytes"] + summary["hbm_write_bytes"]
    assert seconds >= max(*engines, summary["dma_active_time"], moved / DMA_LIMIT[target] * 1e-9)
    waits = summary["dma_transfer_count"] * 4e-6 + result.instructions * 0.3e-6
    assert seconds <= sum(engines) + summary["dma_active_time"] + waits


@pytest.mark.slow
@pytest.mark.parametrize("target", ["trn1", "trn2"])
def test_random_legacy(target):
    changed = dict.fromkeys(OFF, 0)
    for seed in range(SEED, SEED + PROGRAMS):
        expected, _ = outputs(seed, target)
        for switches in every():
            found, result = outputs(seed, target, **switches)
            assert found == expected, (seed, switches)
            check_bounds(result, target)
            for name, number, _ in result.compiled.steps:
                changed[name] = changed.get(name, 0) + number
    for name in ("share", "casts", "merge", "rows", "transfers", "engines"):
        assert changed[name] > 0, name


def wide_kernel(seed):
    """More tiles alive than SBUF holds: loaded early, changed in place, used late."""
    @nki.jit
    def kernel(x):
        rng = np.random.default_rng(seed)
        wide = x.shape[2]
        out = nl.ndarray((6, P, wide), dtype=nl.float32, buffer=nl.shared_hbm)
        tiles = []
        for i in range(int(rng.integers(9, 12))):
            if rng.integers(4) == 0:
                tiles.append(nl.full((P, wide), float(i), dtype=nl.float32, buffer=nl.sbuf))
            elif rng.integers(3) == 0:  # in two parts
                tile = nl.ndarray((P, wide), dtype=nl.float32, buffer=nl.sbuf)
                half = wide // 2
                tile[:, 0:half] = nl.load(x[i % 4, :, 0:half])
                tile[:, half:wide] = nl.load(x[(i + 1) % 4, :, half:wide])
                tiles.append(tile)
            else:
                tiles.append(nl.load(x[i % 4]))
        for i in range(14):
            a, b, c = (tiles[int(rng.integers(len(tiles)))] for _ in range(3))
            if rng.integers(3) == 0:
                a[:, 0:64] = nl.copy(b[:, 64:128])
            else:
                tiles[int(rng.integers(len(tiles)))] = nl.add(nl.multiply(a, 0.5), b)
            if i % 3 == 0:
                nl.store(out[i // 3], c)
        nl.store(out[5], tiles[0])
        return out
    return kernel


@pytest.mark.slow
@pytest.mark.parametrize("target", ["trn1", "trn2"])
def test_random_kernels_that_spill(target):
    x = np.random.default_rng(3).standard_normal((4, P, 8192)).astype(np.float32)
    spilled = 0
    for seed in range(SEED, SEED + max(PROGRAMS // 2, 1)):
        expected = nkisim.run(wide_kernel(seed), x, target=target, compiler=OFF, timing=False,
                              over_capacity=True)
        for switches in ({**OFF, "spill": "latest"}, {}):
            found = nkisim.run(wide_kernel(seed), x, target=target, compiler=switches)
            assert found.outputs.tobytes() == expected.outputs.tobytes(), (seed, switches)
            assert found.peak[0, "SBUF"] <= found.recorder.machine["sbuf_partition_bytes"]
            spilled += "spilled" in {name: text for name, _, text in found.compiled.steps}["fit"]
    assert spilled >= 2
