"""neuronxcc.nki.kernels.allocated_attention."""

from nkisim_kernels.diffusion import allocated_fused_self_attn_for_SD_small_head_size

__all__ = ["allocated_fused_self_attn_for_SD_small_head_size"]
