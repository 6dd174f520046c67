"""Sizes and directions of a 2-d convolution, shared by its algorithms; it knows no kernel."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from functools import cache
from operator import attrgetter

from ...values.record import NamedTuple
from ..kernel import Named, by_name

# An int counts the pixels of a channel in all kernels, of all images in some; they step beyond the
# last one by less than the rest.
MOST_PIXELS = 2**31 - 2**16


class Direction(Enum):
    """What is computed of a convolution."""

    FORWARD = "forward"
    INPUT_GRAD = "input_grad"
    WEIGHT_GRAD = "weight_grad"


class ConvGeometry(NamedTuple):
    """Sizes of ``y[n, o] = sum_c x[n, c] * weight[o, c]`` over images of channels.

    ``oh`` and ``ow`` are given, not derived: what a filter reads beyond the image is zero on every
    side, so padding that is larger below or right of the image needs no field of its own.

    Attributes:
        n: images.
        ic, h, w: channels, height and width of ``x``, ``(n, ic, h, w)``.
        oc, kh, kw: filters and their size; ``weight`` is ``(oc, ic / groups, kh, kw)``.
        oh, ow: height and width of ``y``, ``(n, oc, oh, ow)``.
        sh, sw: stride.
        ph, pw: padding above and left of the image.
        dh, dw: dilation.
        groups: divides ``ic`` and ``oc``.
    """

    n: int
    ic: int
    h: int
    w: int
    oc: int
    kh: int
    kw: int
    oh: int
    ow: int
    sh: int = 1
    sw: int = 1
    ph: int = 0
    pw: int = 0
    dh: int = 1
    dw: int = 1
    groups: int = 1

    @property
    def icg(self) -> int:
        """Input channels of a group."""
        return self.ic // self.groups

    @property
    def ocg(self) -> int:
        """Output channels of a group."""
        return self.oc // self.groups

    def sizes(self, names: str) -> Named:
        """Some of the sizes by their names, with spaces between them: arguments of kernels."""
        return by_name(names, *_reader(names)(self))

    @property
    def taps(self) -> int:
        """Elements of one channel of a filter."""
        return self.kh * self.kw

    @property
    def plane(self) -> int:
        """Pixels of a channel of an image, of ``x`` or of ``y``, whichever has more."""
        return max(self.h * self.w, self.oh * self.ow)

    @property
    def flops(self) -> int:
        """Operations of the forward convolution, and of each gradient."""
        return 2 * self.n * self.oc * self.oh * self.ow * self.icg * self.taps

    @property
    def pointwise(self) -> bool:
        """Whether it is a matrix product at every pixel: 1x1 filters, stride 1, no padding."""
        return (self.kh, self.kw, self.sh, self.sw, self.ph, self.pw) == (1, 1, 1, 1, 0, 0) and (
            self.oh,
            self.ow,
        ) == (self.h, self.w)


@cache
def _reader(names: str) -> Callable[[ConvGeometry], tuple[int, ...]]:
    return attrgetter(*names.split())


class Phase(NamedTuple):
    """Results that meet the same taps, along one axis; see ``conv_matrix.mako``.

    Attributes:
        first: the first of them in the result; each next one lies ``stride`` further.
        grid: results.
        source: pixel of the source that the first one meets at its first tap.
        step: pixels of the source from result to result.
        taps: met.
        move: pixels of the source from tap to tap.
        w_first: the first tap.
        w_step: from tap to tap that is met.
    """

    first: int
    grid: int
    source: int
    step: int
    taps: int
    move: int
    w_first: int
    w_step: int


class ConvProblem(NamedTuple):
    """What choices for convolutions are measured for: flat, and made of numbers and texts alone.

    Attributes:
        direction: what is computed, a :class:`Direction`'s value.
        winograd: whether Winograd's transforms may be used.
        n, ic, h, w, oc, kh, kw, oh, ow, sh, sw, ph, pw, dh, dw, groups: a :class:`ConvGeometry`.
    """

    direction: str
    winograd: bool
    n: int
    ic: int
    h: int
    w: int
    oc: int
    kh: int
    kw: int
    oh: int
    ow: int
    sh: int
    sw: int
    ph: int
    pw: int
    dh: int
    dw: int
    groups: int

    @property
    def geometry(self) -> ConvGeometry:
        """The sizes."""
        return ConvGeometry(*self[2:])
