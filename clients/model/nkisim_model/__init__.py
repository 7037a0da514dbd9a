"""Predicts how fast a whole model decodes, from simulations of the kernels that it is made of:
`nkisim model`.
"""

from .architecture import Architecture, ModelError, of_config, read
from .predict import Part, Prediction, predict
from .share import Share, share_of

__all__ = ["Architecture", "ModelError", "Part", "Prediction", "Share", "of_config", "predict", "read", "share_of"]
