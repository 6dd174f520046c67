"""The kernel of attention's gradients to keys and values; see :mod:`.attention_tiles`."""

from __future__ import annotations

from ..kernel import Kernel
from .attention_tiles_grad_q import LAWS

GRAD_KV = Kernel(
    "attention_tiles_grad_kv", "softmax/attention_tiles_grad_kv.mako", constraints=LAWS
)
