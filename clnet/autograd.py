"""``clnet.autograd``: gradients by name or written by hand, their check, what is recorded."""

from __future__ import annotations

from importlib import import_module as _import_module
from typing import Any as _Any

from .autodiff import anomaly as anomaly_mode  # noqa: F401 # pyright: ignore[reportUnusedImport] - PyTorch's name
from .autodiff import custom as function  # noqa: F401 # pyright: ignore[reportUnusedImport] - PyTorch's name
from .autodiff import functional as functional
from .autodiff import variable as variable
from .autodiff.anomaly import detect_anomaly as detect_anomaly
from .autodiff.anomaly import set_detect_anomaly as set_detect_anomaly
from .autodiff.custom import Function as Function
from .autodiff.custom import FunctionCtx as FunctionCtx
from .autodiff.gradcheck import gradcheck as gradcheck
from .autodiff.gradcheck import gradgradcheck as gradgradcheck
from .autodiff.gradient import grad as grad
from .autodiff.tape import enable_grad as enable_grad
from .autodiff.tape import inference_mode as inference_mode
from .autodiff.tape import is_grad_enabled as is_grad_enabled
from .autodiff.tape import no_grad as no_grad
from .autodiff.tape import set_grad_enabled as set_grad_enabled
from .autodiff.variable import Variable as Variable
from .autodiff.variable import backward as backward
from .tensor import Tensor as Tensor

__path__: list[str] = []  # ``import clnet.autograd.function`` is found

_LATER = {
    "forward_ad": ".compat.forward_ad",
    "grad_mode": ".autodiff.tape",
    "graph": ".compat.autograd_graph",
    "profiler": ".compat.profiler",
}


def __getattr__(name: str) -> _Any:
    """``autograd.profiler`` and others, imported when a program asks for them."""
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return globals().setdefault(name, _import_module(_LATER[name], "clnet"))
