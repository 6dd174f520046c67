"""``nn.grad``: the gradients of convolutions by themselves, for operations written by hand."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from .. import ops
from ..autodiff.gradient import grad
from ..autodiff.tape import enable_grad, is_grad_enabled
from ..tensor import Tensor

__all__ = [
    *("conv1d_input", "conv1d_weight", "conv2d_input", "conv2d_weight"),
    *("conv3d_input", "conv3d_weight"),
]


def _gradient(
    convolution: Callable[..., Tensor], x: Tensor, weight: Tensor, g: Tensor, *given: Any, of: int
) -> Tensor:
    differentiable = is_grad_enabled()
    with enable_grad():
        y = convolution(x, weight, None, *given)
    return grad(y, (x, weight)[of], g, create_graph=differentiable)[0]  # pyrefly: ignore[bad-return]


def _of_input(name: str, convolution: Callable[..., Tensor]) -> Callable[..., Tensor]:
    def input_gradient(
        input_size: Sequence[int],
        weight: Tensor,
        grad_output: Tensor,
        stride: int | Sequence[int] = 1,
        padding: int | str | Sequence[int] = 0,
        dilation: int | Sequence[int] = 1,
        groups: int = 1,
    ) -> Tensor:
        x = weight.new_zeros(tuple(input_size), requires_grad=True)
        given = (stride, padding, dilation, groups)
        return _gradient(convolution, x, weight, grad_output, *given, of=0)

    input_gradient.__name__ = input_gradient.__qualname__ = name
    input_gradient.__doc__ = f"""The gradient of ``{convolution.__name__}`` by its input.

    Args:
        input_size: the input's shape.
        weight: filters.
        grad_output: the gradient of the result, of its shape.
        stride: as in the convolution, like what follows.
        padding: see there.
        dilation: see there.
        groups: see there.

    Returns:
        A tensor of ``input_size``, of the filters' dtype.
    """
    return input_gradient


def _of_weight(name: str, convolution: Callable[..., Tensor]) -> Callable[..., Tensor]:
    def weight_gradient(
        input: Tensor,  # noqa: A002 - PyTorch's name
        weight_size: Sequence[int],
        grad_output: Tensor,
        stride: int | Sequence[int] = 1,
        padding: int | str | Sequence[int] = 0,
        dilation: int | Sequence[int] = 1,
        groups: int = 1,
    ) -> Tensor:
        weight = input.new_zeros(tuple(weight_size), requires_grad=True)
        given = (stride, padding, dilation, groups)
        return _gradient(convolution, input, weight, grad_output, *given, of=1)

    weight_gradient.__name__ = weight_gradient.__qualname__ = name
    weight_gradient.__doc__ = f"""The gradient of ``{convolution.__name__}`` by its filters.

    Args:
        input: what was convolved.
        weight_size: the filters' shape.
        grad_output: the gradient of the result, of its shape.
        stride: as in the convolution, like what follows.
        padding: see there.
        dilation: see there.
        groups: see there.

    Returns:
        A tensor of ``weight_size``, of the input's dtype.
    """
    return weight_gradient


conv1d_input = _of_input("conv1d_input", ops.conv1d)
conv2d_input = _of_input("conv2d_input", ops.conv2d)
conv3d_input = _of_input("conv3d_input", ops.conv3d)
conv1d_weight = _of_weight("conv1d_weight", ops.conv1d)
conv2d_weight = _of_weight("conv2d_weight", ops.conv2d)
conv3d_weight = _of_weight("conv3d_weight", ops.conv3d)
