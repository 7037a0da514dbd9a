"""nki.language: tensors, loops and functions of which kernels are written."""

from nkisim.api.language import *  # noqa: F403
from nkisim.api.names import missing as _missing

__getattr__ = _missing(__name__)
