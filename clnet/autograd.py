"""``clnet.autograd``: gradients asked for by name, their check, and whether they are recorded."""

from __future__ import annotations

from .gradcheck import gradcheck as gradcheck
from .tape import enable_grad as enable_grad
from .tape import is_grad_enabled as is_grad_enabled
from .tape import no_grad as no_grad
from .tensor import grad as grad
