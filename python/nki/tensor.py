"""nki.tensor: the tensor type."""

from nkisim.tensor import NkiTensor, VirtualRegister

Tensor = NkiTensor
__all__ = ["NkiTensor", "Tensor", "VirtualRegister"]
