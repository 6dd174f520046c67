"""First values of parameters: PyTorch's ``nn.init``, drawn on the device. It makes no tensor."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from math import ceil, erf, prod, sqrt
from typing import Any, TypeVar, cast

from .. import ops
from ..autograd import no_grad
from ..errors import ArgumentError, ShapeError
from ..expr import maximum, minimum
from ..ops.machinery.update import update
from ..ops.special import approximate_erfinv
from ..tensor import Tensor
from ..values.arguments import checked
from ..values.dtypes import float32, from_name
from ..values.generator import Generator

F = TypeVar("F", bound=Callable[..., Any])

__all__ = [
    "calculate_fan_in_and_fan_out",
    "calculate_gain",
    "constant_",
    "default_",
    "dirac_",
    "eye_",
    "kaiming_normal_",
    "kaiming_uniform_",
    "normal_",
    "ones_",
    "orthogonal_",
    "sparse_",
    "trunc_normal_",
    "uniform_",
    "xavier_normal_",
    "xavier_uniform_",
    "zeros_",
]


def _calculate_fan_in_and_fan_out(tensor: Tensor) -> tuple[int, int]:  # for programs
    """PyTorch's name of :func:`calculate_fan_in_and_fan_out`."""
    return calculate_fan_in_and_fan_out(tensor)


def _calculate_correct_fan(tensor: Tensor, mode: str) -> int:  # for programs
    """The one that ``mode`` names, ``"fan_in"`` or ``"fan_out"``."""
    return calculate_fan_in_and_fan_out(tensor)[mode.lower() == "fan_out"]


def _no_grad_trunc_normal_(  # for programs
    tensor: Tensor, mean: float, std: float, a: float, b: float, generator: Any = None
) -> Tensor:
    """PyTorch's inner name of :func:`trunc_normal_`."""
    return trunc_normal_(tensor, mean, std, a, b, generator)


def _no_grad_normal_(  # for programs
    tensor: Tensor, mean: float, std: float, generator: Any = None
) -> Tensor:
    """PyTorch's inner name of :func:`normal_`."""
    return normal_(tensor, mean, std, generator)


def _no_grad_uniform_(  # for programs
    tensor: Tensor, a: float, b: float, generator: Any = None
) -> Tensor:
    """PyTorch's inner name of :func:`uniform_`."""
    return uniform_(tensor, a, b, generator)


def _no_grad_fill_(tensor: Tensor, val: float) -> Tensor:  # for programs
    """PyTorch's inner name of :func:`constant_`."""
    return constant_(tensor, val)


def _no_grad_zero_(tensor: Tensor) -> Tensor:  # for programs
    """PyTorch's inner name of :func:`zeros_`."""
    return zeros_(tensor)


def _of_whole(fill: F) -> F:
    """Fill a part of a parameter with its part of what the whole is filled with, on each rank."""

    @wraps(fill)
    def filled(*args: Any, **kwargs: Any) -> Any:
        x: Any = args[0] if args else None
        shape = getattr(x, "whole_shape", None)
        if shape is None or shape == x.shape:
            return fill(*args, **kwargs)
        with no_grad():
            whole = fill(x.new_empty(shape), *args[1:], **kwargs)
            return x.copy_(x.own_of(whole))

    return cast("F", filled)


_GAINS = {
    **dict.fromkeys(("linear", "conv1d", "conv2d", "conv3d", "sigmoid"), 1.0),
    **dict.fromkeys(("conv_transpose1d", "conv_transpose2d", "conv_transpose3d"), 1.0),
    "tanh": 5.0 / 3,
    "relu": sqrt(2.0),
    "selu": 3.0 / 4,
}


@checked
def calculate_gain(nonlinearity: str, param: float | None = None) -> float:
    """By how much a non-linearity asks the deviation of the weights before it to grow.

    Args:
        nonlinearity: its name in ``nn.functional``.
        param: the slope of ``leaky_relu`` below 0, 0.01 if None.

    Raises:
        ArgumentError: if there is no gain for the name.
    """
    if nonlinearity == "leaky_relu":
        return sqrt(2 / (1 + (0.01 if param is None else param) ** 2))
    if nonlinearity not in _GAINS:
        raise ArgumentError(
            "calculate_gain",
            "it has no gain",
            nonlinearity=repr(nonlinearity),
            remedy=f"Use one of {', '.join([*_GAINS, 'leaky_relu'])}",
        )
    return _GAINS[nonlinearity]


@checked
def calculate_fan_in_and_fan_out(x: Tensor) -> tuple[int, int]:
    """How many numbers an output of the weight is made of, and how many outputs an input goes into.

    Args:
        x: ``(out, in, ...)``, a weight of two axes or more.

    Raises:
        ShapeError: if it has fewer.
    """
    if x.ndim < 2:
        raise ShapeError("init", "a weight with fans has two axes or more", shape=x.shape)
    field = prod(x.shape[2:])
    return x.shape[1] * field, x.shape[0] * field


@_of_whole
@no_grad()
@checked
def uniform_(
    x: Tensor, a: float = 0.0, b: float = 1.0, generator: Generator | None = None
) -> Tensor:
    """Fill with uniform numbers in ``[a, b)``; returns the tensor."""
    ops.uniform_(x, a, b, generator=generator)
    return x


@_of_whole
@no_grad()
@checked
def normal_(
    x: Tensor, mean: float = 0.0, std: float = 1.0, generator: Generator | None = None
) -> Tensor:
    """Fill with normally distributed numbers; returns the tensor."""
    ops.normal_(x, mean, std, generator=generator)
    return x


@_of_whole
@no_grad()
@checked
def trunc_normal_(
    x: Tensor,
    mean: float = 0.0,
    std: float = 1.0,
    a: float = -2.0,
    b: float = 2.0,
    generator: Generator | None = None,
) -> Tensor:
    """Fill with normally distributed numbers of those within ``[a, b]``; returns the tensor.

    The distribution function is inverted at uniform numbers, so that no draw is thrown away.

    Raises:
        ArgumentError: if ``std`` is 0 or less.
    """
    if not std > 0:
        raise ArgumentError("trunc_normal_", "std is above 0", std=std)
    low, high = (erf((bound - mean) / (std * sqrt(2))) for bound in (a, b))
    # A number of two bytes is -1 once in a few hundred draws, of which the inverse is infinite.
    plain = x.dtype.compute == x.dtype.name
    wide = x if plain else x.new_empty(x.shape, dtype=from_name(x.dtype.compute))
    ops.uniform_(wide, low, high, generator=generator)
    below_one = 1 - 2.0 ** (-24 if wide.dtype is float32 else -53)
    update(_truncated, [wide], [mean, std * sqrt(2), a, b, below_one])
    return x if plain else x.copy_(wide)


@no_grad()
@checked
def constant_(x: Tensor, val: float) -> Tensor:
    """Fill with one number; returns the tensor."""
    return x.fill_(val)


@checked
def zeros_(x: Tensor) -> Tensor:
    """Fill with 0; returns the tensor."""
    return constant_(x, 0.0)


@checked
def ones_(x: Tensor) -> Tensor:
    """Fill with 1; returns the tensor."""
    return constant_(x, 1.0)


@_of_whole
@checked
def xavier_uniform_(x: Tensor, gain: float = 1.0, generator: Generator | None = None) -> Tensor:
    """Fill, uniformly, with variance ``2 gain**2 / (fan_in + fan_out)``; returns the tensor.

    Glorot and Bengio (2010).
    """
    bound = gain * sqrt(6.0 / max(sum(calculate_fan_in_and_fan_out(x)), 1))
    return uniform_(x, -bound, bound, generator)


@_of_whole
@checked
def xavier_normal_(x: Tensor, gain: float = 1.0, generator: Generator | None = None) -> Tensor:
    """As :func:`xavier_uniform_`, normally distributed."""
    std = gain * sqrt(2.0 / max(sum(calculate_fan_in_and_fan_out(x)), 1))
    return normal_(x, 0.0, std, generator)


@_of_whole
@checked
def kaiming_uniform_(
    x: Tensor,
    a: float = 0.0,
    mode: str = "fan_in",
    nonlinearity: str = "leaky_relu",
    generator: Generator | None = None,
) -> Tensor:
    """Fill, uniformly, with variance ``gain**2 / fan``; returns the tensor.

    He et al. (2015).

    Args:
        x: ``(out, in, ...)``.
        a: the slope below 0 of the leaky ReLU that follows.
        mode: ``"fan_in"`` keeps the variance forward, ``"fan_out"`` backward.
        nonlinearity: what follows, as for :func:`calculate_gain`.
        generator: None: the current mode's.

    Raises:
        ArgumentError: if ``mode`` or ``nonlinearity`` is unknown.
        ShapeError: if the tensor has fewer than two axes.
    """
    bound = sqrt(3.0) * _kaiming_std(x, a, mode, nonlinearity)
    return uniform_(x, -bound, bound, generator)


@_of_whole
@checked
def kaiming_normal_(
    x: Tensor,
    a: float = 0.0,
    mode: str = "fan_in",
    nonlinearity: str = "leaky_relu",
    generator: Generator | None = None,
) -> Tensor:
    """As :func:`kaiming_uniform_`, normally distributed."""
    return normal_(x, 0.0, _kaiming_std(x, a, mode, nonlinearity), generator)


@checked
def default_(weight: Tensor, bias: Tensor | None) -> None:
    """What PyTorch's linear and convolution layers start with: uniform within ``1 / sqrt(fan_in)``.

    That is its ``kaiming_uniform_(weight, a=sqrt(5))``.

    Args:
        weight: ``(out, in, ...)``.
        bias: ``(out,)`` or None.
    """
    fan_in, _ = calculate_fan_in_and_fan_out(weight)
    bound = 1 / sqrt(fan_in) if fan_in else 0.0
    uniform_(weight, -bound, bound)
    if bias is not None:
        uniform_(bias, -bound, bound)


@_of_whole
@no_grad()
@checked
def eye_(x: Tensor) -> Tensor:
    """The identity: a linear layer gives its input, as far as it goes.

    Raises:
        ShapeError: if ``x`` is no matrix.
    """
    if x.ndim != 2:
        raise ShapeError("eye_", "x is a matrix", x=x.shape)
    return x.zero_().fill_diagonal_(1)


@_of_whole
@no_grad()
@checked
def dirac_(x: Tensor, groups: int = 1) -> Tensor:
    """Filters that give their input channel, as far as there are any, in each group.

    Args:
        x: a convolution's weight, ``(out, in, k, ...)`` with up to three axes of a window.
        groups: the convolution's.

    Raises:
        ShapeError: if ``x`` has another number of axes, or ``groups`` does not divide ``out``.
    """
    if x.ndim not in (3, 4, 5) or groups < 1 or x.shape[0] % groups:
        law = "x has 3 to 5 axes, and groups divides the first"
        raise ShapeError("dirac_", law, x=x.shape, groups=groups)
    middle = tuple(n // 2 for n in x.shape[2:])
    share = x.shape[0] // groups
    x.zero_()
    for group in range(groups):
        part = x[(slice(group * share, (group + 1) * share), slice(None), *middle)]
        part.fill_diagonal_(1)
    return x


@_of_whole
@no_grad()
@checked
def orthogonal_(x: Tensor, gain: float = 1.0, generator: Generator | None = None) -> Tensor:
    """A random matrix with orthonormal rows, or columns if there are more rows (Saxe et al. 2013).

    Args:
        x: two axes or more; those behind the first count as one.
        gain: a factor.
        generator: where the random numbers come from; None: the mode's generator.

    Raises:
        ShapeError: if there are fewer axes.
    """
    if x.ndim < 2:
        raise ShapeError("orthogonal_", "x has two axes or more", x=x.shape)
    rows = x.shape[0]
    drawn = ops.reshape(ops.empty_like(x), (rows, -1)).normal_(generator=generator)
    wide = drawn.shape[1] > rows
    q = ops.qr(drawn.T if wide else drawn).Q
    return x.copy_(ops.reshape(q.T if wide else q, x.shape) * gain)


@_of_whole
@checked
def sparse_(
    x: Tensor, sparsity: float, std: float = 0.01, generator: Generator | None = None
) -> Tensor:
    """Normally distributed numbers, but for a share of each column that is 0 (Martens 2010).

    Args:
        x: a matrix.
        sparsity: the share, rounded up to whole elements.
        std: the numbers' deviation.
        generator: where the random numbers come from; None: the mode's generator.

    Raises:
        ShapeError: if it is no matrix.
        ArgumentError: if the share does not lie in [0, 1].
    """
    if x.ndim != 2:
        raise ShapeError("sparse_", "x is a matrix", x=x.shape)
    if not 0 <= sparsity <= 1:
        raise ArgumentError("sparse_", "sparsity lies in [0, 1]", sparsity=sparsity)
    with no_grad():
        drawn = ops.empty_like(x).normal_(0, std, generator=generator)
        keys = ops.empty_like(drawn, dtype=float32).uniform_(generator=generator)
        rank = ops.argsort(ops.argsort(keys, 0), 0)
        return x.copy_(ops.where(rank < ceil(sparsity * x.shape[0]), 0.0, drawn))


def _kaiming_std(x: Tensor, a: float, mode: str, nonlinearity: str) -> float:
    if mode not in ("fan_in", "fan_out"):
        raise ArgumentError("kaiming", "mode is 'fan_in' or 'fan_out'", mode=repr(mode))
    fan = calculate_fan_in_and_fan_out(x)[mode == "fan_out"]
    return calculate_gain(nonlinearity, a) / sqrt(max(fan, 1))


def _truncated(
    u: Any, mean: Any, scale: Any, low: Any, high: Any, below_one: Any
) -> tuple[Any, ...]:
    inside = minimum(maximum(u, -below_one), below_one)
    return (minimum(maximum(mean + scale * approximate_erfinv(inside), low), high),)


# PyTorch's older names, which warn there.
uniform, normal, constant, eye, dirac = uniform_, normal_, constant_, eye_, dirac_
xavier_uniform, xavier_normal = xavier_uniform_, xavier_normal_
kaiming_uniform, kaiming_normal = kaiming_uniform_, kaiming_normal_
orthogonal, sparse = orthogonal_, sparse_
