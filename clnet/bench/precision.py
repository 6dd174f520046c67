"""What both sides of a contest compute in: float32, TF32, or 16 bits under ``autocast``.

``tf32x3`` is ours alone: beside it PyTorch computes in float32.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

from ..ops.machinery.autocast import Autocast
from ..values import mode
from ..values.dtypes import DType, bfloat16, float16


@dataclass(frozen=True)
class Precision:
    """A precision.

    Attributes:
        narrow: what products compute in under ``autocast``, of 16 bits; None: there is none.
        float32: how we compute products of float32: ``set_float32_matmul_precision``'s name.
        roughness: how many times as much as float32's the two sides may differ. Gradients of 16
            bits differ by a few percent between any two orders of the same sums.
        most_wrong: bound on the relative difference of losses, however sensitive the network is.
    """

    narrow: DType | None = None
    float32: str = "highest"
    roughness: float = 1.0
    most_wrong: float | None = None

    def ours(self) -> AbstractContextManager[object]:
        """A context in which clnet computes a forward pass and a loss so.

        Around the whole step float32's own precision is set, as a program would for good.
        """
        state = None if self.narrow is None else Autocast(self.narrow, {})
        return mode.using(float32_precision=self.float32, autocast=state)

    def theirs(self, torch: Any, device: str) -> AbstractContextManager[object]:
        """A context in which PyTorch does.

        Args:
            torch: the module.
            device: of the tensors, ``"cpu"`` or ``"cuda"``.
        """
        if self.narrow is None:
            return nullcontext()
        return torch.autocast(device, getattr(torch, self.narrow.name))

    def set_peer(self, torch: Any) -> None:
        """Let PyTorch's CUDA round float32 to TF32, or forbid it.

        Args:
            torch: the module.
        """
        rounds = self.float32 == "high"
        torch.backends.cuda.matmul.allow_tf32 = rounds
        torch.backends.cudnn.allow_tf32 = rounds


FULL = Precision()
PRECISIONS = {
    "fp32": FULL,
    "tf32": Precision(float32="high", roughness=4.0, most_wrong=1e-2),
    "tf32x3": Precision(float32="tf32x3"),
    "bf16": Precision(bfloat16, roughness=10.0, most_wrong=2e-2),
    "fp16": Precision(float16, roughness=4.0, most_wrong=1e-2),
}
"""By their names on the command line."""
