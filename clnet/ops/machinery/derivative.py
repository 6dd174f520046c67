"""Gradients of pointwise expressions, as expressions; they launch nothing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from ...expr import Const, Expr, Input, as_number, inputs_of, substitute, vjp


@dataclass(frozen=True)
class Gradients:
    """Gradient expressions over the saved inputs, the saved outputs and the output gradients."""

    positions: tuple[int, ...]
    exprs: tuple[Expr, ...]
    saved_inputs: tuple[int, ...]
    saved_outputs: tuple[int, ...]


@lru_cache(maxsize=4096)
def gradients_of(
    exprs: tuple[Expr, ...],
    gradient: Callable[..., Any] | None,
    needs: tuple[bool, ...],
    arrived: tuple[bool, ...],
) -> Gradients:
    """The gradients that are wanted, over what has to be saved for them.

    Symbols are operands, results and arriving gradients, numbered in this order: of ``y = a * b``
    ``a`` is 0, ``b`` 1, ``y`` 2 and its gradient 3. The gradients are ``3 * 1`` and ``3 * 0``, so
    that both operands are saved, ``y`` is not, and its gradient gets number 2.
    """
    count = len(needs)
    inputs = {i.index: i for i in inputs_of(*exprs)}
    operands = [inputs.get(i, Input(i)) for i in range(count)]
    results = [Input(count + k) for k in range(len(exprs))]
    grads = [Input(count + len(exprs) + k) for k in range(len(exprs))]
    positions = tuple(i for i, x in enumerate(operands) if needs[i] and not x.boolean)
    cotangents = [g if here else Const(0) for g, here in zip(grads, arrived, strict=True)]
    if gradient is None:
        derived = vjp(exprs, cotangents, wrt=[operands[i] for i in positions])
    else:
        found = gradient(cotangents[0], results[0])
        each = found if isinstance(found, tuple) else (found,)
        derived = tuple(as_number(each[i if len(each) > 1 else 0]) for i in positions)
    used = {i.index for i in inputs_of(*derived)}
    saved_inputs = tuple(i for i, x in enumerate(operands) if x.index in used)
    saved_outputs = tuple(k for k, y in enumerate(results) if y.index in used)
    read = [operands[i] for i in saved_inputs] + [results[k] for k in saved_outputs]
    read += [g for g, here in zip(grads, arrived, strict=True) if here]
    renumbered: dict[Expr, Expr] = {old: Input(new, old.boolean) for new, old in enumerate(read)}
    return Gradients(
        positions, tuple(substitute(e, renumbered) for e in derived), saved_inputs, saved_outputs
    )
