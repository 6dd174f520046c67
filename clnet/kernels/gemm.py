"""Matrix products: which kernel multiplies what, and the one function the rest of clnet calls."""

from __future__ import annotations

from ..array import Array
from ..device import HostScalar, Launch, Target
from ..dtypes import float32, float64
from .gemm_any import any_type
from .gemm_packed import packed
from .gemm_problem import Problem, problems
from .gemm_skinny import MOST_ROWS, skinny
from .gemm_tiled import tiled


def gemm(
    target: Target,
    out: Array,
    a: Array,
    b: Array,
    *,
    alpha: float | HostScalar = 1.0,
    beta: float | HostScalar = 0.0,
    bias: Array | None = None,
    bias_axis: int = -1,
    activation: str | None = None,
) -> list[Launch]:
    """``out = activation(alpha * a @ b + beta * out + bias)``, for every item of the batch.

    Args:
        target: what the device is like.
        out: ``(..., m, n)``; read only where ``beta`` is not 0.
        a: ``(..., m, k)``, same dtype.
        b: ``(..., k, n)``, same dtype. All batch axes are equal (a stride of 0 repeats an item);
            any strides, so a transposed operand is a view.
        alpha: factor of the product.
        beta: factor of what ``out`` holds.
        bias: ``(n,)``, or ``(m,)`` with ``bias_axis=-2``, or None.
        bias_axis: the axis of ``out`` that ``bias`` lies along.
        activation: None or ``"relu"``.

    Returns:
        The launches, in order; none if ``out`` is empty.
    """
    if out.size == 0:
        return []
    axis = None if bias is None else ("n" if bias_axis == -1 else "m")
    parts = problems(
        out, a, b, alpha=alpha, beta=beta, bias=bias, bias_axis=axis, activation=activation
    )
    return [launch for part in parts for launch in _launches(target, part)]


def _launches(target: Target, problem: Problem) -> list[Launch]:
    if problem.k == 0 or problem.out.dtype not in (float32, float64):
        return any_type(problem)
    if target.traits.dedicated_local_memory:
        return tiled(target, problem)
    if problem.n < problem.m and problem.n <= MOST_ROWS:
        problem = problem.transposed()
    return skinny(target, problem) or packed(target, problem)
