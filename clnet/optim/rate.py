"""Rates of groups: numbers, or tensors of one element that programs write in place."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from weakref import ref

from ..errors import ArgumentError, TraceError
from ..tensor import Tensor
from ..values import mode

_READ: dict[int, tuple[Any, Any, int, float]] = {}
"""Tensors by ``id``, the memory and its version that was read, and the number: the device is not
waited for while nobody has written."""


class _Required:
    """Stands for a setting without a default, in optimisers of old."""

    def __repr__(self) -> str:
        return "<required parameter>"


required = _Required()


def rate_of(group: Mapping[str, Any]) -> float:
    """A group's rate as a number.

    Raises:
        ArgumentError: if it is a tensor of several elements.
        TraceError: if it is written, or made, in the function that is traced.
    """
    rate = group["lr"]
    if not isinstance(rate, Tensor):
        return rate
    if rate.numel() != 1:
        raise ArgumentError("lr", "a tensor has one element", shape=rate.shape)
    storage, tracer = rate.array.storage, mode.current().tracer
    made = storage.buffer is None or (tracer and tracer.version(storage) != storage.version)
    if tracer is not None and made:
        law = "the rate is written in the function before the step"
        raise TraceError("lr", law, remedy="Write it behind the step, or outside")
    key, version = id(rate), storage.version
    known = _READ.get(key)
    if known is None or known[0]() is not rate or known[1]() is not storage or known[2] != version:
        with mode.using(tracer=None, grad=False):
            number = float(rate.detach().item())
        gone = ref(rate, lambda _: _READ.pop(key, None))
        known = _READ[key] = (gone, ref(storage), version, number)
    return known[3]


def plain(group: dict[str, Any]) -> dict[str, Any]:
    """A group whose rate is a number."""
    return {**group, "lr": rate_of(group)} if isinstance(group.get("lr"), Tensor) else group


def set_rate(group: dict[str, Any], rate: float) -> None:
    """Give a group another rate; a tensor is written in place."""
    if isinstance(group["lr"], Tensor):
        with mode.using(grad=False):
            group["lr"].fill_(rate)
    else:
        group["lr"] = rate
