"""What values a parameter may have, or a sample: ``check`` gives a bool for each of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .. import ops
from ..inspection import finfo
from ..ops.spectral import eigvalsh
from ..tensor import Tensor
from ..values.dtypes import bool_

__all__ = [
    "Constraint",
    "boolean",
    "corr_cholesky",
    "dependent",
    "greater_than",
    "greater_than_eq",
    "half_open_interval",
    "independent",
    "integer_interval",
    "interval",
    "less_than",
    "lower_cholesky",
    "lower_triangular",
    "multinomial",
    "nonnegative",
    "nonnegative_integer",
    "one_hot",
    "positive",
    "positive_definite",
    "positive_integer",
    "positive_semidefinite",
    "real",
    "real_vector",
    "simplex",
    "square",
    "symmetric",
    "unit_interval",
]


class Constraint:
    """A set of values.

    Args:
        name: for errors; None: of a subclass of a program, its class's.
        test: whether values belong to it, of their batch's shape; None: a subclass has a
            :meth:`check`, and says what else is not the default.
        is_discrete: whether they are whole numbers.
        event_dim: axes of one value.
        **bounds: shown, and attributes.
    """

    is_discrete: bool = False
    event_dim: int = 0
    base_constraint: Constraint | None = None

    def __init__(
        self,
        name: str | None = None,
        test: Callable[[Tensor], Tensor] | None = None,
        *,
        is_discrete: bool = False,
        event_dim: int = 0,
        **bounds: Any,
    ) -> None:
        self.name = type(self).__name__.removeprefix("_") if name is None else name
        self._test = test
        if test is not None:
            self.is_discrete = is_discrete
            self.event_dim = event_dim
        self.bounds = bounds
        self.__dict__.update(bounds)

    def check(self, value: Tensor) -> Tensor:
        """Whether values belong to it."""
        if self._test is None:
            raise NotImplementedError(f"{self.name}.check")
        return self._test(value)

    def __repr__(self) -> str:
        shown = ", ".join(f"{k}={v}" for k, v in self.bounds.items())
        if (base := self.base_constraint) is not None:
            shown = f"{base!r}, {self.event_dim - base.event_dim}"
        return f"{self.name}({shown})"


def _simplex(value: Tensor) -> Tensor:
    return (value >= 0).all(-1) & ((value.sum(-1) - 1).abs() < 1e-6)


def _one_hot(value: Tensor) -> Tensor:
    return (ops.eq(value, 0) | ops.eq(value, 1)).all(-1) & ops.eq(value.sum(-1), 1)


def _square(value: Tensor) -> Tensor:
    fits = value.shape[-2] == value.shape[-1]
    return value.new_full(value.shape[:-2], fits, dtype=bool_)


def _symmetric(value: Tensor) -> Tensor:
    if value.shape[-2] != value.shape[-1]:
        return _square(value)
    return ops.isclose(value, value.mT, atol=1e-6).all(-1).all(-1)


def _lower_triangular(value: Tensor) -> Tensor:
    return ops.eq(value.tril(), value).all(-1).all(-1)


def _positive_semidefinite(value: Tensor) -> Tensor:
    symmetric = _symmetric(value)
    return symmetric & (eigvalsh(value) >= 0).all(-1) if symmetric.all() else symmetric


def _corr_cholesky(value: Tensor) -> Tensor:
    tolerance = finfo(value.dtype).eps * value.shape[-1] * 10
    lengths = value.detach().square().sum(-1).sqrt()
    return _lower_cholesky(value) & ((lengths - 1).abs() <= tolerance).all(-1)


def _lower_cholesky(value: Tensor) -> Tensor:
    lower = ops.eq(value.tril(), value).all(-1).all(-1)
    return lower & (value.diagonal(dim1=-2, dim2=-1) > 0).all(-1)


def _positive_definite(value: Tensor) -> Tensor:
    symmetric = ((value - value.mT).abs() <= 1e-6).all(-1).all(-1)
    # Sylvester: all leading minors are positive.
    minors = [value[..., :k, :k].det() > 0 for k in range(1, value.shape[-1] + 1)]
    for minor in minors:
        symmetric = symmetric & minor
    return symmetric


def interval(lower_bound: Any, upper_bound: Any) -> Constraint:
    """Numbers between two, both among them."""
    return Constraint(
        "Interval",
        lambda x: (x >= lower_bound) & (x <= upper_bound),
        lower_bound=lower_bound,
        upper_bound=upper_bound,
    )


def half_open_interval(lower_bound: Any, upper_bound: Any) -> Constraint:
    """Numbers between two, the lower among them."""
    return Constraint(
        "HalfOpenInterval",
        lambda x: (x >= lower_bound) & (x < upper_bound),
        lower_bound=lower_bound,
        upper_bound=upper_bound,
    )


def integer_interval(lower_bound: Any, upper_bound: Any) -> Constraint:
    """Whole numbers between two, both among them."""
    return Constraint(
        "IntegerInterval",
        lambda x: ops.eq(x % 1, 0) & (x >= lower_bound) & (x <= upper_bound),
        is_discrete=True,
        lower_bound=lower_bound,
        upper_bound=upper_bound,
    )


def greater_than(lower_bound: Any) -> Constraint:
    """Numbers above another."""
    return Constraint("GreaterThan", lambda x: x > lower_bound, lower_bound=lower_bound)


def greater_than_eq(lower_bound: Any) -> Constraint:
    """Numbers not below another."""
    return Constraint("GreaterThanEq", lambda x: x >= lower_bound, lower_bound=lower_bound)


def less_than(upper_bound: Any) -> Constraint:
    """Numbers below another."""
    return Constraint("LessThan", lambda x: x < upper_bound, upper_bound=upper_bound)


def multinomial(upper_bound: int) -> Constraint:
    """Counts that sum to a number."""
    return Constraint(
        "Multinomial",
        lambda x: (x >= 0).all(-1) & (x.sum(-1) <= upper_bound),
        is_discrete=True,
        event_dim=1,
        upper_bound=upper_bound,
    )


def independent(base: Constraint, axes: int) -> Constraint:
    """Another constraint, of values with more axes."""

    def test(x: Tensor) -> Tensor:
        found = base.check(x)
        for _ in range(axes):
            found = found.all(-1)
        return found

    found = Constraint(
        "IndependentConstraint",
        test,
        is_discrete=base.is_discrete,
        event_dim=base.event_dim + axes,
    )
    found.base_constraint = base
    return found


real = Constraint("Real", lambda x: ops.eq(x, x))
real_vector = independent(real, 1)
positive = greater_than(0.0)
nonnegative = greater_than_eq(0.0)
unit_interval = interval(0.0, 1.0)
boolean = Constraint("Boolean", lambda x: ops.eq(x, 0) | ops.eq(x, 1), is_discrete=True)
nonnegative_integer = Constraint(
    "IntegerGreaterThan", lambda x: ops.eq(x % 1, 0) & (x >= 0), is_discrete=True, lower_bound=0
)
positive_integer = Constraint(
    "IntegerGreaterThan", lambda x: ops.eq(x % 1, 0) & (x >= 1), is_discrete=True, lower_bound=1
)
simplex = Constraint("Simplex", _simplex, event_dim=1)
one_hot = Constraint("OneHot", _one_hot, is_discrete=True, event_dim=1)
square = Constraint("Square", _square, event_dim=2)
symmetric = Constraint("Symmetric", _symmetric, event_dim=2)
lower_triangular = Constraint("LowerTriangular", _lower_triangular, event_dim=2)
positive_semidefinite = Constraint("PositiveSemidefinite", _positive_semidefinite, event_dim=2)
corr_cholesky = Constraint("CorrCholesky", _corr_cholesky, event_dim=2)
lower_cholesky = Constraint("LowerCholesky", _lower_cholesky, event_dim=2)
positive_definite = Constraint("PositiveDefinite", _positive_definite, event_dim=2)
dependent = Constraint("Dependent", lambda x: ops.eq(x, x))
