"""Convolution, its two gradients as ops, and the transposed convolution made of one of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import lru_cache
from math import prod
from typing import TYPE_CHECKING, Any

from ..array import Array
from ..device import Launch, Target
from ..errors import ArgumentError, ShapeError
from ..kernels.conv import (
    Algorithm,
    ConvGeometry,
    Direction,
    Order,
    computes_on_units,
    conv_forward,
    conv_input_grad,
    conv_weight_grad,
    pairs_pay,
)
from ..kernels.epilogue import Epilogue
from ..values import mode
from ..values.shapes import Shape, as_key, pair
from .complex_parts import complex_of, imag, real
from .conv_settings import (
    ConvSettings,
    Pair,
    require_fitting,
    settings_of,
    spanned_axis,
    without_steps,
)
from .join import stack
from .machinery.autocast import autocast_operands
from .machinery.function import (
    Arrays,
    Face,
    Function,
    Grads,
    Needs,
    Saved,
    apply,
    op,
    require_floating,
    require_same_dtype,
)
from .matmul import pair_dot, rounds_to_tf32, splits
from .shape import contiguous, permute, reshape, squeeze, unsqueeze
from .whole_windows import is_whole, whole_conv2d, whole_conv_transpose2d

if TYPE_CHECKING:
    from ..tensor import Tensor


class Conv2d(Function):
    """``y[n, o] = sum_c x[n, c] * weight[o, c] + bias[o]``; linear in ``x`` and in ``weight``.

    Attributes:
        settings: how filters move.
        activation: None, or ``"relu"`` in compiled functions; it is applied last.
    """

    sixteen_bit = False
    repeats = True

    settings: ConvSettings
    activation: str | None = None
    op_name = "conv2d"

    def infer(self, x: Array, weight: Array, *bias: Array) -> tuple[Array, ...]:
        """``(n, oc, oh, ow)``."""
        g = self.settings.geometry(x.shape, weight.shape)
        return (Array.abstract((g.n, g.oc, g.oh, g.ow), x.dtype, x.device),)

    def lower(self, target: Target, outputs: Arrays, inputs: Arrays) -> list[Launch]:
        """The forward convolution, with its bias."""
        x, weight, *bias = inputs
        g = self.settings.geometry(x.shape, weight.shape)
        epilogue = Epilogue(bias[0] if bias else None, None, self.activation)
        return conv_forward(
            target, outputs[0], x, weight, g, epilogue,
            algorithm=self.settings.algorithm, winograd=self.settings.winograd,
            tf32=rounds_to_tf32(), split=splits(), dot=pair_dot(outputs[0]),
        )  # fmt: skip

    def narrow_on(self, target: Target, inputs: Arrays) -> bool:
        """Where matrix units multiply 16 bits, or a processor pairs of them."""
        g = self.settings.geometry(inputs[0].shape, inputs[1].shape)
        return _on_units(target, g, Direction.FORWARD, inputs, self.settings)

    def saves(self, needs: tuple[bool, ...]) -> tuple[list[int], list[int]]:
        """Each operand is needed for the other's gradient."""
        return [i for i in (0, 1) if needs[1 - i]], []

    def backward(self, saved: Saved, grads: Grads, needs: Needs) -> Grads:
        """The two gradient ops, and the sum over images and pixels."""
        ways = (ConvInputGrad, ConvWeightGrad)
        return gradients_of(self.settings, ways, saved, grads, needs)


def gradients_of(
    settings: Any, ways: tuple[type[Function], ...], saved: Saved, grads: Grads, needs: Needs
) -> Grads:
    """A convolution's gradients: of the input, of the filters and, if there is one, of the bias.

    Args:
        settings: how filters move.
        ways: the gradient ops, made of these and the shape of what they give.
        saved: as :meth:`.Function.backward` has it.
        grads: the same.
        needs: the same.
    """
    gy, (to_input, to_weight) = contiguous(grads[0]), ways
    (x_shape, _), (weight_shape, _), *bias = saved.input_specs
    out: list[Any] = [None] * len(needs)
    if needs[0]:
        out[0] = apply(to_input(settings, x_shape), gy, saved.inputs[1])
    if needs[1]:
        out[1] = apply(to_weight(settings, weight_shape), gy, saved.inputs[0])
    if bias and needs[2]:
        out[2] = gy.sum((0, *range(2, gy.ndim)))
    return tuple(out)


class ConvInputGrad(Function):
    """The gradient that arrives at a convolution's ``x``; linear in ``gy`` and in ``weight``."""

    sixteen_bit = False
    repeats = True

    settings: ConvSettings
    x_shape: Shape
    op_name = "conv2d_input_grad"

    def infer(self, gy: Array, weight: Array) -> tuple[Array, ...]:
        """The shape of ``x``."""
        return (Array.abstract(self.x_shape, gy.dtype, gy.device),)

    def lower(self, target: Target, outputs: Arrays, inputs: Arrays) -> list[Launch]:
        """The input gradient."""
        gy, weight = inputs
        g = self.settings.geometry(self.x_shape, weight.shape)
        return conv_input_grad(
            target, outputs[0], gy, weight, g,
            algorithm=self.settings.algorithm, winograd=self.settings.winograd,
            tf32=rounds_to_tf32(), split=splits(), dot=pair_dot(outputs[0]),
        )  # fmt: skip

    def narrow_on(self, target: Target, inputs: Arrays) -> bool:
        """Where matrix units multiply 16 bits, or a processor pairs of them."""
        g = self.settings.geometry(self.x_shape, inputs[1].shape)
        return _on_units(target, g, Direction.INPUT_GRAD, inputs, self.settings)

    def saves(self, needs: tuple[bool, ...]) -> tuple[list[int], list[int]]:
        """Each operand is needed for the other's gradient."""
        return [i for i in (0, 1) if needs[1 - i]], []

    def backward(self, saved: Saved, grads: Grads, needs: Needs) -> Grads:
        """It is linear in both operands: a convolution, and a weight gradient."""
        gx = contiguous(grads[0])
        weight_shape = saved.input_specs[1][0]
        return (
            apply(Conv2d(self.settings), gx, saved.inputs[1]) if needs[0] else None,
            apply(ConvWeightGrad(self.settings, weight_shape), saved.inputs[0], gx)
            if needs[1]
            else None,
        )


class ConvWeightGrad(Function):
    """The gradient that arrives at a convolution's ``weight``; linear in ``gy`` and in ``x``."""

    sixteen_bit = False
    repeats = True

    settings: ConvSettings
    weight_shape: Shape
    op_name = "conv2d_weight_grad"

    def infer(self, gy: Array, x: Array) -> tuple[Array, ...]:
        """The shape of ``weight``."""
        return (Array.abstract(self.weight_shape, gy.dtype, gy.device),)

    def lower(self, target: Target, outputs: Arrays, inputs: Arrays) -> list[Launch]:
        """The weight gradient."""
        gy, x = inputs
        g = self.settings.geometry(x.shape, self.weight_shape)
        return conv_weight_grad(
            target, outputs[0], gy, x, g,
            algorithm=self.settings.algorithm, winograd=self.settings.winograd,
            tf32=rounds_to_tf32(), split=splits(), dot=pair_dot(outputs[0]),
        )  # fmt: skip

    def narrow_on(self, target: Target, inputs: Arrays) -> bool:
        """Where matrix units multiply 16 bits, or a processor pairs of them."""
        g = self.settings.geometry(inputs[1].shape, self.weight_shape)
        return _on_units(target, g, Direction.WEIGHT_GRAD, inputs, self.settings)

    def saves(self, needs: tuple[bool, ...]) -> tuple[list[int], list[int]]:
        """Each operand is needed for the other's gradient."""
        return [i for i in (0, 1) if needs[1 - i]], []

    def backward(self, saved: Saved, grads: Grads, needs: Needs) -> Grads:
        """It is linear in both operands: a convolution, and an input gradient."""
        gw = contiguous(grads[0])
        x_shape = saved.input_specs[1][0]
        return (
            apply(Conv2d(self.settings), saved.inputs[1], gw) if needs[0] else None,
            apply(ConvInputGrad(self.settings, x_shape), saved.inputs[0], gw) if needs[1] else None,
        )


def _on_units(
    target: Target,
    g: ConvGeometry,
    direction: Direction,
    inputs: Arrays,
    settings: ConvSettings,
) -> bool:
    alike = all(x.dtype is inputs[0].dtype for x in inputs)
    if pair_dot(inputs[0]) and alike:
        # In compiled functions blocked convolutions of float32, with what is around them, are
        # faster than columns: a step of ResNet-20 took 53 instead of 30 ms.
        eager = mode.current().tracer is None
        return eager and pairs_pay(target, g, direction, settings.algorithm)
    free = settings.algorithm in (None, Algorithm.MATRIX)
    dtype, tf32 = inputs[0].dtype, rounds_to_tf32()
    # Of float32 images are asked about that lie last in a compiled function.
    split = Order.LAST if splits() else None
    return (
        alike
        and free
        and computes_on_units(
            target, g, direction, dtype, winograd=settings.winograd, tf32=tf32, split=split
        )
    )


@contextmanager
def no_winograd() -> Iterator[None]:
    """Context in which no convolution takes Winograd's transforms; also a decorator.

    They save products, and round more coarsely: errors of up to 2e-5 of the largest result, where
    sums over the taps have 3e-6. The gradients of a convolution are computed as it is.

    Example:
        >>> import clnet
        >>> x, weight = clnet.zeros(8, 16, 32, 32), clnet.zeros(16, 16, 3, 3)
        >>> with clnet.no_winograd():
        ...     y = clnet.nn.functional.conv2d(x, weight, padding=1)
    """
    with mode.using(winograd=False):
        yield


@contextmanager
def convolution_algorithm(algorithm: str | None) -> Iterator[None]:
    """Context in which convolutions are computed as is said, and not as is fastest; a decorator.

    It is for comparing, and for what clnet chooses badly. A gradient is computed as its
    convolution is. Compiled functions leave such convolutions as they are, without layouts that
    their neighbours share. A layer takes it by name, too: ``nn.Conv2d(..., algorithm="im2col")``.

    Args:
        algorithm: ``"im2col"`` (columns, then a product), ``"direct"`` (sums on padded planes),
            ``"implicit"`` (a product whose columns are gathered on the way), ``"winograd"``
            (windows of 3x3 and 5x5 with stride 1), ``"depthwise"`` (each output by itself),
            ``"whole"`` (windows as large as the image), ``"matrix"`` (matrix units: 16 bits, or
            float32 that may be rounded to TF32, or be three products of that); None: as is fastest.

    Raises:
        ArgumentError: if there is no such algorithm; and by a convolution, if it cannot serve it.

    Example:
        >>> import clnet
        >>> x, weight = clnet.zeros(8, 16, 32, 32), clnet.zeros(16, 16, 3, 3)
        >>> with clnet.convolution_algorithm("im2col"):
        ...     y = clnet.nn.functional.conv2d(x, weight, padding=1)
    """
    known_algorithm("convolution_algorithm", algorithm)
    with mode.using(conv_algorithm=algorithm):
        yield


def known_algorithm(name: str, algorithm: str | None) -> None:
    """Refuse the name of an algorithm of convolutions that there is none of.

    Args:
        name: of who asks.
        algorithm: the name, or None.

    Raises:
        ArgumentError: if it is neither.
    """
    known = [a.value for a in Algorithm]
    if algorithm is not None and algorithm not in known:
        law = f"algorithm is None or one of {', '.join(known)}"
        raise ArgumentError(name, law, algorithm=repr(algorithm))


@op(Face.FUNCTIONAL)
def conv2d(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: int | Sequence[int] = 1,
    padding: int | str | Sequence[int] = 0,
    dilation: int | Sequence[int] = 1,
    groups: int = 1,
) -> Tensor:
    """Cross-correlate images with filters: ``y[n, o] = sum_c x[n, c] * weight[o, c] + bias[o]``.

    Args:
        x: images, ``(n, ic, h, w)`` or one image ``(ic, h, w)``, of numbers, not of bools.
        weight: filters, ``(oc, ic / groups, kh, kw)``, same dtype.
        bias: ``(oc,)``, same dtype, or None.
        stride: an int or a pair ``(vertical, horizontal)``.
        padding: rows and columns of zeros on each side, an int or a pair; ``"valid"`` for none, or
            ``"same"`` for as many as give ``y`` the size of ``x`` (stride 1; an odd one goes below
            and right).
        dilation: distance of the filter's taps, an int or a pair.
        groups: divides ``ic`` and ``oc``.

    Returns:
        ``(n, oc, oh, ow)`` with ``oh = (h + 2 ph - dh (kh - 1) - 1) // sh + 1``; without ``n`` if
        ``x`` is one image.

    Raises:
        ShapeError: if the shapes do not fit each other, or ``oh`` or ``ow`` is below 1.
        ArgumentError: if a setting is out of its range.
        DtypeError: if the dtypes differ, or there is no kernel for them.

    Example:
        >>> import clnet
        >>> x, weight = clnet.zeros(8, 3, 32, 32), clnet.zeros(16, 3, 3, 3)
        >>> clnet.nn.functional.conv2d(x, weight, padding=1).shape
        (8, 16, 32, 32)
    """
    x, weight, bias = autocast_operands("conv2d", x, weight, bias)
    _check_operands("conv2d", x, weight, bias)
    if x.dtype.is_complex:
        settings = (stride, padding, dilation, groups)
        return _of_parts(lambda a, b: conv2d(a, b, None, *settings), x, weight, bias)
    batch = x if x.ndim == 4 else unsqueeze(x, 0)
    shapes = batch.array.shape, weight.array.shape, None if bias is None else bias.array.shape
    moves = as_key(stride), as_key(padding), as_key(dilation), groups
    now = mode.current()
    lanes = x.device.traits.simd_width
    function, axis = _fitting(shapes, moves, (now.winograd, now.conv_algorithm), lanes)
    if is_whole(x):
        y = whole_conv2d(function.settings, batch, weight, bias)
    elif axis is not None:
        y = _spanning(axis, function.settings, batch, weight, bias)
    elif bias is None:
        y = apply(function, contiguous(batch), contiguous(weight))
    else:
        y = apply(function, contiguous(batch), contiguous(weight), contiguous(bias))
    return y if x.ndim == 4 else squeeze(y, 0)


@lru_cache(maxsize=4096)
def _fitting(
    shapes: tuple[Shape, Shape, Shape | None],
    moves: tuple[Any, Any, Any, int],
    ways: tuple[bool, str | None],
    lanes: int,
) -> tuple[Conv2d, int | None]:
    """The convolution by filters that fit the images, and what :func:`.spanned_axis` says of it.

    A network asks for the same again in each step, which should cost the host one look.

    Args:
        shapes: of images, of filters and of the bias, if there is one.
        moves: stride, padding, dilation and groups, as :func:`conv2d` has them.
        ways: whether Winograd's transforms may be used; an algorithm's name, or None.
        lanes: of the device's vectors.

    Raises:
        ShapeError: if the shapes do not fit each other.
        ArgumentError: if a setting is out of its range.
    """
    x, weight, bias = shapes
    settings = settings_of("conv2d", weight, *moves, ways)
    require_fitting(settings, x, weight, bias)
    return Conv2d(settings), spanned_axis(settings, x, weight, lanes)


def _of_parts(
    convolve: Callable[[Tensor, Tensor], Tensor], x: Tensor, weight: Tensor, bias: Tensor | None
) -> Tensor:
    """Complex numbers: each part of the filters over both parts of the images, one batch."""
    *lead, c, h, w = x.shape
    images = reshape(stack([real(x), imag(x)]), (2 * prod(lead), c, h, w))
    each = (convolve(images, contiguous(part)) for part in (real(weight), imag(weight)))
    of_re, of_im = (reshape(y, (2, *lead, *y.shape[1:])) for y in each)
    y = complex_of(of_re[0] - of_im[1], of_re[1] + of_im[0])
    return y if bias is None else y + reshape(bias, (-1, 1, 1))


def _spanning(
    axis: int, settings: ConvSettings, x: Tensor, weight: Tensor, bias: Tensor | None
) -> Tensor:
    """The convolution of rows whose channels are those of images and an axis that filters fill."""

    def rows(images: Tensor) -> Tensor:
        n, c, h, w = images.shape
        if axis == 3:
            images, h, w = permute(images, 0, 1, 3, 2), w, h
        return contiguous(reshape(images, n, c * h, 1, w))

    along = 3 - axis  # of images' pixels, the axis that rows go along
    moved = replace(
        settings,
        stride=(1, settings.stride[along]),
        before=(0, settings.before[along]),
        after=(0, settings.after[along]),
        dilation=(1, settings.dilation[along]),
    )
    parts = () if bias is None else (contiguous(bias),)
    y = apply(Conv2d(moved), rows(x), rows(weight), *parts)
    n, c, _, length = y.shape
    return reshape(y, n, c, length, 1) if axis == 3 else y


@op(Face.FUNCTIONAL)
def conv_transpose2d(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: int | Sequence[int] = 1,
    padding: int | Sequence[int] = 0,
    output_padding: int | Sequence[int] = 0,
    groups: int = 1,
    dilation: int | Sequence[int] = 1,
) -> Tensor:
    """The transposed convolution: what :func:`conv2d`'s gradient does to ``y``, as a layer.

    Args:
        x: images, ``(n, ic, h, w)`` or one image ``(ic, h, w)``, of numbers, not of bools.
        weight: filters, ``(ic, oc / groups, kh, kw)``, same dtype.
        bias: ``(oc,)``, same dtype, or None.
        stride: an int or a pair ``(vertical, horizontal)``.
        padding: rows and columns taken off each side, an int or a pair.
        output_padding: rows and columns added below and right, less than the stride or the
            dilation.
        groups: divides ``ic`` and ``oc``.
        dilation: distance of the filter's taps, an int or a pair.

    Returns:
        ``(n, oc, oh, ow)`` with ``oh = (h - 1) sh - 2 ph + dh (kh - 1) + output padding + 1``.

    Raises:
        ShapeError: if the shapes do not fit each other, or ``oh`` or ``ow`` is below 1.
        ArgumentError: if a setting is out of its range.
        DtypeError: if the dtypes differ, or there is no kernel for them.
    """
    name = "conv_transpose2d"
    x, weight, bias = autocast_operands(name, x, weight, bias)
    _check_operands(name, x, weight, bias)
    if x.dtype.is_complex:
        settings = (stride, padding, output_padding, groups, dilation)
        return _of_parts(lambda a, b: conv_transpose2d(a, b, None, *settings), x, weight, bias)
    now, filters = mode.current(), weight.array.shape
    moves, ways = (stride, padding, dilation, groups), (now.winograd, now.conv_algorithm)
    settings = settings_of(name, filters, *moves, ways)
    extra = pair(output_padding, name, "output_padding")
    bounds = zip(extra, settings.stride, settings.dilation, strict=True)
    if any(not 0 <= e < max(s, d) for e, s, d in bounds):
        raise ArgumentError(
            name,
            "output_padding is less than the stride or the dilation",
            output_padding=output_padding,
            stride=stride,
            dilation=dilation,
        )
    batch = x if x.ndim == 4 else unsqueeze(x, 0)
    shape = _transposed_shape(settings, batch, weight, bias, extra)
    x.device.pool.check(prod(shape) * x.dtype.itemsize)  # before a kernel is chosen for it
    if is_whole(x):
        y = whole_conv_transpose2d(settings, batch, weight, shape)
    else:
        function = ConvInputGrad(without_steps(settings, extra), shape)
        y = apply(function, contiguous(batch), contiguous(weight))
    if bias is not None:
        y = y + reshape(bias, 1, shape[1], 1, 1)
    return y if x.ndim == 4 else squeeze(y, 0)


def _check_operands(name: str, x: Tensor, weight: Tensor, bias: Tensor | None) -> None:
    dtype = x.dtype
    if dtype is not weight.dtype or not (bias is None or bias.dtype is dtype):
        named = {"x": x, "weight": weight} | ({} if bias is None else {"bias": bias})
        require_same_dtype(name, **{key: t.array for key, t in named.items()})
    if not (dtype.is_complex or is_whole(x)):
        require_floating(name, x.array)
    if x.ndim not in (3, 4):
        raise ShapeError(name, "x is (n, channels, h, w) or (channels, h, w)", x=x.shape)
    if weight.ndim != 4 or 0 in weight.array.shape[2:]:
        raise ShapeError(name, "weight has four axes, the last two not empty", weight=weight.shape)


def _transposed_shape(
    settings: ConvSettings, x: Tensor, weight: Tensor, bias: Tensor | None, extra: Pair
) -> Shape:
    name, groups = "conv_transpose2d", settings.groups
    shapes: dict[str, Any] = {"x": x.shape, "weight": weight.shape}
    if weight.shape[0] % groups:
        law = f"groups divides the {weight.shape[0]} input channels"
        raise ShapeError(name, law, **shapes, groups=groups)
    if x.shape[1] != weight.shape[0]:
        law = f"weight expects {weight.shape[0]} input channels but x has {x.shape[1]}"
        raise ShapeError(name, law, **shapes, groups=groups)
    channels = weight.shape[1] * groups
    if bias is not None and bias.shape != (channels,):
        law = f"the bias has {channels} numbers, one for each output channel"
        raise ShapeError(name, law, weight=weight.shape, bias=bias.shape)
    sizes = zip(
        x.shape[2:], weight.shape[2:], settings.stride, settings.before, settings.dilation, extra,
        strict=True,
    )  # fmt: skip
    h, w = ((size - 1) * s - 2 * p + d * (k - 1) + e + 1 for size, k, s, p, d, e in sizes)
    if h < 1 or w < 1:
        law = f"padding leaves no pixel, the output would be {h} x {w}"
        raise ShapeError(name, law, **shapes, padding=settings.before)
    return (x.shape[0], channels, h, w)
