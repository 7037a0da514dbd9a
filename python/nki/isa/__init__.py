"""nki.isa: the instructions of the current NKI release, which also take the argument positions of
older releases.
"""

from nkisim.compat.isa import *  # noqa: F403
from nkisim.compat.isa import __all__ as _older
from nkisim.api.names import missing as _missing
from nkisim.isa import instructions as _isa

globals().update({name: getattr(_isa, name) for name in _isa.__all__ if name not in _older})

from . import constants  # noqa: E402,F401

__getattr__ = _missing(__name__)
