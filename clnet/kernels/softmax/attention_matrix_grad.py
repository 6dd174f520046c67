"""The kernels of attention's gradients on units; :mod:`.attention_matrix` says how they are cut."""

from __future__ import annotations

from ..kernel import Constraint, Kernel

LAWS = (
    Constraint("unit.way == 'ptx'", "sums lie in registers as an operand does"),
    Constraint("tile.stages >= 2", "a tile comes in while another is computed with"),
    Constraint("head % 4 == value_head % 4 == 0", "rows are whole runs of 16 bytes"),
    Constraint("ctype == 'float' or head % 8 == value_head % 8 == 0", "rows are whole runs"),
)
_TEMPLATE = "softmax/attention_matrix_grad.mako"
GRAD_Q = Kernel("attention_matrix_grad_q", _TEMPLATE, constraints=LAWS)
GRAD_KV = Kernel("attention_matrix_grad_kv", _TEMPLATE, constraints=LAWS)
