"""neuronxcc.nki.isa."""

from nkisim.legacy import isa as _isa

globals().update({k: v for k, v in vars(_isa).items() if not k.startswith("_")})

from . import constants  # noqa: E402,F401
