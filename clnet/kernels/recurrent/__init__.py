"""What goes from step to step, in one launch or in one for each.

Recurrent layers on GPUs: a group keeps its examples' states, where all find the weights in their
caches. :class:`Steps` says whether that pays, and how the work is shared out; :func:`recurrence`
and :func:`recurrence_backward` launch it. Elsewhere :class:`Step` is a launch for each step, whose
tiles of large products come into a ring (:mod:`.recurrence_ring`) where copies are asynchronous.
The cell is an expression: nothing here knows one.
Ways through the states of sequences (:func:`alignments`): a group has a sequence.
"""

from .alignments import NEVER as NEVER
from .alignments import alignments as alignments
from .alignments import alignments_backward as alignments_backward
from .recurrence import Steps as Steps
from .recurrence import recurrence as recurrence
from .recurrence import recurrence_backward as recurrence_backward
from .recurrence import turned_over as turned_over
from .recurrence_step import Step as Step
from .recurrence_step import recurrence_step as recurrence_step
from .recurrence_step import recurrence_step_backward as recurrence_step_backward
