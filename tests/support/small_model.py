"""Describes a small language model, and stand-ins for a library's kernels, for tests of `nkisim
model`.
"""

import nki.isa as nisa
import nki.language as nl

from nkisim_model import kernels

LLAMA = {"model_type": "llama", "hidden_size": 4096, "num_attention_heads": 32, "num_key_value_heads": 8,
         "intermediate_size": 14336, "num_hidden_layers": 32, "vocab_size": 128256, "rms_norm_eps": 1e-5}
SMALL = {**LLAMA, "hidden_size": 256, "num_attention_heads": 4, "num_key_value_heads": 2,
         "head_dim": 64, "intermediate_size": 512, "num_hidden_layers": 60, "vocab_size": 1024}


def copied(x, w, share, step):
    """A part that reads its first weights whole, and gives x."""
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    rows = nl.ndarray((128, x.shape[2] // 128), dtype=x.dtype, buffer=nl.sbuf)
    core, _ = kernels.cores()
    if core == 0:
        nisa.dma_copy(dst=rows, src=x.reshape(rows.shape))
        nisa.dma_copy(dst=out.reshape(rows.shape), src=rows)
    return out


def reads(x, w, share, step):
    """The same with a part of the down projection added, all of which it reads."""
    whole = copied(x, w, share, step)
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    core, _ = kernels.cores()
    if core == 0:
        width = x.shape[2] // 128
        tile = nl.ndarray((128, share.inner // 128, x.shape[2]), dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=w.down.reshape((share.inner // 128, 128, x.shape[2])).permute((1, 0, 2)))
        rows = nl.ndarray((128, width), dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=rows, src=whole.reshape(rows.shape))
        both = nl.ndarray(rows.shape, dtype=x.dtype, buffer=nl.sbuf)
        nisa.tensor_tensor(dst=both, data1=rows, data2=tile[:, 0, nl.ds(0, width)], op=nl.add)
        nisa.dma_copy(dst=out.reshape(rows.shape), src=both)
    return out


def twice(x, w, share, step):
    """A part, of a prompt too: x + x."""
    return kernels.residual(x, x)
