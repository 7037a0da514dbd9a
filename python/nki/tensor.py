"""nki.tensor: the tensor type."""

from nkisim.values.register import VirtualRegister
from nkisim.values.tensor import NkiTensor

Tensor = NkiTensor
__all__ = ["NkiTensor", "Tensor", "VirtualRegister"]
