"""``clnet.special``: functions of mathematics by the names that PyTorch has there."""

from __future__ import annotations

from math import sqrt
from typing import Any

from . import ops
from .ops.machinery.function import PUBLIC_OPS, Face
from .tensor import Tensor
from .values.arguments import checked

_NAMES = """
    digamma=digamma psi=digamma gammaln=lgamma polygamma=polygamma multigammaln=mvlgamma erf=erf
    erfc=erfc erfinv=erfinv exp2=exp2 expit=sigmoid expm1=expm1 log1p=log1p logit=logit round=round
    gammainc=igamma gammaincc=igammac i0=i0
    log_softmax=log_softmax logsumexp=logsumexp sinc=sinc softmax=softmax xlogy=xlogy
"""
for _pair in _NAMES.split():
    _name, _, _op = _pair.partition("=")
    if _op in PUBLIC_OPS:
        globals()[_name] = PUBLIC_OPS[_op][0]
globals().update(
    {n.removeprefix("special."): f for n, (f, face) in PUBLIC_OPS.items() if Face.SPECIAL in face}
)


@checked
def entr(input: Tensor) -> Tensor:  # noqa: A002 - PyTorch's
    """``-x log(x)``; 0 at 0, minus infinity below."""
    return ops.where(input < 0, -float("inf"), -ops.xlogy(input, input))


@checked
def ndtr(input: Tensor) -> Tensor:  # noqa: A002 - PyTorch's
    """The area below the normal density up to ``x``."""
    return 0.5 * ops.erfc(-input / sqrt(2))


@checked
def ndtri(input: Tensor) -> Tensor:  # noqa: A002 - PyTorch's
    """The inverse of :func:`ndtr`."""
    return sqrt(2) * ops.erfinv(2 * input - 1)


@checked
def xlog1py(input: Any, other: Any) -> Tensor:  # noqa: A002 - PyTorch's
    """``x log(1 + y)``; 0 where ``x`` is 0, unless ``y`` is NaN."""
    return (
        ops.xlogy(input, other + 1) if not isinstance(other, Tensor) else _times_log1p(input, other)
    )


def _times_log1p(x: Any, y: Tensor) -> Tensor:
    zero: Any = ops.eq(x, 0) if isinstance(x, Tensor) else ops.full_like(y, float(x == 0)).bool()
    grown: Any = y
    product = x * grown.log1p()
    known: Any = ops.logical_not(ops.isnan(y))
    return ops.where(ops.logical_and(zero, known), 0.0, product)
