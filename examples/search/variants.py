"""Holds variants of a softmax kernel as text, as a search program would propose them."""

SOURCE = '''
import nki, nki.isa as nisa, nki.language as nl

@nki.jit
def kernel(x):
    rows, columns = x.shape
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    for start in nl.affine_range(0, rows, {rows}):
        part = nl.ds(start, {rows})
        tile = nl.load(x[part, :])
        negative_max = nl.ndarray(({rows}, 1), dtype=nl.float32, buffer=nl.sbuf)
        total = nl.ndarray(({rows}, 1), dtype=nl.float32, buffer=nl.sbuf)
        powers = nl.ndarray(({rows}, columns), dtype=nl.{dtype}, buffer=nl.sbuf)
        nisa.tensor_reduce(dst=negative_max, op=nl.maximum, data=tile, axis=1, negate=True)
        nisa.activation_reduce(dst=powers, op=nl.exp, data=tile, bias=negative_max, reduce_op=nl.add, reduce_res=total)
        nisa.{last}
        nl.store(out[part, :], powers)
    return out
'''
LAST = ("reciprocal(dst=total, data=total)\n        "
        "nisa.tensor_scalar(dst=powers, data=powers, op0=nl.multiply, operand0=total)",
        "tensor_scalar(dst=powers, data=powers, op0=nl.divide, operand0=total)",
        "tensor_scalar(dst=powers, data=powers, op0=nl.multiply, operand0=total)")  # the last is wrong


def variants():
    """All of them: {"id", "source"}; some are wrong, some against the rules, and two are the same but for a comment."""
    for rows in (32, 64, 128, 256):
        for dtype in ("float32", "bfloat16"):
            for number, last in enumerate(LAST):
                yield {"id": f"{rows}-{dtype}-{number}", "source": SOURCE.format(rows=rows, dtype=dtype, last=last)}
    yield {"id": "again", "source": SOURCE.format(rows=128, dtype="float32", last=LAST[0]) + "# the same\n"}
