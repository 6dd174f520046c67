"""Slices of a product's sums, added and finished."""

from __future__ import annotations

from ...array import Array
from ...device import Launch
from ...values.shapes import ceil_div, round_up
from ..kernel import Kernel, by_name, joined
from .gemm_problem import Problem

SUMMED = Kernel("gemm_summed", "gemm/gemm_summed.mako")
SUM_GROUP = 128
RUN_BYTES = 16


def summed(problem: Problem, sums: Array, *, by_ptx: bool) -> Launch:
    """The launch that adds slices of sums.

    Args:
        problem: the product.
        sums: ``(slices, outer, inner, m, n)``, float32, dense.
        by_ptx: the device's compiler takes PTX.
    """
    out = problem.out
    run = RUN_BYTES // out.dtype.itemsize
    total = problem.batch * problem.m * ceil_div(problem.n, run)
    return SUMMED.launch(
        {
            "ctype": out.dtype.stored,
            "out_dense": stores_runs(out),
            "run": run,
            "bias": problem.epilogue.axis,
            "activation": problem.epilogue.activation,
            "by_ptx": by_ptx,
        },
        joined(
            by_name("m n batch slices", problem.m, problem.n, problem.batch, sums.shape[0]),
            by_name("out partial", out, sums),
            problem.bias_args(),
            problem.factors(),
            by_name("out_m out_n inner", *out.strides[2:], out.shape[1]),
            by_name("out_outer out_inner", *out.strides[:2]),
        ),
        global_size=(round_up(total, SUM_GROUP),),
        local_size=(SUM_GROUP,),
        flops=sums.size,
        bytes=sums.nbytes + out.nbytes,
    )


def stores_runs(out: Array) -> bool:
    """Whether rows of a result are stored in runs of 16 bytes, which cross no edge.

    Args:
        out: ``(outer, inner, m, n)``.
    """
    return out.shape[3] % (RUN_BYTES // out.dtype.itemsize) == 0 and begins_runs(out)


def begins_runs(out: Array) -> bool:
    """Whether rows of a result are dense, and begin at whole runs of 16 bytes.

    Args:
        out: ``(outer, inner, m, n)``.
    """
    run = RUN_BYTES // out.dtype.itemsize
    others = [out.strides[i] for i in range(3) if out.shape[i] > 1]
    aligned = all(step % run == 0 for step in (out.offset, *others))
    return out.strides[3] == 1 and aligned
