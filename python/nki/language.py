"""nki.language."""

from nkisim.api import language as _language

globals().update(_language.public_names(vars(_language)))
