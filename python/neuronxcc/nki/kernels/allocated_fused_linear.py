"""neuronxcc.nki.kernels.allocated_fused_linear."""

from nkisim_kernels.linear import allocated_fused_rms_norm_qkv

__all__ = ["allocated_fused_rms_norm_qkv"]
