"""How filters of a convolution move over images, checked against the images' sizes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from ..errors import ArgumentError, ShapeError
from ..kernels.conv import Algorithm, ConvGeometry
from ..values.shapes import Shape, pair

Pair = tuple[int, int]


@dataclass(frozen=True)
class ConvSettings:
    """How filters move over an image.

    Attributes:
        stride, dilation: vertical and horizontal.
        before, after: rows and columns of padding above and left, and below and right.
        groups: groups of channels.
        winograd: whether Winograd's transforms may be used, for the gradients too.
        algorithm: how it is computed, and its gradients; None: as is fastest.
    """

    stride: Pair
    before: Pair
    after: Pair
    dilation: Pair
    groups: int
    winograd: bool = True
    algorithm: Algorithm | None = None

    def geometry(self, x: Shape, weight: Shape) -> ConvGeometry:
        """The sizes of the convolution of images of shape ``x`` with ``weight``."""
        (n, ic, h, w), (oc, _, kh, kw) = x, weight
        sizes = zip(
            (h, w), (kh, kw), self.stride, self.before, self.after, self.dilation, strict=True
        )
        oh, ow = (
            (size + low + high - d * (k - 1) - 1) // s + 1 for size, k, s, low, high, d in sizes
        )
        return ConvGeometry(
            n, ic, h, w, oc, kh, kw, oh, ow, *self.stride, *self.before, *self.dilation, self.groups
        )


def settings_of(
    name: str,
    weight: Shape,
    stride: int | Sequence[int],
    padding: int | str | Sequence[int],
    dilation: int | Sequence[int],
    groups: int,
    ways: tuple[bool, str | None],
) -> ConvSettings:
    """The settings that a call asks for.

    Args:
        name: of the op.
        weight: the filters' shape.
        stride: a number or a pair.
        padding: a number, a pair, or ``"same"`` or ``"valid"``.
        dilation: a number or a pair.
        groups: of channels.
        ways: whether Winograd's transforms may be used; an algorithm's name, or None.

    Raises:
        ArgumentError: if one is out of its range.
    """
    steps, gaps = pair(stride, name, "stride"), pair(dilation, name, "dilation")
    winograd, algorithm = ways[0], None if ways[1] is None else Algorithm(ways[1])
    if min(steps) < 1 or min(gaps) < 1 or groups < 1:
        raise ArgumentError(
            name,
            "stride, dilation and groups are 1 or more",
            stride=stride,
            dilation=dilation,
            groups=groups,
        )
    if padding == "same":
        if steps != (1, 1):
            raise ArgumentError(name, "padding 'same' needs stride 1", stride=stride)
        top, left = (d * (k - 1) for k, d in zip(weight[2:], gaps, strict=True))
        before = (top // 2, left // 2)
        return ConvSettings(
            steps, before, (top - top // 2, left - left // 2), gaps, groups, winograd, algorithm
        )
    if isinstance(padding, str) and padding != "valid":
        raise ArgumentError(
            name, "padding is a number, a pair, 'same' or 'valid'", padding=repr(padding)
        )
    before = (0, 0) if isinstance(padding, str) else pair(padding, name, "padding")
    if min(before) < 0:
        raise ArgumentError(name, "padding is 0 or more", padding=padding)
    return ConvSettings(steps, before, before, gaps, groups, winograd, algorithm)


def require_fitting(settings: ConvSettings, x: Shape, weight: Shape, bias: Shape | None) -> None:
    """Check that images, filters and a bias of these shapes fit each other.

    Raises:
        ShapeError: if they do not, or nothing is left of an image.
    """
    groups = settings.groups
    shapes: dict[str, Any] = {"x": x, "weight": weight}
    if weight[0] % groups:
        law = f"groups divides the {weight[0]} output channels"
        raise ShapeError("conv2d", law, **shapes, groups=groups)
    if x[1] != weight[1] * groups:
        law = f"weight expects {weight[1] * groups} input channels but x has {x[1]}"
        raise ShapeError("conv2d", law, **shapes, groups=groups)
    if bias is not None and bias != weight[:1]:
        law = f"the bias has {weight[0]} numbers, one for each filter"
        raise ShapeError("conv2d", law, weight=weight, bias=bias)
    g = settings.geometry(x, weight)
    if g.oh < 1 or g.ow < 1:
        law = f"the filter is larger than the padded image, the output would be {g.oh} x {g.ow}"
        raise ShapeError(
            "conv2d", law, **shapes, padding=settings.before, dilation=settings.dilation
        )


def spanned_axis(settings: ConvSettings, x: Shape, weight: Shape, lanes: int) -> int | None:
    """The axis of images that filters fill and that should be one of channels; None: there is none.

    A CPU's kernels take neighbouring pixels, or channels, as lanes: filters as wide as embeddings
    (sentences' classifiers) leave one pixel of a row and one channel, and as high as electrodes
    (of an EEG) few. A GPU's look for each pixel's gradient at all taps, of which one met it.
    Filters that fill both axes are a product already.
    """
    least = 1
    depthwise = weight[0] == settings.groups > 1  # has kernels of its own
    if settings.algorithm is not None or depthwise:
        return None
    for axis in (2, 3):
        spatial, other = axis - 2, 5 - axis
        whole = x[other] == weight[other]
        fills = x[axis] == weight[axis] > least and not whole
        least = lanes  # rows are copied: of few pixels that takes longer than it saves
        pads = settings.before[spatial] or settings.after[spatial]
        if fills and settings.dilation[spatial] == 1 and not pads and 0 not in x:
            return axis
    return None


def without_steps(settings: ConvSettings, extra: Pair) -> ConvSettings:
    """The same with less padding behind, so that whole strides of output padding see no filter.

    A convolution of an output that is ``extra`` larger makes ``extra // stride`` steps more than
    there are pixels in ``x``; each takes a stride off the padding (which may end below 0).
    """
    sides = zip(settings.after, extra, settings.stride, strict=True)
    bottom, right = (after - e // step * step for after, e, step in sides)
    return replace(settings, after=(bottom, right))
