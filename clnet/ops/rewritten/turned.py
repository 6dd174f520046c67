"""Operands of linear layers that lie as products in tiles of local memory read them best."""

from __future__ import annotations

from ...array import Array
from ...device import Launch, Target
from ...kernels.gemm import lasting_copy_pays
from ...kernels.moving import copy
from ...values.shapes import round_up
from ..machinery.function import Arrays, Function
from ..matmul import rounds_to_tf32, splits

_RUN = 4  # elements that are read at once; rows are whole runs, so that all are aligned


class TurnWeight(Function):
    """A weight ``(n, k)`` whose columns lie densely."""

    def infer(self, weight: Array) -> tuple[Array, ...]:
        """The weight's shape."""
        n, k = weight.shape
        pitch = round_up(n, _RUN)
        held = Array.abstract((k, pitch), weight.dtype, weight.device)
        return (held.view((n, k), (1, pitch)),)

    def lower(self, target: Target, outputs: Arrays, inputs: Arrays) -> list[Launch]:
        """One copy."""
        return copy(target, outputs[0], inputs[0])


def turns(target: Target, rows: int, weight: Array) -> bool:
    """Whether a layer should read a copy of its weight that stays.

    Args:
        target: what the device is like.
        rows: of the layer's input.
        weight: ``(n, k)``.
    """
    if rounds_to_tf32() or splits():  # which matrix units want along k
        return False
    n, k = weight.shape
    x, out = (Array.abstract((rows, size), weight.dtype, weight.device) for size in (k, n))
    turned = weight.view((k, n), weight.strides[::-1])
    return lasting_copy_pays(target, out, x, turned)


def reads_columns(target: Target, x: Array, weight: Array) -> bool:
    """Whether a layer gains from an input whose columns lie densely.

    Args:
        target: what the device is like.
        x: ``(rows, k)``.
        weight: ``(n, k)``.
    """
    if rounds_to_tf32() or splits():
        return False
    out = Array.abstract((x.shape[0], weight.shape[0]), x.dtype, x.device)
    turned = weight.view(weight.shape[::-1], weight.strides[::-1])
    return lasting_copy_pays(target, out, x, turned, of="a")
