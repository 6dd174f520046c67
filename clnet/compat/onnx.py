"""``clnet.onnx``: there is no exporter; packages that register symbols for it may do so."""

from __future__ import annotations

from types import ModuleType
from typing import Any

from ..errors import ArgumentError

__all__ = ["export", "is_in_onnx_export", "register_custom_op_symbolic"]


def export(*args: Any, **kwargs: Any) -> Any:
    """There is no exporter.

    Raises:
        ArgumentError: always.
    """
    raise ArgumentError(
        "onnx.export",
        "there is no exporter",
        remedy="Save module.state_dict(), load it into the module in PyTorch, and export that",
    )


def is_in_onnx_export() -> bool:
    """False."""
    return False


def register_custom_op_symbolic(*args: Any, **kwargs: Any) -> None:
    """Taken: nothing is exported."""


unregister_custom_op_symbolic = register_custom_op_symbolic


def _parse_args(*args: Any) -> Any:
    """A decorator that gives its function."""
    return lambda function: function


symbolic_helper = ModuleType("torch.onnx.symbolic_helper", "Of the exporter, that there is not.")
symbolic_helper.__dict__["parse_args"] = _parse_args
symbolic_opset9 = symbolic_opset11 = ModuleType("torch.onnx.symbolic_opset11", "As that.")
