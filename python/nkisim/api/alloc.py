"""Implements the allocators of the older API neuronxcc.nki, such as
buffer=nki.compiler.sbuf.mod_alloc(...).

An allocator says where each block of a tensor lives: SBUF (start partition, byte address), PSUM
(bank, start partition, byte address within the bank).
"""

import inspect

from ..values.errors import KernelTypeError, fail_on, is_integer, short
from ..values.storage import Buffer, psum as psum_buffer, sbuf as sbuf_buffer


def _check(**given):
    """The arguments of mod_alloc: integers, and tuples of them."""
    for name, value in given.items():
        several = name.endswith("tiles")
        values = value if several and isinstance(value, (list, tuple)) else [value]
        if (values is not value) == several or not all(map(is_integer, values)):
            fail_on("python_value", name, short(value), "a tuple of integers" if several else "an integer", "mod_alloc",
                    KernelTypeError)


class AllocatedBuffer(Buffer):
    """A buffer that carries where each block goes: place(block index, partitions, bytes)."""

    def __new__(cls, base, place):
        self = super().__new__(cls, str(base), base.space)
        self.place = place
        return self


def _linear(shape, at):
    n = 0
    for size, i in zip(shape, at):
        n = n * size + i
    return n


def _modulo(base, tiles, at, scale):
    tiles = tuple(tiles) or (1,) * len(at)
    return base + _linear(tiles, [i % n for i, n in zip(at, tiles)]) * scale


def _placed(func, at, partitions, size):
    """The answer of an allocation callback; it may take its arguments by their documented names."""
    names = ("idx", "pdim_size", "fdim_size")
    try:
        by_name = set(names) <= set(inspect.signature(func).parameters)
    except (TypeError, ValueError):
        by_name = False
    values = (at, partitions, size)
    return func(**dict(zip(names, values))) if by_name else func(*values)


class _Sbuf(Buffer):
    """nki.compiler.sbuf: also usable as a plain buffer."""

    @staticmethod
    def alloc(func):
        return AllocatedBuffer(sbuf_buffer, lambda at, p, n: tuple(_placed(func, at, p, n)))

    @staticmethod
    def mod_alloc(*, base_addr, base_partition=0, num_par_tiles=(), num_free_tiles=()):
        _check(base_addr=base_addr, base_partition=base_partition, num_par_tiles=num_par_tiles,
               num_free_tiles=num_free_tiles)

        def place(at, partitions, size):
            return (_modulo(base_partition, num_par_tiles, at, partitions),
                    _modulo(base_addr, num_free_tiles, at, size))

        return AllocatedBuffer(sbuf_buffer, place)

    @staticmethod
    def auto_alloc():
        return sbuf_buffer


class _Psum(Buffer):
    """nki.compiler.psum."""

    @staticmethod
    def alloc(func):
        def place(at, partitions, size):
            bank, partition, address = _placed(func, at, partitions, size)
            return partition, bank * 2048 + address

        return AllocatedBuffer(psum_buffer, place)

    @staticmethod
    def mod_alloc(*, base_bank=0, base_addr=0, base_partition=0, num_bank_tiles=(),
                  num_par_tiles=(), num_free_tiles=()):
        _check(base_bank=base_bank, base_addr=base_addr, base_partition=base_partition,
               num_bank_tiles=num_bank_tiles, num_par_tiles=num_par_tiles, num_free_tiles=num_free_tiles)

        def place(at, partitions, size):
            return (_modulo(base_partition, num_par_tiles, at, partitions),
                    _modulo(base_bank, num_bank_tiles, at, 1) * 2048 +
                    _modulo(base_addr, num_free_tiles, at, size))

        return AllocatedBuffer(psum_buffer, place)

    @staticmethod
    def auto_alloc():
        return psum_buffer


sbuf = _Sbuf("sbuf", sbuf_buffer.space)
psum = _Psum("psum", psum_buffer.space)


def _marker(func=None, **_settings):
    return (lambda f: f) if func is None else func


class allocation_scope:
    """`with nki.compiler.allocation_scope():` bounds lifetimes for the compiler; here uses do."""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        return False


class multi_buffer:
    """A loop directive: how many buffers the compiler rotates; here the allocator decides."""

    def __init__(self, factor=2):
        self.factor = factor


def enable_stack_allocator(func=None, log_level=50):
    return _marker(func)


skip_middle_end_transformations = force_auto_alloc = _marker
