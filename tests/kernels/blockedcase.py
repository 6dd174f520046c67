"""One direction of a convolution between blocked arrays, and what it should give."""

from __future__ import annotations

import dataclasses

import numpy as np

from clnet.array import Array
from clnet.device import Target
from clnet.kernels.conv.conv_geometry import ConvGeometry, Direction
from clnet.kernels.conv_blocked.conv_blocked import (
    blocked_forward,
    blocked_input_grad,
    blocked_weight_grad,
    pack_filters,
    packed_size,
)
from clnet.kernels.epilogue import Epilogue
from tests.kernels.convcase import poisoned

LANES = (16, 8, 4)
GEOMETRIES = {
    "3x3": ConvGeometry(3, 16, 9, 7, 48, 3, 3, 9, 7, 1, 1, 1, 1),
    "stride-dilation": ConvGeometry(2, 32, 12, 13, 16, 3, 2, 5, 6, 2, 2, 1, 0, 2, 2),
    "1x1": ConvGeometry(2, 48, 5, 6, 32, 1, 1, 5, 6),
    "1x1-side-by-side": ConvGeometry(2, 48, 12, 7, 32, 1, 1, 12, 7),
    "1x1-stride": ConvGeometry(3, 16, 7, 8, 32, 1, 1, 4, 4, 2, 2),
    "1x1-padded": ConvGeometry(1, 16, 3, 3, 16, 1, 1, 5, 5, 1, 1, 1, 1),
    "unread-pixels": ConvGeometry(2, 16, 11, 10, 32, 2, 2, 4, 3, 3, 3),
    "7x7-stride": ConvGeometry(1, 16, 15, 13, 16, 7, 7, 8, 7, 2, 2, 3, 3),
    "even-same": ConvGeometry(2, 16, 6, 5, 16, 4, 2, 6, 5, 1, 1, 1, 0),
    "filter-is-image": ConvGeometry(5, 16, 4, 4, 32, 4, 4, 1, 1),
    "far-taps": ConvGeometry(2, 16, 9, 7, 16, 3, 3, 9, 7, 1, 1, 5, 6, 5, 6),
    "four-blocks": ConvGeometry(2, 64, 5, 7, 64, 3, 3, 3, 4, 2, 2, 1, 1),
    "stride-below-gap": ConvGeometry(2, 16, 13, 13, 16, 3, 3, 5, 5, 3, 3, 2, 2, 2, 2),
    "rows-once": ConvGeometry(3, 16, 4, 84, 32, 3, 3, 4, 84, 1, 1, 1, 1),
    "rows-once-stride": ConvGeometry(2, 32, 6, 168, 32, 3, 3, 3, 84, 2, 2, 1, 1),
    "rows-once-images": ConvGeometry(7, 32, 3, 14, 32, 5, 3, 3, 14, 1, 1, 2, 1),
    "rows-once-even": ConvGeometry(5, 32, 3, 13, 16, 2, 2, 2, 12),
    "rows-apart": ConvGeometry(3, 32, 9, 42, 32, 3, 3, 3, 14, 3, 3),
    "rows-unread": ConvGeometry(2, 32, 9, 42, 32, 2, 2, 3, 14, 3, 3),
}


def target_of(where, lanes):
    traits = dataclasses.replace(
        where.traits, dedicated_local_memory=False, simd_width=lanes, compute_units=3
    )
    return Target(traits, where.target.workspace_limit)


def blocked(values, block):
    n, c, h, w = values.shape
    return values.reshape(n, c // block, block, h, w).transpose(0, 1, 3, 4, 2)


def plain(values):
    n, blocks, h, w, block = values.shape
    return values.transpose(0, 1, 4, 2, 3).reshape(n, blocks * block, h, w)


class Side:
    """One direction of a convolution in a form: its operands, its launches and its result."""

    def __init__(self, where, target, case, direction, form):
        self.where, self.target, self.case = where, target, case
        self.direction, self.form = direction, form

    def arranged(self, values, *, x=False):
        """A plain array in the form's arrangement, at an odd place of its storage."""
        if not (x and self.form.plain_x):
            values = blocked(values, self.form.block)
        flat = np.concatenate([np.full(3, np.nan, np.float32), values.ravel()])
        dense = Array.from_numpy(np.ascontiguousarray(values), self.where)
        return Array.from_numpy(flat, self.where).view(values.shape, dense.strides, 3)

    def packed(self):
        """The packed filters, and the launches that pack."""
        size = packed_size(self.case.g, self.direction, self.form)
        out = poisoned((size,), self.where, np.float32)
        weight = Array.from_numpy(self.case.weight, self.where)
        args = (self.case.g, self.direction, self.form)
        return out, pack_filters(self.target, out, weight, *args)

    def launches(self, *, bias=False, added=None, activation=None):
        """The poisoned output and what computes it."""
        case, g, form = self.case, self.case.g, self.form
        if self.direction is Direction.WEIGHT_GRAD:
            gw = poisoned(case.weight.shape, self.where, np.float32)
            gy, x = self.arranged(case.gy), self.arranged(case.x, x=True)
            return gw, blocked_weight_grad(self.target, gw, gy, x, g, form)
        packed, packing = self.packed()
        if self.direction is Direction.INPUT_GRAD:
            gx = poisoned(form.x_shape(g), self.where, np.float32)
            gy = self.arranged(case.gy)
            return gx, packing + blocked_input_grad(self.target, gx, gy, packed, g, form)
        y = poisoned(form.y_shape(g), self.where, np.float32)
        x = self.arranged(case.x, x=True)
        offsets = Array.from_numpy(case.bias, self.where) if bias else None
        more = None if added is None else self.arranged(added)
        computing = blocked_forward(
            self.target, y, x, packed, g, form, Epilogue(offsets, more, activation)
        )
        return y, packing + computing

    def run(self, **settings):
        """The result, plain."""
        out, launches = self.launches(**settings)
        for launch in launches:
            self.where.queue.launch(launch)
        result = out.numpy()
        return plain(result) if result.ndim == 5 else result

    def expected(self, *, bias=False, added=None, activation=None):
        """The result in float64."""
        if self.direction is Direction.INPUT_GRAD:
            return self.case.input_grad()
        if self.direction is Direction.WEIGHT_GRAD:
            return self.case.weight_grad()
        y = self.case.forward() - (0 if bias else self.case.bias[:, None, None])
        y = y if added is None else y + added
        return np.maximum(y, 0) if activation == "relu" else y


def check(side, tolerance=2e-6, **settings):
    expected = side.expected(**settings)
    scale = np.abs(expected).max()
    assert scale > 1, "the reference says nothing"
    np.testing.assert_allclose(side.run(**settings), expected, rtol=0, atol=tolerance * scale)
