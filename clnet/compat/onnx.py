"""``clnet.onnx``: what packages ask of PyTorch's exporter, which registers symbols."""

from __future__ import annotations

from enum import IntEnum
from types import ModuleType
from typing import Any

from ..tensor import Tensor, tensor

__all__ = [
    "OperatorExportTypes",
    "TrainingMode",
    "is_in_onnx_export",
    "register_custom_op_symbolic",
]


class TrainingMode(IntEnum):
    """How a model is exported: in evaluation, which is the only way there is."""

    EVAL = 0
    PRESERVE = 1
    TRAINING = 2


class OperatorExportTypes(IntEnum):
    """Of which ops a model is: ONNX's, which are the only ones there are."""

    ONNX = 0
    ONNX_ATEN = 1
    ONNX_ATEN_FALLBACK = 2
    ONNX_FALLTHROUGH = 3


def is_in_onnx_export() -> bool:
    """False: what is exported is traced as any function."""
    return False


def register_custom_op_symbolic(*args: Any, **kwargs: Any) -> None:
    """Taken: ops have their own exporters."""


unregister_custom_op_symbolic = register_custom_op_symbolic


def _parse_args(*args: Any) -> Any:
    """A decorator that gives its function."""
    return lambda function: function


symbolic_helper = ModuleType(
    "torch.onnx.symbolic_helper", "Of the exporter by symbols, that there is not."
)
symbolic_helper.__dict__["parse_args"] = _parse_args
symbolic_opset9 = symbolic_opset11 = ModuleType("torch.onnx.symbolic_opset11", "As that.")


def _shape_as_tensor(x: Tensor) -> Tensor:
    """The sizes, int64 ``(axes,)``."""
    return tensor(list(x.shape))


def _reshape_from_tensor_shape(x: Tensor, shape: Tensor) -> Tensor:
    """The same elements in another shape, which the host reads."""
    return x.reshape(shape.tolist())


operators = ModuleType("torch.onnx.operators", "Ops that read sizes as tensors.")
operators.__dict__.update(
    shape_as_tensor=_shape_as_tensor, reshape_from_tensor_shape=_reshape_from_tensor_shape
)
