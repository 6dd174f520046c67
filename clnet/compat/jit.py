"""``clnet.jit``: what TorchScript's users write around their functions; nothing is scripted.

A function stays the Python it is; ``clnet.compile`` is what makes it faster.
"""

# ruff: noqa: FBT002 - PyTorch's signatures

from __future__ import annotations

import typing
from collections.abc import Callable
from types import ModuleType
from typing import Any, Final, TypeVar

from ..errors import ArgumentError
from ..nn import Module
from ..values.futures import Future
from .notice import say_once

__all__ = [
    "Attribute",
    "Final",
    "ScriptModule",
    "export",
    "fork",
    "ignore",
    "interface",
    "is_scripting",
    "is_tracing",
    "isinstance",
    "load",
    "save",
    "script",
    "script_if_tracing",
    "script_method",
    "trace",
    "unused",
    "wait",
]

F = TypeVar("F")


def fork(func: Callable[..., Any], *args: Any, **kwargs: Any) -> Future:
    """A future of a call, which is made at once."""
    made = Future()
    made.set_result(func(*args, **kwargs))
    return made


def wait(future: Future) -> Any:
    """What a future gives."""
    return future.wait()


class ScriptModule(Module):
    """A module like any other, for programs that write theirs below it."""


class TracerWarning(Warning):
    """What a tracer would warn of, which programs silence."""


class Error(RuntimeError):
    """What a script would fail with, which programs catch."""


is_instance = isinstance
isinstance = isinstance  # noqa: A001 - PyTorch's name


def is_scripting() -> bool:
    """False: nothing is scripted."""
    return False


is_tracing = is_scripting


def script(obj: F, *args: Any, **kwargs: Any) -> F:
    """The function, class or module as it is; that is said once."""
    say_once("jit.script: functions and modules stay as they are; clnet.compile makes them faster")
    return _unsaved(obj)


def trace(func: F, example_inputs: Any = None, *args: Any, **kwargs: Any) -> F:
    """The function or module as it is; that is said once."""
    say_once("jit.trace: functions and modules stay as they are; clnet.compile makes them faster")
    return _unsaved(func)


def _unsaved(obj: F) -> F:
    """A module whose ``save``, which scripted ones have, says what to do instead."""
    if is_instance(obj, Module) and not hasattr(obj, "save"):
        vars(obj)["save"] = _refuse_to_save
    return obj


def _refuse_to_save(f: Any, **kwargs: Any) -> None:
    save(None, f)


def _as_it_is(function: F) -> F:
    """The function as it is."""
    return function


export = interface = script_method = script_if_tracing = _script_if_tracing = _as_it_is
_overload = _overload_method = _as_it_is
RecursiveScriptModule = ScriptFunction = TopLevelTracedModule = TracedModule = ScriptModule


def ignore(drop: Any = False, **kwargs: Any) -> Any:
    """The function as it is; also called with settings, as a decorator."""
    return drop if callable(drop) else _as_it_is


def unused(fn: Callable[..., Any]) -> Callable[..., Any]:
    """The function as it is."""
    return fn


def annotate(the_type: Any, the_value: Any) -> Any:
    """The value."""
    return the_value


def freeze(mod: F, *args: Any, **kwargs: Any) -> F:
    """The module as it is."""
    return mod


optimize_for_inference = freeze


def Attribute(value: Any, type: Any) -> Any:  # noqa: N802, A002 - PyTorch's names
    """The value."""
    return value


def load(f: Any, map_location: Any = None, *args: Any, **kwargs: Any) -> Any:
    """There is no reader of scripted modules.

    Raises:
        ArgumentError: always.
    """
    raise ArgumentError(
        "jit.load",
        "scripted modules are not read",
        file=f,
        remedy="Save the module's state_dict() in PyTorch and load that into a module of clnet",
    )


def save(m: Any, f: Any, *args: Any, **kwargs: Any) -> None:
    """Nothing is scripted that could be saved.

    Raises:
        ArgumentError: always.
    """
    raise ArgumentError(
        "jit.save",
        "nothing is scripted",
        file=f,
        remedy="Save module.state_dict(), or a program of it by clnet.onnx.export",
    )


annotations = ModuleType("torch.jit.annotations", "Types that TorchScript knows.")
annotations.__dict__.update({n: getattr(typing, n) for n in ("Dict", "List", "Optional", "Tuple")})
for _n in (1, 2, 3, 4, 5, 6):
    annotations.__dict__[f"BroadcastingList{_n}"] = list
