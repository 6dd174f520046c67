"""Distributions of counts: successes of trials, events that come at a rate."""

# ruff: noqa: FBT001, FBT002 - PyTorch's validate_args and expand

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import ClassVar

from .. import ops
from ..creation import arange
from ..errors import ArgumentError, DtypeError, UnsupportedError
from ..kernels.pointwise import draw_binomial, draw_poisson
from ..ops.random import drawn_from
from ..tensor import Tensor
from ..values import mode
from ..values.generator import Generator
from . import constraint
from .constraint import Constraint
from .discrete import Binary, Categorical, enumerated, one_of
from .distribution import Distribution, broadcast


class Binomial(Binary):
    """Successes of independent trials.

    Args:
        total_count: trials, a number or a tensor.
        probs: of success in each.
        logits: its logit; one of the two.
        validate_args: as for :class:`Distribution`.
    """

    arg_constraints: ClassVar[dict[str, Constraint]] = {
        "total_count": constraint.nonnegative_integer,
        "probs": constraint.unit_interval,
        "logits": constraint.real,
    }
    has_enumerate_support = True

    def __init__(
        self,
        total_count: Tensor | float = 1,
        probs: Tensor | float | None = None,
        logits: Tensor | float | None = None,
        validate_args: bool | None = None,
    ) -> None:
        one_of("Binomial", probs, logits)
        given = probs if logits is None else logits
        self.total_count, given = broadcast(self, total_count, given)
        self.total_count = self.total_count.to(given.dtype)
        both = (given, None) if logits is None else (None, given)
        super().__init__(*both, validate_args=validate_args)

    @constraint.dependent_property(is_discrete=True, event_dim=0)
    def support(self) -> Constraint:
        """Whole numbers up to the count."""
        return constraint.integer_interval(0, self.total_count)

    @property
    def mean(self) -> Tensor:
        """``n p``."""
        return self.total_count * self.probs

    @property
    def mode(self) -> Tensor:
        """``floor((n + 1) p)``, at most ``n``."""
        return ops.minimum(((self.total_count + 1) * self.probs).floor(), self.total_count)

    @property
    def variance(self) -> Tensor:
        """``n p (1 - p)``."""
        return self.total_count * self.probs * (1 - self.probs)

    def draw(self, sample_shape: Sequence[int]) -> Tensor:
        shape = tuple(self._extended_shape(sample_shape))
        return drawn_from(draw_binomial, self.total_count.expand(shape), self.probs.expand(shape))

    def log_prob(self, value: Tensor) -> Tensor:
        """``log(n over x) + x log(p) + (n - x) log(1 - p)``."""
        self._validate_sample(value)
        n, z = self.total_count, self.logits
        chosen = (n + 1).lgamma() - (value + 1).lgamma() - (n - value + 1).lgamma()
        return chosen + value * z - n * ops.softplus(z)

    def _trials(self, what: str) -> int:
        """The number of trials, which is one for the whole batch."""
        most = self.total_count.max()
        if not bool(ops.eq(self.total_count, most).all().item()):
            law, remedy = "batches of one total_count", "Make a distribution for each"
            counts = (int(self.total_count.min().item()), int(most.item()))
            raise UnsupportedError(f"Binomial.{what}", law, least_and_most=counts, remedy=remedy)
        return int(most.item())

    def entropy(self) -> Tensor:
        """The sum over all counts, which the host waits for."""
        self._trials("entropy")
        each = self.log_prob(self.enumerate_support(expand=False))
        return -(each.exp() * each).sum(0)

    def enumerate_support(self, expand: bool = True) -> Tensor:
        """0 to the number of trials."""
        count = self._trials("enumerate_support") + 1
        return enumerated(self, count, self.probs, expand=expand)


class Poisson(Distribution):
    """Counts of events that come at a rate.

    Args:
        rate: 0 or more.
        validate_args: as for :class:`Distribution`.
    """

    arg_constraints: ClassVar[dict[str, Constraint]] = {"rate": constraint.nonnegative}
    support = constraint.nonnegative_integer

    def __init__(self, rate: Tensor | float, validate_args: bool | None = None) -> None:
        (self.rate,) = broadcast(self, rate)
        super().__init__(self.rate.shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        """The rate."""
        return self.rate

    @property
    def mode(self) -> Tensor:
        """``floor(rate)``."""
        return self.rate.floor()

    @property
    def variance(self) -> Tensor:
        """The rate."""
        return self.rate

    def draw(self, sample_shape: Sequence[int]) -> Tensor:
        rate = self.rate.expand(tuple(self._extended_shape(sample_shape)))
        return drawn_from(draw_poisson, rate)

    def log_prob(self, value: Tensor) -> Tensor:
        """``x log(rate) - rate - log(x!)``."""
        self._validate_sample(value)
        return ops.xlogy(value, self.rate) - self.rate - (value + 1).lgamma()


def poisson(input: Tensor, generator: Generator | None = None) -> Tensor:  # noqa: A002 - PyTorch's
    """Counts of events that come at rates, one for each element.

    Args:
        input: the rates, 0 or more; floating.
        generator: where the random numbers come from; None: the mode's generator.

    Returns:
        The shape and dtype of ``input``.
    """
    chosen = {} if generator is None else {"generator": generator}
    with mode.using(grad=False, **chosen):
        return Poisson(input, validate_args=False).draw(())


def binomial(count: Tensor, prob: Tensor, generator: Generator | None = None) -> Tensor:
    """Successes of independent trials, one count for each element.

    Args:
        count: trials, 0 or more; floating, of any shape.
        prob: of success in each; of the dtype of ``count``, and a shape that broadcasts with it.
        generator: where the random numbers come from; None: the mode's generator.

    Returns:
        The shape of both, the dtype of ``count``; NaN where one of them is.

    Raises:
        DtypeError: if ``count`` is not floating, or the dtypes differ.

    Example:
        >>> import clnet
        >>> clnet.binomial(clnet.tensor([3.0, 4.0]), clnet.tensor([1.0, 0.0])).tolist()
        [3.0, 0.0]
    """
    if not count.is_floating_point() or count.dtype is not prob.dtype:
        law = "count and prob have one floating dtype"
        raise DtypeError("binomial", law, count=count.dtype, prob=prob.dtype)
    chosen = {} if generator is None else {"generator": generator}
    with mode.using(grad=False, **chosen):
        return Binomial(count, prob, validate_args=False).draw(())


class Multinomial(Distribution):
    """How often each category comes in a number of trials.

    Args:
        total_count: trials.
        probs: as for :class:`Categorical`.
        logits: as for :class:`Categorical`.
        validate_args: as for :class:`Distribution`.
    """

    arg_constraints: ClassVar[dict[str, Constraint]] = {
        "probs": constraint.simplex,
        "logits": constraint.real_vector,
    }

    def __init__(
        self,
        total_count: int = 1,
        probs: Tensor | None = None,
        logits: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        if not isinstance(total_count, int):
            raise ArgumentError("Multinomial", "total_count is a whole number")
        self.total_count = total_count
        self._categorical = Categorical(probs, logits, validate_args)
        shape = self._categorical.param_shape
        super().__init__(shape[:-1], shape[-1:], validate_args=validate_args)

    @property
    def probs(self) -> Tensor:
        """The probabilities."""
        return self._categorical.probs

    @property
    def logits(self) -> Tensor:
        """Their logarithms."""
        return self._categorical.logits

    @constraint.dependent_property(is_discrete=True, event_dim=1)
    def support(self) -> Constraint:
        """Counts that sum to the number of trials."""
        return constraint.multinomial(self.total_count)

    @property
    def mean(self) -> Tensor:
        """``n p``."""
        return self.probs * self.total_count

    @property
    def variance(self) -> Tensor:
        """``n p (1 - p)``."""
        return self.total_count * self.probs * (1 - self.probs)

    def draw(self, sample_shape: Sequence[int]) -> Tensor:
        drawn = self._categorical.draw((self.total_count, *sample_shape)).unsqueeze(-1)
        every = arange(self.probs.shape[-1], device=self.probs.device)
        return ops.eq(drawn, every).to(self.probs.dtype).sum(0)

    def log_prob(self, value: Tensor) -> Tensor:
        """``log(n!) - sum log(x!) + sum x log(p)``."""
        self._validate_sample(value)
        logits, value = ops.broadcast_tensors(self.logits, value)
        chosen = (value.sum(-1) + 1).lgamma() - (value + 1).lgamma().sum(-1)
        kept = ops.where(ops.eq(value, 0) & ops.eq(logits, -math.inf), 0.0, logits)
        return chosen + (kept * value).sum(-1)

    def entropy(self) -> Tensor:
        """That of independent trials, less what their order tells."""
        n = self.total_count
        counts = arange(1, n + 1, dtype=self.probs.dtype, device=self.probs.device)
        counts = counts.reshape(n, *(1,) * self.probs.ndim)
        weights = Binomial(n, self.probs, validate_args=False).log_prob(counts).exp()
        orders = (weights * (counts + 1).lgamma()).sum((0, -1))
        return n * self._categorical.entropy() - math.lgamma(n + 1) + orders
