"""A module whose import takes a while."""

import time

time.sleep(0.3)
LOADED = "loaded"
