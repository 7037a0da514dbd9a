"""Runs random tests as kernels: many tests in one kernel, one by one where that kernel is refused."""

import numpy as np

import nki
import nki.isa as nisa
import nki.language as nl
import nkisim

from .case import GENERATIONS, Name, Ref

PACKED = {
    "float8_e5m2_x4": nl.uint32,
    "float8_e4m3fn_x4": nl.uint32,
    "float4_e2m1fn_x4": nl.uint16,
    "float8_e8m0fnu": nl.uint8,
}


class OtherTile(Exception):
    """A function of nki.language made a tile of another type or shape than its page says."""


def resolve(value, tiles):
    """An argument of a call: a tile or a view of it, a name of nki, or a plain value."""
    if isinstance(value, list):
        return [resolve(v, tiles) for v in value]
    if isinstance(value, Name):
        base, *path = value.path.split(".")
        found = {"nl": nl, "nisa": nisa}[base]
        for name in path:
            found = getattr(found, name)
        return found
    if not isinstance(value, Ref):
        return value
    tile = tiles[value.name]
    for method, arguments, keywords in value.steps:
        keywords = {k: resolve(v, tiles) for k, v in keywords.items()}
        tile = getattr(tile, method)(*(resolve(a, tiles) for a in arguments), **keywords)
    return tile


def place(shape, dtype, buffer, start):
    """A new tile whose first partition is `start`: a part of a taller one."""
    held = nl.ndarray((shape[0] + start, *shape[1:]), dtype=dtype, buffer=buffer)
    return held[start:] if start else held


def allocate(tile, source, start):
    """A tile in its memory with its first content, on partitions from `start` on."""
    dtype = getattr(nl, tile.dtype)
    if tile.buffer == "hbm":
        return source
    if tile.buffer == "own_hbm":
        held = nl.ndarray(tile.shape, dtype=dtype, buffer=nl.hbm)
        nisa.dma_copy(dst=held, src=source)
        return held
    wide = (*tile.shape[:-1], tile.shape[-1] * tile.step)
    held = place(wide, dtype, nl.sbuf, start)
    if source is not None:
        nisa.dma_copy(dst=held, src=source.view(dtype) if tile.dtype in PACKED else source)
    if tile.buffer == "psum":
        stay = place(wide, dtype, nl.psum, start)
        if source is not None:
            nisa.tensor_copy(dst=stay, src=held, engine=nisa.engine.vector)
        held = stay
    return held if tile.step == 1 else held[..., 0 : wide[-1] : tile.step]


def store(tile, held, start):
    """Copies a result to HBM, PSUM by way of SBUF."""
    dtype = getattr(nl, tile.dtype)
    if tile.buffer == "psum":
        moved = place(tile.shape, dtype, nl.sbuf, start)
        nisa.tensor_copy(dst=moved, src=held, engine=nisa.engine.vector)
        held = moved
    plain = PACKED.get(tile.dtype, dtype)
    out = nl.ndarray(tile.shape, dtype=plain, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=held.view(plain) if tile.dtype in PACKED else held)
    return out


def tile_as_called(case, tile, held):
    """A tile as a call sees it: its free dimension in two where the case says so."""
    if case.split and len(tile.shape) == 2 and tile.shape[1] == case.split[0] * case.split[1] and tile.buffer != "hbm":
        return held.reshape_dim(1, case.split)
    return held


def inputs(case):
    """The arrays that a case reads, with the gaps of a strided tile filled with ones."""
    for tile in case.tiles.values():
        if tile.data is not None:
            wide = np.ones((*tile.shape[:-1], tile.shape[-1] * tile.step), tile.data.dtype)
            wide[..., :: tile.step] = tile.data
            yield tile.name, wide


def trace(case, sources):
    """The instructions of one case; returns its results."""
    whole = {name: allocate(tile, sources.get(name), case.start) for name, tile in case.tiles.items() if not tile.made}
    tiles = {name: tile_as_called(case, case.tiles[name], held) for name, held in whole.items()}
    for function, keywords in case.calls:
        found = {name: resolve(value, tiles) for name, value in keywords.items() if name != "out"}
        if function == "body":
            found["function"](nisa, nl, tiles)
        elif function.startswith("nl."):
            tiles[keywords["out"]] = getattr(nl, function[3:])(*found.pop("arguments"), **found)
            tile, made = case.tiles[keywords["out"]], tiles[keywords["out"]]
            if (str(made.dtype), tuple(made.shape)) != (str(getattr(nl, tile.dtype)), tile.shape):
                raise OtherTile(f"{function} made {made!r}; {tile.dtype} of {tile.shape} is documented")
        else:
            getattr(nisa, function)(**found)
    return [store(case.tiles[name], whole.get(name, tiles[name]), case.start) for name in case.expect]


def run_batch(cases):
    """The results of cases of one generation, in one kernel."""
    arrays, names = [], []
    for number, case in enumerate(cases):
        for name, data in inputs(case):
            arrays.append(data)
            names.append((number, name))

    @nki.jit
    def kernel(*tensors):
        held = dict(zip(names, tensors))
        results = []
        for number, case in enumerate(cases):
            results.extend(trace(case, {n: t for (c, n), t in held.items() if c == number}))
        return tuple(results)

    found = nkisim.run(kernel, *arrays, target=GENERATIONS[cases[0].generation])
    outputs = found.outputs if hasattr(found, "outputs") else found
    outputs = iter(outputs if isinstance(outputs, (tuple, list)) else [outputs])
    return [{name: next(outputs) for name in case.expect} for case in cases]


def results(cases):
    """For each case its results, or the error that refuses it. A refused batch is run in halves."""
    try:
        return run_batch(cases)
    except Exception as error:  # every refusal is a finding, whatever raises it
        if len(cases) == 1:
            return [error]
    half = len(cases) // 2
    return results(cases[:half]) + results(cases[half:])
