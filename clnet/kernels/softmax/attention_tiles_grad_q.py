"""The kernel of attention's gradient to the queries; :mod:`.attention_tiles` says how it is cut."""

from __future__ import annotations

from ..kernel import Constraint, Kernel

LAWS = (
    Constraint("item % 4 == 0 and columns % 4 == 0", "local memory is read in fours"),
    Constraint("tile % (4 * columns) == 0", "items have whole fours of the others"),
)
GRAD_Q = Kernel("attention_tiles_grad_q", "softmax/attention_tiles_grad_q.mako", constraints=LAWS)
