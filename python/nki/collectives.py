"""nki.collectives."""

from nkisim.isa import collectives as _collectives

globals().update({k: v for k, v in vars(_collectives).items() if not k.startswith("_")})
