"""Filters of a graph: batch norms folded into them, and what they are in 8 bits."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..kernels.integer import stored_channels
from . import protos

__all__ = ["fold_batch_norms", "quantised_filters"]

_MOST, _SUM = 127, 128  # 255 times 128 is the most that 16 bits hold
_PAIR = 8  # bytes of two steps of the kernels
_COARSER = 1.01


def fold_batch_norms(graph: Any) -> None:
    """Batch norms of given statistics become the filters and biases of convolutions before them."""
    onnx = protos.library()
    arrays = protos.initialisers(graph)
    makers = {name: node for node in graph.node for name in node.output}
    reads = [name for node in graph.node for name in node.input]
    reads += [value.name for value in graph.output]
    gone = list[Any]()
    for node in graph.node:
        maker = makers.get(node.input[0]) if node.op_type == "BatchNormalization" else None
        alone = maker is not None and reads.count(node.input[0]) == 1
        if maker is None or not alone or maker.op_type != "Conv" or len(node.output) != 1:
            continue
        known = [arrays.get(name) for name in (*maker.input[1:], *node.input[1:])]
        if any(array is None for array in known):
            continue
        w = arrays[maker.input[1]]
        bias = arrays[maker.input[2]] if len(maker.input) > 2 else np.zeros(len(w), w.dtype)
        gamma, beta, mean, variance = (arrays[name].astype(np.float64) for name in node.input[1:])
        epsilon = next((a.f for a in node.attribute if a.name == "epsilon"), 1e-5)
        factor = gamma / np.sqrt(variance + epsilon)
        folded = w * factor.reshape(-1, *[1] * (w.ndim - 1))
        # The layer's name stays the first part, for those who leave layers out by name.
        place = f"{maker.input[1]}/{node.output[0]}"
        names = f"{place}/weight", f"{place}/bias"
        for name, array in zip(names, (folded, (bias - mean) * factor + beta), strict=True):
            arrays[name] = array.astype(w.dtype)
            graph.initializer.append(onnx.numpy_helper.from_array(arrays[name], name))
        maker.input[:] = [maker.input[0], *names]
        maker.output[0] = node.output[0]
        gone.append(node)
    for node in gone:
        graph.node.remove(node)


def quantised_filters(
    w: np.ndarray, *, per_channel: bool, narrow: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Filters as int8 around 0, and their scales.

    Args:
        w: ``(oc, ic, ...)``, float32.
        per_channel: whether each output channel has its scale.
        narrow: whether sums of the four products that the kernels take in 16 bits fit there, with
            any uint8.

    Returns:
        The filters, and scales ``(oc,)``.
    """
    rows = _as_read(w)
    scale = np.abs(rows).max(1, initial=0).astype(np.float64) / _MOST
    if narrow:
        scale = np.maximum(scale, _largest_sum(rows) / _SUM)
    if not per_channel:
        scale[:] = scale.max(initial=0)
    scale[scale == 0] = 1
    while True:
        used = scale.astype(np.float32)
        spread = used.reshape(-1, *[1] * (w.ndim - 1))
        filters = np.clip(np.rint(w / spread), -_MOST, _MOST).astype(np.int8)
        over = narrow & (_largest_sum(_as_read(filters).astype(np.float64)) > _SUM)
        if not over.any():
            return filters, used
        scale = np.where(over | (not per_channel), scale * _COARSER, scale)


def _as_read(w: np.ndarray) -> np.ndarray:
    """Filters as rows in the order of the kernels, in whole pairs of steps."""
    last = np.moveaxis(w, 1, -1)
    missing = stored_channels(w.shape[1]) - w.shape[1]
    padded = np.pad(last, [(0, 0)] * (w.ndim - 1) + [(0, missing)])
    rows = padded.reshape(len(w), -1)
    return np.pad(rows, ((0, 0), (0, -rows.shape[1] % _PAIR)))


def _largest_sum(rows: np.ndarray) -> np.ndarray:
    """Of each row the largest sum of numbers of one sign among four that are summed in 16 bits."""
    fours = rows.reshape(len(rows), -1, 2, 2, 2).transpose(0, 1, 3, 2, 4).reshape(len(rows), -1, 4)
    above, below = np.maximum(fours, 0).sum(2), np.maximum(-fours, 0).sum(2)
    return np.maximum(above, below).max(1, initial=0)
