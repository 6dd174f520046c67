"""Convolution as a matrix product with the explicit columns of images, in chunks of images.

It owns the columns and their adjoint; the product is :func:`.gemm.gemm`. 1x1 convolutions with
stride 1 need no columns: the images are the matrix.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod

from ...array import Array
from ...device import Launch, Scratch, Target
from ...expr import Input
from ...values.dtypes import float32
from ...values.shapes import contiguous_strides, round_up
from ..epilogue import NO_EPILOGUE, Epilogue
from ..gemm import gemm
from ..grid import in_groups
from ..kernel import Kernel, Named, by_name, joined
from ..pointwise import pointwise
from .conv_geometry import ConvGeometry, Direction

_GROUP_SIZE = 64
# Columns made at once: they stay in a cache until the product reads them.
_CHUNK_BYTES = 8 * 2**20
# Channels, or taps of all channels, from which on products of bfloat16 are faster than what
# convolves float32 without columns.
_LEAST_SIDE = 32


IM2COL = Kernel("im2col", "conv/conv_im2col.mako")
COL2IM = Kernel("col2im", "conv/conv_im2col.mako")
IM2COL_ROWS = Kernel("im2col_rows", "conv/conv_im2col.mako")
COL2IM_ROWS = Kernel("col2im_rows", "conv/conv_im2col.mako")


def im2col(target: Target, columns: Array, x: Array, g: ConvGeometry) -> Launch:
    """The launch that writes the columns of images.

    Args:
        target: what to choose the kernel for.
        columns: output, dense, ``(n, ic, kh, kw, oh, ow)``.
        x: images, dense, ``(n, ic, h, w)``.
        g: the convolution; its ``n`` does not matter.
    """
    args = joined(by_name("columns x", columns, x), _sizes(g))
    cost = {"flops": 0, "bytes": columns.nbytes + x.nbytes}
    count = x.shape[0] * g.ic * g.taps
    if not in_groups(target.traits):
        return _by_rows(IM2COL_ROWS, x, g, args, count, cost)
    return IM2COL.launch(
        _params(x, g),
        args,
        global_size=(round_up(g.oh * g.ow, _GROUP_SIZE), count),
        local_size=(_GROUP_SIZE, 1),
        **cost,
    )


def col2im(target: Target, gx: Array, columns: Array, g: ConvGeometry) -> Launch:
    """The launch that sums columns into the pixels they came from; the adjoint of :func:`im2col`.

    Args:
        target: what to choose the kernel for.
        gx: output, dense, ``(n, ic, h, w)``.
        columns: dense, ``(n, ic, kh, kw, oh, ow)``.
        g: the convolution; its ``n`` does not matter.
    """
    args = joined(by_name("gx columns", gx, columns), _sizes(g))
    cost = {"flops": columns.size, "bytes": columns.nbytes + gx.nbytes}
    count = gx.shape[0] * g.ic
    if not in_groups(target.traits):
        return _by_rows(COL2IM_ROWS, gx, g, args, count, cost)
    return COL2IM.launch(
        _params(gx, g),
        args,
        global_size=(round_up(g.h * g.w, _GROUP_SIZE), count),
        local_size=(_GROUP_SIZE, 1),
        **cost,
    )


def fits(target: Target, g: ConvGeometry, direction: Direction, itemsize: int) -> bool:
    """Whether the columns of one image leave half of the workspace to the product."""
    del direction
    return 2 * _image_bytes(g, itemsize) <= target.workspace_limit


def pairs_pay(target: Target, g: ConvGeometry, direction: Direction) -> bool:
    """Whether sums are long enough for products of bfloat16, which then fit the workspace."""
    if min(g.ocg, g.icg * g.taps) < _LEAST_SIDE or g.n * g.oh * g.ow == 0:
        return False
    columns = _image_bytes(g, 1) or g.ic * g.h * g.w
    images = max(1, min(g.n, _CHUNK_BYTES // (4 * columns))) if not g.pointwise else g.n
    sums = max(g.n * g.ic * g.h * g.w, g.oc * g.icg * g.taps, g.n * g.oc * g.oh * g.ow)
    del direction
    return 4 * (sums + 4 * images * columns) <= target.workspace_limit


def forward(
    target: Target,
    y: Array,
    x: Array,
    weight: Array,
    g: ConvGeometry,
    epilogue: Epilogue,
    *,
    dot: str | None = None,
) -> list[Launch]:
    """Launches of the convolution; the arguments are those of :func:`.conv.conv_forward`."""
    work = _Work(target, g, x, dot)
    launches: list[Launch] = []
    for first, count, columns in work.chunks:
        if not g.pointwise:
            launches.append(im2col(target, columns, _images(x, first, count), g))
        for group in range(g.groups):
            launches += work.product(
                _matrices(_images(y, first, count), g, group),
                _filters(weight, g, group, count),
                _matrices(columns, g, group),
                epilogue=epilogue._replace(
                    bias=None if epilogue.bias is None else _part(epilogue.bias, group, g.ocg),
                    bias_axis="m",
                ),
            )
    return launches


def input_grad(
    target: Target,
    gx: Array,
    gy: Array,
    weight: Array,
    g: ConvGeometry,
    *,
    dot: str | None = None,
) -> list[Launch]:
    """Launches of the input gradient; the arguments are those of :func:`.conv.conv_input_grad`."""
    wide, narrowed = _wide(target, gx, dot)
    work = _Work(target, g, wide, dot)
    launches: list[Launch] = []
    for first, count, columns in work.chunks:
        for group in range(g.groups):
            launches += work.product(
                _matrices(columns, g, group),
                _transposed(_filters(weight, g, group, count)),
                _matrices(_images(gy, first, count), g, group),
            )
        if not g.pointwise:
            launches.append(col2im(target, _images(wide, first, count), columns, g))
    return launches + narrowed


def weight_grad(
    target: Target,
    gw: Array,
    gy: Array,
    x: Array,
    g: ConvGeometry,
    *,
    dot: str | None = None,
) -> list[Launch]:
    """The weight gradient; the arguments are those of :func:`.conv.conv_weight_grad`.

    Images are added one after another, in their order.
    """
    wide, narrowed = _wide(target, gw, dot)
    work = _Work(target, g, x, dot, wide)
    launches: list[Launch] = []
    for first, count, columns in work.chunks:
        if not g.pointwise:
            launches.append(im2col(target, columns, _images(x, first, count), g))
        for image in range(count):
            for group in range(g.groups):
                launches += work.product(
                    _filters(wide, g, group, 1),
                    _matrices(_images(gy, first + image, 1), g, group),
                    _transposed(_matrices(_images(columns, image, 1), g, group)),
                    beta=0.0 if first + image == 0 else 1.0,
                )
    return launches + narrowed


class _Work:
    """The chunks of a convolution and the products on them, in one scratch memory.

    Args:
        target: what the device is like.
        g: the convolution.
        like: images, of the columns' dtype.
        dot: how products of bfloat16 are computed.
        beside: what may lie in scratch memory, too.

    Attributes:
        chunks: first image, count, and columns of each chunk; of a pointwise convolution the only
            chunk's columns are the images ``like``.
    """

    def __init__(
        self,
        target: Target,
        g: ConvGeometry,
        like: Array,
        dot: str | None = None,
        beside: Array | None = None,
    ) -> None:
        self._dot = dot
        self._memory = Scratch.beside((beside or like).storage)
        self.chunks = [(0, g.n, like)]
        if not g.pointwise:
            image = _image_bytes(g, like.dtype.itemsize)
            most = max(1, min(g.n, _CHUNK_BYTES // image, target.workspace_limit // (2 * image)))
            shape = (most, g.ic, g.kh, g.kw, g.oh, g.ow)
            columns = Array.scratch(self._memory, shape, like.dtype)
            self.chunks = [
                (first, min(most, g.n - first), _images(columns, 0, min(most, g.n - first)))
                for first in range(0, g.n, most)
            ]
        self._target = replace(target, workspace_limit=target.workspace_limit - self._memory.nbytes)

    def product(
        self,
        out: Array,
        a: Array,
        b: Array,
        *,
        beta: float = 0.0,
        epilogue: Epilogue = NO_EPILOGUE,
    ) -> list[Launch]:
        """Launches of ``out = epilogue(a @ b + beta * out)``."""
        mark = self._memory.mark()
        launches = gemm(self._target, out, a, b, beta=beta, epilogue=epilogue, dot=self._dot)
        self._memory.rewind(mark)
        return launches


def _wide(target: Target, y: Array, dot: str | None) -> tuple[Array, list[Launch]]:
    """Where sums of products of 16 bits are added up, and the launches that take them to ``y``."""
    if dot is None:
        return y, []
    wide = Array.scratch(Scratch(y.device), y.shape, float32)
    return wide, pointwise(target, [y], [wide], (Input(0),), compute=float32)


def _image_bytes(g: ConvGeometry, itemsize: int) -> int:
    return 0 if g.pointwise else g.ic * g.taps * g.oh * g.ow * itemsize


def _by_rows(
    kernel: Kernel, images: Array, g: ConvGeometry, args: Named, count: int, cost: dict[str, int]
) -> Launch:
    """A launch whose items go along rows of pixels, which compilers make vectors of."""
    params = joined(by_name("ctype dense", images.dtype.ctype, g.sw == 1), g.sizes("kh kw"))
    return kernel.launch(params, args, global_size=(count,), local_size=(1,), **cost)


def _params(images: Array, g: ConvGeometry) -> Named:
    return joined(
        by_name("ctype", images.dtype.ctype), g.sizes("kh kw"), by_name("group_size", _GROUP_SIZE)
    )


def _sizes(g: ConvGeometry) -> Named:
    return g.sizes("h w oh ow sh sw ph pw dh dw")


def _images(array: Array, first: int, count: int) -> Array:
    shape = (count, *array.shape[1:])
    return array.view(shape, contiguous_strides(shape), array.offset + first * prod(shape[1:]))


def _matrices(array: Array, g: ConvGeometry, group: int) -> Array:
    """One group of dense ``(images, channels, ..., pixels)`` as ``(images, rows, oh * ow)``."""
    pixels = g.oh * g.ow
    rows = prod(array.shape[1:]) // (pixels * g.groups)
    strides = (rows * g.groups * pixels, pixels, 1)
    return array.view((array.shape[0], rows, pixels), strides, array.offset + group * rows * pixels)


def _filters(weight: Array, g: ConvGeometry, group: int, images: int) -> Array:
    """One group of filters as ``(images, ocg, icg * taps)``, repeated for every image."""
    length = g.icg * g.taps
    offset = weight.offset + group * g.ocg * length
    return weight.view((images, g.ocg, length), (0, length, 1), offset)


def _transposed(matrices: Array) -> Array:
    (n, rows, columns), (step, down, right) = matrices.shape, matrices.strides
    return matrices.view((n, columns, rows), (step, right, down))


def _part(bias: Array, group: int, count: int) -> Array:
    step = bias.strides[0]
    return bias.view((count,), (step,), bias.offset + group * count * step)
