"""The command line: ``clnet devices``, ``clnet train``."""

from .command import main

__all__ = ["main"]
