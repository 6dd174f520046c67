"""Covariances and correlations of variables, each a row of observations."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..errors import DtypeError, ShapeError
from ..kernels.reduce import Bad
from ..values.dtypes import Kind, default_float, promote
from .arithmetic import clamp
from .check import of_value, require_elements
from .complex_parts import conj, real
from .machinery.function import op
from .matmul import matmul
from .rearrange import diag
from .reduce import mean
from .reduce import sum as total
from .shape import reshape, to_dtype, unsqueeze

if TYPE_CHECKING:
    from ..tensor import Tensor


@op()
def cov(
    x: Tensor,
    *,
    correction: int = 1,
    fweights: Tensor | None = None,
    aweights: Tensor | None = None,
) -> Tensor:
    """The covariances of variables, each a row of observations.

    Args:
        x: ``(variables, observations)``, or ``(observations,)``; whole numbers become
            floating ones.
        correction: subtracted from the number of observations.
        fweights: ``(observations,)``, how often each was made: whole numbers.
        aweights: ``(observations,)``, how much each counts: floating.

    Returns:
        ``(variables, variables)``, or of one variable a number.

    Raises:
        ShapeError: if ``x`` has more axes, or weights are not those of its observations.
        DtypeError: if weights are of another kind.
        DataDomainError: if a weight is below 0; told at the next synchronisation.
    """
    if x.ndim > 2:
        raise ShapeError("cov", "x has two axes at most", x=x.shape)
    rows = x if x.ndim == 2 else reshape(x, (1, x.numel()))
    for given in (fweights, aweights):
        if given is not None and given.shape != rows.shape[1:]:
            law = "a weight belongs to each observation"
            raise ShapeError("cov", law, x=x.shape, weights=given.shape)
        if given is not None and given.numel():
            not_below = of_value("cov", "weights", "they are not below 0")
            require_elements(given, not_below, Bad.BELOW, 0)
    if fweights is not None and fweights.dtype.kind is not Kind.INTEGER:
        law = "fweights are whole numbers: how often each was observed"
        raise DtypeError("cov", law, dtype=fweights.dtype)
    if aweights is not None and not aweights.dtype.is_floating_point:
        raise DtypeError("cov", "aweights are floating", dtype=aweights.dtype)
    if aweights is not None:
        rows = to_dtype(rows, promote(rows.dtype, aweights.dtype))
    elif not (x.dtype.is_floating_point or x.dtype.is_complex):
        rows = to_dtype(rows, default_float())
    weights: Any = fweights
    if aweights is not None:
        weights = aweights if fweights is None else fweights * aweights
    if weights is None:
        apart = rows - mean(rows, 1, keepdim=True)
        y = matmul(apart, conj(apart.transpose(0, 1))) / max(rows.shape[1] - correction, 0)
        return y if y.shape[0] != 1 else reshape(y, ())
    weights = weights.to(rows.real.dtype)  # beside complex observations, too
    whole = total(weights)
    lost: Any = correction
    if aweights is not None and correction:
        lost = correction * total(weights * aweights) / whole
    apart = rows - total(rows * weights, 1, keepdim=True) / whole
    y = matmul(apart, conj((apart * weights).transpose(0, 1))) / clamp(real(whole - lost), 0)
    return y if y.shape[0] != 1 else reshape(y, ())


@op()
def corrcoef(x: Tensor) -> Tensor:
    """The correlations of variables, each a row of observations; arguments as :func:`cov`'s."""
    y = cov(x)
    if y.ndim == 0:
        return y / y
    spread = diag(y) ** 0.5
    return y / (unsqueeze(spread, 0) * unsqueeze(spread, 1))
