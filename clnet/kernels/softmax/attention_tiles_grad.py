"""The kernels of attention's gradients in tiles; :mod:`.attention_tiles` says how they are cut."""

from __future__ import annotations

from ..kernel import Constraint, Kernel

LAWS = (
    Constraint("item % 4 == 0 and columns % 4 == 0", "local memory is read in fours"),
    Constraint("tile % columns == 0", "items have as many of the others each"),
)
_TEMPLATE = "softmax/attention_tiles_grad.mako"
GRAD_Q = Kernel("attention_tiles_grad_q", _TEMPLATE, constraints=LAWS)
GRAD_KV = Kernel("attention_tiles_grad_kv", _TEMPLATE, constraints=LAWS)
