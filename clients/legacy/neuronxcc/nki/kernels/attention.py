"""neuronxcc.nki.kernels.attention: flash attention kernels that SDK 2.20 and 2.21 shipped."""

from nkisim_kernels.attention import FlashConfig, flash_attn_bwd, flash_fwd
from nkisim_kernels.diffusion import fused_self_attn_for_SD_small_head_size

__all__ = ["FlashConfig", "flash_attn_bwd", "flash_fwd", "fused_self_attn_for_SD_small_head_size"]
