"""Random tensors and the seed they come from, in PyTorch's names; ``ops`` makes the numbers."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from . import ops
from .array import Array
from .creation import empty
from .device import DeviceName, current_device
from .device import device as open_device
from .errors import ArgumentError, DeviceError
from .kernels.reduce import Bad
from .ops.check import of_value, require_elements
from .ops.machinery.function import host_action
from .ops.random import Counter, random_whole
from .ops.sort import NUMBERS_PER_ELEMENT, Permutation
from .tensor import Tensor
from .values import mode
from .values.arguments import checked
from .values.dtypes import DType, int64
from .values.generator import AS_DEVICE, AS_TENSOR, Generator
from .values.plain import integer
from .values.shapes import broadcast_shapes
from .values.words import MemoryFormat

__all__ = [
    "fork_rng",
    "get_rng_state",
    "initial_seed",
    "manual_seed",
    "normal",
    "rand",
    "rand_like",
    "randint",
    "randint_like",
    "randn",
    "randn_like",
    "randperm",
    "seed",
    "set_rng_state",
]

default_generator = mode.current().generator
"""That of the thread that imports clnet, which draws where none is given."""


@checked
def manual_seed(seed: Any) -> Generator:
    """Start the default generator again from a seed.

    Args:
        seed: a whole number in ``[-2**63, 2**64)``, or a tensor of one; the same one gives the same
            numbers on every device.

    Returns:
        The generator.

    Raises:
        DtypeError: if the seed is no whole number.
        ArgumentError: if it lies outside.

    Example:
        >>> import clnet
        >>> _ = clnet.manual_seed(3)
        >>> x = clnet.rand(2)
        >>> _ = clnet.manual_seed(3)
        >>> clnet.rand(2).tolist() == x.tolist()
        True
    """
    if hasattr(seed, "item"):  # a tensor of one, NumPy's
        seed = seed.item()
    key = seed if type(seed) is int else integer("manual_seed", "seed", seed)
    now = mode.current()
    if now.tracer is None:
        return now.generator.manual_seed(key)
    Generator(key)  # refuses what is no seed
    source = now.generator

    def seed_again() -> None:
        source.manual_seed(key)

    host_action(seed_again)
    return source


@checked
def initial_seed() -> int:
    """The seed of the default generator."""
    return mode.current().generator.key


@checked
def seed() -> int:
    """Start the default generator from a number nobody chose; gives the number."""
    manual_seed(int.from_bytes(os.urandom(4), "little"))
    return initial_seed()


@checked
def get_rng_state() -> Tensor:
    """Where the default generator stands; :func:`set_rng_state` continues from there.

    Returns:
        ``(16,)``, uint8: its seed and how much it gave, each a whole number of 64 bits. It is what
        checkpoints hold.
    """
    return mode.current().generator.get_state()


def _of_bytes(raw: bytes) -> Tensor:
    return Tensor(Array.from_numpy(np.frombuffer(raw, np.uint8), current_device()))


def _opened(named: Any) -> Any:
    """A generator's device: one stream serves all, so a name that nobody has here is no error."""
    try:
        return current_device() if named is None else DeviceName(named)
    except DeviceError:
        return current_device()


AS_TENSOR.append(_of_bytes)
AS_DEVICE.append(_opened)


@checked
def set_rng_state(new_state: Any) -> None:
    """Let the default generator continue from what :func:`get_rng_state` gave.

    Args:
        new_state: that; or the dict that ``Generator.stands`` gives.

    Raises:
        ArgumentError: if it is something else, such as the state of another library's generator.
    """
    mode.current().generator.set_state(new_state)


@checked
def rand(
    *sizes: Any,
    size: Sequence[int] | None = None,
    generator: Generator | None = None,
    dtype: DType | None = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """Uniform numbers in ``[0, 1)``.

    Args:
        *sizes: the shape, as numbers or as one sequence.
        size: the same by name.
        generator: where they come from; None: the default one.
        dtype: floating; None: the default.
        device: as :func:`clnet.device` takes it; None: the current one.
        requires_grad: whether gradients flow to it.

    Returns:
        A leaf of that shape.
    """
    x = empty(*sizes, size=size, dtype=dtype, device=device)
    return ops.uniform_(x, generator=generator).requires_grad_(requires_grad)


@checked
def randn(
    *sizes: Any,
    size: Sequence[int] | None = None,
    generator: Generator | None = None,
    dtype: DType | None = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """Normally distributed numbers of mean 0 and variance 1; arguments as :func:`rand`'s."""
    x = empty(*sizes, size=size, dtype=dtype, device=device)
    return ops.normal_(x, generator=generator).requires_grad_(requires_grad)


@checked
def rand_like(
    x: Tensor,
    *,
    generator: Generator | None = None,
    dtype: DType | None = None,
    device: Any = None,
    requires_grad: bool = False,
    memory_format: MemoryFormat | None = None,
) -> Tensor:
    """:func:`rand` with the shape and (unless given) dtype and device of ``x``."""
    y = ops.empty_like(x, dtype=dtype, device=device, memory_format=memory_format)
    return ops.uniform_(y, generator=generator).requires_grad_(requires_grad)


@checked
def randn_like(
    x: Tensor,
    *,
    generator: Generator | None = None,
    dtype: DType | None = None,
    device: Any = None,
    requires_grad: bool = False,
    memory_format: MemoryFormat | None = None,
) -> Tensor:
    """:func:`randn` with the shape and (unless given) dtype and device of ``x``."""
    y = ops.empty_like(x, dtype=dtype, device=device, memory_format=memory_format)
    return ops.normal_(y, generator=generator).requires_grad_(requires_grad)


@checked
def normal(
    mean: Tensor | float = 0.0,
    std: Tensor | float = 1.0,
    size: Sequence[int] | None = None,
    *,
    generator: Generator | None = None,
    dtype: DType | None = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """Normally distributed numbers.

    Args:
        mean: their mean; a tensor gives each element its own.
        std: their standard deviation, 0 or more; a tensor gives each element its own.
        size: the shape; None if the mean or the deviation is a tensor, whose shape it is.
        generator: where they come from; None: the default one.
        dtype: floating; None: the default. With tensors neither it nor the device is given.
        device: as :func:`clnet.device` takes it; None: the current one.
        requires_grad: whether gradients flow to it.

    Returns:
        A tensor of that shape, off the tape.

    Raises:
        ArgumentError: if ``std`` is a negative number, or neither a size nor a tensor is given, or
            both.
    """
    if not isinstance(mean, Tensor) and not isinstance(std, Tensor):
        if size is None:
            raise ArgumentError("normal", "numbers need a size", mean=mean, std=std)
        x = empty(size, dtype=dtype, device=device)
        return ops.normal_(x, mean, std, generator=generator).requires_grad_(requires_grad)
    if not isinstance(std, Tensor) and not std >= 0:
        raise ArgumentError("normal", "std is 0 or more", std=std)
    if size is not None:
        law = "the shape is that of the tensors, if one is given"
        raise ArgumentError("normal", law, size=tuple(size))
    if dtype is not None or device is not None:
        law = "dtype and device are those of the tensors, if one is given"
        raise ArgumentError("normal", law, dtype=dtype, device=device)
    if isinstance(std, Tensor):
        require_elements(std, of_value("normal", "std", "it is 0 or more"), Bad.BELOW, 0)
    given = [t.detach() for t in (mean, std) if isinstance(t, Tensor)]
    shape = broadcast_shapes("normal", *(t.shape for t in given))
    x = ops.normal_(given[0].new_empty(shape), generator=generator)
    with mode.using(grad=False):
        return (mean + std * x).requires_grad_(requires_grad)


@checked
def randint(
    low: int | None = None,
    high: int | Sequence[int] | None = None,
    size: Sequence[int] | None = None,
    *,
    generator: Generator | None = None,
    dtype: DType = int64,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """Whole numbers in ``[low, high)``; called as ``randint(high, size)``, in ``[0, high)``.

    Args:
        low: the least; None: 0.
        high: not reached.
        size: the shape.
        generator: where they come from; None: the default one.
        dtype: any that holds them.
        device: as :func:`clnet.device` takes it; None: the current one.
        requires_grad: whether it is a leaf of the tape; of a floating dtype.

    Returns:
        A tensor of that shape.

    Raises:
        ArgumentError: if there is no such number, or no size or no end is given.

    Example:
        >>> import clnet
        >>> clnet.randint(7, 8, (2,)).tolist(), clnet.randint(1, (3,)).tolist()
        ([7, 7], [0, 0, 0])
    """
    if isinstance(high, int):
        first, end, shape = low or 0, high, size
    else:  # the one number is the end, and the shape has its own name or the second place
        first, end, shape = 0, low, size if high is None else high
    twice = size is not None and isinstance(high, Sequence)
    if shape is None or twice:
        raise ArgumentError("randint", "size is a shape", high=high, size=size)
    if end is None:
        raise ArgumentError("randint", "high is given", low=low, high=high)
    x = empty(shape, dtype=dtype, device=device)
    return random_whole("randint", x, first, end, generator).requires_grad_(requires_grad)


@checked
def randint_like(
    x: Tensor,
    low: int | None = None,
    high: int | None = None,
    *,
    dtype: DType | None = None,
    device: Any = None,
    requires_grad: bool = False,
    memory_format: MemoryFormat | None = None,
) -> Tensor:
    """:func:`randint` with the shape and (unless given) dtype and device of ``x``.

    Raises:
        ArgumentError: if neither end is given.
    """
    first, end = (0, low) if high is None else (low or 0, high)
    if end is None:
        raise ArgumentError("randint_like", "high is given", low=low, high=high)
    y = ops.empty_like(x, dtype=dtype, device=device, memory_format=memory_format)
    return random_whole("randint_like", y, first, end, None).requires_grad_(requires_grad)


@checked
def randperm(
    n: int,
    *,
    generator: Generator | None = None,
    dtype: DType = int64,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """The numbers 0 to ``n - 1`` in random order.

    Args:
        n: how many.
        generator: where the order comes from; None: the default one.
        dtype: of whole numbers.
        device: as :func:`clnet.device` takes it; None: the current one.
        requires_grad: whether gradients flow to it; of floating dtypes.

    Returns:
        ``(n,)``.

    Raises:
        ArgumentError: if ``n`` is negative or has more than 31 bits.
    """
    if not 0 <= n < 2**31:
        raise ArgumentError("randperm", "n lies in [0, 2**31)", n=n)
    target = current_device() if device is None else open_device(device)
    counter = Counter.take(generator, n * NUMBERS_PER_ELEMENT)
    drawn = Tensor.__apply_function__(Permutation(n, dtype, counter, target), ())[0]
    return drawn.requires_grad_(requires_grad)


@contextmanager
def fork_rng(
    devices: Any = None,
    enabled: bool = True,  # noqa: FBT001, FBT002 - PyTorch's
    **given: Any,
) -> Iterator[None]:
    """A block behind which the default generator goes on as if the block had drawn nothing.

    Args:
        devices: taken: one generator draws for all.
        enabled: whether that is so.
        **given: PyTorch's texts for its warnings.
    """
    generator = mode.current().generator
    state: dict[str, int] = {}

    def keep() -> None:
        state.update(generator.stands())

    def go_back() -> None:
        generator.set_state(state)

    host_action(keep)
    try:
        yield
    finally:
        if enabled:
            host_action(go_back)
