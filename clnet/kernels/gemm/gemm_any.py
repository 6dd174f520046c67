"""Matrix products of any element type, element by element, and the last step of sliced sums."""

from __future__ import annotations

from ...array import Array
from ...device import DeviceTraits, HostScalar, Launch
from ...values.dtypes import DType
from ...values.shapes import ceil_div, round_up
from ..grid import flat_type
from ..kernel import Kernel, Named, by_name, joined
from .gemm_problem import Problem

ANY = Kernel("gemm_any", "gemm/gemm_any.mako")
SLICES = Kernel("gemm_slices", "gemm/gemm_any.mako")
SLICES_DENSE = Kernel("gemm_slices_dense", "gemm/gemm_any.mako")
GROUP = 64
DENSE_GROUP = 16
SCALAR_GROUP = 128
MOST_VECTOR_BYTES = 64


def any_type(problem: Problem) -> list[Launch]:
    """The launch of a product of any element type, also of an empty sum."""
    total = problem.batch * problem.m * problem.n
    launch = ANY.launch(
        joined(_params(problem), by_name("flat", flat_type(total))),
        joined(
            by_name("total m n k", total, problem.m, problem.n, problem.k),
            by_name("out a b", problem.out, problem.a, problem.b),
            problem.bias_args(),
            by_name("alpha", _factor(problem.alpha, problem.out.dtype)),
            by_name("beta", _factor(problem.beta, problem.out.dtype)),
            problem.matrix_strides(),
            problem.batch_strides(),
        ),
        global_size=(round_up(total, GROUP),),
        local_size=(GROUP,),
        flops=problem.flops,
        bytes=problem.bytes,
    )
    return [launch]


def sum_slices(traits: DeviceTraits, problem: Problem, partial: Array) -> Launch:
    """The launch that adds the slices of a product's sums and finishes it.

    Args:
        traits: the device's numbers.
        problem: the product.
        partial: ``(slices, outer, inner, m, n)``, dense.

    Returns:
        The launch.
    """
    width = _dense_width(traits, problem)
    if width:
        return _sum_dense(traits, width, problem, partial)
    total = problem.batch * problem.m * problem.n
    return SLICES.launch(
        _params(problem),
        joined(
            by_name("total m n", total, problem.m, problem.n),
            by_name("slices out partial", partial.shape[0], problem.out, partial),
            problem.bias_args(),
            problem.factors(),
            by_name("out_m out_n", *problem.out.strides[2:]),
            by_name("inner out_outer out_inner", problem.out.shape[1], *problem.out.strides[:2]),
        ),
        global_size=(round_up(total, GROUP),),
        local_size=(GROUP,),
        flops=partial.size,
        bytes=partial.nbytes + problem.out.nbytes,
    )


def _dense_width(traits: DeviceTraits, problem: Problem) -> int:
    """Elements that an item of ``gemm_slices_dense`` adds; 0 where that kernel does not serve."""
    item = problem.out.dtype.itemsize
    width = max(min(4 * traits.simd_width, MOST_VECTOR_BYTES) // item, 1)
    if not problem.out.contiguous:
        return 0
    bias = problem.epilogue.bias
    if bias is None:
        return width
    whole = problem.n % width == 0  # no vector goes over the end of a row
    if whole and (problem.epilogue.bias_axis == "m" or bias.strides[0] == 1):
        return width
    # The other kernel stores results as they are.
    return 0 if problem.epilogue.finish is None else 1


def _sum_dense(traits: DeviceTraits, width: int, problem: Problem, partial: Array) -> Launch:
    dtype = problem.out.dtype
    group = SCALAR_GROUP if traits.simd_width == 1 else DENSE_GROUP
    group = min(group, traits.max_group_size)
    params = joined(
        by_name("ctype width group", dtype.ctype, width, group),
        problem.epilogue.product_params,
        by_name("finish", problem.finish_params(width)),
    )
    total = problem.out.size
    finish = problem.epilogue.finish
    sizes = {} if problem.epilogue.bias is None else {"m": problem.m, "n": problem.n}
    return SLICES_DENSE.launch(
        params,
        joined(
            by_name("total slices out partial", total, partial.shape[0], problem.out, partial),
            sizes,
            problem.bias_args(),
            problem.finish_args(),
            problem.factors(),
        ),
        global_size=(round_up(ceil_div(total, width), group),),
        local_size=(group,),
        flops=partial.size + (finish.flops if finish else 0),
        bytes=partial.nbytes + problem.out.nbytes + (finish.bytes if finish else 0),
    )


def _params(problem: Problem) -> Named:
    dtype = problem.out.dtype
    return joined(
        by_name("ctype sum_type group", dtype.ctype, _sum_type(dtype), GROUP),
        problem.epilogue.product_params,
    )


def _factor(value: float | HostScalar, dtype: DType) -> float | HostScalar:
    """A factor in the type of the sums."""
    return value if dtype.is_floating_point or isinstance(value, HostScalar) else int(value)


def _sum_type(dtype: DType) -> str:
    """Integers wrap around as they are stored, whatever the sums were in; long holds every one."""
    return dtype.ctype if dtype.is_floating_point else "long"
