"""Matrix products of bfloat16 on processors that multiply its pairs, with sums in float32.

Two elements that follow one another along k are one float32 to the kernels that pack panels and
multiply (``gemm_packed``), but for the one instruction. Where they lie so already, nothing is
copied.
"""

from __future__ import annotations

from math import prod

from ...array import Array
from ...device import HostScalar, Launch, Scratch, Target
from ...expr import Input
from ...values.dtypes import DType, bfloat16, float32
from ...values.record import NamedTuple
from ...values.shapes import Shape, ceil_div
from ..epilogue import Epilogue
from ..grid import in_groups
from ..kernel import Kernel, by_name, joined
from ..pointwise import pointwise
from .gemm_packed import packed
from .gemm_problem import problems, turned

PAIR = Kernel("gemm_pair", "gemm/gemm_pair.mako")

# One row alone, or column, reads what it would have to put together once.
LEAST_SIDE, LEAST_K = 2, 4
_BITS = float32
"""How two elements of 16 bits lie in 32."""


class PairParams(NamedTuple):
    """Parameters of ``gemm_pair``; see its template."""

    along: bool
    dense: bool


def pairs_fit(target: Target, dtype: DType, a: Shape, b: Shape) -> bool:
    """Whether a product is large enough for pairs, if the device multiplies them.

    Args:
        target: what the device is like.
        dtype: of the operands.
        a: shape of ``(..., m, k)``.
        b: shape of ``(..., k, n)``.
    """
    if dtype is not bfloat16 or in_groups(target.traits):
        return False
    (m, k), n = a[-2:], b[-1]
    batch = prod(max((a[:-2], b[:-2]), key=prod))
    held = 4 * batch * (m * n + ceil_div(k, 2) * (m + n))  # sums and pairs, and panels of those
    return min(m, n) >= LEAST_SIDE and k >= LEAST_K and 2 * held <= target.workspace_limit


def by_pairs(
    target: Target,
    out: Array,
    a: Array,
    b: Array,
    dot: str,
    *,
    alpha: float | HostScalar,
    beta: float | HostScalar,
    epilogue: Epilogue,
) -> list[Launch]:
    """The launches of a product of bfloat16.

    Args:
        target: what the device is like.
        out: ``(..., m, n)``, bfloat16 or float32.
        a: ``(..., m, k)``; k is not 0.
        b: ``(..., k, n)``.
        dot: a name of ``BFLOAT16_DOTS``.
        alpha: factor of the product.
        beta: factor of what ``out`` holds.
        epilogue: what is made of that, without a finish.
    """
    memory = Scratch.beside(out.storage, a.storage, b.storage)
    direct = out.dtype is float32
    sums = out if direct else Array.scratch(memory, out.shape, float32)
    launches = [] if direct or beta == 0 else _converted(target, sums, out)
    if epilogue.bias is not None:
        bias = Array.scratch(memory, epilogue.bias.shape, float32)
        launches += _converted(target, bias, epilogue.bias)
        epilogue = epilogue._replace(bias=bias)
    for part in problems(sums, a, b, alpha=alpha, beta=beta, epilogue=epilogue):
        left, left_launches = _paired(memory, part.a)
        right, right_launches = _paired(memory, turned(part.b))
        launches += left_launches + right_launches
        problem = part._replace(a=left, b=turned(right))
        launches += packed(target, problem, dot=dot)
    return launches if direct else launches + _converted(target, out, sums)


def _converted(target: Target, y: Array, x: Array) -> list[Launch]:
    return pointwise(target, [y], [x], (Input(0),), compute=float32)


def _paired(memory: Scratch, x: Array) -> tuple[Array, list[Launch]]:
    """Pairs along the last axis of ``(outer, inner, rows, k)``, and the launches that make them."""
    shape = (*x.shape[:3], ceil_div(x.shape[3], 2))
    steps = tuple(s if n > 1 else 0 for n, s in zip(x.shape[:3], x.strides[:3], strict=True))
    if x.strides[3] == 1 and not any(n % 2 for n in (x.shape[3], x.offset, *steps)):
        halves = (*(step // 2 for step in steps), 1)
        return Array(x.storage, shape, halves, x.offset // 2, _BITS), []
    outer, inner = (n if s else 1 for n, s in zip(x.shape[:2], steps[:2], strict=True))
    k, rows, pairs = x.shape[3], shape[2], shape[3]
    along = x.strides[3] == 1 or x.strides[2] != 1
    lines, columns = (rows, pairs) if along else (pairs, rows)
    y = Array.scratch(memory, (outer * inner, lines, columns), _BITS)
    pair, row = 2 * x.strides[3], x.strides[2]
    launch = PAIR.launch(
        PairParams(along, x.strides[3 if along else 2] == 1),
        joined(
            by_name("rows n k y x", lines, columns, k, y, x),
            by_name("x_row x_n", *((row, pair) if along else (pair, row))),
            by_name("x_k inner x_outer x_inner", x.strides[3], inner, *steps[:2]),
        ),
        global_size=(lines, outer * inner),
        flops=0,
        bytes=2 * y.nbytes,
    )
    item = rows * pairs
    batch = (item * inner if steps[0] else 0, item if steps[1] else 0)
    return y.view(shape, (*batch, *((columns, 1) if along else (1, columns)))), [launch]
