"""neuronxcc.nki.kernels.allocated_attention: an attention kernel that SDK 2.20 shipped."""

from nkisim_kernels.diffusion import allocated_fused_self_attn_for_SD_small_head_size

__all__ = ["allocated_fused_self_attn_for_SD_small_head_size"]
