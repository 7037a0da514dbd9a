"""A kernel with parameters for `nkisim tune`, softmax over rows: passes, engines, columns per piece."""

import nki
import nki.isa as nisa
import nki.language as nl


def make(powers="apart", scale="scalar", pieces=8):
    """powers: exp(x - max) and its sum by two instructions (apart) or one (fused). scale: engine of
    the last multiplication (scalar, vector). pieces: DMAs per row block, each way."""

    @nki.jit
    def softmax(x):
        rows, columns = x.shape
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        width = columns // pieces
        for start in range(0, rows, 128):
            part = nl.ds(start, 128)
            tile = nl.ndarray((128, columns), dtype=x.dtype, buffer=nl.sbuf)
            for i in range(pieces):
                nisa.dma_copy(dst=tile[:, nl.ds(i * width, width)],
                              src=x[part, nl.ds(i * width, width)])
            top = nl.ndarray((128, 1), dtype=nl.float32, buffer=nl.sbuf)
            total = nl.ndarray((128, 1), dtype=nl.float32, buffer=nl.sbuf)
            exps = nl.ndarray((128, columns), dtype=nl.float32, buffer=nl.sbuf)
            nisa.tensor_reduce(dst=top, op=nl.maximum, data=tile, axis=1, negate=True)
            if powers == "fused":
                nisa.activation_reduce(dst=exps, op=nl.exp, data=tile, bias=top, reduce_op=nl.add,
                                       reduce_res=total)
            else:
                nisa.activation(dst=exps, op=nl.exp, data=tile, bias=top)
                nisa.tensor_reduce(dst=total, op=nl.add, data=exps, axis=1)
            nisa.reciprocal(dst=total, data=total)
            if scale == "scalar":
                nisa.activation(dst=tile, op=nl.copy, data=exps, scale=total)
            else:
                nisa.tensor_scalar(dst=tile, data=exps, op0=nl.multiply, operand0=total,
                                   engine=getattr(nisa.engine, scale))
            for i in range(pieces):
                nisa.dma_copy(dst=out[part, nl.ds(i * width, width)],
                              src=tile[:, nl.ds(i * width, width)])
        return out

    return softmax
