"""nki.tensor: the tensor type."""

from nkisim.register import VirtualRegister
from nkisim.tensor import NkiTensor

Tensor = NkiTensor
__all__ = ["NkiTensor", "Tensor", "VirtualRegister"]
