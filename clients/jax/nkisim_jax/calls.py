"""Runs NKI kernels inside jax.jit, jax.grad and jax.vmap, and implements jax_neuronx.nki_call."""

import jax
import numpy as np

from nkisim.api.jit import legacy_jit
from nkisim.run.kernel import Kernel
from nkisim.run.session import lost_write_error
from nkisim.run.shapes import record_shapes
from nkisim.values.shape import Shape


def is_traced(value):
    return isinstance(value, jax.core.Tracer)


def _is_array(value):
    return isinstance(value, (jax.Array, np.ndarray)) or is_traced(value)


def _struct(shape):
    return jax.ShapeDtypeStruct(shape.shape, shape.dtype)


def traced(kernel, args, kwargs):
    """A call on tracers: a callback that runs the kernel when the values are there. vmap maps it
    one after the other; jax.grad needs a rule (custom_vjp), as for any callback."""
    leaves, tree = jax.tree_util.tree_flatten((args, kwargs))
    places = [i for i, leaf in enumerate(leaves) if _is_array(leaf)]
    arrays = [leaves[i] for i in places]
    others = [None if _is_array(leaf) else leaf for leaf in leaves]

    def call(values, run):
        filled = list(others)
        for place, value in zip(places, values):
            filled[place] = value
        given, named = jax.tree_util.tree_unflatten(tree, filled)
        return run(kernel, given, named)

    known = {id(a): Shape(a.shape, a.dtype) for a in arrays}
    recording = call([known[id(a)] for a in arrays], record_shapes)
    _check_written(kernel, recording)
    like = jax.tree_util.tree_map(lambda s: _struct(s) if isinstance(s, Shape) else s,
                                  recording.outputs)

    def host(*values):
        return call([np.array(v) for v in values], lambda k, a, n: k(*a, **n))

    return jax.pure_callback(host, like, *arrays, vmap_method="sequential")


def _check_written(kernel, recording):
    for name in recording.written:
        if name not in recording.returned:
            raise lost_write_error(kernel.func, name, "jax")


def nki_call(func, *args, grid=None, out_shape, **kwargs):
    """jax_neuronx.nki_call: runs a kernel that takes its outputs as its last arguments.

    func: a kernel or a plain function, called with `args`, then one HBM tensor for each output.
    out_shape: a jax.ShapeDtypeStruct, or a list or tuple of them, which is what the call gives.
    Inside jax.jit as well.
    """
    kernel = func if isinstance(func, Kernel) else legacy_jit(func)
    if grid is not None:
        kernel = kernel[grid]
    single = not isinstance(out_shape, (list, tuple))
    shapes = [out_shape] if single else list(out_shape)

    def host(*values):
        outputs = [np.zeros(s.shape, s.dtype) for s in shapes]
        kernel(*(np.array(v) for v in values), *outputs, **kwargs)
        return outputs

    structs = [jax.ShapeDtypeStruct(s.shape, s.dtype) for s in shapes]
    if any(is_traced(a) for a in args):
        outputs = jax.pure_callback(host, structs, *args, vmap_method="sequential")
    else:
        outputs = [jax.numpy.asarray(o) for o in host(*args)]
    return outputs[0] if single else type(out_shape)(outputs)
