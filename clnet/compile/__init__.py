"""Record a function's launches once, replay them afterwards."""

from .compiled import Compiled, compile
from .plan import Plan

__all__ = ["Compiled", "Plan", "compile"]
