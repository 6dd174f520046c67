"""Dropout: of elements, of whole channels, and such that mean and variance stay."""

from __future__ import annotations

from .. import ops
from ..errors import ArgumentError
from ..tensor import Tensor
from .op_layer import OpLayer

__all__ = ["AlphaDropout", "Dropout", "Dropout1d", "Dropout2d", "Dropout3d", "FeatureAlphaDropout"]


class _Dropout(OpLayer):
    """What the layers of this file share."""

    p: float = 0.5
    inplace: bool = False

    def _check_settings(self) -> None:
        if not 0 <= self.p <= 1:
            raise ArgumentError(type(self).__name__, "p lies in [0, 1]", p=self.p)

    def forward(self, x: Tensor) -> Tensor:
        """The shape of ``x``."""
        return type(self).op(x, self.p, training=self.training, inplace=self.inplace)

    def extra_repr(self) -> str:
        return f"p={self.p}, inplace={self.inplace}"


class Dropout(_Dropout):
    """In training, 0 with probability ``p``, else ``x / (1 - p)``; in evaluation, ``x``.

    Args:
        p: in ``[0, 1]``.
        inplace: whether to overwrite the input, and give it back.

    Raises:
        ArgumentError: if ``p`` is no probability.
    """

    op = ops.dropout


class Dropout1d(_Dropout):
    """As :class:`Dropout`, but whole channels of rows ``(n, c, l)``."""

    op = ops.dropout1d


class Dropout2d(_Dropout):
    """As :class:`Dropout`, but whole channels of images ``(n, c, h, w)``."""

    op = ops.dropout2d


class Dropout3d(_Dropout):
    """As :class:`Dropout`, but whole channels of volumes ``(n, c, d, h, w)``."""

    op = ops.dropout3d


class AlphaDropout(_Dropout):
    """Dropout to the floor of :class:`SELU`, such that mean 0 and variance 1 stay."""

    op = ops.alpha_dropout


class FeatureAlphaDropout(_Dropout):
    """As :class:`AlphaDropout`, but whole channels of ``(n, c, ...)``."""

    op = ops.feature_alpha_dropout


_DropoutNd = _Dropout  # PyTorch's name, by which programs tell them
