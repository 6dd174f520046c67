"""``nn.parallel``'s steps: modules side by side, and copies, parts and sums as functions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ... import ops
from ...errors import ArgumentError
from ...tensor import Tensor
from ..module import Module
from .data_parallel import gather, opened, scatter, spread

__all__ = ["Broadcast", "Gather", "ReduceAddCoalesced", "Scatter", "parallel_apply"]


def parallel_apply(
    modules: Sequence[Module],
    inputs: Sequence[Any],
    kwargs_tup: Sequence[dict[str, Any]] | None = None,
    devices: Sequence[Any] | None = None,
) -> list[Any]:
    """What modules compute, each of its own arguments; devices' queues run side by side.

    Args:
        modules: each where its arguments are.
        inputs: for each a tuple of arguments, or the only one.
        kwargs_tup: for each those by name; None: none.
        devices: taken: modules are where they are.

    Raises:
        ArgumentError: if there are not as many of each.
    """
    named = [{}] * len(modules) if kwargs_tup is None else kwargs_tup
    if not len(modules) == len(inputs) == len(named):
        law = "each module has its arguments"
        counts = (len(modules), len(inputs), len(named))
        raise ArgumentError("parallel_apply", law, counts=counts)
    given = [x if isinstance(x, list | tuple) else (x,) for x in inputs]
    return [m(*a, **k) for m, a, k in zip(modules, given, named, strict=True)]


class Scatter:
    """Parts of a tensor, one for each device."""

    @staticmethod
    def apply(
        target_gpus: Sequence[Any], chunk_sizes: Sequence[int] | None, dim: int, x: Tensor
    ) -> tuple[Tensor, ...]:
        """Parts along ``dim``, of ``chunk_sizes`` or, if that is None, alike."""
        if chunk_sizes is None:
            return tuple(scatter(x, target_gpus, dim))
        parts = ops.split(x, list(chunk_sizes), dim)
        return tuple(p.to(opened(d)) for p, d in zip(parts, target_gpus, strict=True))


class Gather:
    """Tensors of several devices on one."""

    @staticmethod
    def apply(target_device: Any, dim: int, *inputs: Tensor) -> Tensor:
        """All of them behind each other; those of no axes as a vector."""
        return gather(list(inputs), target_device, dim)


class Broadcast:
    """Copies of tensors on several devices, whose gradients are added."""

    @staticmethod
    def apply(target_gpus: Sequence[Any], *inputs: Tensor) -> tuple[Tensor, ...]:
        """Those of the first device, then those of the next."""
        return spread([opened(d) for d in target_gpus], inputs) if inputs else ()


class ReduceAddCoalesced:
    """Sums over devices."""

    @staticmethod
    def apply(destination: Any, num_inputs: int, *grads: Tensor) -> tuple[Tensor, ...]:
        """The sums, on one device, of ``num_inputs`` tensors of each device."""
        there = opened(destination)
        rows = [grads[k : k + num_inputs] for k in range(0, len(grads), num_inputs)]
        sums = [x.to(there) for x in rows[0]] if rows else []
        for row in rows[1:]:
            sums = [ops.add(x, y.to(there)) for x, y in zip(sums, row, strict=True)]
        return tuple(sums)
