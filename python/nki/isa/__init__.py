"""nki.isa."""

from nkisim.api.language import public_names as _public_names
from nkisim.isa import instructions as _isa

globals().update(_public_names(vars(_isa)))

from . import constants  # noqa: E402,F401
