"""Convolution whose filters are as large as the images: a matrix product of images and filters.

The last layer of a discriminator, the first of a generator (as an input gradient), a dense layer
written as a convolution: every element of an image meets every filter once.
"""

from __future__ import annotations

from ...array import Array
from ...device import Launch, Target
from ..epilogue import Epilogue
from ..gemm import gemm
from .conv_geometry import ConvGeometry, Direction


def whole(g: ConvGeometry) -> bool:
    """Whether there is one output pixel, whose taps are all pixels of the image."""
    spans = (g.kh - 1) * g.dh + 1, (g.kw - 1) * g.dw + 1
    dense = (g.kh, g.kw) == spans == (g.h, g.w)
    return dense and (g.oh, g.ow, g.ph, g.pw, g.groups) == (1, 1, 0, 0, 1)


def fits(target: Target, g: ConvGeometry, direction: Direction, itemsize: int) -> bool:
    """Whether it computes a convolution; the product chooses by its scratch memory itself."""
    del target, direction, itemsize
    return whole(g)


def forward(
    target: Target, y: Array, x: Array, weight: Array, g: ConvGeometry, epilogue: Epilogue
) -> list[Launch]:
    """Launches of the convolution; the arguments are those of :func:`.conv.conv_forward`."""
    del g
    filters = _transposed(_rows(weight))
    return gemm(target, _rows(y), _rows(x), filters, epilogue=epilogue._replace(bias_axis="n"))


def input_grad(
    target: Target, gx: Array, gy: Array, weight: Array, g: ConvGeometry
) -> list[Launch]:
    """Launches of the input gradient; the arguments are those of :func:`.conv.conv_input_grad`."""
    del g
    return gemm(target, _rows(gx), _rows(gy), _rows(weight))


def weight_grad(target: Target, gw: Array, gy: Array, x: Array, g: ConvGeometry) -> list[Launch]:
    """The weight gradient; the arguments are those of :func:`.conv.conv_weight_grad`."""
    del g
    return gemm(target, _rows(gw), _transposed(_rows(gy)), _rows(x))


def _rows(array: Array) -> Array:
    """A dense array as a matrix whose rows are its items."""
    items = array.shape[0]
    length = array.size // items
    return array.view((items, length), (length, 1), array.offset)


def _transposed(matrix: Array) -> Array:
    (rows, columns), (down, right) = matrix.shape, matrix.strides
    return matrix.view((columns, rows), (right, down), matrix.offset)
