"""Which function computes a node: handlers by domain, op and opset.

A handler is a function of tensors. Its signature is its contract: positional parameters are the
node's inputs in order (None where one is left out), keywords its attributes with ONNX's defaults;
a trailing underscore keeps clear of Python's names. An input annotated ``Host`` comes as a NumPy
array, one annotated ``Tensor`` as a tensor on the device, others as they are. Some keywords are no
attributes: ``opset``, ``outputs`` (how many the node lists), ``named`` (how many of these have a
name: the others are left out) and ``device``.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar

import numpy as np

from ..errors import ArgumentError

__all__ = ["CONTEXT", "OURS", "Handler", "Host", "described", "find", "handler", "on_host", "twin"]

Host: TypeAlias = np.ndarray
F = TypeVar("F", bound=Callable[..., Any])

OURS = "clnet"  # the domain of what nodes of others are spelled with
CONTEXT = frozenset({"opset", "outputs", "named", "device"})


@dataclass(frozen=True)
class Handler:
    """A function that computes nodes of an op.

    Attributes:
        function: what is called.
        since: the first opset that it serves.
        kinds: what each input is taken as: ``"Tensor"``, ``"Host"`` or ``"Any"``.
        rest: the same for inputs behind those, or None where there are none.
        attributes: the parameter of each attribute's name.
        context: the keywords that are no attributes.
        required: attributes without a default.
        needed: the places of inputs that no node leaves out.
    """

    function: Callable[..., Any]
    since: int
    kinds: tuple[str, ...]
    rest: str | None
    attributes: dict[str, str]
    context: frozenset[str]
    required: frozenset[str]
    needed: tuple[int, ...]


_HANDLERS: dict[tuple[str, str], list[Handler]] = {}
_TWINS: dict[tuple[str, str], Callable[..., Any]] = {}


def handler(*names: str, since: int = 1, domain: str = "") -> Callable[[F], F]:
    """Let a function compute the nodes of an op; a later one for the same opset takes its place.

    Args:
        names: of the ops.
        since: the first opset that it serves; the handler with the highest one that a model's
            opset reaches is taken.
        domain: of the ops; the empty one is ONNX's own.

    Example:
        >>> from clnet.onnx import handler
        >>> @handler("Twice", domain="example.org")
        ... def twice(x):
        ...     return x + x
    """
    if not names or not all(names):
        raise ArgumentError("onnx.handler", "an op has a name", names=names)

    def register(function: F) -> F:
        made = described(function, since)
        for name in names:
            others = [h for h in _HANDLERS.get((domain, name), []) if h.since != since]
            _HANDLERS[domain, name] = sorted([*others, made], key=lambda h: h.since)
        return function

    return register


def on_host(*names: str) -> Callable[[F], F]:
    """Let a NumPy function compute nodes of ops whose inputs all are host data: shapes."""

    def register(function: F) -> F:
        _TWINS.update({("", name): function for name in names})
        return function

    return register


def find(domain: str, name: str, opset: int) -> Handler | None:
    """The handler of an op in an opset, or None."""
    serving = [h for h in _HANDLERS.get((domain, name), []) if h.since <= opset]
    return serving[-1] if serving else None


def twin(domain: str, name: str) -> Callable[..., Any] | None:
    """The function that computes an op of host data on the host, or None."""
    return _TWINS.get((domain, name))


def described(function: Callable[..., Any], since: int) -> Handler:
    """A handler from a function's signature."""
    kinds: list[str] = []
    needed: list[int] = []
    rest: str | None = None
    attributes: dict[str, str] = {}
    required: set[str] = set()
    context: set[str] = set()
    for name, parameter in inspect.signature(function).parameters.items():
        kind = _kind(parameter.annotation)
        if parameter.kind is parameter.VAR_POSITIONAL:
            rest = kind
        elif parameter.kind is not parameter.KEYWORD_ONLY:
            if parameter.default is parameter.empty and "None" not in str(parameter.annotation):
                needed.append(len(kinds))
            kinds.append(kind)
        elif name in CONTEXT:
            context.add(name)
        else:
            attributes[name.rstrip("_")] = name
            if parameter.default is parameter.empty:
                required.add(name.rstrip("_"))
    return Handler(
        function,
        since,
        tuple(kinds),
        rest,
        attributes,
        frozenset(context),
        frozenset(required),
        tuple(needed),
    )


def _kind(annotation: Any) -> str:
    text = annotation if isinstance(annotation, str) else getattr(annotation, "__name__", "Any")
    first = text.split("|")[0].strip()
    return first if first in {"Tensor", "Host"} else "Any"
