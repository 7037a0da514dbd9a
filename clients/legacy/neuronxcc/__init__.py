"""neuronxcc: the package of the older NKI API (before SDK 2.27), here run by nkisim."""

import logging

if not hasattr(logging, "OFF"):  # importing the real package defines it (inferred)
    logging.OFF = logging.CRITICAL + 10
    logging.addLevelName(logging.OFF, "OFF")
