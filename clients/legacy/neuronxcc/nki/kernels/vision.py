"""neuronxcc.nki.kernels.vision: kernels of vision models that SDK 2.20 and 2.21 shipped."""

from nkisim_kernels.vision import resize_nearest_fixed_dma_kernel, select_and_scatter_kernel

__all__ = ["resize_nearest_fixed_dma_kernel", "select_and_scatter_kernel"]
