"""neuronxcc.nki.kernels.allocated_fused_linear: a kernel for RMSNorm and QKV that SDK 2.20 shipped."""

from nkisim_kernels.linear import allocated_fused_rms_norm_qkv

__all__ = ["allocated_fused_rms_norm_qkv"]
