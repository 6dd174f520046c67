"""A call at its points, forward and gradients of first and second order, in PyTorch or in clnet."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tests.points.numbers import COTANGENTS, grid, named

NAMES = "abc"
EPS = {"float64": 2.0**-52, "float32": 2.0**-23, "float16": 2.0**-10, "bfloat16": 2.0**-7}
DEFAULTS = {1: ("all",), 2: ("pair",) * 2, 3: ("triple",) * 3}


@dataclass(frozen=True)
class Point:
    """A call of an op, as text that means the same in PyTorch and in clnet.

    Attributes:
        op: the public op.
        text: Python; ``m`` is the package, ``F`` its ``nn.functional``, ``a``, ``b``, ``c`` the
            operands.
        operands: for each, the name of its points.
        fixed: how many operands at the end take no gradient.
        kinks: further points of the first operand, from the settings.
        orders: how often it is differentiated.
        sixteen_bit: whether PyTorch has it of 16-bit floats.
    """

    op: str
    text: str
    operands: tuple[str, ...]
    fixed: int = 0
    kinks: tuple[float, ...] = ()
    orders: int = 2
    sixteen_bit: bool = True

    def __str__(self) -> str:
        return self.text

    def inputs(self, dtype: str) -> tuple[list[np.ndarray], np.ndarray]:
        """The operands' values and the cotangents."""
        lists = [named(name, dtype) for name in self.operands]
        lists[0] = (*lists[0], *self.kinks)
        cotangents = COTANGENTS if len(lists) == 1 else COTANGENTS[:1]
        return grid(lists, dtype, cotangents)


def run(package: Any, point: Point, dtype: str, *, compiled: bool = False) -> dict[str, np.ndarray]:
    """What a call gives at its points.

    Args:
        package: ``torch`` or ``clnet``.
        point: the call.
        dtype: of the operands; 16-bit floats are not differentiated.
        compiled: whether clnet compiles it, forward and backward together.

    Returns:
        ``y`` is the result, ``da`` its gradient to ``a``, ``dab`` that one's to ``b``; what does
        not depend on an operand is 0.
    """
    hosts, cotangent = point.inputs(dtype)
    orders = point.orders if dtype in ("float32", "float64") else 0
    count = len(hosts) - point.fixed

    keys = list[str]()

    def all_of_it(*given: Any) -> tuple[Any, ...]:
        found = _derivatives(package, point.text, given, count, orders)
        keys[:] = found  # as it is traced: calling it once more for them would build eager kernels
        return tuple(found.values())

    make = _from_numpy(package)
    given = [make(host) for host in (*hosts, cotangent)]
    if not compiled:
        found = _derivatives(package, point.text, given, count, orders)
        return {name: _numpy(package, value) for name, value in found.items()}
    values = package.compile(all_of_it)(*given)
    return {n: _numpy(package, v) for n, v in zip(keys, values, strict=True)}


def _derivatives(package: Any, text: str, given: Any, count: int, orders: int) -> dict[str, Any]:
    leaves = [x.detach().requires_grad_(orders > 0 and i < count) for i, x in enumerate(given[:-1])]
    wanted, cotangent = leaves[:count], given[-1]
    names = dict(zip(NAMES, leaves, strict=False))
    y = eval(text, {"m": package, "F": package.nn.functional, **names})
    found = {"y": y.detach()}
    if not orders or not y.requires_grad:
        return found
    if y.shape != cotangent.shape:
        cotangent = package.ones_like(y.detach())
    cotangent = cotangent.to(y.dtype)
    first = _grad(package, y, wanted, cotangent, more=False)
    for i, slope in enumerate(first):
        found[f"d{NAMES[i]}"] = _detached(package, slope, wanted[i])
    again = _grad(package, y, wanted, cotangent, more=True) if orders > 1 else ()
    for i, slope in enumerate(again):
        second = [None] * count
        if slope is not None and slope.requires_grad:
            second = _grad(package, slope, wanted, package.ones_like(slope.detach()), more=False)
        for j, bend in enumerate(second):
            found[f"d{NAMES[i]}{NAMES[j]}"] = _detached(package, bend, wanted[j])
    return found


def _grad(package: Any, y: Any, wanted: Any, weights: Any, *, more: bool) -> Any:
    return package.autograd.grad(
        y, wanted, weights, retain_graph=True, create_graph=more, allow_unused=True
    )


def _detached(package: Any, value: Any, like: Any) -> Any:
    return package.zeros_like(like.detach()) if value is None else value.detach()


def _from_numpy(package: Any) -> Any:
    if package.__name__ == "clnet":
        return package.tensor

    def make(host: np.ndarray) -> Any:
        if host.dtype.name == "bfloat16":
            return package.from_numpy(host.astype(np.float32)).bfloat16()
        return package.from_numpy(host)

    return make


def _numpy(package: Any, value: Any) -> np.ndarray:
    if package.__name__ != "clnet":
        value = value.clone()  # PyTorch's zeros may have no memory
        value = value.float() if value.dtype is package.bfloat16 else value
    host = np.array(value.numpy())
    return host.astype(np.float32) if host.dtype.name == "bfloat16" else host


def spread(values: np.ndarray, size: int) -> np.ndarray:
    """Values of the points for the numbers of a result, which has one or more for each point."""
    return np.resize(np.repeat(values, max(size // max(len(values), 1), 1)), size)


def differs(
    name: str, actual: np.ndarray, expected: np.ndarray, dtype: str, hosts: list[np.ndarray]
) -> np.ndarray:
    """Where two results differ: in NaN, infinity, or by more than their rounding.

    A result's zeros differ by their signs, too; a gradient's do not. Second derivatives are
    compared at finite operands.
    """
    if expected.dtype.kind != "f":
        return np.asarray(actual != expected)
    eps = EPS[dtype]
    order = len(name) - 1 if name != "y" else 0
    a, b = actual.astype(np.float64), expected.astype(np.float64)
    with np.errstate(all="ignore"):
        near = eps * (64 * np.abs(b) + 8 * 4**order)
        same = (np.isnan(a) & np.isnan(b)) | (a == b)
        same |= np.isfinite(b) & (np.abs(a - b) <= near)
    if order == 0:
        return ~same | ((a == 0) & (b == 0) & (np.signbit(a) != np.signbit(b)))
    if order == 2:
        for host in hosts:
            same |= spread(~np.isfinite(host.astype(np.float64)), same.size)
    return ~same
