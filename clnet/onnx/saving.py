"""Models of ONNX checked and written to files, with their tensors in them or beside them."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from ..errors import ArgumentError, OnnxError, refusal, shortened
from ..values.arguments import shown
from ..values.atomic import replacing
from . import protos

__all__ = ["save"]

_LARGEST = 1 << 31  # bytes of a protobuf message


def save(proto: Any, f: Any, *, external: bool | None) -> None:
    """Check a model and write it.

    Raises:
        OnnxError: if the checker refuses it, which is an error of clnet's.
        ArgumentError: if it cannot be written.
    """
    onnx = protos.library()
    nbytes = sum(len(t.raw_data) for t in proto.graph.initializer)
    apart = nbytes > _LARGEST - (1 << 24) if external is None else external
    path = None if f is None or hasattr(f, "write") else Path(f)
    if apart and path is None and external is not None:
        raise ArgumentError("onnx.export", "external_data lies beside a file", f=shown(f))
    try:
        if not apart:
            onnx.checker.check_model(proto, full_check=True)
    except (onnx.checker.ValidationError, onnx.shape_inference.InferenceError) as error:
        raise OnnxError("onnx.export", f"the checker refuses it: {shortened(error)}") from error
    try:
        if path is None:
            if f is not None:
                f.write(proto.SerializeToString())
        elif apart:
            whole = type(proto)()
            whole.CopyFrom(proto)  # what is written loses its tensors
            _save_apart(whole, path)
        else:
            with replacing(path) as file:
                file.write(proto.SerializeToString())
    except OSError as error:
        law = "the file can be written"
        raise ArgumentError("onnx.export", law, f=path, error=refusal(error)) from error


def _save_apart(proto: Any, path: Path) -> None:
    """Write a model whose tensors lie in a file beside it.

    Whoever is killed here leaves no model, and never one beside another's tensors.
    """
    onnx, data = protos.library(), f"{path.name}.data"
    with tempfile.TemporaryDirectory(prefix=".clnet-", dir=path.parent) as folder:
        new = Path(folder, path.name)
        onnx.save_model(proto, str(new), save_as_external_data=True, location=data)
        onnx.checker.check_model(str(new))
        path.unlink(missing_ok=True)
        if new.with_name(data).exists():
            new.with_name(data).replace(path.with_name(data))
        else:  # onnx leaves tensors of less than a KiB in the model; others' may lie there
            path.with_name(data).unlink(missing_ok=True)
        new.replace(path)
