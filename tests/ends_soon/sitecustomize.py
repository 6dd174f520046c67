"""Read by each Python that finds this folder: see ``tests/children.py``."""

import atexit
import gc

atexit.register(gc.freeze)  # the first to be told, so the last that runs
