"""The base of distributions: shapes, checks of parameters and values, what follows from others."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

from .. import ops
from ..creation import empty
from ..errors import ArgumentError, ShapeError, UnsupportedError
from ..tensor import Tensor, tensor
from ..values import mode
from ..values.arguments import checked, checked_class, shown
from ..values.dtypes import Kind
from ..values.foreign import is_held
from ..values.shapes import Size, broadcast_shapes
from . import constraint
from .constraint import Constraint

HALF_LOG_2PI = 0.5 * math.log(2 * math.pi)


def broadcast(owner: Distribution, *values: Any) -> list[Tensor]:
    """Parameters as tensors of one shape: numbers become float32, or the tensors' dtype.

    Raises:
        ArgumentError: if the tensors are of whole numbers, and their dtype does not hold a number.
    """
    first = next((v for v in values if isinstance(v, Tensor) and v.is_floating_point()), None)
    first = next((v for v in values if isinstance(v, Tensor)), None) if first is None else first
    return list(ops.broadcast_tensors(*(_made(owner, v, first) for v in values)))


def _made(owner: Distribution, value: Any, like: Tensor | None) -> Tensor:
    if isinstance(value, Tensor):
        return value
    if like is None:
        return tensor(float(value))
    if like.dtype.kind is Kind.INTEGER and not is_held(float(value), like.dtype):
        law = "a number beside a tensor is one that its dtype holds"
        hint = "Give the tensor in a floating dtype"
        name = type(owner).__name__
        raise ArgumentError(name, law, number=shown(value), dtype=like.dtype, remedy=hint)
    return tensor(float(value), dtype=like.dtype, device=like.device)


def summed(x: Tensor, axes: int) -> Tensor:
    """The sum over so many axes at the end."""
    return x if axes == 0 else x.sum(tuple(range(-axes, 0)))


def solved(root: Tensor, x: Tensor) -> Tensor:
    """``root^-1 x`` of vectors, by a lower triangle for all that share it at once.

    Args:
        root: ``(*batch, k, k)``.
        x: ``(..., k)``, to whose axes the batch's broadcast.
    """
    last = x.ndim - 1
    first = last - (root.ndim - 2)  # all vectors along the axes before share the batch
    own = [first + i for i, n in enumerate(root.shape[:-2]) if n == x.shape[first + i]]
    order = [*own, last, *(axis for axis in range(last) if axis not in own)]
    columns = x.permute(order)
    sizes, k = [x.shape[axis] for axis in own], x.shape[last]
    matrix = columns.reshape(*sizes, k, math.prod(columns.shape[len(own) + 1 :]))
    found = ops.solve_triangular(root.reshape(*sizes, k, k), matrix, upper=False)
    return found.reshape(columns.shape).permute([order.index(axis) for axis in range(x.ndim)])


def _no_support(self: Distribution) -> Constraint:
    raise NotImplementedError(f"{type(self).__name__}.support")


class Distribution:
    """Random values of a kind, a batch of them at once.

    A subclass gives ``arg_constraints``, ``support``, and what it can of ``rsample`` (or
    ``sample``), ``log_prob``, ``entropy``, ``cdf``, ``icdf``, ``mean`` and ``variance``.

    Args:
        batch_shape: of the parameters.
        event_shape: of one value.
        validate_args: whether parameters and values are checked, which reads them; None: unless a
            function is being compiled.

    Raises:
        ArgumentError: if a parameter is outside its constraint.
    """

    arg_constraints: ClassVar[dict[str, Constraint]] = {}
    support: Any = property(_no_support)
    """The values it gives: a constraint, or a property where parameters change them."""
    has_rsample = False
    has_enumerate_support = False
    _validate_args = True
    _shared: tuple[str, ...] = ()
    """Names of tensors that are the whole batch's, which :meth:`expand` leaves as they are."""
    _computed = ""
    """The parameter that was computed from the one that was given."""

    def __init_subclass__(cls, **given: Any) -> None:
        super().__init_subclass__(**given)
        if cls.__module__.startswith(f"{__package__}."):
            checked_class(cls)
            for name in ("log_prob", "cdf", "icdf"):
                if name in vars(cls):
                    key = f"{cls.__name__}.{name}"
                    setattr(cls, name, checked(vars(cls)[name], cls.__name__, skip=1, key=key))

    def __init__(
        self,
        batch_shape: Sequence[int] = (),
        event_shape: Sequence[int] = (),
        validate_args: bool | None = None,  # noqa: FBT001 - PyTorch's
    ) -> None:
        self._batch_shape = Size(batch_shape)
        self._event_shape = Size(event_shape)
        if validate_args is not None:
            self._validate_args = validate_args
        if self._checks():
            given = self.__dict__.keys() - {self._computed}  # what rounding leaves is no error
            for name, wanted in self.arg_constraints.items():
                if name in given and not constraint.is_dependent(wanted):
                    self._check(name, getattr(self, name), wanted)
        super().__init__()  # of programs' distributions that are modules, too

    @staticmethod
    def set_default_validate_args(value: bool) -> None:  # noqa: FBT001 - PyTorch's
        """Check parameters and values from now on, or do not."""
        Distribution._validate_args = value

    @staticmethod
    def _readable() -> bool:
        """Whether numbers are there to be read: not while a function is being compiled."""
        now = mode.current()
        return now.tracer is None and not now.abstract

    def _checks(self) -> bool:
        return self._validate_args and self._readable()

    def _check(self, name: str, value: Any, wanted: Constraint) -> None:
        if isinstance(value, Tensor) and not wanted.holds(value):
            raise ArgumentError(
                type(self).__name__,
                f"{name} lies in {wanted!r}",
                shape=tuple(value.shape),
                remedy="validate_args=False leaves out the check",
            )

    def _validate_sample(self, value: Any, support: Constraint | None = None) -> None:
        """Refuse values outside the support, or another set."""
        axes = len(self._event_shape)
        if axes and tuple(value.shape[value.ndim - axes :]) != tuple(self._event_shape):
            raise ShapeError(
                type(self).__name__,
                "a value ends with the event's shape",
                value=value.shape,
                event=self._event_shape,
            )
        broadcast_shapes(
            type(self).__name__, tuple(value.shape[: value.ndim - axes]), tuple(self._batch_shape)
        )
        if self._checks():
            self._check("a value", value, self.support if support is None else support)

    @property
    def batch_shape(self) -> Size:
        """The shape of the parameters."""
        return self._batch_shape

    @property
    def event_shape(self) -> Size:
        """The shape of one value."""
        return self._event_shape

    @property
    def mean(self) -> Tensor:
        """The mean."""
        raise NotImplementedError(f"{type(self).__name__}.mean")

    @property
    def mode(self) -> Tensor:
        """The most likely value."""
        raise NotImplementedError(f"{type(self).__name__}.mode")

    @property
    def variance(self) -> Tensor:
        """The variance."""
        raise NotImplementedError(f"{type(self).__name__}.variance")

    @property
    def stddev(self) -> Tensor:
        """The root of the variance."""
        return self.variance.sqrt()

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Any:
        """The same distribution for a larger batch, whose parameters take no more memory."""
        shape = tuple(batch_shape)
        axes = len(self._batch_shape)
        made = type(self).__new__(type(self)) if _instance is None else _instance
        made.__dict__.update(self.__dict__)
        for name, value in self.__dict__.items():
            if isinstance(value, Tensor) and name not in self._shared:
                made.__dict__[name] = value.expand((*shape, *value.shape[axes:]))
            elif isinstance(value, Distribution):
                inner = value._batch_shape[axes:]
                made.__dict__[name] = value.expand((*shape, *inner))
        made._batch_shape = Size(shape)
        return made

    def _get_checked_instance(self, cls: type, _instance: Any = None) -> Any:
        """An empty one for the ``expand`` that a program's class writes, by PyTorch's name.

        Raises:
            UnsupportedError: if a class below ``cls`` has another constructor, and no expand.
        """
        if _instance is not None:
            return _instance
        if type(self).__init__ is not cls.__init__:
            law = "a class with an __init__ of its own has an expand, too"
            raise UnsupportedError(f"{type(self).__name__}.expand", law, given_by=cls.__name__)
        return type(self).__new__(type(self))

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """Random values, off the tape.

        Args:
            sample_shape: how many, as a shape.

        Returns:
            ``(*sample_shape, *batch_shape, *event_shape)``.
        """
        with mode.using(grad=False):
            return self.draw(sample_shape)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """Random values through which gradients flow to the parameters; shapes as :meth:`sample`'s.

        Raises:
            UnsupportedError: if this distribution has none.
        """
        if not self.has_rsample:
            law, remedy = "its values have no gradients", "Use sample"
            raise UnsupportedError(f"{type(self).__name__}.rsample", law, remedy=remedy)
        return self.draw(sample_shape)

    def sample_n(self, n: int) -> Tensor:
        """``n`` random values."""
        return self.sample((n,))

    def rsample_n(self, n: int) -> Tensor:
        """``n`` random values with gradients."""
        return self.rsample((n,))

    def draw(self, sample_shape: Sequence[int]) -> Tensor:
        """Random values, for :meth:`sample` and, where gradients flow, :meth:`rsample`.

        Programs write :meth:`rsample` instead, of which samples are taken then.
        """
        if type(self).rsample is not Distribution.rsample:
            return self.rsample(sample_shape)
        raise NotImplementedError(f"{type(self).__name__}.sample")

    def log_prob(self, value: Tensor) -> Tensor:
        """The logarithm of the density, or of the probability, of a value."""
        raise NotImplementedError(f"{type(self).__name__}.log_prob")

    def cdf(self, value: Tensor) -> Tensor:
        """The probability of values up to one."""
        raise NotImplementedError(f"{type(self).__name__}.cdf")

    def icdf(self, value: Tensor) -> Tensor:
        """The value up to which the probability is given: the inverse of :meth:`cdf`."""
        raise NotImplementedError(f"{type(self).__name__}.icdf")

    def entropy(self) -> Tensor:
        """The entropy, in units of ``log(e)``."""
        raise NotImplementedError(f"{type(self).__name__}.entropy")

    def perplexity(self) -> Tensor:
        """``exp(entropy)``."""
        return self.entropy().exp()

    def enumerate_support(self, expand: bool = True) -> Tensor:  # noqa: FBT001, FBT002 - PyTorch's
        """All values, along a new first axis."""
        raise NotImplementedError(f"{type(self).__name__}.enumerate_support")

    def _extended_shape(self, sample_shape: Sequence[int] = ()) -> Size:
        return Size((*sample_shape, *self._batch_shape, *self._event_shape))

    def _numbers(self, shape: Sequence[int], like: Tensor) -> Tensor:
        return empty(tuple(shape), dtype=like.dtype, device=like.device)

    def uniform_numbers(self, shape: Sequence[int], like: Tensor) -> Tensor:
        """Numbers in ``(0, 1)``: part of a step above 0, which those of two bytes are at least."""
        x = ops.uniform_(self._numbers(shape, like))
        if like.dtype.itemsize < 4:
            return x.clamp(min=2.0**-24)
        return x + 2.0**-26 if like.dtype.itemsize < 8 else x + 2.0**-54

    def normal_numbers(self, shape: Sequence[int], like: Tensor) -> Tensor:
        """Numbers of mean 0 and variance 1, of a tensor's dtype and device."""
        return ops.normal_(self._numbers(shape, like))

    def __repr__(self) -> str:
        given = self.__dict__.keys() - {self._computed}
        parameters = [k for k in self.arg_constraints if k in given]
        shown = [
            f"{k}: {self.__dict__[k] if self.__dict__[k].numel() == 1 else self.__dict__[k].shape}"
            for k in parameters
        ]
        return f"{type(self).__name__}({', '.join(shown)})"
