"""neuronxcc.nki.language."""

from nkisim import legacy_language as _language

globals().update({k: v for k, v in vars(_language).items() if not k.startswith("_")})
