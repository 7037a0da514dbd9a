"""neuronxcc.nki.typing: annotations of the older NKI API (before SDK 2.27)."""

from nki.typing import *  # noqa: F401,F403
from nki.typing import Tensor, mutable_tensor, tensor  # noqa: F401

#: tensor[mutable]: an argument that the kernel writes.
mutable = mutable_tensor
