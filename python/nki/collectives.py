"""nki.collectives."""

from nkisim.isa.collectives import *  # noqa: F403
