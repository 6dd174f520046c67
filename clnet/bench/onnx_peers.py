"""What else runs a model of ONNX on the processor: onnxruntime, and OpenVINO."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import ArgumentError

Arrays = dict[str, np.ndarray]
Ask = Callable[[], list[np.ndarray]]
"""A call, and what it gives."""


def onnxruntime(path: Path, arrays: Arrays, threads: int) -> Ask:
    """By its CPU provider."""
    try:
        import onnxruntime  # noqa: PLC0415 - optional
    except ImportError as error:
        raise _absent("onnxruntime") from error
    settings = onnxruntime.SessionOptions()
    settings.intra_op_num_threads = threads
    session: Any = onnxruntime.InferenceSession(
        str(path), settings, providers=["CPUExecutionProvider"]
    )
    return lambda: session.run(None, arrays)


def openvino(path: Path, arrays: Arrays, threads: int) -> Ask:
    """By its CPU plugin, for these sizes, one call after another, in float32 as the model says."""
    try:
        import openvino  # noqa: PLC0415 - optional
    except ImportError as error:
        raise _absent("openvino") from error
    core: Any = openvino.Core()
    model = core.read_model(str(path))
    model.reshape({name: array.shape for name, array in arrays.items()})
    settings = {
        "INFERENCE_NUM_THREADS": threads,
        "INFERENCE_PRECISION_HINT": "f32",
        "PERFORMANCE_HINT": "LATENCY",
    }
    request = core.compile_model(model, "CPU", settings).create_infer_request()

    def ask() -> list[np.ndarray]:
        found = request.infer(arrays, share_inputs=True, share_outputs=True)
        return [found[i] for i in range(len(found))]

    return ask


PEERS: Mapping[str, Callable[[Path, Arrays, int], Ask]] = {
    "onnxruntime": onnxruntime,
    "openvino": openvino,
}
"""By name; each takes the model's file, its inputs, and how many threads it may use."""


def _absent(name: str) -> ArgumentError:
    law, remedy = f"{name} is not installed", f"pip install {name}, or leave --against out"
    return ArgumentError("bench onnx", law, remedy=remedy)
