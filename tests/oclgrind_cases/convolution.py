"""What a convolution reads, for its cases."""

from __future__ import annotations

import numpy as np

from clnet.kernels.conv.conv_geometry import ConvGeometry


def taps(g: ConvGeometry) -> np.ndarray:
    """``(oh, ow, kh, kw, h, w)``: 1 where an output reads a pixel through a tap."""
    reads = np.zeros((g.oh, g.ow, g.kh, g.kw, g.h, g.w))
    for y, x, r, s in np.ndindex(g.oh, g.ow, g.kh, g.kw):
        row, column = y * g.sh - g.ph + r * g.dh, x * g.sw - g.pw + s * g.dw
        if 0 <= row < g.h and 0 <= column < g.w:
            reads[y, x, r, s, row, column] = 1
    return reads
