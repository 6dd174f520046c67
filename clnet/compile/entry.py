"""``clnet.compile`` and ``module.compile()``, with PyTorch's arguments."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..errors import ArgumentError, DtypeError
from ..values.arguments import shown
from .compiled import Compiled
from .passes import PASSES, Pass

__all__ = ["compile", "compile_module"]

# PyTorch's; there is one way to compile here.
_MODES = ("default", "lite", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs")


def compile(  # noqa: A001 - PyTorch's name
    model: Callable[..., Any] | None = None,
    *,
    fullgraph: bool = False,
    dynamic: bool | None = None,
    backend: Any = "inductor",
    mode: str | None = None,
    options: Any = None,
    disable: bool = False,
    passes: Sequence[Pass] = PASSES,
    recompute: bool | None = None,
) -> Any:
    """A function that records its launches once and replays them.

    Args:
        model: a function of tensors and plain values (a whole training step, backward and update
            included), or a module, or None: what is returned decorates one.
        fullgraph: whether every call is traced that finds no plan, also where that happens at
            nearly every call; by default these run uncompiled after a warning. There are no partial
            graphs.
        dynamic: taken: every shape has a plan of its own.
        backend: taken: there is one.
        mode: taken, if it is one of PyTorch's.
        options: taken; one of both at most.
        disable: give the function as it is.
        passes: what rewrites the trace before it is planned; with none, every op stays a launch of
            its own, as in eager.
        recompute: whether backward computes cheap values (a ReLU of a norm) once more instead of
            holding them from forward on; None: where the device has no room otherwise. On GPUs
            those that a step of backward gives beside its own result are so anyway.

    Returns:
        The compiled function; it gives the same results. Any thread may call it; see
        :class:`Compiled`. A compiled module has the module's attributes, state and type. Backward
        through what it returns is compiled, too; a step that is compiled as a whole, backward and
        update included, is faster still.

    Raises:
        ArgumentError: if ``mode`` is none of PyTorch's, or ``options`` is given, too.

    Example:
        >>> import clnet
        >>> twice = clnet.compile(lambda x: x + x)
        >>> twice(clnet.ones(3)).tolist()
        [2.0, 2.0, 2.0]
    """
    if mode is not None and options is not None:
        raise ArgumentError("compile", "one of mode and options is given", mode=mode)
    if mode is not None and not (isinstance(mode, str) and mode in _MODES):
        raise ArgumentError("compile", f"mode is one of {', '.join(_MODES)}", mode=shown(mode))
    if model is None:
        return lambda function: compile(
            function, fullgraph=fullgraph, disable=disable, passes=passes, recompute=recompute
        )
    return model if disable else Compiled(model, passes, recompute=recompute, always=fullgraph)


def compile_module(module: Any, *args: Any, **given: Any) -> None:
    """``module.compile()``: from now on its ``forward`` is compiled, as :func:`compile` does.

    Raises:
        DtypeError: if it is no module.
    """
    if not callable(getattr(module, "forward", None)):
        raise DtypeError("compile_module", "a module has a forward", module=shown(module))
    vars(module)["forward"] = compile(module.forward, *args, **given)
