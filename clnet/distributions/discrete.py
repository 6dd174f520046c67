"""Distributions of two outcomes and of categories, by probabilities or logits."""

# ruff: noqa: FBT001, FBT002 - PyTorch's validate_args and expand

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

from .. import ops
from ..creation import arange
from ..errors import ArgumentError
from ..inspection import finfo
from ..tensor import Tensor
from ..values.dtypes import int64
from ..values.shapes import broadcast_shapes
from . import constraint
from .constraint import Constraint
from .distribution import Distribution, broadcast
from .parameter import Kept


def one_of(name: str, probs: Any, logits: Any) -> None:
    """Refuse both of probabilities and logits, and none.

    Raises:
        ArgumentError: if not one of them is given.
    """
    if (probs is None) == (logits is None):
        raise ArgumentError(name, "it takes one of probs and logits")


def _inside(probs: Tensor) -> Tensor:
    """Probabilities with a logarithm: 0 and 1 by the dtype's least step inside, as PyTorch's."""
    step = finfo(probs.dtype).eps
    return probs.clamp(step, 1 - step)


class Binary(Distribution):
    """Distributions of one probability, given as such or as its logit."""

    arg_constraints: ClassVar[dict[str, Constraint]] = {
        "probs": constraint.unit_interval,
        "logits": constraint.real,
    }

    def __init__(
        self,
        probs: Tensor | float | None = None,
        logits: Tensor | float | None = None,
        validate_args: bool | None = None,
    ) -> None:
        one_of(type(self).__name__, probs, logits)
        if probs is not None:
            (self.probs,) = broadcast(self, probs)
        else:
            (self.logits,) = broadcast(self, logits)
        super().__init__(self._param.shape, validate_args=validate_args)

    probs: Any = Kept(lambda given: given["logits"].sigmoid())
    logits: Any = Kept(lambda given: _inside(given["probs"]).logit())

    @property
    def _param(self) -> Tensor:
        given = self.__dict__.get("probs")
        return self.__dict__["logits"] if given is None else given

    @property
    def param_shape(self) -> Any:
        """Of ``probs``."""
        return self._param.shape


class Bernoulli(Binary):
    """1 with a probability, else 0.

    Args:
        probs: the probability.
        logits: its logit; one of the two.
        validate_args: as for :class:`Distribution`.
    """

    has_enumerate_support = True
    support = constraint.boolean

    @property
    def mean(self) -> Tensor:
        """``p``."""
        return self.probs

    @property
    def mode(self) -> Tensor:
        """1 if that is likelier, NaN if neither is."""
        likelier = (self.probs >= 0.5).to(self.probs.dtype)
        return ops.where(ops.eq(self.probs, 0.5), math.nan, likelier)

    @property
    def variance(self) -> Tensor:
        """``p (1 - p)``."""
        return self.probs * (1 - self.probs)

    def draw(self, sample_shape: Sequence[int]) -> Tensor:
        p = self.probs.expand(tuple(self._extended_shape(sample_shape)))
        return ops.bernoulli(p)

    def log_prob(self, value: Tensor) -> Tensor:
        """Minus the cross entropy."""
        self._validate_sample(value)
        logits, value = ops.broadcast_tensors(self.logits, value.to(self.logits.dtype))
        return -ops.binary_cross_entropy_with_logits(logits, value, reduction="none")

    def entropy(self) -> Tensor:
        """``-p log(p) - (1 - p) log(1 - p)``."""
        p = self.probs
        return ops.binary_cross_entropy_with_logits(self.logits, p, reduction="none")

    def enumerate_support(self, expand: bool = True) -> Tensor:
        """0 and 1."""
        return enumerated(self, 2, self._param, expand=expand)


class Geometric(Binary):
    """Failures before the first success.

    Args:
        probs: of success, above 0.
        logits: its logit; one of the two.
        validate_args: as for :class:`Distribution`.
    """

    support = constraint.nonnegative_integer

    def __init__(
        self,
        probs: Tensor | float | None = None,
        logits: Tensor | float | None = None,
        validate_args: bool | None = None,
    ) -> None:
        super().__init__(probs, logits, validate_args=validate_args)
        if self._checks() and probs is not None:
            self._check("probs", self.probs, constraint.positive)

    @property
    def mean(self) -> Tensor:
        """``1 / p - 1``."""
        return self.probs.reciprocal() - 1

    @property
    def mode(self) -> Tensor:
        """0."""
        return ops.zeros_like(self.probs)

    @property
    def variance(self) -> Tensor:
        """``(1 / p - 1) / p``."""
        return (self.probs.reciprocal() - 1) / self.probs

    def draw(self, sample_shape: Sequence[int]) -> Tensor:
        u = self.uniform_numbers(self._extended_shape(sample_shape), self.probs)
        return (u.log() / (-self.probs).log1p()).floor()

    def log_prob(self, value: Tensor) -> Tensor:
        """``x log(1 - p) + log(p)``."""
        self._validate_sample(value)
        sure = ops.eq(self.probs, 1) & ops.eq(value, 0)
        p = ops.where(sure, 0.0, self.probs)
        return value * (-p).log1p() + self.probs.log()

    def entropy(self) -> Tensor:
        """That of a Bernoulli variable, divided by ``p``."""
        given = ops.binary_cross_entropy_with_logits(self.logits, self.probs, reduction="none")
        return given / self.probs


class Shares(Distribution):
    """Distributions of the probabilities of ``k`` categories, given as such or as logarithms."""

    arg_constraints: ClassVar[dict[str, Constraint]] = {
        "probs": constraint.simplex,
        "logits": constraint.real_vector,
    }

    probs: Any = Kept(lambda given: given["probs"])
    logits: Any = Kept(lambda given: given["logits"])

    def __init__(
        self,
        probs: Tensor | None = None,
        logits: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        one_of(type(self).__name__, probs, logits)
        given = logits if probs is None else probs
        if given is None or given.ndim == 0:
            raise ArgumentError(type(self).__name__, "probs and logits have an axis of categories")
        if probs is not None:
            self.probs = probs / probs.sum(-1, keepdim=True)
            self.logits, self._computed = _inside(self.probs).log(), "logits"
        elif logits is not None:
            self.logits = ops.log_softmax(logits, -1)
            self.probs, self._computed = self.logits.exp(), "probs"
        self._num_events = self.probs.shape[-1]
        self._place(validate_args)

    def _place(self, validate_args: bool | None) -> None:
        """Give the shapes; here a value is a vector of ``k`` numbers."""
        shape = self.probs.shape
        Distribution.__init__(self, shape[:-1], shape[-1:], validate_args=validate_args)

    @property
    def param_shape(self) -> Any:
        """Of ``probs``."""
        return self.probs.shape


class Categorical(Shares):
    """One of several categories.

    Args:
        probs: ``(*batch, k)``, 0 or more; they are divided by their sum.
        logits: their logarithms, up to a number; one of the two.
        validate_args: as for :class:`Distribution`.

    Example:
        >>> import clnet
        >>> Categorical(clnet.tensor([0.25, 0.75])).log_prob(clnet.tensor(1)).exp().item()
        0.75
    """

    has_enumerate_support = True

    def _place(self, validate_args: bool | None) -> None:
        Distribution.__init__(self, self.probs.shape[:-1], validate_args=validate_args)

    @constraint.dependent_property(is_discrete=True, event_dim=0)
    def support(self) -> Constraint:
        """Whole numbers below ``k``."""
        return constraint.integer_interval(0, self._num_events - 1)

    @property
    def mean(self) -> Tensor:
        """NaN: categories have none."""
        return ops.full_like(self.probs[..., 0], math.nan)

    @property
    def variance(self) -> Tensor:
        """NaN: categories have none."""
        return ops.full_like(self.probs[..., 0], math.nan)

    @property
    def mode(self) -> Tensor:
        """The most likely category."""
        return self.probs.argmax(-1)

    def draw(self, sample_shape: Sequence[int]) -> Tensor:
        count = math.prod(sample_shape)
        rows = self.probs.detach().reshape(-1, self._num_events)
        drawn = ops.multinomial(rows, count, True).T
        return drawn.reshape(*sample_shape, *self._batch_shape)

    def log_prob(self, value: Tensor) -> Tensor:
        """The logarithm of a category's probability."""
        self._validate_sample(value)
        return self._log_prob_of(value.to(int64))

    def _log_prob_of(self, at: Tensor) -> Tensor:
        """Of categories by their numbers."""
        shape = broadcast_shapes("Categorical", at.shape, self._batch_shape)
        logits = self.logits.expand((*shape, self._num_events))
        return logits.gather(-1, at.expand(shape).unsqueeze(-1)).squeeze(-1)

    def entropy(self) -> Tensor:
        """``-sum p log(p)``."""
        least = finfo(self.logits.dtype).min
        return -(self.probs * self.logits.clamp(min=least)).sum(-1)

    def enumerate_support(self, expand: bool = True) -> Tensor:
        """All categories."""
        found = enumerated(self, self._num_events, self.probs[..., 0], expand=expand)
        return found.to(int64)


class OneHotCategorical(Categorical):
    """As :class:`Categorical`, whose values are vectors of one 1 among zeros."""

    def _place(self, validate_args: bool | None) -> None:
        Shares._place(self, validate_args)

    support = constraint.one_hot

    @property
    def mean(self) -> Tensor:
        """The probabilities."""
        return self.probs

    @property
    def variance(self) -> Tensor:
        """``p (1 - p)``."""
        return self.probs * (1 - self.probs)

    @property
    def mode(self) -> Tensor:
        """The most likely one."""
        return self._vectors(self.probs.argmax(-1))

    def _vectors(self, categories: Tensor) -> Tensor:
        every = arange(self._num_events, device=self.probs.device)
        return ops.eq(categories.unsqueeze(-1), every).to(self.probs.dtype)

    def draw(self, sample_shape: Sequence[int]) -> Tensor:
        return self._vectors(super().draw(sample_shape))

    def log_prob(self, value: Tensor) -> Tensor:
        """The logarithm of a category's probability, chosen by where the 1 is.

        A product with the vector would give it a gradient, and NaN beside infinite logits.
        """
        self._validate_sample(value)
        return self._log_prob_of(value.argmax(-1))

    def enumerate_support(self, expand: bool = True) -> Tensor:
        """All vectors."""
        found = enumerated(self, self._num_events, self.probs[..., 0], expand=expand)
        return self._vectors(found.to(ops.argmax(self.probs, -1).dtype))


def enumerated(owner: Distribution, count: int, like: Tensor, *, expand: bool) -> Tensor:
    """The numbers below ``count`` along a new first axis."""
    batch = tuple(owner.batch_shape)
    values = arange(count, dtype=like.dtype, device=like.device)
    values = values.reshape(count, *(1,) * len(batch))
    return values.expand((count, *batch)) if expand else values
