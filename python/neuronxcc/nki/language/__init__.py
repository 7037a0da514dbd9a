"""neuronxcc.nki.language."""

from nkisim.legacy.language import *  # noqa: F403

from . import constants  # noqa: F401
