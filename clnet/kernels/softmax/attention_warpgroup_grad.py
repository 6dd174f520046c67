"""The kernel of the queries' gradient by 128 items at once; see :mod:`.attention_warpgroup`."""

from __future__ import annotations

from ..kernel import Constraint, Kernel

LAWS = (
    Constraint("tile.others % 16 == 0 and tile.others <= 256", "weights are an operand"),
    Constraint("head <= 128 and head % 8 == 0", "sums lie in registers, rows in runs"),
    Constraint("ctype != 'float'", "TF32 is multiplied along k alone"),
)
GRAD_Q = Kernel(
    "attention_warpgroup_grad_q", "softmax/attention_warpgroup_grad.mako", constraints=LAWS
)
