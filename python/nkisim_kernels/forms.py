"""Lets kernels take both call forms of SDK 2.20 and 2.21 (outputs as arguments or returned), and
holds shared steps.
"""

import inspect

import nki.isa as nisa
import nki.language as nl
from nkisim.api.jit import legacy_jit

ROWS = 128  # partitions


def is_tensor(value):
    return hasattr(value, "shape")


def two_forms(returning, writing, writes):
    """A kernel that is `writing` (2.20, its outputs are arguments) if writes(args, kwargs), else
    `returning` (2.21), whose signature it shows."""

    def kernel(*args, **kwargs):
        return (writing if writes(args, kwargs) else returning)(*args, **kwargs)

    kernel.__name__ = kernel.__qualname__ = returning.__name__
    kernel.__doc__, kernel.__module__ = returning.__doc__, returning.__module__
    kernel.forms = returning, writing
    kernel.__signature__ = inspect.signature(returning)
    return legacy_jit(kernel)


def require(holds, message):
    if not holds:
        raise ValueError(message)


def load(source, dtype, shape=None):
    """A tile of a tensor in HBM as `dtype`."""
    tile = nl.ndarray(shape or source.shape, dtype=source.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=source)
    return cast(tile, dtype)


def cast(tile, dtype):
    if tile.dtype == dtype:
        return tile
    narrow = nl.ndarray(tile.shape, dtype=dtype, buffer=nl.sbuf)
    nisa.tensor_copy(dst=narrow, src=tile)
    return narrow


def store(target, tile):
    nisa.dma_copy(dst=target, src=cast(tile, target.dtype))


def column(dtype=nl.float32):
    return nl.ndarray((ROWS, 1), dtype=dtype, buffer=nl.sbuf)


def transposed(tile):
    """The transpose of a tile of up to 128 x 128, in SBUF."""
    psum = nl.ndarray((tile.shape[1], tile.shape[0]), dtype=tile.dtype, buffer=nl.psum)
    nisa.nc_transpose(dst=psum, data=tile)
    out = nl.ndarray(psum.shape, dtype=tile.dtype, buffer=nl.sbuf)
    nisa.tensor_copy(dst=out, src=psum)
    return out


def product(stationary, moving):
    """stationary.T @ moving in PSUM, float32."""
    psum = nl.ndarray((stationary.shape[1], moving.shape[1]), dtype=nl.float32, buffer=nl.psum)
    nisa.nc_matmul(dst=psum, stationary=stationary, moving=moving)
    return psum
