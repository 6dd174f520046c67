"""What values a parameter may have, or a sample: ``check`` gives a bool for each of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .. import ops
from ..inspection import finfo
from ..ops.spectral import eigvalsh
from ..tensor import Tensor
from ..values.dtypes import bool_

__all__ = [
    "Constraint",
    "MixtureSameFamilyConstraint",
    "boolean",
    "cat",
    "corr_cholesky",
    "dependent",
    "dependent_property",
    "greater_than",
    "greater_than_eq",
    "half_open_interval",
    "independent",
    "integer_interval",
    "interval",
    "is_dependent",
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
    "stack",
    "symmetric",
    "unit_interval",
]


# So many numbers are sooner looked at by the host, which waits for the answer anyway, than by the
# four or more launches of a check.
_FEW = 4096


class Constraint:
    """A set of values.

    Args:
        name: for errors; None: of a subclass of a program, its class's.
        test: whether values belong to it, of their batch's shape; None: a subclass has a
            :meth:`check`, and says what else is not the default.
        is_discrete: whether they are whole numbers.
        event_dim: axes of one value.
        on_host: whether the test takes arrays of NumPy, too; not where bounds are tensors.
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
        on_host: bool = False,
        **bounds: Any,
    ) -> None:
        self.name = type(self).__name__.removeprefix("_") if name is None else name
        self._test = test
        if test is not None:
            self.is_discrete = is_discrete
            self.event_dim = event_dim
        self._on_host = on_host and not any(isinstance(v, Tensor) for v in bounds.values())
        self.bounds = bounds
        self.__dict__.update(bounds)

    def check(self, value: Tensor) -> Tensor:
        """Whether values belong to it."""
        if self._test is None:
            raise NotImplementedError(f"{self.name}.check")
        return self._test(value)

    @property
    def on_host(self) -> bool:
        """Whether :meth:`check` takes arrays of NumPy, too."""
        return type(self).check is Constraint.check and self._on_host

    def holds(self, value: Tensor) -> bool:
        """Whether all values belong to it; waits for the device."""
        value = value.detach()
        if not self.on_host or value.numel() > _FEW or value.is_complex():
            return bool(self.check(value).all().item())
        with np.errstate(all="ignore"):  # a NaN, or what is infinite, belongs to few of them
            return bool(np.all(self.check(value.array.numpy())))  # pyrefly: ignore[bad-argument-type] - on_host

    def __repr__(self) -> str:
        shown = ", ".join(f"{k}={v}" for k, v in self.bounds.items())
        if (base := self.base_constraint) is not None:
            shown = f"{base!r}, {self.event_dim - base.event_dim}"
        return f"{self.name}({shown})"


class _Dependent(Constraint):
    """One that other parameters decide on: every number belongs to it."""

    def __init__(self, *, is_discrete: bool = False, event_dim: int = 0) -> None:
        kind: dict[str, Any] = {"is_discrete": is_discrete, "event_dim": event_dim}
        super().__init__("Dependent", _same, on_host=True, **kind)

    def __call__(self, *, is_discrete: bool = False, event_dim: int = 0) -> _Dependent:
        """Another of values of a kind."""
        return _Dependent(is_discrete=is_discrete, event_dim=event_dim)


class dependent_property(property, _Dependent):  # noqa: N801 - PyTorch's name
    """A property that gives a constraint; of the class itself, that it depends on others.

    Args:
        fn: gives the constraint of a distribution; None: it is decorated later.
        is_discrete: whether values are whole numbers.
        event_dim: axes of one value.
    """

    def __init__(
        self,
        fn: Callable[[Any], Any] | None = None,
        *,
        is_discrete: bool = False,
        event_dim: int = 0,
    ) -> None:
        property.__init__(self, fn)
        _Dependent.__init__(self, is_discrete=is_discrete, event_dim=event_dim)

    def __call__(self, fn: Any = None, **given: Any) -> Any:
        """The property of a function."""
        kind: dict[str, Any] = {"is_discrete": self.is_discrete, "event_dim": self.event_dim}
        return dependent_property(fn, **{**kind, **given})


def is_dependent(constraint: Any) -> bool:
    """Whether other parameters decide on it."""
    return isinstance(constraint, _Dependent)


def _equal(value: Any, other: Any) -> Any:
    return value == other


def _same(value: Tensor) -> Tensor:
    return _equal(value, value)


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
    if value.shape[-2] != value.shape[-1]:
        return _square(value)
    # Minors would do (Sylvester), but determinants leave the range of floats.
    return _symmetric(value) & ops.eq(ops.cholesky_ex(value).info, 0)


def interval(lower_bound: Any, upper_bound: Any) -> Constraint:
    """Numbers between two, both among them."""
    return Constraint(
        "Interval",
        lambda x: (x >= lower_bound) & (x <= upper_bound),
        on_host=True,
        lower_bound=lower_bound,
        upper_bound=upper_bound,
    )


def half_open_interval(lower_bound: Any, upper_bound: Any) -> Constraint:
    """Numbers between two, the lower among them."""
    return Constraint(
        "HalfOpenInterval",
        lambda x: (x >= lower_bound) & (x < upper_bound),
        on_host=True,
        lower_bound=lower_bound,
        upper_bound=upper_bound,
    )


def integer_interval(lower_bound: Any, upper_bound: Any) -> Constraint:
    """Whole numbers between two, both among them."""
    return Constraint(
        "IntegerInterval",
        lambda x: _equal(x % 1, 0) & (x >= lower_bound) & (x <= upper_bound),
        is_discrete=True,
        on_host=True,
        lower_bound=lower_bound,
        upper_bound=upper_bound,
    )


def greater_than(lower_bound: Any) -> Constraint:
    """Numbers above another."""
    return Constraint(
        "GreaterThan", lambda x: x > lower_bound, on_host=True, lower_bound=lower_bound
    )


def greater_than_eq(lower_bound: Any) -> Constraint:
    """Numbers not below another."""
    return Constraint(
        "GreaterThanEq", lambda x: x >= lower_bound, on_host=True, lower_bound=lower_bound
    )


def less_than(upper_bound: Any) -> Constraint:
    """Numbers below another."""
    return Constraint("LessThan", lambda x: x < upper_bound, on_host=True, upper_bound=upper_bound)


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
        on_host=base.on_host,
    )
    found.base_constraint = base
    return found


def cat(cseq: Sequence[Constraint], dim: int = 0, lengths: Sequence[int] | None = None) -> Any:
    """One constraint for each piece of an axis, of 1 element or of ``lengths``."""
    sizes = [1] * len(cseq) if lengths is None else [*lengths]

    def test(x: Tensor) -> Tensor:
        pieces = ops.split(x, sizes, dim)
        return ops.cat([c.check(v) for c, v in zip(cseq, pieces, strict=True)], dim)

    return _of_several("Cat", test, cseq, dim=dim, lengths=sizes)


def stack(cseq: Sequence[Constraint], dim: int = 0) -> Any:
    """One constraint for each slice along an axis."""

    def test(x: Tensor) -> Tensor:
        slices = ops.unbind(x, dim)
        return ops.stack([c.check(v) for c, v in zip(cseq, slices, strict=True)], dim)

    found = _of_several("Stack", test, cseq, dim=dim)
    found.event_dim += dim + found.event_dim < 0
    return found


def _of_several(
    name: str,
    test: Callable[[Tensor], Tensor],
    cseq: Sequence[Constraint],
    **given: Any,
) -> Constraint:
    axes = max(c.event_dim for c in cseq)
    discrete = any(c.is_discrete for c in cseq)
    found = Constraint(name, test, is_discrete=discrete, event_dim=axes)
    found.__dict__.update(given, cseq=[*cseq])
    return found


def MixtureSameFamilyConstraint(base_constraint: Constraint) -> Constraint:  # noqa: N802 - its name
    """A constraint of what each of a mixture's components takes."""

    def test(x: Tensor) -> Tensor:
        batch = x.ndim - base_constraint.event_dim
        found = base_constraint.check(x.unsqueeze(-1 - base_constraint.event_dim))
        return found.reshape((*found.shape[:batch], -1)).all(-1)

    return Constraint(
        "MixtureSameFamilyConstraint",
        test,
        is_discrete=base_constraint.is_discrete,
        event_dim=base_constraint.event_dim,
    )


real = Constraint("Real", _same, on_host=True)
real_vector = independent(real, 1)
positive = greater_than(0.0)
nonnegative = greater_than_eq(0.0)
unit_interval = interval(0.0, 1.0)
boolean = Constraint(
    "Boolean", lambda x: _equal(x, 0) | _equal(x, 1), is_discrete=True, on_host=True
)
nonnegative_integer = Constraint(
    "IntegerGreaterThan",
    lambda x: _equal(x % 1, 0) & (x >= 0),
    is_discrete=True,
    on_host=True,
    lower_bound=0,
)
positive_integer = Constraint(
    "IntegerGreaterThan",
    lambda x: _equal(x % 1, 0) & (x >= 1),
    is_discrete=True,
    on_host=True,
    lower_bound=1,
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
dependent = _Dependent()
