"""``torch.signal``, of which there is ``windows``."""

from __future__ import annotations

from . import windows as windows

__all__ = ["windows"]
