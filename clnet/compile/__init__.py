"""Record a function's launches once, replay them afterwards."""

from .compiled import Compiled
from .entry import compile, compile_module
from .plan import Plan
from .record import Recorded, record
from .trace import Trace

__all__ = ["Compiled", "Plan", "Recorded", "Trace", "compile", "compile_module", "record"]
