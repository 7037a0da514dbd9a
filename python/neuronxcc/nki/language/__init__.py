"""neuronxcc.nki.language."""

from nkisim.legacy import language as _language

globals().update({k: v for k, v in vars(_language).items() if not k.startswith("_")})
