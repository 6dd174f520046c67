"""A convolution and its gradients in float64, and what runs and compares them."""

from __future__ import annotations

import dataclasses

import numpy as np

from clnet.array import Array
from clnet.device import Target
from clnet.kernels.conv.conv import (
    ConvGeometry,
    conv_forward,
    conv_input_grad,
    conv_weight_grad,
)
from clnet.kernels.epilogue import Epilogue

GPU = {
    "dedicated_local_memory": True,
    "simd_width": 1,
    "max_group_size": 256,
    "local_memory_bytes": 32768,
}
GEOMETRIES = {
    "3x3": ConvGeometry(3, 5, 9, 7, 17, 3, 3, 9, 7, 1, 1, 1, 1),
    "stride-dilation-groups": ConvGeometry(2, 6, 12, 13, 8, 3, 2, 5, 6, 2, 2, 1, 0, 2, 2, 2),
    "depthwise": ConvGeometry(2, 6, 10, 11, 6, 5, 5, 10, 11, 1, 1, 2, 2, 1, 1, 6),
    "1x1": ConvGeometry(2, 19, 5, 6, 33, 1, 1, 5, 6),
    "1x1-stride": ConvGeometry(2, 3, 7, 8, 4, 1, 1, 4, 4, 2, 2),
    "unread-pixels": ConvGeometry(2, 3, 11, 10, 4, 2, 2, 4, 3, 3, 3),
    "7x7-stride": ConvGeometry(1, 3, 23, 21, 9, 7, 7, 12, 11, 2, 2, 3, 3),
    "even-same": ConvGeometry(2, 2, 6, 5, 3, 4, 2, 6, 5, 1, 1, 1, 0),
    "filter-is-image": ConvGeometry(5, 3, 4, 4, 2, 4, 4, 1, 1),
    "tile-grid": ConvGeometry(1, 16, 8, 16, 28, 3, 1, 8, 16, 1, 1, 1, 0),
    "one-row": ConvGeometry(2, 1, 1, 40, 1, 1, 5, 1, 40, 1, 1, 0, 2),
}


def target_of(where, traits=None, limit=None):
    return Target(
        dataclasses.replace(where.traits, **(traits or {})),
        where.target.workspace_limit if limit is None else limit,
    )


def taps(g):
    """For each tap: its place in the filter, and the slices of the padded image that it reads."""
    for r in range(g.kh):
        for s in range(g.kw):
            rows = slice(r * g.dh, r * g.dh + g.sh * (g.oh - 1) + 1, g.sh)
            columns = slice(s * g.dw, s * g.dw + g.sw * (g.ow - 1) + 1, g.sw)
            yield (r, s), (Ellipsis, rows, columns)


def padded_shape(g):
    bottom = (g.oh - 1) * g.sh + (g.kh - 1) * g.dh + 1
    right = (g.ow - 1) * g.sw + (g.kw - 1) * g.dw + 1
    return max(bottom, g.ph + g.h), max(right, g.pw + g.w)


class Reference:
    """The convolution and its gradients in float64, one tap after another."""

    def __init__(self, g, dtype=np.float32, seed=0):
        draw = np.random.default_rng(seed)
        self.g = g
        self.x = draw.standard_normal((g.n, g.ic, g.h, g.w)).astype(dtype)
        self.weight = draw.standard_normal((g.oc, g.icg, g.kh, g.kw)).astype(dtype)
        self.bias = draw.standard_normal(g.oc).astype(dtype)
        self.gy = draw.standard_normal((g.n, g.oc, g.oh, g.ow)).astype(dtype)

    def grouped(self):
        g = self.g
        padded = np.zeros((g.n, g.ic, *padded_shape(g)))
        padded[:, :, g.ph : g.ph + g.h, g.pw : g.pw + g.w] = self.x
        return (
            padded.reshape(g.n, g.groups, g.icg, *padded.shape[2:]),
            self.weight.reshape(g.groups, g.ocg, g.icg, g.kh, g.kw).astype(np.float64),
            self.gy.reshape(g.n, g.groups, g.ocg, g.oh, g.ow).astype(np.float64),
        )

    def forward(self):
        x, weight, gy = self.grouped()
        y = np.zeros(gy.shape)
        for (r, s), at in taps(self.g):
            y += np.einsum("ngchw,goc->ngohw", x[at], weight[..., r, s])
        return y.reshape(self.gy.shape) + self.bias[:, None, None]

    def input_grad(self):
        g = self.g
        x, weight, gy = self.grouped()
        gx = np.zeros(x.shape)
        for (r, s), at in taps(g):
            gx[at] += np.einsum("ngohw,goc->ngchw", gy, weight[..., r, s])
        gx = gx.reshape(g.n, g.ic, *gx.shape[3:])
        return gx[:, :, g.ph : g.ph + g.h, g.pw : g.pw + g.w]

    def weight_grad(self):
        x, weight, gy = self.grouped()
        gw = np.zeros(weight.shape)
        for (r, s), at in taps(self.g):
            gw[..., r, s] = np.einsum("ngohw,ngchw->goc", gy, x[at])
        return gw.reshape(self.weight.shape)


def poisoned(shape, where, dtype):
    return Array.from_numpy(np.full(shape, np.nan, dtype), where)


def launches_of(where, target, case, algorithm=None, activation=None):
    """The three outputs, poisoned, and the launches that compute them."""
    g, dtype = case.g, case.x.dtype
    x, weight, bias, gy = (
        Array.from_numpy(v, where) for v in (case.x, case.weight, case.bias, case.gy)
    )
    y, gx, gw = (poisoned(v.shape, where, dtype) for v in (case.gy, case.x, case.weight))
    return (y, gx, gw), [
        conv_forward(
            target, y, x, weight, g, Epilogue(bias, None, activation), algorithm=algorithm
        ),
        conv_input_grad(target, gx, gy, weight, g, algorithm=algorithm),
        conv_weight_grad(target, gw, gy, x, g, algorithm=algorithm),
    ]


def run(where, target, case, algorithm=None, activation=None):
    outputs, launches = launches_of(where, target, case, algorithm, activation)
    for launch in (launch for part in launches for launch in part):
        where.queue.launch(launch)
    return [output.numpy() for output in outputs]


def check(results, case, factor=4):
    """Compare y, gx and gw; the tolerance grows with the length of the sums."""
    g = case.g
    expected = (case.forward(), case.input_grad(), case.weight_grad())
    lengths = (g.icg * g.taps, g.ocg * g.taps, g.n * g.oh * g.ow)
    for name, got, want, length in zip(("y", "gx", "gw"), results, expected, lengths, strict=True):
        tolerance = factor * np.finfo(got.dtype).eps * np.sqrt(length + 1) * np.abs(want).max()
        assert np.ptp(want) > 100 * tolerance, f"{name}: the reference says nothing"
        np.testing.assert_allclose(got, want, rtol=0, atol=tolerance, err_msg=name)
