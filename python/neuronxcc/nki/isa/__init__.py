"""neuronxcc.nki.isa."""

from nkisim.api.names import missing as _missing
from nkisim.legacy.isa import *  # noqa: F403

from . import constants  # noqa: F401

__getattr__ = _missing(__name__)
