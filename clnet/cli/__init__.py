"""The command line: ``clnet devices``, ``clnet train``, ``clnet profile``."""

from .command import main

__all__ = ["main"]
