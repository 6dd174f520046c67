"""``python -m clnet``: the command ``clnet``."""

import sys

from .cli import main

if __name__ == "__main__":
    sys.exit(main())
