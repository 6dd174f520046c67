"""Which parameters of a kernel are fastest on a device: declared, measured, kept.

A :class:`Tunable` declares a problem, its candidates and a :class:`Trial`; a :class:`Tuner` asks
a process that lets candidates :class:`Race`. Nothing is measured unless asked.
"""

from .race import GAIN as GAIN
from .race import Race as Race
from .tunable import Trial as Trial
from .tunable import Tunable as Tunable
from .tuner import SECONDS as SECONDS
from .tuner import Tuner as Tuner
