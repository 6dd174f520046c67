"""The public surface: every name that a program can call, found where it is exported.

So a new name is drawn from the day it exists. A name is the text of what is called, as in the calls
of ``ci/torch_cases.py``: ``m.add``, ``x.add``, ``F.relu``, ``nn.Linear``, ``optim.SGD``.
"""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable
from functools import cache
from typing import Any

import clnet
from clnet.tensor import Tensor

# Called by the harness itself, waiting for a person, or about this process rather than tensors.
LEFT_OUT = {
    **dict.fromkeys(
        (
            *("m.PUBLIC_OPS", "m.Face", "F.Face", "m.linalg.Face", "m.DeviceKind", "m.DType"),
            *("m.special.Face", "m.special.Tensor", "m.special.checked"),
            "m.distributions.identity_transform",
        ),
        "no functions",
    ),
    **dict.fromkeys(
        ("m.profile", "m.set_memory_limit", "m.distributions.register_kl"),
        "they change how the process goes on",
    ),
    **dict.fromkeys(("x.map", "x.register_hook"), "they give context managers and handles"),
    **dict.fromkeys(
        ("nn.Module", "optim.Optimizer", "schedule.LRScheduler", "m.distributions.Distribution"),
        "bases",
    ),
}

_PLACES: dict[str, Any] = {
    "m": clnet,
    "m.linalg": clnet.linalg,
    "m.autograd": clnet.autograd,
    "m.distributions": clnet.distributions,
    "m.fft": clnet.fft,
    "m.func": clnet.func,
    "m.special": clnet.special,
    "F": clnet.nn.functional,
    "nn": clnet.nn,
    "nn.init": clnet.nn.init,
    "nn.utils": clnet.nn.utils,
    "nn.utils.rnn": clnet.nn.utils.rnn,
    "optim": clnet.optim,
    "schedule": clnet.optim.lr_scheduler,
}


@cache
def surface() -> dict[str, Callable[..., Any]]:
    """What can be called, by the text that calls it, in alphabetical order."""
    found: dict[str, Callable[..., Any]] = {}
    for place, module in _PLACES.items():
        shown = getattr(module, "__all__", None) or vars(module)
        for name in shown:
            value = getattr(module, name)
            if callable(value) and not name.startswith("_") and _is_ours(value):
                found[f"{place}.{name}"] = value
    for name in dir(Tensor):
        value = inspect.getattr_static(Tensor, name)
        dunder = name.startswith("__")
        if isinstance(value, types.FunctionType) and (not name.startswith("_") or dunder):
            found[f"x.{name}"] = value
    hidden = (
        "x.__init__",
        "x.__apply_function__",
        "x.__reduce__",
        "x.__deepcopy__",
    )
    return {k: found[k] for k in sorted(found) if k not in LEFT_OUT and k not in hidden}


def parameters(function: Callable[..., Any]) -> list[inspect.Parameter]:
    """What a function takes; nothing where that cannot be found out."""
    try:
        return list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        return []


def _is_ours(value: Any) -> bool:
    module = getattr(value, "__module__", None) or ""
    is_error = inspect.isclass(value) and issubclass(value, BaseException)
    return module.startswith("clnet") and not is_error
