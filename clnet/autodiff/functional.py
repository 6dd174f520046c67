"""``autograd.functional``: products with and whole Jacobians and Hessians of a function.

``clnet.func`` has the same for functions of functions; here the point is given along.
"""

# ruff: noqa: FBT001, FBT002 - PyTorch's signatures

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from .. import ops
from ..errors import ArgumentError, DtypeError, KindError
from ..tensor import Tensor
from ..values import mode
from ..values.arguments import require_tensors
from ..values.plain import is_iterable, shown
from .gradient import grad

__all__ = ["hessian", "hvp", "jacobian", "jvp", "vhp", "vjp"]

Tensors = Tensor | Sequence[Tensor]


def _leaves(inputs: Tensors, *, create_graph: bool) -> tuple[bool, list[Tensor]]:
    """Whether there is one alone; tensors to differentiate by, on the tape if that is wanted."""
    alone = isinstance(inputs, Tensor)
    listed: list[Any] = list(inputs) if is_iterable(inputs) and not alone else [inputs]
    require_tensors("functional", **{f"inputs[{k}]": x for k, x in enumerate(listed)})
    if create_graph:
        return alone, [x.view_as(x) if x.requires_grad else x.requires_grad_() for x in listed]
    return alone, [x.detach().requires_grad_() for x in listed]


def _outputs(
    name: str, func: Callable[..., Any], leaves: list[Tensor], *, strict: bool
) -> tuple[bool, list[Any]]:
    found = func(*leaves)
    alone = isinstance(found, Tensor)
    listed: list[Any] = list(found) if isinstance(found, tuple | list) else [found]
    if not all(isinstance(y, Tensor) for y in listed):
        raise KindError(name, "the function gives tensors", type=type(found).__name__)
    if strict:
        _require_dependence(name, "an output", listed)
    return alone, listed


def _require_dependence(name: str, what: str, found: Sequence[Tensor | None]) -> None:
    """Refuse what does not depend on the inputs.

    Raises:
        ArgumentError: if one is None or off the tape.
    """
    for place, x in enumerate(found):
        if x is None or not x.requires_grad:
            law = f"where strict, {what} depends on the inputs"
            raise ArgumentError(name, law, place=place, remedy="strict=False gives zeros")


def _gradients(
    name: str,
    outputs: list[Tensor],
    inputs: list[Tensor],
    weights: list[Any],
    *,
    create_graph: bool,
    strict: bool,
) -> list[Tensor]:
    """The gradient for each input, zeros where nothing depends on it.

    Raises:
        ArgumentError: if ``strict`` and an output does not depend on an input; with a graph, also
            if a gradient does not.
    """
    if strict:
        _require_dependence(name, "a result", outputs)
    kept = [(y, w) for y, w in zip(outputs, weights, strict=True) if y.requires_grad]
    if not kept:
        return [ops.zeros_like(x) for x in inputs]
    ys, ws = zip(*kept, strict=True)
    found = grad(ys, inputs, ws, create_graph=create_graph, retain_graph=True, allow_unused=True)
    for place, g in enumerate(found):
        if strict and g is None:
            law = "where strict, results depend on each input"
            raise ArgumentError(name, law, place=place, remedy="strict=False gives zeros")
    if strict and create_graph:
        _require_dependence(name, "a gradient", found)
    return [ops.zeros_like(x) if g is None else g for g, x in zip(found, inputs, strict=True)]


def _weights(name: str, v: Any, like: list[Tensor], what: str) -> list[Tensor]:
    """The vector of a product, 1 where it is left out and there is one number."""
    if v is None:
        if len(like) == 1 and like[0].numel() == 1:
            return [ops.ones_like(like[0])]
        raise ArgumentError(name, f"v is given where {what} is more than one number")
    listed: list[Any] = list(v) if is_iterable(v) and not isinstance(v, Tensor) else [v]
    require_tensors(name, **{f"v[{k}]": x for k, x in enumerate(listed)})
    if [x.shape for x in listed] != [x.shape for x in like]:
        raise ArgumentError(
            name,
            f"v has the shapes of {what}",
            v=[x.shape for x in listed],
            wanted=[x.shape for x in like],
        )
    return listed


def _given(found: list[Tensor], *, alone: bool, create_graph: bool) -> Any:
    kept = found if create_graph else [x.detach() for x in found]
    return kept[0] if alone else tuple(kept)


def vjp(
    func: Callable[..., Any],
    inputs: Tensors,
    v: Tensors | None = None,
    create_graph: bool = False,
    strict: bool = False,
) -> tuple[Any, Any]:
    """The outputs, and ``v`` times the Jacobian.

    Args:
        func: of tensors, gives one or several.
        inputs: one or several.
        v: of the outputs' shapes; None: 1, where there is one number.
        create_graph: whether both can be differentiated.
        strict: refuse outputs that do not depend on an input; else it has gradient 0.

    Raises:
        ArgumentError: if ``func`` gives something else, ``v`` has other shapes, or it is strict and
            an output, or with ``create_graph`` a gradient, does not depend on an input.
    """
    with mode.using(grad=True):
        one, leaves = _leaves(inputs, create_graph=create_graph)
        alone, outputs = _outputs("vjp", func, leaves, strict=strict)
        weights = _weights("vjp", v, outputs, "the output")
        found = _gradients(
            "vjp", outputs, leaves, weights, create_graph=create_graph, strict=strict
        )
    return (
        _given(outputs, alone=alone, create_graph=create_graph),
        _given(found, alone=one, create_graph=create_graph),
    )


def jvp(
    func: Callable[..., Any],
    inputs: Tensors,
    v: Tensors | None = None,
    create_graph: bool = False,
    strict: bool = False,
) -> tuple[Any, Any]:
    """The outputs, and the Jacobian times ``v``; arguments as :func:`vjp`'s, ``v`` like the inputs.

    The gradient of the product with a vector is linear in this; its gradient is what is wanted.
    """
    with mode.using(grad=True):
        _, leaves = _leaves(inputs, create_graph=create_graph)
        alone, outputs = _outputs("jvp", func, leaves, strict=strict)
        weights = _weights("jvp", v, leaves, "the input")
        probes = [ops.zeros_like(y).requires_grad_() for y in outputs]
        back = _gradients("jvp", outputs, leaves, list(probes), create_graph=True, strict=strict)
        found = _gradients(
            "jvp", back, probes, list(weights), create_graph=create_graph, strict=strict
        )
    return (
        _given(outputs, alone=alone, create_graph=create_graph),
        _given(found, alone=alone, create_graph=create_graph),
    )


def jacobian(
    func: Callable[..., Any],
    inputs: Tensors,
    create_graph: bool = False,
    strict: bool = False,
    vectorize: bool = False,
    strategy: str = "reverse-mode",
) -> Any:
    """All derivatives, of the output's shape and then the input's: a walk back for each output.

    Args:
        func: of tensors, gives one or several.
        inputs: one or several.
        create_graph: whether they can be differentiated.
        strict: as for :func:`vjp`.
        vectorize: changes nothing.
        strategy: ``"reverse-mode"`` or ``"forward-mode"``; changes nothing.

    Returns:
        A tensor, or tuples of them: by outputs, then by inputs, where there are several.

    Raises:
        ArgumentError: as for :func:`vjp`; if it is strict and vectorised, which PyTorch refuses as
            well; if there is no such strategy.
        DtypeError: if an output is complex.
    """
    _check_ways("jacobian", strategy, strict=strict, vectorize=vectorize)
    with mode.using(grad=True):
        one, leaves = _leaves(inputs, create_graph=create_graph)
        alone, outputs = _outputs("jacobian", func, leaves, strict=strict)
        rows: list[Any] = []
        for y in outputs:
            if y.dtype.is_complex:
                law, hint = "a Jacobian is of real results", "Take view_as_real of complex ones"
                raise DtypeError("jacobian", law, dtype=y.dtype, remedy=hint)
            flat = y.reshape(-1)
            walks = [
                _gradients(
                    "jacobian", [flat[k]], leaves, [None], create_graph=create_graph, strict=strict
                )
                for k in range(y.numel())
            ]
            found = [
                ops.stack([walk[i] for walk in walks]).reshape((*y.shape, *x.shape))
                for i, x in enumerate(leaves)
            ]
            rows.append(_given(found, alone=one, create_graph=create_graph))
    return rows[0] if alone else tuple(rows)


def hessian(
    func: Callable[..., Any],
    inputs: Tensors,
    create_graph: bool = False,
    strict: bool = False,
    vectorize: bool = False,
    outer_jacobian_strategy: str = "reverse-mode",
) -> Any:
    """Second derivatives of a function with one number; arguments as :func:`jacobian`'s.

    Raises:
        ArgumentError: as for :func:`jacobian`; if the function gives more than one number.
    """
    _check_ways("hessian", outer_jacobian_strategy, strict=strict, vectorize=vectorize)
    alone = isinstance(inputs, Tensor)

    def slope(*points: Tensor) -> Any:
        found = jacobian(lambda *x: _one_number("hessian", func(*x)), points, create_graph=True)
        return found[0] if alone else found

    return jacobian(slope, inputs, create_graph, strict)


def _check_ways(name: str, strategy: str, *, strict: bool, vectorize: bool) -> None:
    """Refuse what PyTorch refuses."""
    if strategy not in ("reverse-mode", "forward-mode"):
        law = "the strategy is reverse-mode or forward-mode"
        raise ArgumentError(name, law, strategy=shown(strategy))
    if strict and vectorize:
        raise ArgumentError(name, "it is strict or vectorised, not both", strict=True)


def _one_number(name: str, y: Any) -> Tensor:
    found = y if isinstance(y, tuple | list) else (y,)
    if not all(isinstance(one, Tensor) for one in found):
        raise KindError(name, "the function gives a tensor", type=type(y).__name__)
    if not isinstance(y, Tensor) or y.numel() != 1:
        raise ArgumentError(name, "the function gives one number", shape=getattr(y, "shape", None))
    return y.reshape(())


def vhp(
    func: Callable[..., Any],
    inputs: Tensors,
    v: Tensors | None = None,
    create_graph: bool = False,
    strict: bool = False,
) -> tuple[Any, Any]:
    """The number that ``func`` gives, and ``v`` times its Hessian; arguments as :func:`jvp`'s."""
    with mode.using(grad=True):
        one, leaves = _leaves(inputs, create_graph=create_graph)
        _, outputs = _outputs("vhp", func, leaves, strict=strict)
        number = _one_number("vhp", outputs[0])
        weights = _weights("vhp", v, leaves, "the input")
        slope = _gradients("vhp", [number], leaves, [None], create_graph=True, strict=strict)
        found = _gradients(
            "vhp", slope, leaves, list(weights), create_graph=create_graph, strict=strict
        )
    return (
        _given(outputs, alone=True, create_graph=create_graph),
        _given(found, alone=one, create_graph=create_graph),
    )


def hvp(
    func: Callable[..., Any],
    inputs: Tensors,
    v: Tensors | None = None,
    create_graph: bool = False,
    strict: bool = False,
) -> tuple[Any, Any]:
    """As :func:`vhp`: a Hessian is symmetric."""
    return vhp(func, inputs, v, create_graph, strict)
