"""neuronxcc.nki.language."""

from nkisim.api.names import missing as _missing
from nkisim.legacy.language import *  # noqa: F403

from . import constants  # noqa: F401

__getattr__ = _missing(__name__)
