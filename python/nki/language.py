"""nki.language."""

from nkisim.api.language import *  # noqa: F403
from nkisim.api.names import missing as _missing

__getattr__ = _missing(__name__)
