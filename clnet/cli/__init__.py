"""The command line: ``clnet devices``, ``train``, ``plan``, ``bench``, ``profile``."""

from .command import main

__all__ = ["main"]
