"""The command line: ``clnet devices``, ``train``, ``plan``, ``bench``, ``profile``, ``tune``."""

from .command import main

__all__ = ["main"]
