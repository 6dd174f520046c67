"""``nn.quantized``: sums and products as modules, which PyTorch's quantisation looks for."""

from __future__ import annotations

from collections.abc import Sequence

from .. import ops
from ..tensor import Tensor
from .linear import Identity
from .module import Module

__all__ = ["FloatFunctional"]


class FloatFunctional(Module):
    """Ops of floats behind which quantisation sets an observer: ``activation_post_process``.

    Its operands are tensors that broadcast; it is not called itself.
    """

    def __init__(self) -> None:
        super().__init__()
        self.activation_post_process = Identity()

    def forward(self, x: Tensor) -> Tensor:
        """Raise.

        Raises:
            RuntimeError: always.
        """
        law = "FloatFunctional is not intended to use the 'forward'. Please use its methods"
        raise RuntimeError(law)

    def add(self, x: Tensor, y: Tensor) -> Tensor:
        """``x + y``."""
        return self.activation_post_process(ops.add(x, y))

    def add_scalar(self, x: Tensor, y: float) -> Tensor:
        """``x + y`` of a number, which nobody observes."""
        return ops.add(x, y)

    def mul(self, x: Tensor, y: Tensor) -> Tensor:
        """``x * y``."""
        return self.activation_post_process(ops.mul(x, y))

    def mul_scalar(self, x: Tensor, y: float) -> Tensor:
        """``x * y`` of a number, which nobody observes."""
        return ops.mul(x, y)

    def cat(self, x: Sequence[Tensor], dim: int = 0) -> Tensor:
        """Tensors behind each other along ``dim``."""
        return self.activation_post_process(ops.cat(x, dim))

    def add_relu(self, x: Tensor, y: Tensor) -> Tensor:
        """``relu(x + y)``."""
        return self.activation_post_process(ops.relu(ops.add(x, y)))

    def matmul(self, x: Tensor, y: Tensor) -> Tensor:
        """The product of matrices."""
        return self.activation_post_process(ops.matmul(x, y))
