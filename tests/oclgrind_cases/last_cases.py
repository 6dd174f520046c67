"""Images whose channels lie last: norms of columns, and maxima over windows with their gradient."""

from __future__ import annotations

from importlib import import_module

import ml_dtypes
import numpy as np

from clnet.device import Target
from clnet.kernels.norm import Running
from clnet.kernels.norm import norm_columns as columns_module
from clnet.kernels.norm.norm_columns import moments, slopes
from clnet.kernels.pool.max_pool import max_pool, max_pool_gradient
from clnet.kernels.pool.window import Window

from .harness import case, constants, given, near, normal, output, run

last_module = import_module("clnet.kernels.pool.last_max_pool")

MODULES = (columns_module, last_module)

DTYPES = (np.float32, np.float16, ml_dtypes.bfloat16)


@case("gpu")
def columns(target: Target) -> None:
    """Statistics of rows of channels, of some groups each; then the sums of the gradient."""
    for dtype, channels in zip(DTYPES, (12, 8, 8), strict=True):
        x, gy = normal(71, channels).astype(dtype), normal(71, channels).astype(dtype)
        wide, wide_gy = x.astype(np.float64), gy.astype(np.float64)
        mean, invstd, var = (output((channels,)) for _ in range(3))
        x_, gy_ = given(x, before=4), given(gy)
        with constants(columns_module, _ACROSS=2):
            run(moments(target, (mean, invstd, var), x_, eps=0.1))
            near(mean, wide.mean(0))
            near(invstd, 1 / np.sqrt(wide.var(0) + 0.1))
            near(var, wide.var(0, ddof=1), terms=64)
            old, batches = normal(channels), given(np.array([3], np.int64), before=1)
            running = Running(given(old), given(old), 0.25, batches)
            run(moments(target, (mean, invstd, running), x_, eps=0.1))
            near(running.mean, old + 0.25 * (wide.mean(0) - old), terms=64)
            near(running.var, old + 0.25 * (wide.var(0, ddof=1) - old), terms=64)
            assert batches.numpy()[0] == 4
            gweight, gbias = output((channels,)), output((channels,))
            run(slopes(target, gweight, gbias, gy_, x_, mean, invstd))
        centred = (wide - mean.numpy()) * invstd.numpy()
        near(gweight, (wide_gy * centred).sum(0), terms=512)
        near(gbias, wide_gy.sum(0), terms=512)


@case("gpu")
def maxima_of_last_images(target: Target) -> None:
    """The numbers of planes, with positions and without; windows cut off, dilated, apart."""
    for dtype in DTYPES:
        window = Window(3, 2, 2, 1, 1, 1, 1, 2)
        x = normal(2, 8, 7, 5).astype(dtype)
        x[0, 1, 2, 3] = np.nan
        oh = (7 + 2 * window.ph - window.dh * (window.kh - 1) - 1) // window.sh + 1
        ow = (5 + 2 * window.pw - window.dw * (window.kw - 1) - 1) // window.sw + 1
        y, index = output((2, 8, oh, ow)), output((2, 8, oh, ow), np.int32)
        planes = given(x.astype(np.float32))
        run(max_pool(target, y, planes, window=window, index=index))
        last = given(np.ascontiguousarray(x.transpose(0, 2, 3, 1)))
        for indexed in (True, False):
            found, place = given(np.zeros((2, oh, ow, 8), dtype)), output((2, oh, ow, 8), np.int32)
            pooled = last_module.last_max_pool(
                target, found, last, window=window, index=place if indexed else None
            )
            run(pooled)
            values = found.numpy().astype(np.float32).transpose(0, 3, 1, 2)
            np.testing.assert_array_equal(values, y.numpy())
            if indexed:
                np.testing.assert_array_equal(place.numpy().transpose(0, 3, 1, 2), index.numpy())
        gy = normal(2, 8, oh, ow).astype(dtype)
        gx, wanted = given(np.zeros((2, 7, 5, 8), dtype)), output((2, 8, 7, 5))
        run(max_pool_gradient(target, wanted, given(gy.astype(np.float32)), index, window=window))
        place = given(np.ascontiguousarray(index.numpy().transpose(0, 2, 3, 1)))
        gy_ = given(np.ascontiguousarray(gy.transpose(0, 2, 3, 1)))
        run(last_module.last_max_pool_gradient(target, gx, gy_, place, window=window))
        expected = wanted.numpy().astype(dtype)
        found = gx.numpy().transpose(0, 3, 1, 2)
        np.testing.assert_array_equal(found.astype(np.float32), expected.astype(np.float32))
