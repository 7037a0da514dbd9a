"""neuronxcc.nki.language."""

from nkisim.api.language import public_names as _public_names
from nkisim.legacy import language as _language

globals().update(_public_names(vars(_language)))

from . import constants  # noqa: E402,F401
