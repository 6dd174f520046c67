"""``clnet.autograd``: gradients by name or written by hand, their check, what is recorded."""

from __future__ import annotations

from .custom import Function as Function
from .custom import FunctionCtx as FunctionCtx
from .gradcheck import gradcheck as gradcheck
from .gradcheck import gradgradcheck as gradgradcheck
from .gradient import grad as grad
from .tape import enable_grad as enable_grad
from .tape import inference_mode as inference_mode
from .tape import is_grad_enabled as is_grad_enabled
from .tape import no_grad as no_grad
from .tape import set_grad_enabled as set_grad_enabled
