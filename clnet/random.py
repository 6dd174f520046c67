"""Random tensors and the seed they come from, in PyTorch's names; ``ops`` makes the numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from . import mode, ops
from .device import current_device
from .device import device as open_device
from .dtypes import DType, float32, int64
from .errors import ArgumentError
from .generator import Generator
from .ops.permutation import NUMBERS_PER_ELEMENT, Permutation
from .ops.random import Counter
from .tensor import Tensor, empty

__all__ = [
    "bernoulli",
    "get_rng_state",
    "initial_seed",
    "manual_seed",
    "normal",
    "rand",
    "rand_like",
    "randint",
    "randn",
    "randn_like",
    "randperm",
    "set_rng_state",
]


def manual_seed(seed: int) -> Generator:
    """Start the default generator again from a seed.

    Args:
        seed: in ``[0, 2**64)``; the same one gives the same numbers on every device.

    Returns:
        The generator.

    Raises:
        ArgumentError: if the seed lies outside.

    Example:
        >>> import clnet
        >>> _ = clnet.manual_seed(3)
        >>> x = clnet.rand(2)
        >>> _ = clnet.manual_seed(3)
        >>> clnet.rand(2).tolist() == x.tolist()
        True
    """
    return mode.current().generator.manual_seed(seed)


def initial_seed() -> int:
    """The seed of the default generator."""
    return mode.current().generator.seed


def get_rng_state() -> dict[str, int]:
    """Where the default generator stands; :func:`set_rng_state` continues from there."""
    return mode.current().generator.get_state()


def set_rng_state(state: dict[str, int]) -> None:
    """Let the default generator continue from what :func:`get_rng_state` gave."""
    mode.current().generator.set_state(state)


def rand(
    *size: Any,
    generator: Generator | None = None,
    dtype: DType = float32,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """Uniform numbers in ``[0, 1)``.

    Args:
        *size: the shape, as numbers or as one sequence.
        generator: where they come from; None: the default one.
        dtype: floating.
        device: as :func:`clnet.device` takes it; None: the current one.
        requires_grad: whether gradients flow to it.

    Returns:
        A leaf of that shape.
    """
    x = empty(*size, dtype=dtype, device=device)
    return ops.uniform_(x, generator=generator).requires_grad_(requires_grad)


def randn(
    *size: Any,
    generator: Generator | None = None,
    dtype: DType = float32,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """Normally distributed numbers of mean 0 and variance 1; arguments as :func:`rand`'s."""
    x = empty(*size, dtype=dtype, device=device)
    return ops.normal_(x, generator=generator).requires_grad_(requires_grad)


def rand_like(x: Tensor, *, dtype: DType | None = None) -> Tensor:
    """:func:`rand` with the shape, device and (unless given) dtype of ``x``."""
    return rand(x.shape, dtype=dtype or x.dtype, device=x.device)


def randn_like(x: Tensor, *, dtype: DType | None = None) -> Tensor:
    """:func:`randn` with the shape, device and (unless given) dtype of ``x``."""
    return randn(x.shape, dtype=dtype or x.dtype, device=x.device)


def normal(
    mean: float,
    std: float,
    size: Sequence[int],
    *,
    generator: Generator | None = None,
    dtype: DType = float32,
    device: Any = None,
) -> Tensor:
    """Normally distributed numbers.

    Args:
        mean: their mean.
        std: their standard deviation, 0 or more.
        size: the shape.
        generator: where they come from; None: the default one.
        dtype: floating.
        device: as :func:`clnet.device` takes it; None: the current one.

    Returns:
        A tensor of that shape.

    Raises:
        ArgumentError: if ``std`` is negative.
    """
    return ops.normal_(empty(size, dtype=dtype, device=device), mean, std, generator=generator)


def randint(
    low: int,
    high: int | Sequence[int],
    size: Sequence[int] | None = None,
    *,
    generator: Generator | None = None,
    dtype: DType = int64,
    device: Any = None,
) -> Tensor:
    """Whole numbers in ``[low, high)``; called as ``randint(high, size)``, in ``[0, high)``.

    Args:
        low: the least.
        high: not reached.
        size: the shape.
        generator: where they come from; None: the default one.
        dtype: any that holds them.
        device: as :func:`clnet.device` takes it; None: the current one.

    Returns:
        A tensor of that shape.

    Raises:
        ArgumentError: if there is no such number, or no size is given.

    Example:
        >>> import clnet
        >>> clnet.randint(7, 8, (2,)).tolist(), clnet.randint(1, (3,)).tolist()
        ([7, 7], [0, 0, 0])
    """
    if isinstance(high, int):
        first, end, shape = low, high, size
    else:
        first, end, shape = 0, low, high
    if shape is None:
        raise ArgumentError("randint", "size is a shape", size=size)
    x = empty(shape, dtype=dtype, device=device)
    return ops.random_(x, first, end, generator=generator)


def bernoulli(p: Tensor, *, generator: Generator | None = None) -> Tensor:
    """1 with the probability that an element of ``p`` gives, else 0; ``p``'s shape and dtype."""
    drawn = rand(p.shape, generator=generator, dtype=p.dtype, device=p.device)
    return (drawn < p.detach()).to(p.dtype)


def randperm(
    n: int,
    *,
    generator: Generator | None = None,
    dtype: DType = int64,
    device: Any = None,
) -> Tensor:
    """The numbers 0 to ``n - 1`` in random order.

    Args:
        n: how many.
        generator: where the order comes from; None: the default one.
        dtype: of whole numbers.
        device: as :func:`clnet.device` takes it; None: the current one.

    Returns:
        ``(n,)``.

    Raises:
        ArgumentError: if ``n`` is negative or has more than 31 bits.
    """
    if not 0 <= n < 2**31:
        raise ArgumentError("randperm", "n lies in [0, 2**31)", n=n)
    target = current_device() if device is None else open_device(device)
    counter = Counter.take(generator, n * NUMBERS_PER_ELEMENT)
    return Tensor.__apply_function__(Permutation(n, dtype, counter, target), ())[0]
