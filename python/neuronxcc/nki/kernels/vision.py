"""neuronxcc.nki.kernels.vision."""

from nkisim_kernels.vision import resize_nearest_fixed_dma_kernel, select_and_scatter_kernel

__all__ = ["resize_nearest_fixed_dma_kernel", "select_and_scatter_kernel"]
