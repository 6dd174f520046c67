"""Elements where others lie: copies, fills, broadcasts along an axis, arrays laid into another.

:func:`copy` chooses among a plain copy, a transposition, :func:`repeat` (broadcasting) and
:func:`place` (into one value: padding, gradients of slices). :func:`around` pads by elements,
:func:`join_rows` lays several arrays beside each other.
"""

from .around import around as around
from .around import around_fits as around_fits
from .copy import arange as arange
from .copy import copy as copy
from .copy import fill as fill
from .copy import turned_axis as turned_axis
from .join_rows import join_rows as join_rows
from .place import place as place
from .repeat import repeat as repeat
from .repeat import repeats as repeats
