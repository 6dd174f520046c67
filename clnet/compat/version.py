"""``clnet.version``: what was built against which library; programs ask it for CUDA's version."""

from __future__ import annotations

from .process import __version__ as __version__

__all__ = ["cuda", "debug", "git_version", "hip", "xpu"]

cuda: str | None = None
hip: str | None = None
xpu: str | None = None
debug = False
git_version = "Unknown"
