"""neuronxcc.nki.isa."""

from nkisim.legacy.isa import *  # noqa: F403

from . import constants  # noqa: F401
