"""Holds kernels that ask for an order of instructions, with the simulated times when these start
and end.

Times are sums over trn2: VectorE takes 152 ns and half a cycle of 0.96 GHz per fp32 column to copy
from SBUF to SBUF, the next instruction of its own starts 84 ns before the end, and what waits for a
result of VectorE starts 12 + 23.5 ns (VectorE) or 12 + 22 ns (ScalarE) after its end.
"""
import numpy as np

import nki
import nki.isa as nisa
import nki.language as nl
import nkisim
from nkisim_profile.session import Session

X = np.arange(128 * 480, dtype=np.float32).reshape(128, 480)
OVERLAP, TO_VECTOR, TO_SCALAR = 84, 12 + 23.5, 12 + 22


def cost(columns):
    """ns of a VectorE copy."""
    return 152 + columns / 2 / 0.96


def tile(columns=480):
    return nl.ndarray((128, columns), dtype=nl.float32, buffer=nl.sbuf)


def stored(data):
    out = nl.ndarray(data.shape, dtype=nl.float32, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=data)
    return out


def times(kernel, tmp_path, *arguments, **settings):
    """{name: (start, end)} in ns of the named instructions, and the run."""
    result = nkisim.run(kernel, *(arguments or (X,)), **{"target": "trn2", **settings})
    result.write(session=tmp_path / "s.npz")
    session = Session(str(tmp_path / "s.npz"))
    names = session.text(session.insts.label)
    found = {}
    for inst, start, end in zip(session.parts.inst, session.parts.start, session.parts.end):
        if names[inst]:
            found[names[inst]] = (start / 1e6, end / 1e6)
    return found, result


@nki.jit
def two_copies(x):
    a, c, d = tile(), tile(), tile()
    nisa.dma_copy(dst=a, src=x)
    nisa.tensor_copy(dst=c, src=a, engine=nisa.vector_engine, name="first")
    nisa.tensor_copy(dst=d, src=a, engine=nisa.vector_engine, name="second")
    nisa.tensor_tensor(dst=d, data1=c, data2=d, op=nl.add)
    return stored(d)


@nki.jit
def long_then_short(x):
    """VectorE copies 480 columns and then 16, on which ScalarE works long."""
    a, wide, narrow, many = tile(), tile(), tile(16), tile(960)
    nisa.dma_copy(dst=a, src=x)
    nisa.tensor_copy(dst=wide, src=a, engine=nisa.vector_engine, name="long")
    nisa.tensor_copy(dst=narrow, src=a[:, 0:16], engine=nisa.vector_engine, name="short")
    repeated = narrow.ap([[16, 128], [0, 60], [1, 16]])
    nisa.activation(dst=many.reshape((128, 60, 16)), data=repeated, op=nl.copy, name="slow")
    nisa.tensor_tensor(dst=wide, data1=wide, data2=many[:, 0:480], op=nl.add)
    return stored(wide)
