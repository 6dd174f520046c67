"""Models of ONNX: read, run and trained as modules.

`reading` goes from file to module, `protos` knows protobuf, `program` runs nodes, `handlers`
compute them, `registry` finds those; `elements` are the types. `exporting` goes the other way:
`step_writer` writes traces by the `exporters` of ops into the graph of `writing`, whose `sizes` may
depend on `dynamic_axes`.
"""

from __future__ import annotations

from ..compat.onnx import (
    is_in_onnx_export,
    register_custom_op_symbolic,
    symbolic_helper,
    symbolic_opset9,
    symbolic_opset11,
    unregister_custom_op_symbolic,
)
from . import handlers
from .exporting import export
from .module import ImportedModule
from .reading import load
from .registry import handler

__all__ = [
    "ImportedModule",
    "export",
    "handler",
    "handlers",
    "is_in_onnx_export",
    "load",
    "register_custom_op_symbolic",
    "symbolic_helper",
    "symbolic_opset9",
    "symbolic_opset11",
    "unregister_custom_op_symbolic",
]
