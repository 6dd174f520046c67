"""``clnet.autograd``: gradients by name or written by hand, their check, what is recorded."""

from __future__ import annotations

from importlib import import_module as _import_module
from typing import TYPE_CHECKING
from typing import Any as _Any

from .autodiff.gradient import grad as grad
from .autodiff.tape import enable_grad as enable_grad
from .autodiff.tape import inference_mode as inference_mode
from .autodiff.tape import is_grad_enabled as is_grad_enabled
from .autodiff.tape import no_grad as no_grad
from .autodiff.tape import set_grad_enabled as set_grad_enabled
from .tensor import Tensor as Tensor

if TYPE_CHECKING:  # what editors and type checkers see; at run time only what is asked for
    from .autodiff import anomaly as anomaly_mode  # noqa: F401
    from .autodiff import custom as function  # noqa: F401
    from .autodiff import functional as functional
    from .autodiff import variable as variable
    from .autodiff.anomaly import detect_anomaly as detect_anomaly
    from .autodiff.anomaly import set_detect_anomaly as set_detect_anomaly
    from .autodiff.custom import Function as Function
    from .autodiff.custom import FunctionCtx as FunctionCtx
    from .autodiff.gradcheck import gradcheck as gradcheck
    from .autodiff.gradcheck import gradgradcheck as gradgradcheck
    from .autodiff.variable import Variable as Variable
    from .autodiff.variable import backward as backward
    from .errors import GradcheckError as GradcheckError

__path__: list[str] = []  # ``import clnet.autograd.function`` is found

# A module, and a name in it; "": the module itself.
_LATER = {
    "Function": (".autodiff.custom", "Function"),
    "FunctionCtx": (".autodiff.custom", "FunctionCtx"),
    "GradcheckError": (".errors", "GradcheckError"),
    "Variable": (".autodiff.variable", "Variable"),
    "anomaly_mode": (".autodiff.anomaly", ""),
    "backward": (".autodiff.variable", "backward"),
    "detect_anomaly": (".autodiff.anomaly", "detect_anomaly"),
    "forward_ad": (".compat.forward_ad", ""),
    "function": (".autodiff.custom", ""),
    "functional": (".autodiff.functional", ""),
    "grad_mode": (".autodiff.tape", ""),
    "gradcheck": (".autodiff.gradcheck", "gradcheck"),
    "gradgradcheck": (".autodiff.gradcheck", "gradgradcheck"),
    "graph": (".compat.autograd_graph", ""),
    "profiler": (".compat.profiler", ""),
    "set_detect_anomaly": (".autodiff.anomaly", "set_detect_anomaly"),
    "set_multithreading_enabled": (".autodiff.variable", "set_multithreading_enabled"),
    "variable": (".autodiff.variable", ""),
    "_disable_profiler": (".compat.profiler", "disable_profiler"),
    "_profiler_enabled": (".compat.profiler", "profiler_enabled"),
    "_is_checkpoint_valid": (".autodiff.variable", "is_checkpoint_valid"),
}


def __getattr__(name: str) -> _Any:
    """What a training step does without is imported when a program asks for it."""
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    place, attribute = _LATER[name]
    module = _import_module(place, "clnet")
    return globals().setdefault(name, getattr(module, attribute) if attribute else module)


def __dir__() -> list[str]:
    """What is here, and what would be imported."""
    return sorted({*globals(), *_LATER})


if not TYPE_CHECKING:  # for ``from clnet.autograd import *``
    __all__ = [
        *("Function", "Variable", "backward", "detect_anomaly", "enable_grad", "function", "grad"),
        *("grad_mode", "gradcheck", "gradgradcheck", "inference_mode", "no_grad"),
        *("set_detect_anomaly", "set_grad_enabled", "variable"),
    ]
