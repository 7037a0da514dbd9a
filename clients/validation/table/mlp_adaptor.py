"""Calls nki-library's context-encoding MLP as its test does, with the parameters of a measurement.

Imports the checkout that clients/validation/table/public put on sys.path. The test's entry, core/mlp/mlp.py, only
makes the parameter object and the outputs before it calls mlp_cte, which is what happens here.
"""
import ml_dtypes
import nki.language as nl
import numpy as np
from nkilib_src.nkilib.core.mlp.mlp_cte.mlp_cte import mlp_cte
from nkilib_src.nkilib.core.mlp.mlp_parameters import MLPParameters
from nkilib_src.nkilib.core.utils.common_types import ActFnType, NormType, QuantizationType


def kernel(**parameters):
    """out[B, S, H], and the sum of the fused addition where it is asked for."""
    p = MLPParameters(**parameters, quantization_type=QuantizationType.NONE)
    shape = (p.batch_size, p.sequence_len, p.hidden_size)
    count = 2 if parameters["store_fused_add_result"] else 1
    out = [nl.ndarray(shape, dtype=p.output_dtype, buffer=nl.shared_hbm) for _ in range(count)]
    mlp_cte(p, out[0], out[1] if count == 2 else None)
    return out


def arguments(p):
    """Arrays of bfloat16 for a measurement's parameters."""
    def array(*shape, wanted=True):
        return np.zeros(shape, ml_dtypes.bfloat16) if wanted else None

    b, s, h, i = (p[k] for k in "BSHI")
    gate, up, down, norm = (x.strip() == "True" for x in p["biases(gate,up,down,norm)"].split(","))
    has_gate, fused = p["skip_gate"] == "False", p["fused_add"] == "True"
    return {
        "hidden_tensor": array(b, s, h),
        "gate_proj_weights_tensor": array(h, i, wanted=has_gate),
        "up_proj_weights_tensor": array(h, i),
        "down_proj_weights_tensor": array(i, h),
        "normalization_weights_tensor": array(1, h, wanted=p["norm"] != "NO_NORM"),
        "gate_proj_bias_tensor": array(1, i, wanted=gate and has_gate),
        "up_proj_bias_tensor": array(1, i, wanted=up),
        "down_proj_bias_tensor": array(1, h, wanted=down),
        "normalization_bias_tensor": array(1, h, wanted=norm),
        "fused_add_tensor": array(b, s, h, wanted=fused),
        "store_fused_add_result": p["store_add"] == "True",
        "activation_fn": getattr(ActFnType, p["act"]),
        "normalization_type": getattr(NormType, p["norm"]),
        "skip_gate_proj": not has_gate}
