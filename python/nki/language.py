"""nki.language."""

from nkisim.api.language import *  # noqa: F403
