"""Rows turned in pairs until they are orthogonal, for CPUs: an item has a matrix, and vectors."""

from __future__ import annotations

from ...array import Array
from ...device import Launch, Scratch, Target
from ...values.shapes import round_up
from ..grid import filled, lanes_of
from ..kernel import Kernel, by_name, joined
from ..moving import copy
from .spectrum import real_of

_ALONE = Kernel("orthogonal_rows_alone", "factor/rotations_alone.mako")


def rows_alone(
    target: Target, lengths: Array, y: Array, rotation: Array | None, x: Array
) -> list[Launch]:
    """The launches; arguments as :func:`.rotations.orthogonal_rows`'s."""
    batch, count, n = x.shape
    lanes = filled(lanes_of(target, x.dtype.itemsize), n)
    pitch, wide = round_up(n, lanes), round_up(count, lanes)
    memory, wanted = Scratch(x.device), rotation is not None
    work = Array.scratch(memory, (batch, count, pitch), x.dtype)
    norms = Array.scratch(memory, (batch, count), x.dtype)
    turned = Array.scratch(memory, (batch, count, wide), x.dtype) if wanted else None
    return [
        *copy(target, work.view(x.shape, work.strides), x),
        _ALONE.launch(
            {**real_of(x), "lanes": lanes, "vectors": wanted},
            joined(
                by_name("count n pitch wide", count, n, pitch, wide),
                by_name("x norms s y r v", work, norms, lengths, y, turned, rotation),
            ),
            global_size=(batch,),
            local_size=(1,),
            flops=56 * batch * n * count**2,
            bytes=2 * x.nbytes,
        ),
    ]
