"""A network that went through a file of ONNX, in the place of the network."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from .. import nn, onnx
from ..tensor import tensor
from .workload import Workload


def through_onnx(work: Workload) -> Workload:
    """The workload with its network exported, and read again.

    Args:
        work: a network that is asked; its batch says the sizes of what is exported.
    """
    return replace(work, make=partial(_Imported, work))


class _Imported(nn.Module):
    """What was read. The original, which is exported as it is made, has the parameters."""

    def __init__(self, work: Workload) -> None:
        super().__init__()
        self.original = work.make().eval()
        given, _ = work.batch()
        inputs = tuple(tensor(x) for x in (given if isinstance(given, tuple) else (given,)))
        with TemporaryDirectory() as folder:
            path = Path(folder, "network.onnx")
            onnx.export(self.original, inputs, path)
            self.__dict__["read"] = onnx.load(path)

    def forward(self, *x: Any) -> Any:
        """Of what was read."""
        return self.__dict__["read"](*x)
