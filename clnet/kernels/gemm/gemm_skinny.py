"""Matrix products with very few rows, on devices where one work-item per group is fastest."""

from __future__ import annotations

from ...array import Array
from ...device import Launch, Target
from ...values.record import NamedTuple
from ...values.shapes import ceil_div, round_up
from ..epilogue import Activation
from ..kernel import Constraint, Kernel
from .gemm_any import sum_slices
from .gemm_problem import Problem


class SkinnyParams(NamedTuple):
    """Parameters of ``gemm_skinny_n`` and ``gemm_skinny_k``; see their template."""

    ctype: str
    width: int
    rows: int
    at_once: int
    bias: str | None
    activation: str | Activation | None


_LAWS = (Constraint("width >= 2 and width & (width - 1) == 0", "lanes are added up in pairs"),)
ALONG_N = Kernel("gemm_skinny_n", "gemm/gemm_skinny.mako", constraints=_LAWS)
ALONG_K = Kernel("gemm_skinny_k", "gemm/gemm_skinny.mako", constraints=_LAWS)

MOST_ROWS = 4
# More rows, along k alone, as long as they stay in the first cache and their sums are long: lanes
# are added up for each. Sums sooner, if rows are columns turned around, whose vectors along n would
# be half empty.
MOST_ROWS_ALONG_K, MOST_ROW_BYTES = 16, 40 * 2**10
LEAST_K, LEAST_K_TURNED = 512, 64
# Rows of the kernel -> vectors, or columns, at a time. Sixteen sums keep the arithmetic busy; of
# one row alone, sixteen vectors make a stretch of b long enough for the processor to fetch ahead.
ALONG_N_COUNT = {1: 16, 2: 8, 4: 4}
ALONG_K_COUNT = {1: 8, 2: 8, 4: 4, 6: 4, 8: 3, 10: 2, 12: 2, 16: 1}
LEAST_WIDTH_BYTES = 16
MOST_WIDTH_BYTES = 64
GROUPS_PER_UNIT = 4
SLICE_K = 256


def skinny(target: Target, problem: Problem) -> list[Launch] | None:
    """The launches of a product of few rows, if its strides suit.

    Args:
        target: what the device is like.
        problem: the product, of float32 or float64, no axis of it empty.

    Returns:
        Its launches, in order, or None if another kernel has to do it.
    """
    if problem.m > MOST_ROWS_ALONG_K:
        return None
    along_k = problem.b.strides[2] == 1 and problem.a.strides[3] == 1
    along_n = problem.b.strides[3] == 1 and problem.out.strides[3] == 1
    item_bytes = problem.out.dtype.itemsize
    if problem.m > MOST_ROWS:
        along_k &= problem.m * problem.k * item_bytes <= MOST_ROW_BYTES
        turned = problem.out.strides[3] != 1
        along_k &= problem.k >= (LEAST_K_TURNED if turned else LEAST_K)
        along_n = False
    if not (along_k or along_n):
        return None
    rows = next(r for r in ALONG_K_COUNT if r >= problem.m)
    nbytes = min(max(4 * target.traits.simd_width, LEAST_WIDTH_BYTES), MOST_WIDTH_BYTES)
    width = nbytes // item_bytes
    kernel, counts = (ALONG_K, ALONG_K_COUNT) if along_k else (ALONG_N, ALONG_N_COUNT)
    ctype, made = problem.out.dtype.ctype, problem.epilogue
    params = SkinnyParams(ctype, width, rows, counts[rows], made.axis, made.activation)
    step = params.at_once * (1 if along_k else width)
    wanted = GROUPS_PER_UNIT * target.traits.compute_units
    columns = round_up(ceil_div(problem.n * problem.batch, wanted), step)
    groups = ceil_div(problem.n, columns) * problem.batch
    slice_k = round_up(
        ceil_div(problem.k, max(1, min(wanted // groups, problem.k // SLICE_K))), width
    )
    slices = ceil_div(problem.k, slice_k)
    memory = problem.memory()
    nbytes = slices * problem.out.size * item_bytes
    if slices == 1 or memory.nbytes + nbytes > target.workspace_limit:
        return [_multiply(kernel, params, problem, columns, problem.out, 1, problem.k)]
    partial = Array.scratch(memory, (slices, *problem.out.shape), problem.out.dtype)
    bare = params._replace(bias=None, activation=None)
    first = _multiply(kernel, bare, problem.partial(partial), columns, partial, slices, slice_k)
    return [first, sum_slices(target.traits, problem, partial)]


def _multiply(
    kernel: Kernel,
    params: SkinnyParams,
    problem: Problem,
    columns: int,
    partial: Array,
    slices: int,
    slice_k: int,
) -> Launch:
    sizes = problem.sizes(slices, slice_k, columns)
    return kernel.launch(
        params,
        problem.packed_args(sizes, partial.strides[0], bias=problem.epilogue.bias),
        global_size=(ceil_div(problem.n, columns), slices * problem.batch),
        flops=problem.flops,
        bytes=problem.bytes,
    )
