"""Rules by which parameters are updated, changed: of the other sign, decayed, withheld."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from functools import cache
from typing import Any

from .. import expr as e
from ..device import HostScalar
from ..ops.machinery.update import Body
from .parameter_state import Cells


@cache
def scalar_names(body: Body, operands: int) -> tuple[str, ...]:
    """The names of the scalars of an update: of its parameters behind those of its operands."""
    return tuple(inspect.signature(body).parameters)[operands:]


def scalars_of(body: Body, operands: int, cells: Cells) -> list[HostScalar]:
    """The cells that an update of so many operands reads, in its parameters' order."""
    return [cells[name] for name in scalar_names(body, operands)]


def decays(group: Mapping[str, Any]) -> dict[str, float]:
    """``decay``, by which the parameter is added to the gradient, and ``kept``, what remains of it.

    One of both does the work of ``weight_decay``, as ``decoupled_weight_decay`` says.
    """
    if group["decoupled_weight_decay"]:
        return {"decay": 0.0, "kept": 1 - group["lr"] * group["weight_decay"]}
    return {"decay": group["weight_decay"], "kept": 1.0}


def moments_after(m: Any, v: Any, g: Any, part1: Any, beta2: Any, part2: Any) -> tuple[Any, Any]:
    """The running means of gradients and of their squares, with this step's in them."""
    return m + part1 * (g - m), beta2 * v + part2 * (g * g)


def decayed(gradient: Any, parameter: Any, decay: Any) -> Any:
    """``gradient + decay * parameter``; without decay infinite parameters count for nothing."""
    return e.where(e.eq(decay, 0), gradient, gradient + decay * parameter)


@cache
def maximized(body: Body, position: int) -> Body:
    """An update that gets its gradient, the operand at a position, with the other sign."""

    def negated(*symbols: Any) -> tuple[Any, ...]:
        gradient = symbols[position]
        return body(*symbols[:position], -gradient, *symbols[position + 1 :])

    negated.__name__ = f"{body.__name__}_maximize"
    negated.__signature__ = inspect.signature(body)  # pyrefly: ignore[missing-attribute] - inspect reads it
    return negated


@cache
def withheld(body: Body, operands: int) -> Body:
    """An update that leaves all as it is where a further operand, behind its own, is not 0."""

    def unless_told(*symbols: Any) -> tuple[Any, ...]:
        own, unless, scalars = symbols[:operands], symbols[operands], symbols[operands + 1 :]
        made = body(*own, *scalars)
        return tuple(e.where(unless > 0, x, y) for x, y in zip(own, made, strict=False))

    unless_told.__name__ = body.__name__
    return unless_told


def put_back(x: Any, before: Any, unless: Any) -> tuple[Any, ...]:
    """An update that takes an update back where ``unless`` is not 0."""
    return (e.where(unless > 0, before, x),)
