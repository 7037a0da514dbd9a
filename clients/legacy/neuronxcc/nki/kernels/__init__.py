"""neuronxcc.nki.kernels: ready-made kernels that SDK 2.20 and 2.21 shipped, written anew
(nkisim_kernels).
"""

from nkisim_kernels.attention import flash_attn_bwd, flash_fwd
from nkisim_kernels.diffusion import (allocated_fused_self_attn_for_SD_small_head_size,
                                      fused_self_attn_for_SD_small_head_size)
from nkisim_kernels.linear import allocated_fused_rms_norm_qkv
from nkisim_kernels.vision import resize_nearest_fixed_dma_kernel, select_and_scatter_kernel

__all__ = ["allocated_fused_rms_norm_qkv", "allocated_fused_self_attn_for_SD_small_head_size",
           "flash_attn_bwd", "flash_fwd", "fused_self_attn_for_SD_small_head_size",
           "resize_nearest_fixed_dma_kernel", "select_and_scatter_kernel"]
