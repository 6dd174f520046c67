"""Models of ONNX: read, run and trained as modules; modules and functions written as models.

`reading` goes from file to module, `protos` knows protobuf, `program` runs nodes, `handlers`
compute them, `registry` finds those; `elements` are the types. `lowering` gives quantised nodes to
integer kernels, by `images`; `quantising` makes models that have such, of `filters`. `exporting`
goes the other way: an `example_call` is traced, `step_writer` writes the traces by the `exporters`
of ops into the graph of `writing`, whose `sizes` may depend on `dynamic_axes`; `saving` checks the
model and writes the file. What is not used is not imported: handlers and exporters take 0.1 s.
"""

from __future__ import annotations

import importlib as _importlib
from typing import TYPE_CHECKING, Any

from ..compat.onnx import (
    OperatorExportTypes,
    TrainingMode,
    is_in_onnx_export,
    operators,
    register_custom_op_symbolic,
    symbolic_helper,
    symbolic_opset9,
    symbolic_opset11,
    unregister_custom_op_symbolic,
)

if TYPE_CHECKING:
    from . import handlers
    from .exporting import export
    from .inputs import FirstInput, drawn, read_sizes
    from .module import ImportedModule
    from .quantising import quantize
    from .reading import load
    from .registry import handler

__all__ = [
    "FirstInput",
    "ImportedModule",
    "OperatorExportTypes",
    "TrainingMode",
    "drawn",
    "export",
    "handler",
    "handlers",
    "is_in_onnx_export",
    "load",
    "operators",
    "quantize",
    "read_sizes",
    "register_custom_op_symbolic",
    "symbolic_helper",
    "symbolic_opset9",
    "symbolic_opset11",
    "unregister_custom_op_symbolic",
]

_LATER = {
    "FirstInput": "inputs",
    "ImportedModule": "module",
    "drawn": "inputs",
    "export": "exporting",
    "handler": "registry",
    "load": "reading",
    "quantize": "quantising",
    "read_sizes": "inputs",
}


def __getattr__(name: str) -> Any:
    """A public name when it is first asked for; handlers of our own come before a user's."""
    if name == "handlers":
        return _importlib.import_module(f"{__name__}.handlers")
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if name != "export":
        _importlib.import_module(f"{__name__}.handlers")
    found = getattr(_importlib.import_module(f"{__name__}.{_LATER[name]}"), name)
    return globals().setdefault(name, found)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
