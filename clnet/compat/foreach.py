"""``clnet._foreach_add_`` and the like: an op of every tensor in a list, by the op's own method."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..errors import ArgumentError
from ..ops.machinery.function import PUBLIC_OPS
from ..tensor import Tensor

__all__ = ["PREFIX", "foreach"]

PREFIX = "_foreach_"
_SCALED = {"addcmul", "addcdiv"}
"""Those whose last operand is a number by name."""
_OPS = """
    abs acos add addcdiv addcmul asin atan ceil clamp clamp_max clamp_min clone copy cos cosh div
    erf erfc exp expm1 floor frac lerp lgamma log log10 log1p log2 max maximum minimum mul neg norm
    pow powsum reciprocal round rsqrt sigmoid sign sin sinh sqrt sub tan tanh trunc zero
"""
_BOUNDS = {"maximum": "min", "clamp_min": "min", "minimum": "max", "clamp_max": "max"}
"""Of which side of ``clamp`` a number is, which gives the promoted dtype."""
_SECOND = ("other", "scalar", "scalars", "exponent", "tensors1", "src")
"""What PyTorch's signatures call a second operand."""


def foreach(name: str) -> Callable[..., Any] | None:
    """The function of a name such as ``"_foreach_mul_"``; None if there is none.

    Operands that are lists are taken apart as the tensors are; others are the same for all. Names
    that end with an underscore overwrite the tensors and return them, others a tuple.

    Raises:
        ArgumentError: by the function, if lists differ in length.
    """
    stem = name.removeprefix(PREFIX)
    inplace = stem.endswith("_")
    op = stem.rstrip("_")
    if not name.startswith(PREFIX) or op not in _OPS.split():
        return None

    def each(*operands: Any, **given: Any) -> list[Tensor] | tuple[Tensor, ...]:
        every = [given.pop("self"), *operands] if "self" in given else [*operands]
        tensors, args = every[0], every[1:]
        if not args and op not in _SCALED:
            args = [given.pop(n) for n in _SECOND if n in given]
        if op == "pow" and not isinstance(tensors, list | tuple):  # of a number, too
            return tuple(tensors**x for x in args[0])
        tensors = list(tensors)
        if op in _SCALED and len(args) == 3:
            args, given = args[:2], {**given, "value": args[2]}
        if "scalars" in given:
            given = {**given, "value": given["scalars"]}
            del given["scalars"]
        if op in _SCALED and isinstance(given.get("value"), Tensor):
            given = {**given, "value": given["value"].tolist()}
        lists = [a for a in (*args, *given.values()) if isinstance(a, list | tuple)]
        if any(len(a) != len(tensors) for a in lists):
            law = "operands that are lists have as many elements as there are tensors"
            raise ArgumentError(name, law, tensors=len(tensors), operands=[*map(len, lists)])
        made: list[Tensor] = []
        for k, x in enumerate(tensors):
            own = [a[k] if isinstance(a, list | tuple) else a for a in args]
            named = {n: a[k] if isinstance(a, list | tuple) else a for n, a in given.items()}
            made.append(_applied(op, x, own, named, inplace=inplace))
        return tensors if inplace else tuple(made)

    each.__name__ = each.__qualname__ = name
    each.__module__ = "clnet"  # where it is found again, pickled
    each.__doc__ = f"``{op}`` of every tensor in a list."
    return each


def _applied(op: str, x: Tensor, args: list[Any], given: dict[str, Any], *, inplace: bool) -> Any:
    if op == "powsum":
        order, dtype = (*args, given.get("ord", 2))[0], given.get("dtype")
        return (x if dtype is None else x.to(dtype)).abs().pow(order).sum()
    if op == "norm":
        return x.norm(*args, **{"p" if n == "ord" else n: v for n, v in given.items()})
    if hasattr(Tensor, f"{op}_") and inplace:
        return getattr(x, f"{op}_")(*args, **given)
    bound = _BOUNDS.get(op)
    if bound is not None and args and not isinstance(args[0], Tensor):
        args, given, op = [], {bound: args[0]}, "clamp"
    function = getattr(x, op, None) or PUBLIC_OPS[op][0].__get__(x)
    result = function(*args, **given)
    return x.copy_(result) if inplace else result
