"""neuronxcc.nki.language: the language functions of the older NKI API (before SDK 2.27)."""

from nkisim.api.names import missing as _missing
from nkisim_legacy.language import *  # noqa: F403

from . import constants  # noqa: F401

__getattr__ = _missing(__name__)
