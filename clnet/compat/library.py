"""``clnet.library``: operators that programs write in Python, and names of those of C++.

An operator of Python runs as the function that it is. Those of C++ are not here: asking for one
gives a name, calling it an error.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from inspect import signature
from types import ModuleType
from typing import Any

from .. import ops as own_ops
from ..autograd import Function
from ..errors import ClnetError
from . import audio, vision

__all__ = [
    "CustomOpDef",
    "Library",
    "custom_op",
    "define",
    "get_ctx",
    "impl",
    "register_autograd",
    "register_fake",
    "register_kernel",
]

_OPERATORS: dict[str, CustomOpDef] = {}


class OperatorError(ClnetError, OSError):
    """An operator of C++ was called, or its library was to be loaded."""


class CustomOpDef:
    """An operator that a program wrote: a function, and a gradient if it was given one.

    Args:
        name: ``"namespace::name"``.
        function: what it computes.
    """

    def __init__(self, name: str, function: Callable[..., Any]) -> None:
        self._name = name
        self._function = function
        self._kind: type[Function] | None = None
        self.__doc__ = function.__doc__
        self.__name__ = name.rpartition(":")[2]
        _OPERATORS[name] = self

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """What the function gives, on the tape through the gradient that was registered."""
        if self._kind is None:
            return self._function(*args, **kwargs)
        bound = signature(self._function).bind(*args, **kwargs)
        bound.apply_defaults()
        return self._kind.apply(*bound.args, *bound.kwargs.values())

    default = property(lambda self: self, doc="The only overload there is.")

    def register_fake(self, fn: Any = None, /) -> Any:
        """Taken: shapes are found by running the function."""
        return _as_it_is if fn is None else fn

    register_vmap = register_fake

    def register_kernel(self, device_types: Any, fn: Any = None, /) -> Any:
        """Taken: the function runs on every device."""
        return _as_it_is if fn is None else fn

    def register_autograd(self, backward: Any, /, *, setup_context: Any = None) -> None:
        """Give it a gradient.

        Args:
            backward: called ``backward(ctx, *grads)``; gives a gradient, or None, per argument, but
                for those that are given by name alone.
            setup_context: called ``setup_context(ctx, inputs, output)`` before; with ``inputs`` all
                arguments, defaults too. Arguments by name alone come as a dict,
                ``keyword_only_inputs``, between both.
        """
        function = self._function
        parameters = signature(function).parameters.values()
        names = [p.name for p in parameters if p.kind is p.KEYWORD_ONLY]

        def divided(args: tuple[Any, ...]) -> tuple[tuple[Any, ...], dict[str, Any]]:
            first = len(args) - len(names)
            return args[:first], dict(zip(names, args[first:], strict=True))

        def forward(*args: Any) -> Any:
            placed, named = divided(args)
            return function(*placed, **named)

        def setup(ctx: Any, inputs: Any, output: Any) -> None:
            if setup_context is not None:
                placed, named = divided(inputs)
                setup_context(ctx, *((placed, named) if names else (placed,)), output)

        def back(ctx: Any, *grads: Any) -> Any:
            found = backward(ctx, *grads)
            several = found if isinstance(found, tuple | list) else (found,)
            return (*several, *(None for _ in names))

        members: dict[str, Any] = {"forward": forward, "backward": back, "setup_context": setup}
        self._kind = type(
            self.__name__, (Function,), {k: staticmethod(f) for k, f in members.items()}
        )


def _as_it_is(function: Any) -> Any:
    return function


def custom_op(
    name: str,
    fn: Callable[..., Any] | None = None,
    /,
    *,
    mutates_args: Any = (),
    device_types: Any = None,
    schema: str | None = None,
    tags: Sequence[Any] | None = None,
) -> Any:
    """An operator of a Python function; a decorator without ``fn``."""
    if fn is not None:
        return CustomOpDef(name, fn)
    return lambda function: CustomOpDef(name, function)


triton_op = custom_op


def register_fake(op: Any, func: Any = None, /, *, lib: Any = None, **given: Any) -> Any:
    """Taken: shapes are found by running the function."""
    return _as_it_is if func is None else func


impl_abstract = register_vmap = register_fake


def register_kernel(op: Any, device_types: Any, func: Any = None, /, *, lib: Any = None) -> Any:
    """Taken: functions of C++'s operators are not called."""
    return _as_it_is if func is None else func


def register_autograd(
    op: Any, backward: Any, /, *, setup_context: Any = None, lib: Any = None
) -> None:
    """Give an operator of :func:`custom_op` a gradient; of C++'s it is taken."""
    found = op if isinstance(op, CustomOpDef) else _OPERATORS.get(str(op))
    if found is not None:
        found.register_autograd(backward, setup_context=setup_context)


def define(qualname: str, schema: str = "", **given: Any) -> None:
    """Taken: a name without a function."""


def impl(qualname: Any, types: Any = "default", func: Any = None, *, lib: Any = None) -> Any:
    """The function becomes the operator of a name, if it is one that computes here.

    Args:
        qualname: ``"namespace::name"``.
        types: a kind of device or a dispatch key, or several; those of abstract twins, casts and,
            where there is an operator, other devices' are left out.
        func: it; a decorator without.
        lib: taken.
    """
    if func is None:
        return lambda function: impl(qualname, types, function)
    keys = (types,) if isinstance(types, str) else tuple(types)
    if any(_computes(str(qualname), str(key)) for key in keys):
        CustomOpDef(str(qualname), func)
    return func


def _computes(name: str, key: str) -> bool:
    """Whether what is registered for a key is what a name computes here."""
    if key.startswith(("Autocast", "Meta", "meta", "Functionalize", "FuncTorch")):
        return False
    elsewhere = key.upper().startswith(("CUDA", "XPU", "MPS", "HPU", "XLA", "HIP", "PRIVATEUSE"))
    return not (elsewhere and name in _OPERATORS)


def get_ctx() -> Any:
    """There is nobody to ask: shapes are found by running functions.

    Raises:
        OperatorError: always.
    """
    raise OperatorError("library.get_ctx", "operators have no abstract twins")


class Library:
    """Operators of one namespace.

    Args:
        ns: its name.
        kind: taken.
        dispatch_key: of functions that name none.
    """

    def __init__(self, ns: str, kind: str = "DEF", dispatch_key: str = "") -> None:
        self.ns = ns
        self._key = dispatch_key

    def define(self, schema: str, *args: Any, **kwargs: Any) -> str:
        """The name in a schema."""
        return schema.partition("(")[0]

    def impl(
        self, op_name: Any, fn: Callable[..., Any], dispatch_key: str = "", **given: Any
    ) -> None:
        """The function becomes the operator as :func:`impl` says, unless that is C++'s."""
        if isinstance(op_name, str):
            name = op_name if "::" in op_name else f"{self.ns}::{op_name}"
            impl(name, dispatch_key or self._key, fn)

    def fallback(self, *args: Any, **kwargs: Any) -> None:
        """Taken."""


class _Missing:
    """An operator of C++, by its name."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, overload: str) -> Any:
        if overload.startswith("__"):
            raise AttributeError(overload)
        return self

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise OperatorError(
            self._name,
            "operators of C++ are not here",
            remedy="Use a function of clnet, or write it as library.custom_op",
        )


class _Namespace:
    """``torch.ops.name``: the operators of a namespace."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        full = f"{self._name}::{name}"
        own = vision.OPERATORS.get(full) or audio.OPERATORS.get(full)
        return _OPERATORS.get(full) or own or _Missing(full)


class Operators(ModuleType):
    """``torch.ops``: clnet's own ops, and namespaces of operators."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        found = getattr(own_ops, name, None)
        return _Namespace(name) if found is None else found

    def load_library(self, path: Any) -> None:
        """Nothing of C++ is loaded: its operators know PyTorch's memory alone.

        Raises:
            OperatorError: unless it is torchaudio's or torchvision's, which do without.
        """
        if audio.is_library(path) or vision.is_library(path):
            return
        raise OperatorError("ops.load_library", "nothing of C++ is loaded", path=path)


operators = Operators("torch.ops", "Operators by namespace.")
inner = ModuleType("torch._ops", "Where PyTorch has them.")
inner.__dict__["ops"] = operators
