"""The command line: ``clnet devices``, ``clnet train``, ``clnet bench``, ``clnet profile``."""

from .command import main

__all__ = ["main"]
