"""Products with random operands, on which ways to compute them are compared."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...array import Array
from ...device import Device, Launch, Target
from .gemm_problem import Problem, Product

# Copies of the operands take so many bytes together: more than most caches hold.
ROTATED_BYTES = 64 * 2**20
MOST_TURNS = 8
_ERROR = 1e-6


class ProductTrial:
    """A product, its operands in device memory and what float64 says it is.

    Args:
        where: the device.
        product: what is computed.
        lower: the launches of a problem with a choice.

    Attributes:
        turns: copies of the operands.
    """

    def __init__(
        self,
        where: Device,
        product: Product,
        lower: Callable[[Target, Problem, Any], list[Launch]],
    ) -> None:
        self._where, self._lower = where, lower
        outer = product.items
        inner = product.batch // outer
        m, n, k = product.m, product.n, product.k
        rng = np.random.default_rng(0)
        a = rng.standard_normal((outer, inner, m, k)).astype(product.dtype)
        b = rng.standard_normal((outer, 1, k, n)).astype(product.dtype)
        self._expected = a.astype(np.float64) @ b.astype(np.float64)
        self._bound = _ERROR * max(1.0, k**0.5 / 4) * float(np.abs(self._expected).max())
        nbytes = a.nbytes + b.nbytes + self._expected.size * a.itemsize
        self.turns = max(1, min(MOST_TURNS, -(-ROTATED_BYTES // nbytes)))
        self._problems: list[Problem] = []
        for _ in range(self.turns):
            b_ = _upload(b, product.layout[1], where)
            steps = (b_.strides[0], 0, *b_.strides[2:])
            out = np.full(self._expected.shape, np.nan, product.dtype)
            arrays = (
                Array.from_numpy(out, where),
                _upload(a, product.layout[0], where),
                b_.view((outer, inner, k, n), steps),
            )
            self._problems.append(Problem(*arrays))

    def launches(self, choice: Any, turn: int) -> list[Launch]:
        """What computes one of the copies."""
        return self._lower(self._where.target, self._problems[turn], choice)

    def poison(self) -> None:
        """Overwrite the first copy's result with NaN."""
        out = self._problems[0].out
        out.write(np.full(out.shape, np.nan, out.dtype.numpy))

    def fault(self) -> str | None:
        """How far the first copy's result is from float64, if rounding does not explain it."""
        got = self._problems[0].out.numpy().reshape(self._expected.shape)
        error = float(np.abs(got - self._expected).max())
        if error <= self._bound:
            return None
        return f"wrong results: {error:.2g} from float64, where rounding explains {self._bound:.2g}"


def _upload(values: np.ndarray, layout: str, where: Device) -> Array:
    """The values in device memory: rows dense, columns dense, or neither."""
    if layout == "N":
        return Array.from_numpy(values, where)
    step = 1 if layout == "T" else 2
    spread = np.zeros((*values.shape[:-2], *values.shape[:-3:-1], step), values.dtype)
    spread[..., 0] = values.swapaxes(-1, -2)
    dense = Array.from_numpy(spread, where)
    outer, inner, column, row, _ = dense.strides
    return dense.view(values.shape, (outer, inner, row, column))
