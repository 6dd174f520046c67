"""What a convolution makes of its sums before it stores them."""

from __future__ import annotations

from typing import NamedTuple

from ..array import Array
from .kernel import Named, by_name


class Epilogue(NamedTuple):
    """``activation(sum + bias[channel] + added)``, behind a convolution.

    Attributes:
        bias: ``(oc,)``, dense, or None.
        added: like the result, dense, or None; only blocked convolutions add one.
        activation: None or ``"relu"``.
    """

    bias: Array | None = None
    added: Array | None = None
    activation: str | None = None

    @property
    def params(self) -> Named:
        """The templates' parameters ``bias`` and ``activation``."""
        return by_name("bias activation", self.bias is not None, self.activation)

    @property
    def more_bytes(self) -> int:
        """Bytes of what is added."""
        return 0 if self.added is None else self.added.nbytes


NO_EPILOGUE = Epilogue()
