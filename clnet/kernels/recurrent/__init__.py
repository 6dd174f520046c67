"""Recurrent layers on GPUs: all steps in one launch, in which a group keeps its examples' states.

:class:`Steps` says whether that pays, and how the work is shared out; :func:`recurrence` and
:func:`recurrence_backward` launch it. The cell is an expression: nothing here knows one.
"""

from .recurrence import Steps as Steps
from .recurrence import recurrence as recurrence
from .recurrence import recurrence_backward as recurrence_backward
