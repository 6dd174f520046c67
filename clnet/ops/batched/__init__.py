"""What ops are for a batch of their inputs: one application of a function, in public ops.

A rule gets a function, for each input whether it has a first axis of the batch, the inputs, and
the batch's size. It gives all outputs, each with that axis first; or None, if it knows no way.
Functions without a rule are taken apart (``decompose``), or applied to one element after another.
"""

from . import moves as moves
from . import places as places
from . import products as products
from . import rows as rows
from .rule import rule_for as rule_for
