"""nki.language."""

from nkisim.api import language as _language
from nkisim.api.language import *  # noqa: F401,F403

globals().update({k: v for k, v in vars(_language).items() if not k.startswith("_")})
