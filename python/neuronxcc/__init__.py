"""neuronxcc: the legacy package name of NKI, here run by nkisim."""

import logging

if not hasattr(logging, "OFF"):  # importing the real package defines it (inferred)
    logging.OFF = logging.CRITICAL + 10
    logging.addLevelName(logging.OFF, "OFF")
