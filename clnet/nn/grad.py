"""Gradients of convolutions on their own, in PyTorch's names.

Arguments of all functions: ``stride``, ``padding``, ``dilation``, a number or one for each axis of
an image, and ``groups`` as the convolution takes them; ``grad_output`` is the gradient of its
result, ``(n, oc, ...)``, input ``(n, ic, ...)``, weight ``(oc, ic / groups, ...)``. What comes back
can be differentiated. Shapes that do not fit raise ``ShapeError``.
"""

# ruff: noqa: A002 - PyTorch's names

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from .. import ops
from ..autograd import enable_grad, grad
from ..values import mode

if TYPE_CHECKING:
    from ..tensor import Tensor

__all__ = [
    "conv1d_input",
    "conv1d_weight",
    "conv2d_input",
    "conv2d_weight",
    "conv3d_input",
    "conv3d_weight",
]

Sizes = int | Sequence[int]


def _slope(conv: Callable[[Tensor], Tensor], at: Tensor, grad_output: Tensor) -> Tensor:
    """The gradient of a convolution, which is linear in ``at``: any numbers do."""
    kept = mode.current().grad
    with enable_grad():
        x = at.requires_grad_()
        found: Any = grad([conv(x)], [x], [grad_output], create_graph=kept)
    return found[0]


def _by_input(conv: Any, size: Sequence[int], weight: Tensor, g: Tensor, *how: Any) -> Tensor:
    return _slope(lambda x: conv(x, weight, None, *how), g.new_zeros(tuple(size)), g)


def _by_weight(conv: Any, x: Tensor, size: Sequence[int], g: Tensor, *how: Any) -> Tensor:
    return _slope(lambda weight: conv(x, weight, None, *how), g.new_zeros(tuple(size)), g)


def conv1d_input(
    input_size: Sequence[int],
    weight: Tensor,
    grad_output: Tensor,
    stride: Sizes = 1,
    padding: Sizes = 0,
    dilation: Sizes = 1,
    groups: int = 1,
) -> Tensor:
    """The gradient of ``conv1d`` with respect to an input of a size."""
    how = (stride, padding, dilation, groups)
    return _by_input(ops.conv1d, input_size, weight, grad_output, *how)


def conv1d_weight(
    input: Tensor,
    weight_size: Sequence[int],
    grad_output: Tensor,
    stride: Sizes = 1,
    padding: Sizes = 0,
    dilation: Sizes = 1,
    groups: int = 1,
) -> Tensor:
    """The gradient of ``conv1d`` with respect to a weight of a size."""
    how = (stride, padding, dilation, groups)
    return _by_weight(ops.conv1d, input, weight_size, grad_output, *how)


def conv2d_input(
    input_size: Sequence[int],
    weight: Tensor,
    grad_output: Tensor,
    stride: Sizes = 1,
    padding: Sizes = 0,
    dilation: Sizes = 1,
    groups: int = 1,
) -> Tensor:
    """The gradient of ``conv2d`` with respect to an input of a size."""
    how = (stride, padding, dilation, groups)
    return _by_input(ops.conv2d, input_size, weight, grad_output, *how)


def conv2d_weight(
    input: Tensor,
    weight_size: Sequence[int],
    grad_output: Tensor,
    stride: Sizes = 1,
    padding: Sizes = 0,
    dilation: Sizes = 1,
    groups: int = 1,
) -> Tensor:
    """The gradient of ``conv2d`` with respect to a weight of a size."""
    how = (stride, padding, dilation, groups)
    return _by_weight(ops.conv2d, input, weight_size, grad_output, *how)


def conv3d_input(
    input_size: Sequence[int],
    weight: Tensor,
    grad_output: Tensor,
    stride: Sizes = 1,
    padding: Sizes = 0,
    dilation: Sizes = 1,
    groups: int = 1,
) -> Tensor:
    """The gradient of ``conv3d`` with respect to an input of a size."""
    how = (stride, padding, dilation, groups)
    return _by_input(ops.conv3d, input_size, weight, grad_output, *how)


def conv3d_weight(
    input: Tensor,
    weight_size: Sequence[int],
    grad_output: Tensor,
    stride: Sizes = 1,
    padding: Sizes = 0,
    dilation: Sizes = 1,
    groups: int = 1,
) -> Tensor:
    """The gradient of ``conv3d`` with respect to a weight of a size."""
    how = (stride, padding, dilation, groups)
    return _by_weight(ops.conv3d, input, weight_size, grad_output, *how)
